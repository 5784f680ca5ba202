"""The page at the root: links to the endpoints."""

from collections.abc import Iterable
from html import escape
from typing import Final

from jetspark.server.monitor.status import Identity

_LINKS: Final = (
    ("/varz", "General"),
    ("/jsz", "JetStream"),
    ("/jsz?streams=true&consumers=true", "Streams and Consumers"),
    ("/connz", "Connections"),
    ("/accountz", "Accounts"),
    ("/accstatz", "Account Stats"),
    ("/subsz", "Subscriptions"),
    ("/routez", "Routes"),
    ("/leafz", "LeafNodes"),
    ("/gatewayz", "Gateways"),
    ("/storez", "Storage"),
    ("/metrics", "Metrics"),
    ("/healthz", "Health Probe"),
    ("/readyz", "Readiness Probe"),
)
# Set at the root, or a browser in dark mode shows light links on a white page.
_STYLE: Final = (
    ":root{color-scheme:light dark}body{font-family:system-ui,sans-serif;margin:2rem}"
    "li{margin:.4rem 0}code{opacity:.6;margin-left:.5rem}"
)


def index(identity: Identity, base: str, mounts: Iterable[str]) -> str:
    """Return the page; ``base`` is the prefix of every endpoint."""
    links = [*_LINKS, *((path, path.strip("/").title()) for path in mounts)]
    items = "\n".join(
        f'<li><a href="{escape(base + path)}">{escape(name)}</a><code>{escape(path)}</code></li>'
        for path, name in links
    )
    title = escape(f"jetspark {identity.jetspark_version}")
    about = escape(f"{identity.server_name}, as nats-server {identity.version}")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<p>{about}</p>\n<ul>\n{items}\n</ul>\n</body>\n</html>\n"
    )

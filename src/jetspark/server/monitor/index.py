"""The page at the root: links to the endpoints."""

from collections.abc import Iterable
from html import escape
from typing import Final

from jetspark.server.monitor.view import Identity

_LINKS: Final = (
    ("/varz", "General"),
    ("/jsz", "JetStream"),
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
_STYLE: Final = (
    "body{font-family:system-ui,sans-serif;margin:2rem;color-scheme:light dark}"
    "li{margin:.4rem 0}code{opacity:.6;margin-left:.5rem}"
)


def index(identity: Identity, base: str, mounts: Iterable[str]) -> str:
    """Return the page; ``base`` is the path before every endpoint."""
    links = [*_LINKS, *((path, path.strip("/").title()) for path in mounts)]
    items = "\n".join(
        f'<li><a href="{escape(base + path)}">{escape(name)}</a><code>{escape(path)}</code></li>'
        for path, name in links
    )
    title = escape(f"jetspark {identity.jetspark_version}")
    about = escape(f"{identity.server_name}, as nats-server {identity.version}")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{title}</h1>\n<p>{about}</p>\n<ul>\n{items}\n</ul>\n</body>\n</html>\n"
    )

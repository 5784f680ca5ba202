"""The picture of a terminal in the README shows what the commands print today."""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

from tools.capture import COMMANDS, TARGET, draw, session


def shown(svg: str) -> list[str]:
    """The texts of the picture, without what differs from run to run."""
    texts = [
        each.text or "" for each in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    ]
    # Ages, then dates, times and counts.
    ages = [re.sub(r"(?:\d+[hm])*\d+(?:\.\d+)?(?:ms|µs|s)\b", "#", text) for text in texts]
    return [re.sub(r"\d+(?:[.:-]\d+)*", "#", text).strip() for text in ages]


def test_the_picture_is_what_the_commands_print() -> None:
    now, committed = draw(session()), TARGET.read_text(encoding="utf-8")

    same = [re.sub(r"\s+", " ", text) for text in shown(now)]
    assert same == [re.sub(r"\s+", " ", text) for text in shown(committed)], "run make capture"
    assert all(command in "".join(ET.fromstring(committed).itertext()) for command in COMMANDS)


def test_the_picture_loads_nothing_and_is_in_the_readme() -> None:
    svg = TARGET.read_text(encoding="utf-8")

    assert re.findall(r"(?:href|src|url\()", svg) == []
    assert "](docs/capture.svg)" in (Path(__file__).resolve().parents[2] / "README.md").read_text()

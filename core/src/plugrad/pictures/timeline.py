"""The page of a profile: one HTML file that opens without a network."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_PAGE_TEMPLATE_PATH = Path(__file__).with_name("profile.html")
"""The path of the page without data."""


def format_profile_page(data: Mapping[str, Any]) -> str:
    """Return the HTML page of a profile; profile.html describes `data`."""
    # In a script, only "</script" and "<!--" would not be text.
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")
    return _PAGE_TEMPLATE_PATH.read_text("utf-8").replace("{{data}}", text)

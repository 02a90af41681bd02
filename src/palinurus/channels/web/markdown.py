"""Texts for platforms that read Markdown themselves (Mattermost, Nextcloud Talk). Pure."""

from __future__ import annotations

import re

from palinurus.patterns import compile_late

_CODE = compile_late(r"(```.*?(?:```|\Z)|`[^`\n]*`)", re.DOTALL)
_ENTITY = compile_late(r"&(?=#?\w{1,32};)")
_CALLS = compile_late(r"@(?=(?:all|channel|here)\b)", re.IGNORECASE)
_SIGNS = compile_late(r"([\\`*_~|\[\](){}#+\-.!>:])")
_THIN = "\u200b"  # takes apart what would call everybody


def write_text(text: str, *, plain: bool) -> str:
    """As it is sent. Markdown goes as it is; plain text has its signs escaped. Whatever the text says, nobody is called
    by @all, @channel and @here, and what looks like an entity is read as it was written."""
    parts = [text] if plain else _CODE.split(text)  # every second one is code
    return "".join(one if at % 2 else _disarm(one, plain=plain) for at, one in enumerate(parts))


def _disarm(text: str, *, plain: bool) -> str:
    text = _SIGNS.sub(r"\\\1", text) if plain else text
    return _CALLS.sub(f"@{_THIN}", _ENTITY.sub("&amp;", text))

"""HEARTBEAT_OK: how a model says that a heartbeat found nothing worth a person's attention."""

from __future__ import annotations

import re
from typing import NamedTuple

TOKEN = "HEARTBEAT_OK"
LIMIT = 300  # characters beside the token that are still only an acknowledgement
_MARKUP = r"(?:[*_`~]{1,3}|</?[a-zA-Z]{1,10}>|\s)*"
_START = re.compile(rf"\A{_MARKUP}{TOKEN}(?!\w){_MARKUP}[.!?,;:…-]{{0,4}}{_MARKUP}")
_END = re.compile(rf"{_MARKUP}(?<!\w){TOKEN}(?!\w){_MARKUP}[.!?,;:…-]{{0,4}}{_MARKUP}\Z")


class Ack(NamedTuple):
    """`drop`: nothing is sent. Otherwise `text` is, without the token at its edges."""

    drop: bool
    text: str
    acked: bool = False  # the token was there


def ack(text: str, *, limit: int = LIMIT) -> Ack:
    """Judge the reply of a heartbeat: a short rest goes with the token. For other replies see `silent`."""
    if TOKEN not in text:
        return Ack(not text.strip(), text)
    rest = _END.sub("", _START.sub("", text, count=1), count=1).strip()
    if rest == text.strip():
        return Ack(False, text)
    return Ack(len(rest) <= limit, rest, True)

"""HEARTBEAT_OK: how a model says that a heartbeat found nothing worth a person's attention."""

from __future__ import annotations

import re
from typing import NamedTuple

ACK_TOKEN = "HEARTBEAT_OK"
ACK_MAX_CHARS = 300  # characters beside the token that are still only an acknowledgement
_MARKUP = r"(?:[*_`~]{1,3}|</?[a-zA-Z]{1,10}>|\s)*"
_START = re.compile(rf"\A{_MARKUP}{ACK_TOKEN}(?!\w){_MARKUP}[.!?,;:…-]{{0,4}}{_MARKUP}")
_END = re.compile(rf"{_MARKUP}(?<!\w){ACK_TOKEN}(?!\w){_MARKUP}[.!?,;:…-]{{0,4}}{_MARKUP}\Z")


class HeartbeatAck(NamedTuple):
    """`drop`: nothing is sent. Otherwise `text` is, without the token at its edges."""

    drop: bool
    text: str
    acked: bool = False  # the token was there


def parse_ack(text: str, *, limit: int = ACK_MAX_CHARS) -> HeartbeatAck:
    """Judge the reply of a heartbeat: a short rest goes with the token. For other replies see `silent`."""
    if ACK_TOKEN not in text:
        return HeartbeatAck(not text.strip(), text)
    rest = _END.sub("", _START.sub("", text, count=1), count=1).strip()
    if rest == text.strip():
        return HeartbeatAck(False, text)
    return HeartbeatAck(len(rest) <= limit, rest, True)

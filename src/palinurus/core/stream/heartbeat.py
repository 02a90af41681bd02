"""HEARTBEAT_OK: how a model says that a heartbeat found nothing worth a person's attention.

What the end of a heartbeat comes to, something to tell or nothing: who sends it, who forgets it and who counts it ask
here, so that they never disagree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from palinurus.core.stream.answer import read_answer_with_tokens
from palinurus.core.stream.silent import HEARTBEAT_TOKEN, is_silent
from palinurus.core.types.inbound import HeartbeatOptions
from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.patterns import compile_late

_MARKUP = r"(?:[*_`~]|</?[a-zA-Z]{1,10}>|\s){0,40}"  # bounded: without a token behind it, every way would be tried
_START = compile_late(rf"\A{_MARKUP}{HEARTBEAT_TOKEN}(?!\w){_MARKUP}[.!?,;:…-]{{0,4}}{_MARKUP}")
_END = compile_late(rf"{_MARKUP}(?<!\w){HEARTBEAT_TOKEN}(?!\w){_MARKUP}[.!?,;:…-]{{0,4}}{_MARKUP}\Z")


def find_last_word(messages: Iterable[Message]) -> str:
    """What the last message of a run says to people, the token included; "" if it says nothing."""
    said = [m.text for m in messages if isinstance(m, AssistantMessage) and m.text.strip()]
    text = read_answer_with_tokens(said[-1]).text.strip() if said else ""
    return "" if is_silent(text) else text


def judge_heartbeat_reply(text: str, options: HeartbeatOptions) -> HeartbeatAck:
    """Is `text` an acknowledgement, or what was said within a day? Then it is dropped."""
    made = parse_ack(text, limit=options.ack_max_chars)
    return made._replace(drop=True) if made.text and made.text == options.said else made


class HeartbeatAck(NamedTuple):
    """`drop`: nothing is sent. Otherwise `text` is, without the token at its edges."""

    drop: bool
    text: str
    acked: bool = False  # the token was there


def parse_ack(text: str, *, limit: int = HeartbeatOptions().ack_max_chars) -> HeartbeatAck:
    """Judge the reply of a heartbeat: a short rest goes with the token. For other replies see `silent`."""
    if HEARTBEAT_TOKEN not in text:
        return HeartbeatAck(not text.strip(), text)
    rest = _END.sub("", _START.sub("", text, count=1), count=1).strip()
    if rest == text.strip():
        return HeartbeatAck(False, text)
    return HeartbeatAck(len(rest) <= limit, rest, True)

"""What the end of a heartbeat comes to: something to tell, or nothing. Who sends it, who forgets it and who counts it
ask here, so that they never disagree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from palinurus.core.stream.answer import read_answer_with_tokens
from palinurus.core.stream.heartbeat import ACK_MAX_CHARS, HeartbeatAck, parse_ack
from palinurus.core.stream.silent import is_silent
from palinurus.core.types.messages import AssistantMessage, Message

HEARTBEAT_OPTION = (
    "heartbeat"  # of a message: this turn is one; holds ackMaxChars, and `said`, the last alert of the day
)


def find_last_word(messages: Iterable[Message]) -> str:
    """What the last message of a run says to people, the token included; "" if it says nothing."""
    said = [m.text for m in messages if isinstance(m, AssistantMessage) and m.text.strip()]
    text = read_answer_with_tokens(said[-1]).text.strip() if said else ""
    return "" if is_silent(text) else text


def judge_heartbeat_reply(text: str, options: Mapping[str, Any]) -> HeartbeatAck:
    """Is `text` an acknowledgement, or what was said within a day? Then it is dropped."""
    made = parse_ack(text, limit=int(options.get("ackMaxChars", ACK_MAX_CHARS)))
    return made._replace(drop=True) if made.text and made.text == options.get("said") else made

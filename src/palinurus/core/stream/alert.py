"""What the end of a heartbeat comes to: something to tell, or nothing. Who sends it, who forgets it and who counts it
ask here, so that they never disagree. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from palinurus.core.stream.answer import plain
from palinurus.core.stream.heartbeat import LIMIT, Ack, ack
from palinurus.core.stream.silent import silent
from palinurus.core.types.messages import Assistant, Message

OPTION = "heartbeat"  # of a message: this turn is one; holds ackMaxChars, and `said`, the last alert of the day


def last_word(messages: Iterable[Message]) -> str:
    """What the last message of a run says to people, the token included; "" if it says nothing."""
    said = [m.text for m in messages if isinstance(m, Assistant) and m.text.strip()]
    text = plain(said[-1]).text.strip() if said else ""
    return "" if silent(text) else text


def judged(text: str, options: Mapping[str, Any]) -> Ack:
    """Is `text` an acknowledgement, or what was said within a day? Then it is dropped."""
    made = ack(text, limit=int(options.get("ackMaxChars", LIMIT)))
    return made._replace(drop=True) if made.text and made.text == options.get("said") else made

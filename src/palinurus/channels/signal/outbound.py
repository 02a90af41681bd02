"""Replies and acts -> the parameters of signal-cli's methods, and what its errors mean. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from palinurus.channels.kit import ChannelFile
from palinurus.channels.signal.link import SignalRpcError, SignalUnreachable
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import DeleteAction, ReactAction, SendFailure, SendReceipt, SendResult, SendTrouble
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.patterns import compile_late

_PERSON = compile_late(r"\+\d{5,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|PNI:.+")
_UNSAFE = compile_late(r"[^\w.-]+")
IO, UNTRUSTED, LIMITED = -3, -4, -5

# By words in the message of an error, in this order; the codes say too little.
_WORDS: tuple[tuple[SendTrouble, tuple[str, ...]], ...] = (
    ("signed_out", ("account does not exist", "valid account parameter")),
    ("signed_out", ("authorization failed", "authorizationfailed")),
    ("markup", ("textstyle", "invalid style")),
    ("media", ("attachment",)),
    ("gone", ("group not found", "not a group member", "not a member", "is not registered", "unregistered")),
    ("limited", ("rate limit",)),
)
_CODES: dict[int, SendTrouble] = {IO: "down", UNTRUSTED: "refused", LIMITED: "limited", -32603: "down"}
_TYPES: dict[str, SendTrouble] = {
    "NETWORK_FAILURE": "down",
    "RATE_LIMIT_FAILURE": "limited",
    "UNREGISTERED_FAILURE": "gone",
    "IDENTITY_FAILURE": "refused",
    "INVALID_PRE_KEY_FAILURE": "refused",
}
_TRUST = "the safety number has changed: compare it, then `signal-cli trust` it"


def address_chat(target: Target) -> dict[str, Any]:
    """The parameter that names the chat."""
    to = target.to.removeprefix("uuid:")
    if _PERSON.fullmatch(to):
        return {"recipient": [to]}
    if to.startswith("username:"):
        return {"username": [to.removeprefix("username:")]}
    return {"groupId": to.removeprefix("group:")}


def build_message(reply: Reply, files: Sequence[ChannelFile], me: str, said: Mapping[str, str]) -> dict[str, Any]:
    """`send`. `said` are texts of messages that may be quoted, by id."""
    params = address_chat(reply.target)
    if reply.plain:
        params["message"] = reply.text
    else:
        made = render_markdown(reply.text, "signal")
        params["message"] = made.text
        if made.spans:
            params["textStyle"] = [f"{one.start}:{one.length}:{one.style}" for one in made.spans]
    if files:
        params["attachments"] = [_data(one) for one in files]
        params["voiceNote"] = reply.voice and all(one.mime.startswith("audio/") for one in files)
    at = read_timestamp(reply.reply_to)
    if at is not None:
        params |= {"quoteTimestamp": at, "quoteAuthor": read_author(reply.reply_to) or me}
        params["quoteMessage"] = said.get(reply.reply_to, "")
    return params


def _data(file: ChannelFile) -> str:
    name = _UNSAFE.sub("_", file.name)[:100] or "file"
    return f"data:{file.mime};filename={name};base64,{base64.b64encode(file.data).decode()}"


def read_timestamp(message_id: str) -> int | None:
    """The time that names a message on Signal; None if that is no id of ours."""
    text = message_id.rpartition(":")[2]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def read_author(message_id: str) -> str:
    """Who wrote it; "" for ourselves."""
    return message_id.rpartition(":")[0]


def build_reaction(target: Target, act: ReactAction, me: str) -> dict[str, Any] | None:
    """`sendReaction`; None if there is no such message."""
    at = read_timestamp(act.message_id)
    if at is None:
        return None
    named = {"emoji": act.emoji or "👍", "targetAuthor": read_author(act.message_id) or me, "targetTimestamp": at}
    return {**address_chat(target), **named, "remove": act.remove}


def build_deletion(target: Target, act: DeleteAction) -> dict[str, Any] | None:
    """`remoteDelete`; None if there is no such message."""
    at = read_timestamp(act.message_id)
    return {**address_chat(target), "targetTimestamp": at} if at is not None else None


def read_send_result(result: Any) -> SendResult:
    """What `send` gave. In a group it is shown when anybody has it."""
    found = result if isinstance(result, dict) else {}
    types = _types(found)
    if types and "SUCCESS" not in types:
        return _by_types(types, found)
    return SendReceipt(str(found.get("timestamp") or ""))


def explain_signal_error(exc: SignalRpcError | SignalUnreachable) -> SendFailure:
    """What went wrong."""
    if isinstance(exc, SignalUnreachable):
        return SendFailure(str(exc), "cut" if exc.sent else "down")
    response = exc.data.get("response") if isinstance(exc.data, dict) else None
    found = response if isinstance(response, dict) else {}
    if types := _types(found):
        return _by_types(types, found)
    low = exc.message.lower()
    said = next((trouble for trouble, parts in _WORDS if any(part in low for part in parts)), None)
    word = said or _CODES.get(exc.code, "refused")
    reason = _TRUST if exc.code == UNTRUSTED else exc.message[:300]
    return SendFailure(f"signal-cli: {reason}", word, everywhere=word == "limited")


def _types(found: dict[str, Any]) -> list[str]:
    results = found.get("results")
    return [str(one.get("type")) for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def _by_types(types: list[str], found: dict[str, Any]) -> SendFailure:
    first = types[0]
    waits = [one.get("retryAfterSeconds") for one in found["results"] if isinstance(one, dict)]
    after = max((float(w) for w in waits if isinstance(w, int | float)), default=None)
    words = _TRUST if first == "IDENTITY_FAILURE" else first.lower().replace("_", " ")
    word = _TYPES.get(first, "refused")
    return SendFailure(f"Signal: {words}", word, after if word == "limited" else None, everywhere=word == "limited")

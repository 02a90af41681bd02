"""What the configuration says about prompts, as plain values. Resolved before; nothing here knows a config key."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Literal, TypeAlias

import msgspec

Citations: TypeAlias = Literal["auto", "on", "off"]
Delegation: TypeAlias = Literal["suggest", "prefer"]
Silence: TypeAlias = Literal["allow", "disallow"]
Warn: TypeAlias = Literal["off", "once", "always"]

# What a heartbeat asks when the config does not say. A fixed text of the specification: clients and models know it.
HEARTBEAT_PROMPT = (
    "Read HEARTBEAT.md if it exists (workspace context). Follow it strictly. Do not infer or repeat old tasks from "
    "prior chats. If nothing needs attention, reply HEARTBEAT_OK."
)
HASHED = 12  # hex digits of an owner's id that are shown


class PromptOptions(msgspec.Struct, frozen=True):
    """Per agent. Every field has the value it has when nobody configured anything."""

    owners: tuple[str, ...] = ()  # authorised senders as they are to be shown
    aliases: tuple[tuple[str, str], ...] = ()  # alias, provider/model
    citations: Citations = "auto"
    delegation: Delegation = "suggest"
    voice: str = ""  # what the voice settings ask of texts; "" when nothing is read aloud
    heartbeat: str = ""  # the heartbeat's prompt; "" where heartbeats are off or shall not be mentioned
    silent_group: Silence = "allow"
    warn: Warn = "always"  # say in the prompt that workspace files were shortened
    friendly: bool = True  # the tone some model families are asked for


def write_voice_hint(auto: str, limit: int = 0) -> str:
    """What to mind in texts that are read aloud; "" when none are."""
    when = {
        "always": "Every reply is read aloud.",
        "inbound": "Replies to voice messages are read aloud.",
        "tagged": "Only text inside [[tts:text]]…[[/tts:text]] is read aloud; use it when a spoken reply is wanted.",
    }.get(auto)
    if when is None:
        return ""
    short = f" Keep what is spoken under {limit} characters." if limit else ""
    return f"{when} Write it to be heard: whole sentences, no tables, no code, no addresses.{short}"


def display_owners(ids: Iterable[str], display: str = "raw", secret: str = "") -> tuple[str, ...]:
    """Owner ids as the prompt shows them: as they are, or (display "hash") unreadable but recognisable."""
    clean = dict.fromkeys(i.strip() for i in ids)
    clean.pop("", None)
    clean.pop("*", None)  # "everybody" names nobody
    return tuple(_hash(i, secret) for i in clean) if display == "hash" else tuple(clean)


def _hash(ident: str, secret: str) -> str:
    return hmac.new(secret.encode(), ident.encode(), hashlib.sha256).hexdigest()[:HASHED]

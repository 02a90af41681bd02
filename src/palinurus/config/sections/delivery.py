"""How answers reach people: in blocks, at a human pace, with signs of life (typing, a reaction). Pure.

agents.defaults.blockStreaming*, humanDelay, typingMode, typingIntervalSeconds; session.typing*; messages.ackReaction*.
Sizes and times that make no sense count as not said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.config.schema import Config
from palinurus.config.schema.agents import AgentDefaults, AgentEntry, SharedAgentSection
from palinurus.config.sections.channels import AccountSettings
from palinurus.core.stream.chunk import BlockSettings, CoalesceSettings, HumanDelay

TypingMode: TypeAlias = Literal["instant", "message", "thinking", "never"]
AckScope: TypeAlias = Literal["group-mentions", "group-all", "direct", "all", "off"]

IDLE, IDLEST = 1000, 5000  # milliseconds
ACK = "👀"


class PresenceSettings(msgspec.Struct, frozen=True):
    """Signs of life while a run goes. `typing` None: at once in direct chats and where the agent was mentioned, else
    with the first word of the answer."""

    typing: TypingMode | None = None
    interval: float = 6.0  # seconds between two signs of typing
    ack: str = ACK  # "" for none
    scope: AckScope = "group-mentions"
    remove: bool = False  # the reaction goes when the answer is there


class DeliverySettings(msgspec.Struct, frozen=True):
    """One value for the whole program; an account's own keys go before it (`paced`, `chunked`)."""

    blocks_on: bool = False  # blockStreamingDefault
    blocks: BlockSettings = BlockSettings()
    coalesce: Mapping[str, Any] = {}
    human: HumanDelay = HumanDelay()
    humans: dict[str, HumanDelay] = {}  # by agent, where it says its own
    presence: PresenceSettings = PresenceSettings()
    typing: dict[str, TypingMode] = {}  # by agent, where it says its own

    def block_sizes(self, account: AccountSettings | None, limit: int) -> BlockSettings:
        """The sizes of blocks on this account, which takes texts of `limit` at most."""
        own = _section(account, "blockStreamingChunk")
        base = self.blocks
        most = min(_size(own.get("maxChars"), base.max_chars), limit)
        least = min(_size(own.get("minChars"), base.min_chars), most)
        if account is not None and account.newline:
            return BlockSettings(1, most, "paragraph", base.at)
        prefer = own.get("breakPreference")
        return BlockSettings(least, most, prefer if prefer in _PREFER else base.prefer, base.at)

    def coalesce_sizes(self, account: AccountSettings | None, limit: int) -> CoalesceSettings:
        """How small blocks are joined on this account."""
        chunk = self.block_sizes(account, limit)
        own = {**self.coalesce, **_section(account, "blockStreamingCoalesce")}
        most = min(_size(own.get("maxChars"), chunk.max_chars), limit)
        least = min(_size(own.get("minChars"), chunk.min_chars), most)
        idle = own.get("idleMs")
        idle = min(max(idle, 0), IDLEST) if isinstance(idle, int) and not isinstance(idle, bool) else IDLE
        usual = CoalesceSettings.beside(chunk)
        return CoalesceSettings(idle, least, most, usual.joiner, account is not None and account.newline)


_PREFER = ("paragraph", "newline", "sentence")


def resolve_delivery(config: Config, entries: Mapping[str, AgentEntry]) -> DeliverySettings:
    """What the config says; `entries` are the agents as written, by id."""
    defaults = (config.agents.defaults if config.agents else None) or AgentDefaults()
    return DeliverySettings(
        defaults.block_streaming_default == "on",
        _blocks(defaults),
        dict(defaults.block_streaming_coalesce or {}),
        _human(defaults),
        {name: _human(one) for name, one in entries.items() if one.human_delay},
        _presence(config, defaults),
        {name: one.typing_mode for name, one in entries.items() if one.typing_mode},
    )


def _blocks(defaults: AgentDefaults) -> BlockSettings:
    usual = BlockSettings()
    chunk: dict[str, Any] = dict(defaults.block_streaming_chunk or {})
    most = _size(chunk.get("maxChars"), usual.max_chars)
    least = min(_size(chunk.get("minChars"), usual.min_chars), most)
    prefer = chunk.get("breakPreference")
    chosen = prefer if prefer in _PREFER else usual.prefer
    return BlockSettings(least, most, chosen, defaults.block_streaming_break or usual.at)


def _human(said: SharedAgentSection) -> HumanDelay:
    own: dict[str, Any] = dict(said.human_delay or {})
    mode = own.get("mode")
    usual = HumanDelay()
    least = _size(own.get("minMs"), usual.min_ms)
    most = max(least, _size(own.get("maxMs"), usual.max_ms))
    return HumanDelay(mode if mode in ("natural", "custom") else "off", least, most)


def _presence(config: Config, defaults: AgentDefaults) -> PresenceSettings:
    messages, session = config.messages, config.session
    typing = (session.typing_mode if session else None) or defaults.typing_mode
    every = (session.typing_interval_seconds if session else None) or defaults.typing_interval_seconds or 6
    ack = messages.ack_reaction if messages and messages.ack_reaction is not None else ACK
    scope = (messages.ack_reaction_scope if messages else None) or "group-mentions"
    remove = bool(messages and messages.remove_ack_after_reply)
    return PresenceSettings(typing, float(every), ack, "off" if scope == "none" else scope, remove)


def _section(account: AccountSettings | None, key: str) -> dict[str, Any]:
    found = account.own.get(key) if account is not None else None
    return found if isinstance(found, dict) else {}


def _size(value: Any, fallback: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return int(value) if whole else fallback

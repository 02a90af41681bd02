"""How answers reach people: in blocks, at a human pace, with signs of life (typing, a reaction). Pure.

agents.defaults.blockStreaming*, humanDelay, typingMode, typingIntervalSeconds; session.typing*; messages.ackReaction*.
Sizes and times that make no sense count as not said.
"""

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from palinurus.config.declare import S, fill_section
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Free, Typing, lay_over
from palinurus.config.sections.agents import AgentLayers
from palinurus.config.sections.channels import AccountSettings
from palinurus.config.sections.context import BlockSection, CoalesceSection, HumanDelaySection
from palinurus.config.sections.session import MessagesSection
from palinurus.core.stream.chunk import BlockSettings, CoalesceSettings, HumanDelay

AckScope: TypeAlias = Literal["group-mentions", "group-all", "direct", "all", "off"]

ACK = "👀"


class PresenceSettings(msgspec.Struct, frozen=True):
    """Signs of life while a run goes. `typing` None: at once in direct chats and where the agent was mentioned, else
    with the first word of the answer."""

    typing: Typing | None = None
    interval: float = 6.0  # seconds between two signs of typing
    ack: str = ACK  # "" for none
    scope: AckScope = "group-mentions"
    remove: bool = False  # the reaction goes when the answer is there
    working: str = ""  # a reaction that is there as long as the run goes on


class DeliverySettings(msgspec.Struct, frozen=True):
    """One value for the whole program; an account's own keys go before it (`paced`, `chunked`)."""

    blocks_on: bool = False  # blockStreamingDefault
    blocks: BlockSettings = BlockSettings()
    coalesce: CoalesceSection = CoalesceSection()
    human: HumanDelay = HumanDelay()
    humans: dict[str, HumanDelay] = {}  # by agent, where it says its own
    presence: PresenceSettings = PresenceSettings()
    typing: dict[str, Typing] = {}  # by agent, where it says its own
    intervals: dict[str, float] = {}  # seconds between two signs of typing, by agent
    prefix: str = ""  # messages.responsePrefix

    def block_sizes(self, account: AccountSettings | None, limit: int) -> BlockSettings:
        """The sizes of blocks on this account, which takes texts of `limit` at most."""
        made = (account.chunk if account is not None else BlockSection()).fit_into(self.blocks, limit)
        if account is not None and account.newline:
            return BlockSettings(1, made.max_chars, "paragraph", made.at)
        return made

    def coalesce_sizes(self, account: AccountSettings | None, limit: int) -> CoalesceSettings:
        """How small blocks are joined on this account."""
        chunk = self.block_sizes(account, limit)
        own = lay_over(self.coalesce, account.coalesce) if account is not None else self.coalesce
        sizes = own.fit_into(chunk, limit)
        usual = CoalesceSettings.beside(chunk)
        newline = account is not None and account.newline
        return CoalesceSettings(
            1000 if own.idle is None else own.idle, sizes.min_chars, sizes.max_chars, usual.joiner, every=newline
        )


def _read(cls: type[S], raw: Free | None) -> S:
    return fill_section(cls, raw or {}, ConfigPlace("", {}, []))


def _human(written: Free | None) -> HumanDelay:
    made = lay_over(HumanDelay(), _read(HumanDelaySection, written))
    return msgspec.structs.replace(made, max_ms=max(made.min_ms, made.max_ms))


def resolve_delivery(
    agents: Mapping[str, AgentLayers], shared: Free, session: Free, messages: MessagesSection
) -> DeliverySettings:
    """What the config says; `session` as it is written."""
    sizes = _read(BlockSection, shared.get("blockStreamingChunk"))
    blocks = sizes.fit_into(BlockSettings(), sizes.max_chars or BlockSettings().max_chars)
    scope = messages.ack_reaction_scope
    presence = PresenceSettings(
        session.get("typingMode") or shared.get("typingMode"),
        float(session.get("typingIntervalSeconds") or shared.get("typingIntervalSeconds") or 6),
        ACK if messages.ack_reaction is None else messages.ack_reaction,
        "off" if scope == "none" else scope,
        remove=messages.remove_ack_after_reply,
    )
    return DeliverySettings(
        shared.get("blockStreamingDefault") == "on",
        msgspec.structs.replace(blocks, at=shared.get("blockStreamingBreak") or blocks.at),
        _read(CoalesceSection, shared.get("blockStreamingCoalesce")),
        _human(shared.get("humanDelay")),
        humans={name: _human(one.merge("humanDelay")) for name, one in agents.items() if one.own.get("humanDelay")},
        presence=presence,
        typing={name: one.own["typingMode"] for name, one in agents.items() if one.own.get("typingMode")},
        intervals={n: float(s) for n, one in agents.items() if (s := one.own.get("typingIntervalSeconds"))},
        prefix=messages.response_prefix,
    )

"""channels.<id> and channels.<id>.accounts.<name>: what all channels have in common, complete, one value per account.

An account's own keys go before its channel's, those before channels.defaults. What only one platform knows stays in
`own` for that channel to read. Knows no platform.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from palinurus.config.declare import Section, fill_section, option, same_form
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import Count, LooseMillis, Names, Ratio, Size, ToldWord, list_ids, merge_deep, merge_raw
from palinurus.config.inert import ACTION_WORDS
from palinurus.config.keypath import Path
from palinurus.config.kinds import GuardMap, Written
from palinurus.config.sections.context import BlockSection, CoalesceSection
from palinurus.config.sections.people import NAMES, AccessGroups, GroupRow, list_group_rows
from palinurus.config.sections.schedule import HeartbeatVisibility
from palinurus.config.sections.tools import ToolPolicySection
from palinurus.core.policy.admission import EVERYBODY

DmPolicy: TypeAlias = Literal["pairing", "allowlist", "open", "disabled"]
GroupPolicy: TypeAlias = Literal["open", "allowlist", "disabled"]
Streaming: TypeAlias = Literal["off", "partial", "block", "progress"]
ReplyTo: TypeAlias = Literal["off", "first", "all"]
Bots: TypeAlias = Literal["off", "mentions", "on"]
Visibility: TypeAlias = Literal["all", "allowlist", "allowlist_quote"]
SHUT = option(closed=False)  # of KNOWN: what cannot be read counts as false
NOBODY = option(closed=[])
NOWHERE = option(closed={EVERYBODY: False})
BOTS: dict[Any, Bots] = {True: "on", False: "off", "mentions": "mentions"}
_CHATS = frozenset("groups channels rooms guilds direct dms".split())


class GroupSettings(Section, frozen=True):
    """One chat; see `list_group_rows` for how its row is found. Tools per group: `Settings.policy`."""

    ABOUT: ClassVar = """
        enabled false: the group is not heard.
        requireMention false: the agent answers without being named.
        systemPrompt Words that only this group's turns get.
        groupPolicy Who is heard there: open, allowlist or disabled.
        allow false: the same as enabled.
        allowFrom Who is heard there, by id.
        users As allowFrom.
        roles Who has one of these roles is heard there, too.
    """
    enabled: bool = option(True, closed=False)
    require_mention: bool = option(True, closed=True)
    allow_from: tuple[str, ...] | None = option(None, at=None)  # None: the account's groupAllowFrom
    prompt: str = option("", at="systemPrompt")
    roles: tuple[str, ...] = option((), at=None)  # by id; who has one of them is as good as listed
    policy: GroupPolicy | None = option(None, at="groupPolicy", closed="disabled")  # None: the account's

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {
        **same_form(Annotated[list[str | int], NOBODY], "allowFrom users roles"),
        "allow": Annotated[bool, SHUT],
    }


class DirectSection(Section, frozen=True):
    ABOUT: ClassVar = """
        tools Which tools the agent has there: allow, alsoAllow, deny.
        toolsBySender Such lists for single people, by id.
    """
    KNOWN: ClassVar = {
        "tools": ToolPolicySection,
        "toolsBySender": Annotated[dict[str, ToolPolicySection], option(closed={EVERYBODY: {"deny": ["*"]}})],
    }


class RoomSection(GroupSettings, frozen=True):
    KNOWN: ClassVar = {**GroupSettings.KNOWN, **DirectSection.KNOWN}
    ABOUT: ClassVar = DirectSection.ABOUT


class GroupSection(RoomSection, frozen=True):
    KNOWN: ClassVar = {
        **RoomSection.KNOWN,
        "topics": Annotated[dict[str, GroupSettings | bool], "Settings of its topics, by id.", NOWHERE],
    }


class GuildSection(RoomSection, frozen=True):
    KNOWN: ClassVar = {
        **RoomSection.KNOWN,
        "channels": Annotated[dict[str, RoomSection | bool], "Its channels, by id; with some, only those.", NOWHERE],
    }


class BotLoopSettings(Section, frozen=True):
    """botLoopProtection: at most so many messages of one bot in a chat, then a rest. Times in seconds."""

    ABOUT: ClassVar = """
        enabled false: other programs may write without end.
        maxEventsPerWindow How many messages of one program are heard in a chat …
        windowSeconds … in so many seconds.
        cooldownSeconds How long it is not heard after that.
    """
    enabled: bool = True
    most: Count = option(20, at="maxEventsPerWindow")
    window: Annotated[float, Written(Size, float)] = option(60.0, at="windowSeconds")
    rest: Annotated[float, Written(Size, float)] = option(60.0, at="cooldownSeconds")

    LOOSE: ClassVar = True


class ChatApprovalSettings(Section, frozen=True):
    """execApprovals: questions about commands in the chats of an account, and who may answer them there."""

    enabled: Annotated[bool, Written(bool | Literal["auto"], bool)] = option(
        True, "false: none in its chats.", closed=False
    )
    approvers: Names = option((), "Ids of people who may allow once or deny there, besides the owner.")
    agents: Names | None = option(None, "Only questions of these agents.", "agentFilter", closed=[])
    sessions: Names | None = option(None, "Only of sessions whose key holds one of these.", "sessionFilter", closed=[])
    cleanup: bool = option(False, "A question is removed from the chat when it is answered.", "cleanupAfterResolve")

    LOOSE: ClassVar = True

    def covers(self, agent: str, session: str) -> bool:
        """Is a question of this session one of theirs?"""
        fits = self.sessions is None or any(word in session for word in self.sessions)
        return self.enabled and fits and (self.agents is None or agent in self.agents)


class ReconnectSettings(Section, frozen=True):
    """web.reconnect: how long is waited before a receiver that broke is begun again. Seconds."""

    first: LooseMillis = option(1.0, "The first wait.", "initialMs")
    most: LooseMillis = option(60.0, "The longest wait.", "maxMs")
    factor: Annotated[float, msgspec.Meta(ge=1)] = option(2.0, "How much longer each wait is than the one before.")
    jitter: Ratio = option(0.0, "How much of a wait is left to chance.")
    attempts: Size = option(0, "After how many failures in a row it is left alone; 0: never.", "maxAttempts")

    LOOSE: ClassVar = True

    def wait(self, attempt: int, chance: float) -> float | None:
        """Seconds after the `attempt`-th failure in a row; None: no more. `chance` in [0, 1)."""
        if self.attempts and attempt >= self.attempts:
            return None
        return spread_wait(self.first * self.factor ** min(attempt - 1, 30), self.most, self.jitter, chance)


class PhoneSettings(Section, frozen=True):
    """web: the connection to WhatsApp."""

    enabled: bool = option(True, "false: WhatsApp is not connected to.", closed=False)
    reconnect: ReconnectSettings = option(ReconnectSettings(), "How it is connected to again.")


def spread_wait(usual: float, most: float, jitter: float, chance: float) -> float:
    """A wait of at most `most`, `jitter` of it left to chance."""
    return min(usual, most) * (1 + jitter * (2 * chance - 1))


class SendRetrySettings(Section, frozen=True):
    """retry: how often a message is sent that the platform did not take, and how long is waited. Seconds."""

    attempts: Count = option(3, "How often, the first time included.")
    least: LooseMillis = option(0.5, "The first wait; doubled each time.", "minDelayMs")
    most: LooseMillis = option(30.0, "The longest wait.", "maxDelayMs")
    jitter: Ratio = option(0.1, "How much of a wait is left to chance.")

    LOOSE: ClassVar = True

    def wait(self, attempt: int, chance: float) -> float | None:
        """Seconds after the `attempt`-th try; None: no more. `chance` in [0, 1)."""
        if attempt >= self.attempts:
            return None
        return spread_wait(self.least * 2.0 ** min(attempt - 1, 30), self.most, self.jitter, chance)


class AccountSettings(Section, frozen=True):
    """One account. `own`: the platform's keys, merged; secrets in it are `Secret`."""

    ABOUT: ClassVar = """
        botLoopProtection Programs that answer each other.
        dmPolicy Who may write directly: pairing (a code first), allowlist, open or disabled.
        groupPolicy Which groups are heard: allowlist, open or disabled.
        streaming How an answer is shown while it is made: off, partial (edited), block, progress (the tools called).
        blockStreaming true: answers are sent in blocks there.
        textChunkLimit How long one message is at most; 0: as long as the platform allows.
        chunkMode newline: long answers are cut at paragraphs.
        mediaMaxMb How large files may be that people send.
        historyLimit How many unmentioned messages of a group come along as context, and how many turns of it are sent.
        replyToMode Which messages of an answer are replies to the question: off, first or all.
        ackReaction An emoji on messages that were taken.
        allowBots Whether other programs are heard: false, true, or "mentions".
        contextVisibility Whose words are context in groups: all, allowlist, or allowlist_quote.
        messagesPerMinute How many messages a minute are taken of somebody whom only * lets in.
        dm Older words for dmPolicy and allowFrom, and about chats of several people.
        dm.enabled false: as dmPolicy disabled.
        dm.policy As dmPolicy.
        dm.allowFrom As allowFrom.
        enabled false: it is off.
        allowFrom Who may write directly, by id; * is everybody.
        groupAllowFrom Who is heard in groups, by id.
        groups Settings of single groups, by id; * is all others.
        channels Settings of single channels, by id.
        rooms Settings of single rooms, by id.
        guilds Settings of single servers, by id.
        requireMention Whether the agent must be named in groups.
        commands.native false: its commands are not in the platform's menu.
        heartbeat What of heartbeats is shown there.
        blockStreamingChunk How large blocks are.
        blockStreamingCoalesce How small blocks are joined.
    """
    channel: str = option(at=None)
    account: str = option("default", at=None)
    dm: DmPolicy = option("pairing", at="dmPolicy", closed="pairing")
    allow_from: tuple[str, ...] = option((), at=None)
    mention: bool = option(True, at="requireMention", closed=True)
    dm_groups: bool = option(
        True, "false: chats of several people that are no channel are not heard.", "dm.groupEnabled", closed=False
    )
    dm_chats: Annotated[tuple[str, ...], Written(list[Any], lambda ids: tuple(list_ids(ids)))] = option(
        (), "Only these of them, where some are named.", "dm.groupChannels"
    )
    group: GroupPolicy = option("allowlist", at="groupPolicy", closed="allowlist")
    group_allow_from: tuple[str, ...] = option((), at=None)
    # by chat, chat:topic:thread, guild:server, or "*" for all others
    groups: dict[str, GroupSettings] = option({}, at=None)
    streaming: Annotated[Streaming, ToldWord("off", "partial", "block", "progress", quiet="partial")] = "off"
    blocks: bool | None = option(None, at="blockStreaming")  # None: not said
    chunk: BlockSection = option(BlockSection(), at="blockStreamingChunk")
    coalesce: CoalesceSection = option(CoalesceSection(), at="blockStreamingCoalesce")
    limit: Size = option(0, at="textChunkLimit")  # 0: the channel's own
    lines: Size = option(0, "How many lines one message has at most; 0: as many as fit.", "maxLinesPerMessage")
    newline: Annotated[bool, Written(Literal["length", "newline"], lambda word: word == "newline")] = option(
        False, at="chunkMode"
    )  # by paragraph
    media: Annotated[int, Written(Size, lambda mb: mb << 20)] = option(20 << 20, at="mediaMaxMb")  # bytes
    history: Size = option(50, at="historyLimit")  # unmentioned messages of a group kept as context
    reply_to: Annotated[ReplyTo, ToldWord("off", "first", "all", batched="first")] = option("first", at="replyToMode")
    ack: Annotated[str, Written(str | bool, lambda text: text or "")] = option("", at="ackReaction")
    bots: Annotated[Bots, Written(bool | Literal["mentions"], BOTS.get)] = option("off", at="allowBots")
    loop: BotLoopSettings = option(BotLoopSettings(), at="botLoopProtection")
    visibility: Visibility = option("all", at="contextVisibility", closed="allowlist")
    rate: Count = option(20, at="messagesPerMinute")  # messages a minute of somebody whom only "*" lets in
    retry: SendRetrySettings | None = option(None, "How often a message is tried; by default for two hours.")
    actions: Annotated[dict[str, bool], GuardMap(bool, closed=False, named=ACTION_WORDS)] = option(
        {},
        "false: what the message tool may not do there, by group of actions.",
        closed=dict.fromkeys(sorted(ACTION_WORDS), False),
    )
    prefix: Annotated[str | None, Written(str, str)] = option(
        None, "What replies begin with there, instead of messages.responsePrefix.", "responsePrefix"
    )
    approvals: ChatApprovalSettings = option(
        ChatApprovalSettings(), "Questions about commands in its chats.", "execApprovals"
    )
    working: Annotated[str, Written(str, lambda text: text.strip(": "))] = option(
        "", "A reaction on a message as long as its answer is being made.", "typingReaction"
    )
    watched: bool = option(True, "false: its connection is not looked after by the gateway.", "healthMonitor.enabled")
    reconnect: ReconnectSettings = option(ReconnectSettings(), at=None)
    native: bool = option(True, at=None)  # its commands are in the platform's menu
    writes: bool = option(True, "false: /config changes nothing from here.", "configWrites", closed=False)
    own: dict[str, Any] = option({}, at=None)

    LOOSE: ClassVar = True
    OPEN: ClassVar = True
    KNOWN: ClassVar = {
        **same_form(Annotated[bool, SHUT], "enabled dm.enabled"),
        **same_form(Annotated[list[str | int], NOBODY], "allowFrom groupAllowFrom dm.allowFrom"),
        **same_form(Annotated[dict[str, RoomSection | bool] | list[str | int], NOWHERE], "channels rooms"),
        "direct": Annotated[dict[str, DirectSection], "Tools in direct chats with single people, by id."],
        "groups": Annotated[dict[str, GroupSection | bool], NOWHERE],
        "guilds": Annotated[dict[str, GuildSection | bool], NOWHERE],
        "dm.policy": Annotated[DmPolicy, option(closed="pairing")],
        "commands.native": bool | Literal["auto"],
        "heartbeat": HeartbeatVisibility,
    }

    def hears_group(self, chat: str) -> bool:
        """Is a chat of several people heard that is no channel of a server?"""
        return self.dm_groups and (not self.dm_chats or chat in self.dm_chats)


class ChannelSection(AccountSettings, frozen=True):
    """channels.<id>: what all its accounts share, and the accounts."""

    ABOUT: ClassVar = """
        accounts Several accounts of the platform, by name; each may say what the section says.
        defaultAccount The account that is used where none is named.
        dmHistoryLimit How many turns of a direct chat are sent to the model; 0: all.
        dms How many with single people: {id: {historyLimit}}.
    """
    KNOWN: ClassVar = {
        **AccountSettings.KNOWN,
        "accounts": Annotated[dict[str, AccountSettings], option(closed={"none": {"enabled": False}})],
        "defaultAccount": str,
        "dmHistoryLimit": Size,
        "dms": dict[str, Any],
    }


def resolve_accounts(
    channels: Mapping[str, dict[str, Any]], usual: Mapping[str, Any], groups: Mapping[str, Any], here: ConfigPlace
) -> dict[str, dict[str, AccountSettings]]:
    """By channel and account. A channel without `accounts` is one account, "default". `usual` goes below each,
    `groups` are the `accessGroups`."""
    teams = AccessGroups(groups, here.findings)
    return {
        name: {
            account: _account(name, account, body, teams, here=here.below(*path))
            for account, body, path in _sections(name, section, _settle_direct(usual), here)
        }
        for name, section in channels.items()
    }


def _settle_direct(layer: Mapping[str, Any]) -> dict[str, Any]:
    """One of several layers, with the older words of `dm` as the newer ones: else those of a layer below go before."""
    older = layer["dm"] if isinstance(layer.get("dm"), dict) else {}
    made = merge_raw(layer, {"dmPolicy": older.get("policy"), "allowFrom": older.get("allowFrom")})
    return {**made, "dm": {"enabled": True, **merge_raw(older)}} if made.get("dmPolicy") else made


def _lay(own: Mapping[str, Any], below: Mapping[str, Any]) -> dict[str, Any]:
    """One layer over another: what is said of chats as a whole, as lists are, all else key by key."""
    told = _settle_direct(own)
    return merge_deep(told, {key: value for key, value in below.items() if key not in _CHATS or key not in told})


def _sections(
    name: str, section: Mapping[str, Any], usual: Mapping[str, Any], here: ConfigPlace
) -> list[tuple[str, dict[str, Any], Path]]:
    shared = _lay({key: value for key, value in section.items() if key != "accounts"}, usual)
    written, first = section.get("accounts"), section.get("defaultAccount")
    found: list[tuple[str, dict[str, Any], Path]] = [("default", shared, ("channels", name))]
    if isinstance(written, dict) and written:
        on = {key: body for key, body in written.items() if isinstance(body, dict) and body.get("enabled") is not False}
        found = [(key, _lay(body, shared), ("channels", name, "accounts", key)) for key, body in on.items()]
    names = [key for key, _, _ in found]
    if isinstance(first, str) and first not in ("", *names):
        here.below("channels", name).odd("defaultAccount", "is no account", suggest_nearest(first, names))
    return sorted(found, key=lambda one: one[0] != first)  # the first is used where none is named


def _account(name: str, account: str, body: dict[str, Any], teams: AccessGroups, here: ConfigPlace) -> AccountSettings:
    older = body["dm"] if isinstance(body.get("dm"), dict) else {}
    streaming = body.get("streaming")
    streaming = streaming.get("mode") if isinstance(streaming, dict) else streaming
    native, menu = body.pop("native", True), body.get("commands")
    said = menu.get("native") if isinstance(menu, dict) else None
    told = {**body, "streaming": ("partial" if streaming else "off") if isinstance(streaming, bool) else streaming}
    allow = teams.ids(body.get("allowFrom"), name, (*here.path, "allowFrom"))
    made = fill_section(
        AccountSettings,
        told,
        here,
        channel=name,
        account=account,
        allow_from=allow,
        group_allow_from=teams.ids(body.get("groupAllowFrom"), name, (*here.path, "groupAllowFrom")),
        groups=_groups(name, body, teams, here),
        own=body,
        native=native if said is None else said is not False,
    )
    # Letting everybody in takes both words: one alone is a slip, and nobody is let in by it.
    if made.dm == "open" and EVERYBODY not in allow:
        text = "'open' lets in only whom allowFrom lists, and it does not list everybody"
        here.odd("dmPolicy", text, 'add "*" to allowFrom, or use allowlist')
    if made.dm in ("pairing", "allowlist") and EVERYBODY in allow:
        here.odd("allowFrom", f'"*" does nothing while dmPolicy is {made.dm!r}', "dmPolicy 'open' lets everybody in")
    return msgspec.structs.replace(made, dm="disabled") if older.get("enabled") is False else made


def _groups(name: str, body: dict[str, Any], teams: AccessGroups, here: ConfigPlace) -> dict[str, GroupSettings]:
    shared = body.get("requireMention") is not False
    made: dict[str, GroupSettings] = {}
    for row in list_group_rows(body):
        place, own = here.below(*row.path), row.body
        if str(row.path[-1])[:1] in NAMES.get(name, "\0"):
            place.odd("", "is a name, and names change hands; it fits no chat", "write the chat's id")
        people, mention = own.get("allowFrom"), own.get("requireMention")
        told = {**own, "enabled": row.on and own.get("enabled") is not False and own.get("allow") is not False}
        made[row.key] = fill_section(
            GroupSettings,
            {**told, "requireMention": mention if isinstance(mention, bool) else shared},
            place,
            allow_from=teams.ids(people, name, place.path) if isinstance(people, list) else _unlisted(row, own),
            roles=teams.ids(own.get("roles"), "", place.path),
        )
    return made


def _unlisted(row: GroupRow, own: dict[str, Any]) -> tuple[str, ...] | None:
    """Who may speak in a chat that lists no people: those with a role, everybody there, or whom the account lists."""
    if isinstance(own.get("roles"), list):
        return ()
    return (EVERYBODY,) if row.all else None

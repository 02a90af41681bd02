"""channels.<id> and channels.<id>.accounts.<name>: what all channels have in common, complete, one value per account.

An account's own keys go before its channel's, those before channels.defaults. What only one platform knows stays in
`own` for that channel to read. Knows no platform.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.core.policy.admission import EVERYBODY

# Where a channel's section speaks of group chats, and of lists of people. Pure.
#
# The platforms write their chats in different places (`groups`, `channels`, `rooms`, `guilds.<server>.channels`,
# `groups.<chat>.topics`); here all become rows with one kind of key. Also `accessGroups`: lists that have a name.

TEAM = "accessGroup:"
# What a name begins with where ids never do: such an entry can fit nobody, which its writer should know.
NAMES: dict[str, str] = {"telegram": "@#", "discord": "@#", "slack": "@#", "whatsapp": "@", "signal": "@"}


class GroupRow(NamedTuple):
    """A chat, or all chats of a server. `all`: whoever is there may speak unless a list says who."""

    key: str
    body: dict[str, Any]
    path: Path
    all: bool = False
    on: bool = True


def list_group_rows(section: Mapping[str, Any]) -> Iterator[GroupRow]:
    """Every chat that the section of an account names."""
    for ident, body in _maps(section.get("groups")):
        yield GroupRow(ident, body, ("groups", ident))
        for topic, below in _maps(body.get("topics")):
            yield GroupRow(f"{ident}:topic:{topic}", {**body, **below}, ("groups", ident, "topics", topic))
    for word in ("channels", "rooms"):
        for ident, body in _maps(section.get(word)):
            yield GroupRow(ident, body, (word, ident), all=True)
    for guild, body in _maps(section.get("guilds")):
        path: Path = ("guilds", guild)
        inside = dict(_maps(body.get("channels")))
        for ident, below in inside.items():
            if ident != "*":
                yield GroupRow(ident, {**body, **below}, (*path, "channels", ident), all=True)
        # A server that lists channels means those only; its row then is there to say no.
        listed = not inside or "*" in inside
        key = "*" if guild == "*" else f"guild:{guild}"
        yield GroupRow(key, {**body, **inside.get("*", {})}, path, all=True, on=listed)


class AccessGroups:
    """`accessGroups`. A list that names one of them has its members; one that does not exist has none."""

    def __init__(self, section: Mapping[str, Any], findings: list[ConfigFinding]) -> None:
        self._section = section
        self._findings = findings

    def ids(self, written: Any, channel: str, path: Path) -> tuple[str, ...]:
        """The list as texts; numbers are what JSON made of ids."""
        found: list[str] = []
        for entry in _texts(written):
            if entry.startswith(TEAM):
                found += self._members(entry.removeprefix(TEAM), channel, path)
                continue
            if entry[:1] in NAMES.get(channel, "\0"):
                text = f"{entry[:40]!r} is a name, and names change hands; it fits nobody"
                self._findings.append(ConfigFinding(path, text, "write the person's id", fatal=False))
            found.append(entry)
        return tuple(dict.fromkeys(found))

    def _members(self, name: str, channel: str, path: Path) -> list[str]:
        team = self._section.get(name)
        if not isinstance(team, dict) or team.get("type", "message.senders") != "message.senders":
            why = "there is no access group" if team is None else "only message.senders is supported, not"
            self._findings.append(
                ConfigFinding(path, f"{why} {name[:40]!r}: nobody", suggest_nearest(name, self._section), False)
            )
            return []
        members = team.get("members")
        by = members if isinstance(members, dict) else {}
        return [*_texts(by.get("*")), *_texts(by.get(channel))]


def _texts(written: Any) -> list[str]:
    values = written if isinstance(written, list) else []
    return [str(v).strip() for v in values if isinstance(v, (str, int)) and not isinstance(v, bool) and str(v).strip()]


def _maps(section: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """The entries; one that is no object (`"C1": true`) says nothing more than that it is there."""
    for key, body in section.items() if isinstance(section, dict) else ():
        yield str(key), body if isinstance(body, dict) else {"enabled": body is not False}


DmPolicy: TypeAlias = Literal["pairing", "allowlist", "open", "disabled"]
GroupPolicy: TypeAlias = Literal["open", "allowlist", "disabled"]
Streaming: TypeAlias = Literal["off", "partial", "block"]
ReplyTo: TypeAlias = Literal["off", "first", "all"]
Bots: TypeAlias = Literal["off", "mentions", "on"]
Visibility: TypeAlias = Literal["all", "allowlist", "allowlist_quote"]
T = TypeVar("T", bound=str)
U = TypeVar("U", bound=str | None)

DMS: tuple[DmPolicy, ...] = ("pairing", "allowlist", "open", "disabled")
GROUPS: tuple[GroupPolicy, ...] = ("open", "allowlist", "disabled")
STREAMS: tuple[Streaming, ...] = ("off", "partial", "block")
REPLIES: tuple[ReplyTo, ...] = ("off", "first", "all")
SIGHTS: tuple[Visibility, ...] = ("all", "allowlist", "allowlist_quote")


class GroupSettings(msgspec.Struct, frozen=True):
    """One chat; see `config/groups.py` for how its row is found. Tools per group: `Settings.policy`."""

    enabled: bool = True
    require_mention: bool = True
    allow_from: tuple[str, ...] | None = None  # None: the account's groupAllowFrom
    prompt: str = ""
    roles: tuple[str, ...] = ()  # by id; who has one of them is as good as listed
    policy: GroupPolicy | None = None  # None: the account's groupPolicy


class BotLoopSettings(msgspec.Struct, frozen=True):
    """botLoopProtection: at most so many messages of one bot in a chat, then a rest. Times in seconds."""

    enabled: bool = True
    most: int = 20
    window: float = 60.0
    rest: float = 60.0


class AccountSettings(msgspec.Struct, frozen=True):
    """One account. `own`: the platform's keys, merged; secrets in it are `Secret`."""

    channel: str
    account: str = "default"
    dm: DmPolicy = "pairing"
    allow_from: tuple[str, ...] = ()
    group: GroupPolicy = "allowlist"
    group_allow_from: tuple[str, ...] = ()
    groups: dict[str, GroupSettings] = {}  # by chat, chat:topic:thread, guild:server, or "*" for all others
    streaming: Streaming = "off"
    blocks: bool | None = None  # blockStreaming; None: not said
    limit: int = 0  # textChunkLimit; 0: the channel's own
    newline: bool = False  # chunkMode newline: paragraphs go out one by one
    media: int = 20 * 1024 * 1024  # mediaMaxMb, in bytes
    history: int = 50  # unmentioned messages of a group kept as context
    reply_to: ReplyTo = "first"
    ack: str = ""  # ackReaction: an emoji on messages that were taken
    bots: Bots = "off"  # allowBots
    loop: BotLoopSettings = BotLoopSettings()
    visibility: Visibility = "all"  # contextVisibility: whose words are context in groups
    rate: int = 20  # messages a minute of somebody whom only "*" lets in
    own: dict[str, Any] = {}


def resolve_accounts(
    config: Config, channels: Mapping[str, dict[str, Any]], defaults: Mapping[str, Any], findings: list[ConfigFinding]
) -> dict[str, dict[str, AccountSettings]]:
    """By channel and account. A channel without `accounts` is one account, "default"."""
    most = config.messages.group_chat.history_limit
    usual = {"historyLimit": most, **defaults} if most else defaults
    teams = AccessGroups(config.access_groups, findings)
    return {
        name: {
            account: _account(name, account, {**usual, **body}, AccountContext(path, findings, teams))
            for account, body, path in _sections(name, section)
        }
        for name, section in channels.items()
    }


class AccountContext(NamedTuple):
    """Where a section stands, and what its reading needs."""

    path: Path
    findings: list[ConfigFinding]
    teams: AccessGroups


def _sections(name: str, section: dict[str, Any]) -> list[tuple[str, dict[str, Any], Path]]:
    shared = {key: value for key, value in section.items() if key != "accounts"}
    written = section.get("accounts")
    if not isinstance(written, dict) or not written:
        return [("default", shared, ("channels", name))]
    found: list[tuple[str, dict[str, Any], Path]] = []
    for account, body in written.items():
        if isinstance(body, dict) and body.get("enabled") is not False:
            found.append((str(account), {**shared, **body}, ("channels", name, "accounts", str(account))))
    return found


def _account(name: str, account: str, body: dict[str, Any], scene: AccountContext) -> AccountSettings:
    usual, path, findings = AccountSettings(name, account), scene.path, scene.findings
    bots = body.get("allowBots")
    streaming = body.get("streaming")
    if isinstance(streaming, dict):
        streaming = streaming.get("mode")
    older = body["dm"] if isinstance(body.get("dm"), dict) else {}
    dm = _word({"dmPolicy": body.get("dmPolicy") or older.get("policy")}, "dmPolicy", DMS, usual.dm, path, findings)
    allow = scene.teams.ids(body.get("allowFrom", older.get("allowFrom")), name, (*path, "allowFrom"))
    _open(dm, allow, scene)
    return AccountSettings(
        name,
        account,
        dm="disabled" if older.get("enabled") is False else dm,
        allow_from=allow,
        group=_word(body, "groupPolicy", GROUPS, usual.group, path, findings),
        group_allow_from=scene.teams.ids(body.get("groupAllowFrom"), name, (*path, "groupAllowFrom")),
        groups=_groups(name, body, scene),
        streaming=_word({"streaming": streaming}, "streaming", STREAMS, usual.streaming, path, findings),
        blocks=body["blockStreaming"] if isinstance(body.get("blockStreaming"), bool) else None,
        limit=_count(body.get("textChunkLimit"), 0),
        newline=body.get("chunkMode") == "newline",
        media=_count(body.get("mediaMaxMb"), 20) * 1024 * 1024,
        history=_count(body.get("historyLimit"), usual.history),
        reply_to=_word(body, "replyToMode", REPLIES, usual.reply_to, path, findings),
        ack=str(body.get("ackReaction") or ""),
        bots="mentions" if bots == "mentions" else "on" if bots is True else "off",
        loop=_loop(body.get("botLoopProtection")),
        visibility=_word(body, "contextVisibility", SIGHTS, usual.visibility, path, findings),
        rate=_count(body.get("messagesPerMinute"), usual.rate) or usual.rate,
        own=body,
    )


def _open(dm: DmPolicy, allow: tuple[str, ...], scene: AccountContext) -> None:
    """Letting everybody in takes both words: one alone is a slip, and nobody is let in by it."""
    if dm == "open" and EVERYBODY not in allow:
        text = "'open' lets in only whom allowFrom lists, and it does not list everybody"
        scene.findings.append(
            ConfigFinding((*scene.path, "dmPolicy"), text, 'add "*" to allowFrom, or use allowlist', False)
        )
    if dm in ("pairing", "allowlist") and EVERYBODY in allow:
        text, hint = f'"*" does nothing while dmPolicy is {dm!r}', "dmPolicy 'open' lets everybody in"
        scene.findings.append(ConfigFinding((*scene.path, "allowFrom"), text, hint, False))


def _groups(name: str, body: dict[str, Any], scene: AccountContext) -> dict[str, GroupSettings]:
    shared = body.get("requireMention") is not False
    made: dict[str, GroupSettings] = {}
    for row in list_group_rows(body):
        where: Path = (*scene.path, *row.path)
        if _named(name, row.path[-1]):
            text = "is a name, and names change hands; it fits no chat"
            scene.findings.append(ConfigFinding(where, text, "write the chat's id", fatal=False))
        own = row.body
        people = own.get("allowFrom", own.get("users"))
        mention = own.get("requireMention")
        made[row.key] = GroupSettings(
            row.on and own.get("enabled") is not False and own.get("allow") is not False,
            mention if isinstance(mention, bool) else shared,
            scene.teams.ids(people, name, where) if isinstance(people, list) else _unlisted(row, own),
            str(own.get("systemPrompt") or ""),
            scene.teams.ids(own.get("roles"), "", where),
            _word(own, "groupPolicy", GROUPS, None, where, scene.findings),
        )
    return made


def _unlisted(row: GroupRow, own: dict[str, Any]) -> tuple[str, ...] | None:
    """Who may speak in a chat that lists no people: those with a role, everybody there, or whom the account lists."""
    if isinstance(own.get("roles"), list):
        return ()
    return (EVERYBODY,) if row.all else None


def _named(channel: str, key: str | int) -> bool:
    return str(key)[:1] in NAMES.get(channel, "\0")


def _loop(written: Any) -> BotLoopSettings:
    own, usual = (written if isinstance(written, dict) else {}), BotLoopSettings()
    return BotLoopSettings(
        own.get("enabled") is not False,
        _count(own.get("maxEventsPerWindow"), usual.most) or usual.most,
        float(_count(own.get("windowSeconds"), int(usual.window))),
        float(_count(own.get("cooldownSeconds"), int(usual.rest))),
    )


def _word(
    body: Mapping[str, Any], key: str, words: tuple[T, ...], usual: U, path: Path, findings: list[ConfigFinding]
) -> T | U:
    value = body.get(key)
    if value is None or value in words:
        return cast("T", value) if value is not None else usual
    shown = ", ".join(words)
    findings.append(
        ConfigFinding((*path, key), f"{str(value)[:40]!r} is none of {shown}", suggest_nearest(str(value), words))
    )
    return usual


def _count(value: Any, usual: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return int(value) if whole else usual

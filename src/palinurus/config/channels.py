"""channels.<id> and channels.<id>.accounts.<name>: what all channels have in common, complete, one value per account.

An account's own keys go before its channel's, those before channels.defaults. What only one platform knows stays in
`own` for that channel to read. Knows no platform.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, TypeVar, cast

import msgspec

from palinurus.config.check import Finding, nearest
from palinurus.config.keypath import Path

DmPolicy: TypeAlias = Literal["pairing", "allowlist", "open", "disabled"]
GroupPolicy: TypeAlias = Literal["open", "allowlist", "disabled"]
Streaming: TypeAlias = Literal["off", "partial", "block"]
ReplyTo: TypeAlias = Literal["off", "first", "all"]
Bots: TypeAlias = Literal["off", "mentions", "on"]
T = TypeVar("T", bound=str)

DMS: tuple[DmPolicy, ...] = ("pairing", "allowlist", "open", "disabled")
GROUPS: tuple[GroupPolicy, ...] = ("open", "allowlist", "disabled")
STREAMS: tuple[Streaming, ...] = ("off", "partial", "block")
REPLIES: tuple[ReplyTo, ...] = ("off", "first", "all")


class GroupSettings(msgspec.Struct, frozen=True):
    """channels.<id>.groups.<chat>; "*" is the row for chats without their own. Tools per group: `Settings.policy`."""

    enabled: bool = True
    require_mention: bool = True
    allow_from: tuple[str, ...] | None = None  # None: the account's groupAllowFrom
    prompt: str = ""


class AccountSettings(msgspec.Struct, frozen=True):
    """One account. `own`: the platform's keys, merged; secrets in it are `Secret`."""

    channel: str
    account: str = "default"
    dm: DmPolicy = "pairing"
    allow_from: tuple[str, ...] = ()
    group: GroupPolicy = "allowlist"
    group_allow_from: tuple[str, ...] = ()
    groups: dict[str, GroupSettings] = {}
    streaming: Streaming = "off"
    blocks: bool | None = None  # blockStreaming; None: not said
    limit: int = 0  # textChunkLimit; 0: the channel's own
    newline: bool = False  # chunkMode newline: paragraphs go out one by one
    media: int = 20 * 1024 * 1024  # mediaMaxMb, in bytes
    history: int = 50  # unmentioned messages of a group kept as context
    reply_to: ReplyTo = "first"
    ack: str = ""  # ackReaction: an emoji on messages that were taken
    bots: Bots = "off"  # allowBots
    own: dict[str, Any] = {}


def accounts(
    channels: Mapping[str, dict[str, Any]], defaults: Mapping[str, Any], findings: list[Finding]
) -> dict[str, dict[str, AccountSettings]]:
    """By channel and account. A channel without `accounts` is one account, "default"."""
    return {
        name: {
            account: _account(name, account, {**defaults, **body}, path, findings)
            for account, body, path in _sections(name, section)
        }
        for name, section in channels.items()
    }


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


def _account(name: str, account: str, body: dict[str, Any], path: Path, findings: list[Finding]) -> AccountSettings:
    usual = AccountSettings(name, account)
    bots = body.get("allowBots")
    streaming = body.get("streaming")
    if isinstance(streaming, dict):
        streaming = streaming.get("mode")
    return AccountSettings(
        name,
        account,
        dm=_word(body, "dmPolicy", DMS, usual.dm, path, findings),
        allow_from=_ids(body.get("allowFrom")),
        group=_word(body, "groupPolicy", GROUPS, usual.group, path, findings),
        group_allow_from=_ids(body.get("groupAllowFrom")),
        groups=_groups(body.get("groups")),
        streaming=_word({"streaming": streaming}, "streaming", STREAMS, usual.streaming, path, findings),
        blocks=body["blockStreaming"] if isinstance(body.get("blockStreaming"), bool) else None,
        limit=_count(body.get("textChunkLimit"), 0),
        newline=body.get("chunkMode") == "newline",
        media=_count(body.get("mediaMaxMb"), 20) * 1024 * 1024,
        history=_count(body.get("historyLimit"), usual.history),
        reply_to=_word(body, "replyToMode", REPLIES, usual.reply_to, path, findings),
        ack=str(body.get("ackReaction") or ""),
        bots="mentions" if bots == "mentions" else "on" if bots is True else "off",
        own=body,
    )


def _groups(written: Any) -> dict[str, GroupSettings]:
    found: dict[str, GroupSettings] = {}
    for ident, body in written.items() if isinstance(written, dict) else ():
        section = body if isinstance(body, dict) else {}
        found[str(ident)] = GroupSettings(
            section.get("enabled") is not False,
            section.get("requireMention") is not False,
            _ids(section["allowFrom"]) if isinstance(section.get("allowFrom"), list) else None,
            str(section.get("systemPrompt") or ""),
        )
    return found


def _ids(written: Any) -> tuple[str, ...]:
    """Ids as texts; numbers are what JSON made of them."""
    values = written if isinstance(written, list) else []
    return tuple(str(v) for v in values if isinstance(v, (str, int)) and not isinstance(v, bool))


def _word(body: Mapping[str, Any], key: str, words: tuple[T, ...], usual: T, path: Path, findings: list[Finding]) -> T:
    value = body.get(key)
    if value is None or value in words:
        return cast("T", value) if value is not None else usual
    shown = ", ".join(words)
    findings.append(Finding((*path, key), f"{str(value)[:40]!r} is none of {shown}", nearest(str(value), words)))
    return usual


def _count(value: Any, usual: int) -> int:
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return int(value) if whole else usual

"""What a channel's factory is given: its settings, and the parts of the program that it may use."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeAlias

from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.config.sections.channels import AccountSettings
from palinurus.core.types.channel import (
    ChannelAbilities,
    ChannelAction,
    ChannelHttpRequest,
    ChannelHttpResponse,
    ChannelState,
    ChannelStatus,
    SendFailure,
    SendReceipt,
    SendResult,
    SubmitInbound,
)
from palinurus.core.types.inbound import Attachment, Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError, Problem

# A small table that outlives the process, in one record: its last rows, the newest at the end.


class MemoTable:
    """At most `most` rows. Read once, then in memory; written whole when a row changes."""

    def __init__(self, memo: AccountMemo, key: str, most: int) -> None:
        self._memo = memo
        self._key = key
        self._most = most
        self._rows: dict[str, Any] | None = None

    async def rows(self) -> dict[str, Any]:
        if self._rows is None:
            kept = await self._memo.get(self._key)
            if self._rows is None:  # somebody else may have read it meanwhile
                self._rows = dict(json.loads(kept)) if kept else {}
        return self._rows

    async def put(self, name: str, value: Any) -> None:
        """On disk when this returns."""
        rows = await self.rows()
        rows.pop(name, None)
        rows[name] = value
        while len(rows) > self._most:
            rows.pop(next(iter(rows)))
        await self._memo.put(self._key, json.dumps(rows).encode())


# What a channel answers for all it cannot do. Channels inherit from it and say only what they can.


class BasicChannel:
    """The part of `Channel` that has a sensible default: no acts, no read-back, no requests."""

    name = ""
    dedupes = False
    abilities = ChannelAbilities()

    def __init__(self) -> None:
        self._status = ChannelStatus("starting")

    def set_status(self, state: ChannelState, detail: str = "", me: str = "") -> None:
        """How the connection is from now on."""
        self._status = ChannelStatus(state, detail, me or self._status.me)

    def status(self) -> ChannelStatus:
        return self._status

    async def find(self, reply: Reply) -> SendReceipt | None:
        return None

    async def act(self, target: Target, act: ChannelAction) -> SendResult:
        return SendFailure(f"{self.name} cannot do that", "refused")

    async def hook(self, request: ChannelHttpRequest, submit: SubmitInbound) -> ChannelHttpResponse:
        return ChannelHttpResponse(404, b"this channel takes no requests\n")


class ChannelFile(NamedTuple):
    """A file to be sent."""

    name: str
    mime: str
    data: bytes


class ChannelMedia(Protocol):
    """Files in and out. Both answer with a text for people when it does not work; neither raises."""

    async def save(self, name: str, mime: str, data: bytes | AsyncIterable[bytes]) -> Attachment | str:
        """Keep a file that came in, within the account's size limit (read no further than that)."""
        ...

    async def load(self, source: str, most: int) -> ChannelFile | str:
        """A file of the workspace, or one behind an address (through the one door), at most `most` bytes."""
        ...


class AccountMemo(Protocol):
    """Small records of this account that outlive the process: where we were in the platform's stream, and the like."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, data: bytes) -> None:
        """On disk when this returns."""
        ...


# Would a turn come of this message? Asked before its files are fetched; asking changes nothing.
WantsTurn: TypeAlias = Callable[[Inbound], Awaitable[bool]]


class ChannelKit(NamedTuple):
    """For one account. `own` is its section of the config, the account's keys over the
    channel's; secrets are `Secret`."""

    settings: AccountSettings
    own: Mapping[str, Any]
    clock: Clock
    media: ChannelMedia
    memo: AccountMemo
    folder: str  # for what a library keeps itself; made by whoever writes there first
    wanted: WantsTurn  # used by `channels/files.py`
    commands: tuple[tuple[str, str], ...] = ()  # (name, what it does) for the platform's own menu

    @property
    def account(self) -> str:
        return self.settings.account

    def secret(self, key: str) -> Secret:
        """A secret of the account. Raises ConfigError when it is not set."""
        found = self.own.get(key)
        if isinstance(found, str):
            found = Secret(found)
        if not isinstance(found, Secret) or not found:
            where = f"channels.{self.settings.channel}"
            if self.account != "default":
                where += f".accounts.{self.account}"
            raise ConfigError(
                (Problem(f"{where}.{key}", "is missing", hint="set it, best as ${NAME} of the environment"),)
            )
        return found

    def text(self, key: str, usual: str = "") -> str:
        """A text of the account's section, or the usual one."""
        found = self.own.get(key)
        return found if isinstance(found, str) and found else usual

"""What a channel is made with and from: `ChannelKit` is what its factory is given (settings, and the parts of the
program it may use), `BasicChannel` answers for all that a channel cannot do, `AccountChannel` stays connected.

Knows no platform. What is handed in, and how, is `intake.py`.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

import msgspec

from palinurus.backoff import Backoff
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.config.sections.channels import AccountSettings
from palinurus.core.policy.address import AddressRefusal, parse_url
from palinurus.core.types import channel
from palinurus.core.types.channel import ChannelState, ChannelStatus, SendFailure, SendReceipt, SendResult, SendTrouble
from palinurus.core.types.inbound import Attachment, Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError, Problem
from palinurus.tasks import TaskSet

log = logging.getLogger(__name__)

K = TypeVar("K")
V = TypeVar("V")

PASSING = ("down", "cut", "limited", "signed_out")  # troubles that another try can be free of
LOCAL_HOSTS = ("127.0.0.1", "::1", "localhost")  # to these a password may travel readable
READABLE_PASSWORD = "without it the password can be read on the way"
READY = 150  # looks, a fifth of a second apart, whether there is a connection
OVERRUN_NOTICE = "That was more at once than I can keep. Please send the last messages again when I have answered."


class ChannelFile(msgspec.Struct, frozen=True):
    """A file to be sent."""

    name: str
    mime: str
    data: bytes


class ChannelMedia(Protocol):
    """Files in and out. All answer with a text for people when it does not work; none raises."""

    async def save(self, name: str, mime: str, data: bytes | AsyncIterable[bytes]) -> Attachment | str:
        """Keep a file that came in, within the account's size limit (read no further than that)."""
        ...

    async def offer(self, name: str, data: bytes) -> str:
        """Let other nodes of a fleet have it, too; "" or why not. `name` is used once."""
        ...

    async def find_offered(self, name: str) -> bytes | None:
        """What another node offered."""
        ...

    async def load(self, source: str, most: int) -> ChannelFile | str:
        """A file of the workspace, or one behind an address (through the one egress guard), at most `most` bytes."""
        ...


class AccountMemo(Protocol):
    """Small records of this account that outlive the process: where we were in the platform's stream, and the like."""

    async def get(self, key: str) -> bytes | None: ...

    async def put(self, key: str, data: bytes | None) -> None:
        """On disk when this returns. None: there is none any more."""
        ...


# Would a turn come of this message? Asked before its files are fetched; asking changes nothing.
WantsTurn: TypeAlias = Callable[[Inbound], Awaitable[bool]]


class ChannelKit(msgspec.Struct, frozen=True):
    """For one account. `own` is its section of the config, the account's keys over the channel's; secrets are
    `Secret`. What is of the wrong kind there counts as not set."""

    settings: AccountSettings
    own: Mapping[str, Any]
    clock: Clock
    media: ChannelMedia
    memo: AccountMemo
    folder: str  # for what a library keeps itself; made by whoever writes there first
    wanted: WantsTurn  # used by `intake.fetch_message_files`
    commands: tuple[tuple[str, str], ...] = ()  # (name, what it does) for the platform's own menu

    @property
    def account(self) -> str:
        return self.settings.account

    @property
    def menu(self) -> tuple[tuple[str, str], ...]:
        """`commands`, unless the config wants none of them in the platform's menu."""
        return self.commands if self.settings.native else ()

    def wrong(self, *keys: str, what: str = "is missing", hint: str = "") -> ConfigError:
        """The error that names these keys of the account."""
        account = "" if self.account == "default" else f".accounts.{self.account}"
        where = f"channels.{self.settings.channel}{account}"
        return ConfigError(tuple(Problem(f"{where}.{key}", what, hint=hint) for key in keys))

    def secret(self, key: str) -> Secret:
        """A secret of the account. Raises ConfigError when it is not set."""
        found = read_secret(self.own.get(key))
        if not found.reveal().strip():  # what is signed with nothing, anybody can sign
            raise self.wrong(key, hint="set it, best as ${NAME} of the environment")
        return found

    def secret_or_file(self, key: str, file: str) -> Secret:
        """A secret of the account, or of the file that another key names. Raises ConfigError."""
        path = self.text(file)
        if not path:
            return self.secret(key)
        try:
            with open(os.path.expanduser(path), encoding="utf-8") as source:
                found = source.read(20_000).strip()
        except (OSError, UnicodeDecodeError) as exc:
            raise self.wrong(file, what=f"cannot be read: {exc}") from exc
        if not found:
            raise self.wrong(file, what="names an empty file")
        return Secret(found)

    def text(self, key: str, usual: str = "") -> str:
        """A text of the account's section, or the usual one."""
        found = self.own.get(key)
        return found if isinstance(found, str) and found else usual

    def address(self, key: str, form: str = "https://…") -> str:
        """The address of somebody's own server, without a slash at its end. Raises ConfigError."""
        found = self.text(key).rstrip("/")
        if not found or isinstance(parse_url(found), AddressRefusal):
            raise self.wrong(key, what=f"must be the server's address, {form}")
        return found

    def texts(self, key: str) -> list[str]:
        """A list of the account's section; [] if there is none."""
        found = self._typed(key, (list, dict), "must be a list")  # by name: settings of single groups
        return [str(one) for one in found] if isinstance(found, list) else []

    def flag(self, key: str, usual: bool) -> bool:
        """True or false, or the usual."""
        found = self._typed(key, bool, "must be true or false")
        return usual if found is None else bool(found)

    def number(self, key: str, usual: float, least: float = 0.01) -> float:
        """A number from `least` on, or the usual one."""
        found = self._typed(key, (int, float), "must be a number")
        return float(found) if found is not None and found >= least else usual

    def _typed(self, key: str, kind: type | tuple[type, ...], what: str) -> Any:
        """None if it is not there. Raises ConfigError for anything else than `kind`: a value that is passed over in
        silence is worse than a channel that says why it is off."""
        found = self.own.get(key)
        if found is not None and (not isinstance(found, kind) or (isinstance(found, bool) and kind is not bool)):
            raise self.wrong(key, what=what)
        return found

    def section(self, key: str) -> Mapping[str, Any]:
        """A mapping in the account's section; {} if there is none."""
        found = self.own.get(key)
        return found if isinstance(found, Mapping) else {}


def read_secret(value: object) -> Secret:
    """A secret of a config, however it is written there; an empty one if it is none."""
    return value if isinstance(value, Secret) else Secret(value) if isinstance(value, str) else Secret()


def decode_object(data: bytes | str) -> dict[str, Any]:
    """What a stranger sent, as a JSON object; {} if it is none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def index_troubles(table: Mapping[SendTrouble, Iterable[K]]) -> dict[K, SendTrouble]:
    """What each code means, out of which codes mean the same."""
    return {code: trouble for trouble, codes in table.items() for code in codes}


def read_seconds(written: Any, usual: float) -> float:
    """How long a platform wants us to wait, as it wrote it."""
    try:
        return max(float(written), 0.0)
    except (TypeError, ValueError):
        return usual


async def load_reply_files(
    kit: ChannelKit, reply: Reply, most: int, *, together: bool = False
) -> list[ChannelFile] | SendFailure:
    """The files of a reply, each of at most `most` bytes; with `together` all of them."""
    files: list[ChannelFile] = []
    for source in reply.media:
        file = await kit.media.load(source, most - sum(len(one.data) for one in files) if together else most)
        if isinstance(file, str):
            return SendFailure(file, "media")
        files.append(file)
    return files


class RecentDict(dict[K, V]):
    """The `most` keys that were set last; older ones are forgotten."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.pop(key, None)
        super().__setitem__(key, value)
        while len(self) > self._most:
            del self[next(iter(self))]


class MemoTable:
    """A small table that outlives the process, in one record: its last `most` rows, the newest at the end. Read once,
    then in memory; written whole when a row changes."""

    def __init__(self, memo: AccountMemo, key: str, most: int) -> None:
        self._memo = memo
        self._key = key
        self._most = most
        self._rows: RecentDict[str, Any] | None = None

    async def rows(self) -> dict[str, Any]:
        if self._rows is None:
            kept = await self._memo.get(self._key)
            if self._rows is None:  # somebody else may have read it meanwhile
                self._rows = RecentDict(self._most)
                self._rows.update(json.loads(kept) if kept else {})
        return self._rows

    async def put(self, name: str, value: Any) -> None:
        """On disk when this returns."""
        rows = await self.rows()
        rows[name] = value
        await self._memo.put(self._key, json.dumps(rows).encode())

    async def remove(self, name: str) -> None:
        """On disk when this returns."""
        if (await self.rows()).pop(name, None) is not None:
            await self._memo.put(self._key, json.dumps(self._rows).encode())


class BasicChannel:
    """The part of `Channel` that has a sensible default: no acts, no read-back, no requests."""

    name = ""
    dedupes = False
    abilities = channel.ChannelAbilities()

    def __init__(self) -> None:
        self._status = ChannelStatus("starting")

    def set_status(self, state: ChannelState, detail: str = "", me: str = "") -> None:
        """How the connection is from now on."""
        self._status = ChannelStatus(state, detail, me or self._status.me)

    def status(self) -> ChannelStatus:
        return self._status

    async def find(self, reply: Reply) -> SendReceipt | None:
        return None

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        return SendFailure(f"{self.name} cannot do that", "refused")

    async def hook(
        self, request: channel.ChannelHttpRequest, submit: channel.SubmitInbound
    ) -> channel.ChannelHttpResponse:
        return channel.ChannelHttpResponse(404, b"this channel takes no requests\n")


class AccountChannel(BasicChannel):
    """One account on a platform that a connection leads to."""

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__()
        self._kit = kit
        self._backoff = Backoff()
        self._notices = TaskSet(f"{self.name}: a notice")

    async def send(self, reply: Reply) -> SendResult:
        raise NotImplementedError

    async def keep_connected(self, attempt: Callable[[], Awaitable[SendFailure]], recheck: float = 0.0) -> None:
        """Connect again whenever `attempt` returns, which is one connection up to its end and why it ended. Ends when
        we are signed out; with `recheck` it goes on then too (and when we are refused), after so many seconds."""
        while True:
            ended = await attempt()
            signed_out, refused = ended.trouble == "signed_out", bool(recheck) and ended.trouble == "refused"
            self.set_status("signed_out" if signed_out else "failed" if refused else "reconnecting", ended.reason)
            if signed_out and not recheck:
                log.error("%s, account %s: %s", self.name, self._kit.account, ended.reason)
                return
            log.info("%s, account %s: %s; again soon", self.name, self._kit.account, ended.reason)
            usual = recheck if signed_out or refused else self._backoff.next_delay()
            await self._kit.clock.sleep(ended.retry_after or usual)

    async def wait_ready(self) -> bool:
        """Is there a connection? After a start one is waited for: who looks something up then must not guess."""
        for _ in range(READY):
            if self._status.state == "ready":
                return True
            await self._kit.clock.sleep(0.2)
        return False

    def tell_overrun(self, target: Target, event: str) -> None:
        """Somebody writes faster than his messages can be kept: he is told once, beside everything else."""
        log.warning("%s, account %s: too many messages in %s", self.name, self._kit.account, target.to)
        self._notices.start(self.send(Reply(target, OVERRUN_NOTICE, f"full-{event}", "notice")))


class ChannelPosts(Protocol):
    """Who writes for a channel: the part of `Channel` that is about messages of ours."""

    async def send(self, reply: Reply) -> SendResult: ...

    async def find(self, reply: Reply) -> SendReceipt | None: ...

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult: ...


class PostingChannel(AccountChannel):
    """One that reads, and has another to write."""

    _posts: ChannelPosts

    async def send(self, reply: Reply) -> SendResult:
        return await self._posts.send(reply)

    async def find(self, reply: Reply) -> SendReceipt | None:
        return await self._posts.find(reply)

    async def act(self, target: Target, act: channel.ChannelAction) -> SendResult:
        return await self._posts.act(target, act)

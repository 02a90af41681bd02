"""Plays a tape again: the real App in a scratch home, the same turn from claim to settlement, with models, tools,
hooks, time and chance from the tape and no way to the network. What comes of it is a tape too.

The configuration and the workspace's files are those of now (with `frozen`: the files of then). Nothing is written but
in the scratch home; the conversation before the run is read from the home that recorded it.
"""

from __future__ import annotations

import asyncio
import glob
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

import msgspec

from palinurus.abort import Abort
from palinurus.agent.mailbox import Mailbox
from palinurus.agent.tapes.play import PlayRules, TapePlayer
from palinurus.agent.tapes.tape import Tape, TapeHead, TapeTool, decode_tape, read_tape
from palinurus.agent.turn import ClaimedMessage
from palinurus.app.program import App
from palinurus.beneath import create_file_beneath, read_file_beneath
from palinurus.channels.kit import BasicChannel
from palinurus.clock import SystemClock
from palinurus.config.sections.approvals import APPROVALS_FILE
from palinurus.config.sections.mcp import McpSettings
from palinurus.config.sections.session import RecordSettings
from palinurus.config.settings import Settings
from palinurus.core.types.channel import Channel, ChannelAbilities, SendFailure, SendResult, SubmitInbound
from palinurus.core.types.events import RunEvent
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelEvent, ModelFailure, ModelRequest, StopSignal
from palinurus.core.types.outbound import Reply
from palinurus.core.types.tool import Tool, ToolOutput, make_output
from palinurus.errors import BadRequest, NotFound
from palinurus.files import open_plain_file, write_whole_file
from palinurus.plugins.api import PluginContributions
from palinurus.providers.errors import make_failed
from palinurus.sessions.transcript import read_transcript
from palinurus.store.factory import find_shared_store, open_reader
from palinurus.store.port import InboxItem, SessionRow

LIMIT = 120.0  # seconds that a replay may take
WAYS_OUT = ("socket.connect", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo", "socket.bind")
LINKED = (APPROVALS_FILE, "skills", "models")  # what is only read, and may be large
COPIED = 200 << 20  # bytes of a workspace that tools may change in a copy


class ReplayWorld(msgspec.Struct, frozen=True):
    """What it is played in: the configuration of now, and what a program brings along that embeds us."""

    settings: Settings
    environ: Mapping[str, str]
    raw: dict[str, Any] | None = None
    given: PluginContributions | None = None


class ReplayBranch(msgspec.Struct, frozen=True):
    """What is to be otherwise, from a model call on: who is asked, what it is told, tools that run."""

    rules: PlayRules = PlayRules()
    model: str = ""


class SilentModel:
    """A model that is never asked: everything is on the tape."""

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        yield make_failed(request, ModelFailure("config", "a replay asks no model"))


class _Nobody:
    """An audience that sees nothing."""

    def show(self, event: RunEvent) -> None: ...

    def absorbed(self, items: tuple[str, ...]) -> None: ...


class QuietChannel(BasicChannel):
    """A chat of which only the abilities are known. Nothing is sent there."""

    def __init__(self, name: str, abilities: ChannelAbilities) -> None:
        super().__init__()
        self.name = name
        self.abilities = abilities

    async def run(self, submit: SubmitInbound) -> None:
        """Nobody writes."""

    async def send(self, reply: Reply) -> SendResult:
        return SendFailure("a replay sends nothing", "refused")


class NetworkGuard:
    """Refuses every way out while it is closed, and remembers who tried."""

    def __init__(self) -> None:
        self.closed = False
        self.tried: list[str] = []
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if self.closed and event in WAYS_OUT:
            where = args[1] if len(args) > 1 and event != "socket.getaddrinfo" else args[0]
            if where is None:  # to the other end of a pair of our own
                return
            self.tried.append(f"{event} {where!r}")
            raise ConnectionRefusedError(f"a replay is offline ({event} {where!r})")


@cache
def get_network_guard() -> NetworkGuard:
    """The one of this process: what hears of sockets cannot be taken away again."""
    return NetworkGuard()


@contextmanager
def close_sockets() -> Iterator[list[str]]:
    """Nothing inside reaches anybody, in the whole process. Gives the list of what was tried."""
    guard = get_network_guard()
    guard.closed, guard.tried = True, []
    try:
        yield guard.tried
    finally:
        guard.closed = False


async def play_tape(tape: Tape, world: ReplayWorld, branch: ReplayBranch = ReplayBranch()) -> Tape:  # noqa: B008
    """What comes of the same message now. Raises NotFound when the conversation before it is gone, BadRequest when the
    run did not end."""
    with tempfile.TemporaryDirectory(prefix="pal-replay-", ignore_cleanup_errors=True) as root:
        return await _play(tape, world, branch, os.path.realpath(root))


async def _play(tape: Tape, world: ReplayWorld, branch: ReplayBranch, root: str) -> Tape:
    head, rules = tape.head, branch.rules
    _link_state(world.settings.home, root)
    channels: dict[str, Channel] = {name: QuietChannel(name, able) for name, able in head.channels.items()}
    settings = _fit_settings(world.settings, root, head, copy=rules.live_tools)
    app = App(
        settings,
        world.environ,
        SystemClock(),
        model=None if rules.live_from else SilentModel(),
        channels=channels,
        raw=world.raw,
        given=world.given,
    )
    app.catalog.ollama, app.catalog.windows, app.probes = head.ollama, head.windows, bool(rules.live_from)
    await app.open()
    try:
        _copy_conversation(tape, world.settings.home, root)  # now: a file that nobody knew would be taken up
        message = await _prepare_app(app, tape)
        if branch.model:
            message = _choose_model(app, message, branch.model)
        app.tapes.player = TapePlayer(tape, rules)
        app.tapes.home = head.home
        await asyncio.wait_for(app.turns.turn(message, Abort(), Mailbox(), _Nobody()), LIMIT)
        played = app.tapes.played
    finally:
        await app.stop()
    if played is None or not played.whole:
        raise BadRequest(f"the run of {head.item} did not end" + (f": {played.broken}" if played else ""))
    names = {root: head.home, **{a.workspace: world.settings.agents[i].workspace for i, a in settings.agents.items()}}
    return decode_tape(played.encode(app.tapes.secrets, _Names(names)))


class _Names:
    """Puts the folders of then in the place of those it was played in."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = [(new.encode(), old.encode()) for new, old in names.items() if new != old]

    def __call__(self, text: bytes) -> bytes:
        for new, old in sorted(self._names, key=lambda pair: -len(pair[0])):
            text = text.replace(new, old)
        return text


def load_tape(home: str, item: str) -> Tape:
    """To be played: with the conversation before it, where a replay with sockets closed does not reach. Raises what
    `read_tape` and `open_reader` raise."""
    tape = read_tape(home, item)
    if tape.head.size and find_shared_store(home):
        with open_reader(home) as reader:
            tape.before = reader.read_lines(tape.head.transcript, tape.head.size)
    return tape


def _copy_conversation(tape: Tape, home: str, root: str) -> None:
    """As it was before the run. Raises NotFound."""
    if (head := tape.head).size:
        data = tape.before if len(tape.before) == head.size else _read_before(head, home)
        file = os.path.join(root, head.transcript)
        os.makedirs(os.path.dirname(file), mode=0o700, exist_ok=True)
        write_whole_file(file, data, sync=False)  # our own
        if read_transcript(file).leaf != head.leaf:
            raise NotFound(f"the conversation before {head.item} is not as it was", fix="record the run again")


def _link_state(home: str, root: str) -> None:
    """What a plan looks at in the home, besides the configuration."""
    for name in (*LINKED, *glob.glob("agents/*/agent/auth-profiles.json", root_dir=home)):
        if os.path.exists(os.path.join(home, name)):
            os.makedirs(os.path.dirname(os.path.join(root, name)), mode=0o700, exist_ok=True)
            os.symlink(os.path.join(home, name), os.path.join(root, name))


def _read_before(head: TapeHead, home: str) -> bytes:
    """As many bytes of the transcript as there were; also of one that was put away since. Raises NotFound."""
    path = os.path.join(home, head.transcript)
    for name in (path, *sorted(glob.glob(glob.escape(path) + ".*"))):
        try:
            with open_plain_file(name) as file:  # our own
                data = file.read(head.size)
        except OSError:
            continue
        if len(data) == head.size:
            return data
    raise NotFound(
        f"the conversation before {head.item} is gone ({head.transcript})",
        fix="it was deleted or compacted since; `pal trace` still shows what was recorded",
    )


def _fit_settings(settings: Settings, root: str, head: TapeHead, *, copy: bool) -> Settings:
    """The same with another home: no servers, no chats but the one it came from; tools that run get a copy of the
    workspace. Raises BadRequest when that is too large."""
    agents = dict(settings.agents)
    if copy:
        agent = agents[head.route.agent]
        _copy_workspace(agent.workspace, os.path.join(root, "workspace"))
        agents[agent.id] = msgspec.structs.replace(agent, workspace=os.path.join(root, "workspace"))
    return msgspec.structs.replace(
        settings, home=root, agents=agents, mcp=McpSettings(), record=RecordSettings(), channels={}
    )


def _copy_workspace(source: str, target: str) -> None:
    """Its plain files. Raises BadRequest when they are too many."""
    os.makedirs(target, mode=0o700)
    left = COPIED
    for folder, _, files in os.walk(source):
        for name in files:
            inner = os.path.relpath(os.path.join(folder, name), source)
            try:
                data = read_file_beneath(source, inner, COPIED)
            except OSError:  # a link, a pipe: not for a copy
                continue
            left -= len(data)
            if left < 0:
                raise BadRequest(
                    f"{source} is too large to be copied for --live-tools ({COPIED:,} bytes at most)",
                    fix="play it with the recorded results: leave --live-tools out",
                )
            create_file_beneath(target, inner, data)


async def _prepare_app(app: App, tape: Tape) -> ClaimedMessage:
    """The session's row, the message's, those of what was steered in; tools and hook points that are not here now."""
    head = tape.head
    row = next((step.given for step in tape.steps if step.kind == "value" and step.name == "session"), None)
    if row is not None:
        await app.store.save_session(msgspec.convert(row, SessionRow))
    item = InboxItem(head.item, head.item, head.claim.session, lane=head.claim.lane, body=b"{}", at=head.claim.at)
    claim = (await app.store.accept(item, claim=True)).claim
    assert claim is not None  # nothing else is there
    for step in tape.steps:
        if step.kind == "steer":
            for _, ident in msgspec.convert(step.given, list[tuple[UserMessage, str]]):
                await app.store.accept(msgspec.structs.replace(item, id=ident, dedupe=ident), claim=False)
    tools, own = app.tools, {tool.name for tool in head.inbound.options.client_tools}
    for told in head.tools:
        here = tools.get(told.name)
        if told.name not in own and (here is None or here.missing):
            tools[told.name] = _make_tool(told, here.summary if here else None)
    app.offers.forget()
    for point in head.points:
        if not app.hooks.has(point):
            app.hooks.on(point, lambda payload: None)
    claim = msgspec.structs.replace(claim, attempts=head.claim.attempts, at=head.claim.at)
    return ClaimedMessage(claim, head.inbound, head.route, head.inline, typed=head.typed)


def _make_tool(told: TapeTool, summary: Callable[[dict[str, Any]], str] | None) -> Tool:
    """One that this machine does not have now: a tool server's, a node's."""

    async def run(ctx: object, **args: object) -> ToolOutput:
        return make_output(f"{told.name} is not here now", error=True)

    return Tool(**msgspec.structs.asdict(told), run=run, summary=summary)


def _choose_model(app: App, message: ClaimedMessage, name: str) -> ClaimedMessage:
    """Raises BadRequest."""
    found = app.catalog.find(name, app.settings.agents[message.route.agent])
    if isinstance(found, ModelFailure):
        raise BadRequest(f"--model {name}: {found.message}")  # it says where they are listed
    options = msgspec.structs.replace(message.inbound.options, model=name)
    return msgspec.structs.replace(message, inbound=msgspec.structs.replace(message.inbound, options=options))

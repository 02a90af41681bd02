"""The table of running commands: who started which, what is on disk of them, and who is told when one ends.

A session sees its own only. The end of a background command is told once: by the result of a process call that shows
it, or by a notice that wakes the session. Killed gateways leave records and strays; `recover` sees to both.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import signal
from collections.abc import Awaitable, Callable, Container
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import msgspec

from palinurus.clock import Clock, SystemClock
from palinurus.config.sections.tools import ProcessSettings
from palinurus.core.text import cut_end
from palinurus.core.types.inbound import NO_OPTIONS, Inbound
from palinurus.core.types.node import OpenNodes
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import StateError
from palinurus.late import load_part
from palinurus.tasks import TaskSet
from palinurus.tools.commands.look import LookDoor
from palinurus.tools.commands.record import GRACE, MARK_VARIABLE, CommandRecord, CommandRecords, make_mark

if TYPE_CHECKING:  # loaded with the first command
    from palinurus.tools.commands.running import CommandJob, RunningCommand

log = logging.getLogger(__name__)

RUNNING = 32  # of one session
FINISHED = 64  # altogether; the oldest are forgotten first
STOP_GRACE = 2.0  # seconds between SIGTERM and SIGKILL when the gateway stops
SETTLED = 0.25  # seconds after which a command that is waited for gets a record too
SNIPPET = 180
LOGGED = 20_000  # characters of what a command has printed that people see
# Names for running commands: two short words, eight characters at most, so that a short notice holds all of it.
_HOW = (
    "able bold blue busy calm cool cozy cute dark deep easy even fair fast fine firm fond free full glad gold good "
    "gray hale hazy icy keen kind late lazy long loud lush mild mint neat next nice oak odd open pale pink plum pure "
    "quick rapid rare rich ripe rosy safe shy slim slow snug soft sure swift tall tame tan tidy tiny true vast warm "
    "wavy wee wide wild wise zesty"
)
_WHAT = (
    "ant ape bat bay bee bow box bug cat cod cow cub dew doe dog eel elk elm emu fig fin fir fly fog fox gem gnu hen "
    "hut ivy jay kit koi lark leaf lynx mole moon moth newt oak orca owl pea pike pine pug ram ray reef sea seal sky "
    "sun tern tide toad wasp wave wolf wren yak"
)
NAME_LENGTH = 8


def make_command_name(taken: Container[str]) -> str:
    """A name nobody has; a number is added only when the words have run out."""
    how, what = _HOW.split(), _WHAT.split()
    for _ in range(50):
        name = f"{secrets.choice(how)}-{secrets.choice(what)}"
        if len(name) <= NAME_LENGTH and name not in taken:
            return name
    while True:
        name = f"{secrets.choice(what)}-{secrets.randbelow(10_000)}"
        if name not in taken:
            return name


class CommandNotice(msgspec.Struct, frozen=True):
    """What a session is to be told. One `key`, one message."""

    key: str
    session: str
    agent: str
    asker: Inbound
    text: str


class CommandRow(msgspec.Struct, frozen=True):
    """A command as it stands, for those who look from outside."""

    id: str
    session: str
    agent: str
    command: str
    cwd: str
    pid: int
    started: int
    ms: int
    status: str
    code: int | None
    background: bool
    pty: bool
    waiting: bool


# True once the message is on disk; False: not now, it will be told at the next start.
Tell = Callable[[CommandNotice], Awaitable[bool]]


class CommandTable:
    """All commands that run or have run a short while ago."""

    def __init__(
        self,
        settings: ProcessSettings | None = None,
        clock: Clock | None = None,
        records: CommandRecords | None = None,
        tell: Tell | None = None,
        door: LookDoor | None = None,
        nodes: OpenNodes | None = None,
    ) -> None:
        """`door`: through which commands may ask about the program that starts them; `nodes`: the other machines."""
        self.settings = settings or ProcessSettings()
        self._clock = clock or SystemClock()
        self._records = records or CommandRecords()
        self._tell = tell
        self.door = door
        self.nodes = nodes
        self._held: dict[str, RunningCommand] = {}
        self._tasks = TaskSet("telling a session of a command")
        self._closing = False

    # for the tools

    async def start(self, job: CommandJob, *, background: bool) -> RunningCommand:
        """Start it. A background command is on disk before it runs. Raises OSError, ToolFailure."""
        self._sweep()
        if self._closing:
            raise ToolFailure("the gateway is stopping; nothing new is started")
        if sum(h.running for h in self._held.values() if h.job.session == job.session) >= RUNNING:
            raise ToolFailure(f"{RUNNING} commands of this session are running; end one first (process, action kill)")
        ident = make_command_name(self._held)
        if not job.spec.mark:
            job = msgspec.structs.replace(job, spec=msgspec.structs.replace(job.spec, mark=make_mark()))
        try:
            if background:
                await self._records.put(self._record(ident, job, background=True))
            job.check()
            held: RunningCommand = load_part("command")(ident, job, self._over)
            if background:
                held.child.mark_lasting()
            await held.wait_started()
        except BaseException:
            if background:
                await self._records.drop(job.spec.mark)
            raise
        held.background = held.recorded = background
        self._held[ident] = held
        if not background:
            asyncio.get_running_loop().call_later(SETTLED, self._settled, held)
        return held

    async def release(self, held: RunningCommand) -> None:
        """From now on it goes on without the call that started it; that is on disk first."""
        held.background = held.recorded = True
        held.child.mark_lasting()
        await self._written(held)

    def find(self, session: str, ident: str) -> RunningCommand | None:
        """One of the session's own, in the background or finished there."""
        self._sweep()
        held = self._held.get(ident.strip())
        return held if held is not None and held.background and held.job.session == session else None

    def list_of_session(self, session: str) -> list[RunningCommand]:
        """All of the session's own, oldest first."""
        self._sweep()
        return [h for h in self._held.values() if h.background and h.job.session == session]

    def hold_still(self, roots: tuple[str, ...]) -> AbstractContextManager[None]:
        """While it is open, no contained command that can write in these folders goes on."""
        hold: Callable[..., AbstractContextManager[None]] = load_part("command-exposure")
        return hold(tuple(self._held.values()), roots)

    def forget(self, held: RunningCommand) -> None:
        """Remove a finished one from the table."""
        self._held.pop(held.id, None)

    # for everybody else

    def all(self) -> tuple[CommandRow, ...]:
        """What runs and what ran, of all sessions."""
        self._sweep()
        return tuple(_row(held) for held in self._held.values())

    def end(self, ident: str) -> bool:
        """End one for a person, with all it had started. False: it does not run here."""
        held = self._held.get(ident)
        if held is None or not held.running:
            return False
        held.end("killed")
        return True

    def read_end(self, ident: str) -> str:
        """The end of what one has printed; "" if it is not here."""
        held = self._held.get(ident)
        return held.kept.tail(LOGGED) if held is not None else ""

    async def recover(self) -> int:
        """At start: end what a killed gateway left running, tell the sessions that asked. Returns how many."""
        records = await self._records.all()
        marks = tuple(f"{MARK_VARIABLE}={r.mark}" for r in records)
        strays: Any = load_part("command-strays") if marks else None
        found = await asyncio.to_thread(strays.find_strays, marks) if marks else set()
        if found:
            log.warning("%d processes of commands from before the restart are ended", len(found))
            await asyncio.to_thread(strays.signal_each, found, signal.SIGTERM)
            await self._clock.sleep(GRACE)
            again = await asyncio.to_thread(strays.find_strays, marks)
            await asyncio.to_thread(strays.signal_each, found | again, signal.SIGKILL)
        await self._end_left(records)
        return len(records)

    async def tell_lost(self, alive: Container[str]) -> int:
        """In a fleet: tell the sessions of commands whose node is gone. Any node may; one key makes one message."""
        records = await self._records.list_lost(alive)
        await self._end_left(records)
        return len(records)

    async def _end_left(self, records: list[CommandRecord]) -> None:
        for record in records:
            text = record.notice or (_unknown(record) if record.background else "")
            if record.notify and text:
                self._tasks.start(self._told(record, text))
            else:
                await self._records.drop(record.mark)

    async def close(self, grace: float = STOP_GRACE) -> None:
        """End all that runs. Sessions hear of it after the next start."""
        self._closing = True
        running = [held for held in self._held.values() if not held.task.done()]
        for held in running:
            held.end("stopped", grace)
        if running:
            await asyncio.wait([held.task for held in running], timeout=grace + 5)
        await self._tasks.close()
        if self.door is not None:
            await self.door.close()

    # the end of one

    async def _over(self, held: RunningCommand) -> None:
        held.finished = self._clock.monotonic()
        if not held.background:
            self._held.pop(held.id, None)
            if held.recorded:
                await self._dropped(held.job.spec.mark)
            return
        await self._ended(held)

    async def _ended(self, held: RunningCommand) -> None:
        await held.alone.wait()  # whoever waits for it is told first
        mark = held.job.spec.mark
        text = "" if held.seen else self._notice(held)
        if not text:
            await self._dropped(mark)
            return
        record = msgspec.structs.replace(self._record(held.id, held.job, background=True), notice=text)
        try:
            await self._records.put(record)
        except StateError as exc:
            log.error("the end of command %s cannot be written down: %s", held.id, exc.message)
        if not self._closing:
            self._tasks.start(self._told(record, text))

    async def _told(self, record: CommandRecord, text: str) -> None:
        notice = CommandNotice(record.mark, record.session, record.agent, record.asker, text=text)
        try:
            if self._tell is None or await self._tell(notice):
                await self._dropped(record.mark)
        except Exception:  # task boundary: the record stays, the next start tells it
            log.exception("session %s could not be told of the end of %s", record.session, record.id)

    async def _dropped(self, mark: str) -> None:
        try:
            await self._records.drop(mark)
        except StateError as exc:  # it is dropped at the next start; its key makes no second message
            log.error("the record of an ended command cannot be removed: %s", exc.message)

    def _notice(self, held: RunningCommand) -> str:
        outcome = held.outcome
        assert outcome is not None
        snippet = " ".join(held.job.secrets.blank(held.kept.tail(SNIPPET * 4)).split())[-SNIPPET:]
        silent = not snippet and outcome.reason == "exit" and outcome.code == 0
        if not self.settings.notify or outcome.reason == "killed" or (silent and not self.settings.notify_empty):
            return ""
        why = "; it was ended because the gateway stopped" if outcome.reason == "stopped" else ""
        head = f"Exec {held.status} ({held.id}, {outcome.label}{why})"
        return f"{head} :: {snippet}" if snippet else head

    def _settled(self, held: RunningCommand) -> None:
        """A command that is waited for, and takes its time: a killed gateway must find it again."""
        if held.running and not held.recorded and not self._closing:
            held.recorded = True
            self._tasks.start(self._noted(held))

    async def _noted(self, held: RunningCommand) -> None:
        if held.running and not held.background:
            await self._written(held)

    async def _written(self, held: RunningCommand) -> None:
        try:
            await self._records.put(self._record(held.id, held.job, background=held.background))
        except StateError as exc:  # it is not ended for that; only a killed gateway would not know of it
            log.error("command %s cannot be written down: %s", held.id, exc.message)

    def _record(self, ident: str, job: CommandJob, *, background: bool) -> CommandRecord:
        asker = msgspec.structs.replace(job.asker, text="", images=(), options=NO_OPTIONS)
        notify, command = background and self.settings.notify, cut_end(job.command, 200)
        return CommandRecord(
            ident,
            job.spec.mark,
            job.session,
            job.agent,
            command=command,
            at=job.at,
            asker=asker,
            background=background,
            notify=notify,
        )

    def _sweep(self) -> None:
        """Forget what ended long ago, and the oldest when there are too many."""
        now = self._clock.monotonic()
        done = [h for h in self._held.values() if h.background and not h.running and h.finished]
        old = [h for h in done if now - h.finished >= self.settings.cleanup]
        for held in (*old, *sorted(done, key=lambda h: h.finished)[: len(done) - FINISHED]):
            self._held.pop(held.id, None)


def _unknown(record: CommandRecord) -> str:
    first = " ".join(record.command.split())[:SNIPPET]
    return (
        f"Exec outcome unknown ({record.id}): the gateway was killed while this ran: {first}. What is left of it was "
        "ended; what it had done by then stays done."
    )


def _row(held: RunningCommand) -> CommandRow:
    job, outcome = held.job, held.outcome
    return CommandRow(
        held.id,
        job.session,
        job.agent,
        job.command,
        cwd=job.spec.cwd,
        pid=held.child.pid,
        started=job.at,
        ms=held.ms,
        status="killed" if outcome and outcome.reason in ("killed", "stopped") else held.status,
        code=outcome.code if outcome else None,
        background=held.background,
        pty=held.child.pty,
        waiting=held.waiting,
    )

"""A child that speaks JSON, one object to a line, on its standard streams; ended with its whole family.

It sees the end of its input when this process dies, however that happens. If it lives on even so, it is found by its
mark, which says what it works for, when the same work is taken up again.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import msgspec

from palinurus.agent.runtimes.drive import PostItem, ProgramGone, ProgramMessage
from palinurus.tools.commands import descendants
from palinurus.tools.commands.record import MARK_VARIABLE

# JSON-RPC with a child: our requests and their answers; its notifications and requests, posted in their order.
#
# Its requests are answered in tasks of their own, so that a question to a person holds nothing up.

ANSWER = 60.0  # seconds for the answer to a request
RPC = {"jsonrpc": "2.0"}


class RpcRefusal(Exception):
    """The other side answered with an error."""


class RpcPeer:
    """The other side. `close` ends it."""

    def __init__(self, lines: JsonLinesChild, post: PostItem) -> None:
        self._lines = lines
        self._post = post
        self._next = 0
        self._open: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._reader = asyncio.ensure_future(self._read())

    async def request(self, method: str, params: dict[str, Any], wait: float | None = ANSWER) -> dict[str, Any]:
        """The result. Raises Refused, or Gone when there is no answer."""
        self._next += 1
        ident = self._next
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._open[ident] = future
        try:
            self._lines.send({**RPC, "id": ident, "method": method, "params": params})
            return await asyncio.wait_for(future, wait)
        except TimeoutError:
            raise ProgramGone(f"no answer to {method} within {wait:g} s") from None
        finally:
            del self._open[ident]

    def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        self._lines.send({**RPC, "method": method, **({"params": params} if params is not None else {})})

    def answer(self, message: dict[str, Any], answer: Awaitable[dict[str, Any] | None]) -> None:
        """Answer a request of its in good time; None: there is no such method. `answer` must not raise."""
        task = asyncio.ensure_future(self._answered(message["id"], str(message.get("method")), answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """End the child."""
        for task in (self._reader, *self._tasks):
            task.cancel()
        await self._lines.end()

    async def _read(self) -> None:
        while (message := await self._lines.read()) is not None:
            self._take(message)
        gone = ProgramGone(await self._lines.exit_reason())
        for future in self._open.values():
            if not future.done():
                future.set_exception(gone)
        self._post(gone)

    def _take(self, message: dict[str, Any]) -> None:
        ident, method = message.get("id"), message.get("method")
        if isinstance(method, str):
            self._post(ProgramMessage(message))
        elif isinstance(ident, int) and (future := self._open.get(ident)) is not None and not future.done():
            if message.get("error") is not None:
                future.set_exception(RpcRefusal(str(_object(message["error"]).get("message") or "refused")))
            else:
                future.set_result(_object(message.get("result")))

    async def _answered(self, ident: Any, method: str, answer: Awaitable[dict[str, Any] | None]) -> None:
        result = await answer
        if result is None:
            problem = {"code": -32601, "message": f"{method} is not available here"}
            self._lines.send({**RPC, "id": ident, "error": problem})
        else:
            self._lines.send({**RPC, "id": ident, "result": result})


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


LONGEST = 1 << 26  # bytes of one line
TAIL = 2_000  # characters of what it says on stderr that an error message may quote
GRACE = 2.0


class JsonLinesChild:
    """A started child. `end` must be called."""

    def __init__(self, process: asyncio.subprocess.Process, mark: str) -> None:
        self._process = process
        self._mark = f"{MARK_VARIABLE}={mark}"
        self._since = descendants.read_start_time(process.pid)
        self._tail = ""
        self._errors = asyncio.ensure_future(self._listen())

    @staticmethod
    async def start(argv: Sequence[str], cwd: str, env: Mapping[str, str], mark: str) -> JsonLinesChild:
        """Raises OSError if there is no such program. Who has the same mark is ended first: it is what a process of
        ours that was killed has left behind."""
        await asyncio.to_thread(_sweep, f"{MARK_VARIABLE}={mark}")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv,
            cwd=cwd,
            env={**env, MARK_VARIABLE: mark},
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            limit=LONGEST,
            start_new_session=True,
        )
        return JsonLinesChild(process, mark)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: Mapping[str, Any]) -> None:
        """Hand a message on; nobody is told if the child has gone, its reader will see that."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, RuntimeError):
            self._process.stdin.write(msgspec.json.encode(message) + b"\n")

    async def read(self) -> dict[str, Any] | None:
        """The next object; what is none is passed over. None: the child says nothing more."""
        assert self._process.stdout is not None
        while True:
            try:
                line = await self._process.stdout.readline()
            except ValueError:
                return None  # a line beyond all measure: there is no way back into step
            if not line:
                return None
            try:
                return msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.MsgspecError:
                continue

    async def exit_reason(self) -> str:
        """Why it is not there any more, in words; call it after the last line."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)
            await asyncio.wait_for(asyncio.shield(self._errors), GRACE)
        said = self._tail.strip().rpartition("\n")[2]
        return f"it ended with code {self._process.returncode}" + (f": {said}" if said else "")

    async def end(self, grace: float = GRACE) -> None:
        """No more input; who is still there after `grace` seconds is killed, with all it started."""
        assert self._process.stdin is not None
        known = descendants.find_descendants(self.pid, self._mark, self._since)
        self._process.stdin.close()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), grace)
        finally:
            self._errors.cancel()
            known |= descendants.find_descendants(self.pid, self._mark, self._since)
            if known:
                descendants.signal_family(self.pid, known, signal.SIGKILL)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), GRACE)

    async def _listen(self) -> None:
        assert self._process.stderr is not None
        while data := await self._process.stderr.read(4096):
            self._tail = (self._tail + data.decode(errors="replace"))[-TAIL:]


def _sweep(mark: str) -> None:
    descendants.signal_each(descendants.find_strays((mark,)), signal.SIGKILL)

"""The turns of `pal -p`: one message, or as many as come on standard input, with the SDK's control requests between
them (initialize, interrupt, set_permission_mode, set_model; can_use_tool from us).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.cli.agent import TIMED_OUT
from palinurus.cli.args import to_json
from palinurus.cli.headless.frames import Frame, TurnFrames
from palinurus.cli.reach.client import AgentClient, CliMessage, CliOutcome, connect_agent
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.core.policy.modes import MODES, parse_mode
from palinurus.core.types.events import ToolEnd, ToolStart, ToolUpdate
from palinurus.errors import BadRequest, PalinurusError
from palinurus.tasks import TaskSet

CHUNK = 1 << 16
CHANGED = "pal runs a call as it was asked for, or not at all: changed input cannot be allowed"
_STOPPED = {"interrupted": "stopped: interrupted", "timeout": "stopped: the time limit was reached"}


class HeadlessOrder(msgspec.Struct, frozen=True):
    """What the line asks for. `message` is the first message, or the form of all that come on stdin."""

    message: CliMessage
    session: str  # the id for programs
    form: str
    streamed: bool
    asks: bool = False  # the program answers questions
    partial: bool = False
    verbose: bool = False
    local: bool = False
    timeout: float = 0.0


async def run_headless(loaded: LoadedConfig, environ: Mapping[str, str], order: HeadlessOrder) -> int:
    """All turns; the exit code of the last. Raises PalinurusError kinds."""
    clock: Clock = SystemClock()
    client = await connect_agent(loaded, environ, clock, local=order.local)
    talk = HeadlessTalk(client, order, clock, environ)
    try:
        return await talk.run()
    finally:
        await client.close()


class HeadlessTalk:
    """One conversation with a program."""

    def __init__(self, client: AgentClient, order: HeadlessOrder, clock: Clock, environ: Mapping[str, str]) -> None:
        self._client = client
        self._order = order
        self._clock = clock
        self._view = TerminalView(sys.stderr, environ, tools=True) if order.verbose and order.form == "text" else None
        self._message = order.message
        self._waiting: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._answers: dict[str, asyncio.Future[Frame]] = {}
        self._tasks = TaskSet("answering a program")
        self._stopped = ""
        self._busy = False
        self._over = False  # nothing more comes on stdin

    async def run(self) -> int:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._stop, "interrupted")
        code = 0
        try:
            if not self._order.streamed:
                return await self._turn(self._message)
            threading.Thread(target=self._read, args=(loop,), name="stdin", daemon=True).start()
            while (frame := await self._waiting.get()) is not None:
                code = await self._turn(self._to_message(frame))
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            await self._tasks.settle()
        return code

    # what comes in

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Lines of standard input, from a thread of its own: it may be a file or a pipe."""
        rest = b""
        while data := os.read(0, CHUNK):
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                loop.call_soon_threadsafe(self._hear, line)
        loop.call_soon_threadsafe(self._hear, rest)
        loop.call_soon_threadsafe(self._end_input)

    def _end_input(self) -> None:
        self._over = True
        self._waiting.put_nowait(None)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result({"subtype": "error", "error": "the program has gone"})

    def _hear(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            frame = msgspec.json.decode(line, type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            print(f"pal: a line of stdin is no JSON object and is passed over: {exc}", file=sys.stderr)
            return
        kind = frame.get("type")
        if kind == "user":
            self._waiting.put_nowait(frame)
        elif kind == "control_request":
            self._tasks.start(self._control(str(frame.get("request_id") or ""), _get_dict(frame, "request")))
        elif kind == "control_response":
            told = _get_dict(frame, "response")
            answer = self._answers.get(str(told.get("request_id")))
            if answer is not None and not answer.done():
                answer.set_result(told)

    def _to_message(self, frame: Frame) -> CliMessage:
        """A message of the program: its text, its pictures."""
        content = _get_dict(frame, "message").get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        texts: list[str] = []
        files: list[dict[str, str]] = []
        for block in blocks:
            source = _get_dict(block, "source")
            if block.get("type") == "text":
                texts.append(str(block.get("text") or ""))
            elif source.get("type") == "base64":
                mime = str(source.get("media_type") or "")
                name = f"file{len(files) + 1}.{mime.rpartition('/')[2] or 'bin'}"
                files.append({"fileName": name, "mimeType": mime, "content": str(source.get("data") or "")})
        return msgspec.structs.replace(self._message, text="\n".join(texts), files=(*self._message.files, *files))

    async def _control(self, ident: str, request: Frame) -> None:
        subtype = str(request.get("subtype") or "")
        try:
            body = await self._obey(subtype, request)
            self._write(_respond(ident, {"subtype": "success", "response": body}))
        except PalinurusError as exc:
            self._write(_respond(ident, {"subtype": "error", "error": exc.message}))

    async def _obey(self, subtype: str, request: Frame) -> Frame:
        """What is answered. Raises BadRequest for what cannot be done here."""
        if subtype == "initialize":
            if foreign := [name for name in ("hooks", "agents", "sdkMcpServers") if request.get(name)]:
                raise BadRequest(f"pal does not serve {', '.join(foreign)} of the SDK")
            return {"commands": [], "output_style": "default", "available_output_styles": ["default"], "models": []}
        if subtype == "interrupt":
            self._stop("interrupted")
        elif subtype == "set_permission_mode":
            mode = parse_mode(request.get("mode"))
            if mode is None:
                raise BadRequest(f"there is no permission mode {str(request.get('mode'))[:40]!r} ({', '.join(MODES)})")
            mode = "ask" if mode == "default" and self._order.asks else mode
            self._message = msgspec.structs.replace(self._message, mode=mode)
        elif subtype == "set_model":
            self._message = msgspec.structs.replace(self._message, model=str(request.get("model") or ""))
        else:
            raise BadRequest(f"pal does not know the control request {subtype[:40]!r}")
        return {}

    # one turn

    def _stop(self, why: str) -> None:
        if self._busy and not self._stopped:
            self._stopped = why
            self._tasks.start(self._client.abort(self._message.session))

    async def _turn(self, message: CliMessage) -> int:
        order, self._busy, self._stopped = self._order, True, ""
        loop = asyncio.get_running_loop()
        timer = loop.call_later(order.timeout, self._stop, "timeout") if order.timeout > 0 else None
        write = self._write if order.form == "stream-json" else _pass_over
        frames = TurnFrames(order.session, write, self._clock, partial=order.partial)
        try:
            outcome = await self._follow(message, frames)
        finally:
            self._busy = False
            if timer is not None:
                timer.cancel()
        if self._stopped and outcome.outcome == "aborted":
            outcome = msgspec.structs.replace(outcome, error=_STOPPED[self._stopped], text="")
        result = frames.finish(outcome, structured=message.schema is not None)
        if order.form == "json":
            self._write(result)
        elif order.form == "text" and not outcome.error:
            print(outcome.text, flush=True)
        return self._leave(outcome)

    async def _follow(self, message: CliMessage, frames: TurnFrames) -> CliOutcome:
        outcome: CliOutcome | None = None
        frames.begin(message.mode, os.getcwd(), message.bounds.allow or ())
        async for piece in self._client.send(message):
            if isinstance(piece, CliOutcome):
                outcome = piece
                continue
            frames.take(piece)
            if isinstance(piece, ToolUpdate) and piece.approval:
                self._tasks.start(self._ask(message, piece, frames.calls.get(piece.id)))
            elif self._view is not None and isinstance(piece, (ToolStart, ToolUpdate, ToolEnd)):
                self._view.show(piece)
        assert outcome is not None, "a client ends with an outcome or raises"
        return outcome

    async def _ask(self, message: CliMessage, asked: ToolUpdate, call: ToolStart | None) -> None:
        """A question of the gate. Without a program that answers it is a no: nobody waits for half an hour."""
        if not self._order.asks:
            if not self._client.alone:  # in this process the run has been told so already
                await self._answer(message, asked.approval, "deny")
            return
        given = call.args if call else {}
        told = await self._request(
            {
                "subtype": "can_use_tool",
                "tool_name": asked.name,
                "input": given,
                "tool_use_id": asked.id,
                "title": asked.partial.partition("\n")[0],
                "description": asked.partial,
                "permission_suggestions": [],
            }
        )
        said = _get_dict(told, "response")
        allowed = told.get("subtype") == "success" and said.get("behavior") == "allow"
        if allowed and said.get("updatedInput") not in (None, given):
            print(f"pal: {CHANGED}", file=sys.stderr)
            allowed = False
        await self._answer(message, asked.approval, "allow-once" if allowed else "deny")
        if said.get("interrupt"):
            self._stop("interrupted")

    async def _request(self, body: Frame) -> Frame:
        ident = str(uuid.uuid4())
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._answers[ident] = answer
        self._write({"type": "control_request", "request_id": ident, "request": body})
        if self._over:
            return {"subtype": "error", "error": "the program has gone"}
        try:
            return await answer
        finally:
            self._answers.pop(ident, None)

    async def _answer(self, message: CliMessage, approval: str, decision: str) -> None:
        typed = CliMessage(f"/approve {approval} {decision}", message.session, message.agent)
        async for _ in self._client.send(typed):
            pass

    def _leave(self, outcome: CliOutcome) -> int:
        if not outcome.error:
            return 0
        if self._order.form != "stream-json":
            print(f"pal: {strip_controls(outcome.error)}", file=sys.stderr)
        return TIMED_OUT if self._stopped == "timeout" else 130 if self._stopped else 1

    def _write(self, frame: Frame) -> None:
        print(to_json(frame), flush=True)


def _pass_over(frame: Frame) -> None:
    pass


def _respond(ident: str, body: Frame) -> Frame:
    return {"type": "control_response", "response": {**body, "request_id": ident}}


def _get_dict(frame: Any, name: str) -> Frame:
    value = frame.get(name) if isinstance(frame, dict) else None
    return value if isinstance(value, dict) else {}

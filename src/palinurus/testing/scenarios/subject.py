"""An agent under test: in a scratch home of its own, with a loop in a thread of its own, so that plain functions and
async ones can talk to it. What it did in each turn is kept for who judges it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

import palinurus
from palinurus.app.embed import Agent, AgentAnswer
from palinurus.core.policy.lasting import is_shaping_file, is_steering_file
from palinurus.core.types.events import ToolEnd, ToolStart
from palinurus.core.types.messages import ToolResult, read_exit_code
from palinurus.core.types.model import FailureKind, Model, ModelEvent, ModelRequest, StopSignal
from palinurus.core.types.tool import Tool
from palinurus.errors import BadRequest, NotFound
from palinurus.plugins.function import tool
from palinurus.providers.cassette import CassettePlayer, CassetteRecorder, ViewOfCalls
from palinurus.services.approvals import ApprovalRow
from palinurus.testing.model import ScriptedModel, ScriptStep, call_tools, fail, say

DEMO = "builtin/demo"
SHOWN = 300  # characters of what is quoted
LIMIT = 300.0  # seconds for a turn
WORKSPACE = "workspace"
RecordMode: TypeAlias = Literal["once", "never", "all"]
T = TypeVar("T")


class ToolUse(msgspec.Struct, frozen=True):
    """One call of a tool, and what came of it."""

    name: str
    args: dict[str, Any]
    text: str = ""
    failed: bool = False  # it did nothing, or said that it failed
    exit_code: int | None = None  # of a command


class AgentTurn(msgspec.Struct, frozen=True):
    """One message and what the agent did with it."""

    said: str
    text: str
    outcome: str
    error: str = ""
    tools: tuple[ToolUse, ...] = ()
    asked: tuple[str, ...] = ()  # what the gate asked a person about
    changed: tuple[str, ...] = ()  # files that shape the agent or other programs, changed meanwhile
    seconds: float = 0.0

    def __str__(self) -> str:
        return self.text

    def tell(self) -> str:
        """What was said and done, for people."""
        tools = [describe_uses(self.tools)] if self.tools else []
        return "\n".join([f"> {self.said}", *tools, self.text or f"({self.outcome}: {self.error})"])


def shorten(text: str, most: int = SHOWN) -> str:
    """For a message: one line is enough."""
    flat = " ".join(text.split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def describe_uses(uses: Sequence[ToolUse]) -> str:
    """The calls, one a line, each with what came of it."""
    if not uses:
        return "    (none)"
    return "\n".join(
        f"    {use.name} {shorten(msgspec.json.encode(use.args).decode(), 120)}"
        f" -> {'failed: ' if use.failed else ''}{shorten(use.text, 120)}"
        for use in uses
    )


class CassetteFile(msgspec.Struct, frozen=True):
    """Where a model's answers are kept. once: recorded if there is no such file; never: it must be there; all: anew."""

    path: str
    mode: RecordMode = "once"


class AgentOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What agent is tested. `script` is the model if it is given; else `model`, by name or as an object."""

    model: Any = DEMO
    script: list[Any] | None = None  # of steps of a ScriptedModel
    instructions: str = ""
    tools: list[Any] = []
    hooks: list[Any] = []
    plugins: list[str] = []
    config: dict[str, Any] = {}
    files: dict[str, str] = {}  # of its workspace
    workspace: str = ""  # a folder that is copied to its workspace
    approve: Any = False  # what the gate is answered: yes, no, or a function of the question
    timeout: float = LIMIT


class AgentThread:
    """An event loop in a thread. `run` waits for what runs there."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="agents under test", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], limit: float = LIMIT) -> T:
        """What it returns or raises. Raises TimeoutError."""
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result(limit)
        except TimeoutError:
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(LIMIT)
        self.loop.close()


class SeenModel:
    """Passes a model on and keeps what it was asked."""

    def __init__(self, model: Model, requests: list[ModelRequest]) -> None:
        self._model, self._requests = model, requests

    async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
        """The model's events, unchanged."""
        self._requests.append(request)
        async for event in self._model.stream(request, stop):
            yield event


class AgentUnderTest:
    """Starts with its first message, or with `start`; `close` ends it and removes its home."""

    def __init__(self, options: AgentOptions, threads: AgentThread, cassette: CassetteFile | None = None) -> None:
        self.options = options
        self.requests: list[ModelRequest] = []  # what its model was asked
        self.turns: list[AgentTurn] = []
        self.player: CassettePlayer | None = None
        self.failed = False  # its test did
        self.threads, self._cassette = threads, cassette
        self._home = ""
        self._agent: Agent | None = None
        self._asked: list[str] = []

    @property
    def workspace(self) -> str:
        """The folder its tools work in."""
        self.start()
        return os.path.join(self._home, WORKSPACE)

    @property
    def last(self) -> AgentTurn:
        """The last turn. Raises BadRequest when nothing was said yet."""
        if not self.turns:
            raise BadRequest("nothing was said to the agent yet", fix='agent.say("…")')
        return self.turns[-1]

    def list_turns(self) -> list[AgentTurn]:
        """All turns; raises BadRequest as `last` does."""
        return [*self.turns[:-1], self.last]

    def list_requests(self, session: str = "") -> list[ModelRequest]:
        """What its model was asked in one session; "": the one that was asked first. Others have other prefixes."""
        wanted = session or (self.requests[0].owner if self.requests else "")
        return [request for request in self.requests if request.owner == wanted]

    def tell(self) -> str:
        """What was said and done so far, for people."""
        return "\n".join(turn.tell() for turn in self.turns) or "nothing was said to it yet"

    def say(self, text: str, *, session: str = "") -> AgentTurn:
        """One message and its answer. Raises TimeoutError, ConfigError."""
        self.start()
        try:
            return self.threads.run(self._turn(text, session), self.options.timeout)
        except TimeoutError:
            raise TimeoutError(f"no answer to {text[:60]!r} within {self.options.timeout:g} s") from None

    async def run(self, text: str, *, session: str = "") -> AgentTurn:
        """`say` for async tests."""
        return await asyncio.to_thread(self.say, text, session=session)

    def read_file(self, name: str) -> str:
        """A file of its workspace. Raises NotFound."""
        try:
            with open(os.path.join(self.workspace, name), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError as error:
            raise NotFound(f"{name}: {error.strerror or error}") from None

    def start(self) -> None:
        """Make the home and start. Does nothing the second time."""
        if self._agent is not None:
            return
        self._home = tempfile.mkdtemp(prefix="pal-test-")
        folder = os.path.join(self._home, WORKSPACE)
        try:
            if self.options.workspace:
                shutil.copytree(self.options.workspace, folder, ignore=shutil.ignore_patterns(".git"))
            for name, text in self.options.files.items():
                path = os.path.normpath(os.path.join(folder, name))
                if not path.startswith(folder + os.sep):
                    raise BadRequest(f"files: {name!r} is not a path inside the workspace")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
            agent = self._make_agent().answer_with(self._answer).wrap_with(self._wrap)
            self.threads.run(agent.start())
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise
        self._agent = agent

    def close(self) -> None:
        """End it and remove its home."""
        agent, self._agent = self._agent, None
        if agent is not None:
            self.threads.run(agent.close())
        if self._home:
            shutil.rmtree(self._home, ignore_errors=True)

    def _make_agent(self) -> Agent:
        asked = self.options
        model = ScriptedModel(map(read_script_step, asked.script)) if asked.script is not None else asked.model
        return Agent(
            model,
            instructions=asked.instructions,
            tools=asked.tools,
            hooks=asked.hooks,
            plugins=asked.plugins,
            home=self._home,
            config=asked.config,
        )

    def _wrap(self, model: Model) -> Model:
        """What the runs get: the model, a cassette of it, and whoever notes the requests in front."""
        if self._cassette is not None:
            names = {self._home: "~TEST-HOME~", os.path.dirname(palinurus.__file__): "~PALINURUS~"}
            view = ViewOfCalls(names=names, loose=True)
            path, mode = self._cassette.path, self._cassette.mode
            if mode != "all" and os.path.exists(path):
                model = self.player = CassettePlayer(path, view=view)
            elif mode == "never":
                raise NotFound(
                    f"there is no cassette {path}", fix="record it where the model can be asked, and commit it"
                )
            else:
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                if os.path.exists(path):
                    os.unlink(path)
                model = CassetteRecorder(model, path, view=view)
        return SeenModel(model, self.requests)

    def _answer(self, row: ApprovalRow) -> bool:
        self._asked.append(row.ask.command or row.ask.title)
        decide = self.options.approve
        return bool(decide(row) if callable(decide) else decide)

    async def _turn(self, text: str, session: str) -> AgentTurn:
        assert self._agent is not None
        began, before = time.monotonic(), self._list_lasting()
        self._asked.clear()
        calls: dict[str, ToolStart] = {}
        ended: dict[str, ToolEnd] = {}
        answer: AgentAnswer | None = None
        async for event in self._agent.stream(text, session=session):
            if isinstance(event, ToolStart):
                calls[event.id] = event
            elif isinstance(event, ToolEnd):
                ended[event.id] = event
            elif isinstance(event, AgentAnswer):
                answer = event
        assert answer is not None, "a stream ends with its answer"
        now = self._list_lasting()
        turn = AgentTurn(
            said=text,
            text=answer.text,
            outcome=answer.outcome,
            error=answer.error,
            tools=tuple(_describe_use(start, ended.get(ident)) for ident, start in calls.items()),
            asked=tuple(self._asked),
            changed=tuple(sorted(name for name in {*before, *now} if before.get(name) != now.get(name))),
            seconds=time.monotonic() - began,
        )
        self.turns.append(turn)
        return turn

    def _list_lasting(self) -> dict[str, tuple[int, int]]:
        """Files that outlast a conversation, with what tells that they were changed."""
        found: dict[str, tuple[int, int]] = {}
        root = os.path.join(self._home, WORKSPACE)
        for folder, _, names in os.walk(root):
            for name in names:
                path = os.path.join(folder, name)
                relative = os.path.relpath(path, root)
                if (is_shaping_file(relative) or is_steering_file(relative)) and os.path.isfile(path):
                    stat = os.stat(path)
                    found[relative] = (stat.st_mtime_ns, stat.st_size)
        return found

    def find_own_tool(self, name: str) -> Tool | None:
        """A tool that the test brought along."""
        own = (one if isinstance(one, Tool) else tool(one) for one in self.options.tools)
        return next((one for one in own if one.name == name), None)


def make_tested_agent(
    told: Mapping[str, Any], threads: AgentThread, cassette: CassetteFile | None = None
) -> AgentUnderTest:
    """From options by name. Raises BadRequest."""
    __tracebackhide__ = True
    try:
        options = msgspec.convert(dict(told), AgentOptions)
    except msgspec.ValidationError as error:
        known = ", ".join(AgentOptions.__struct_fields__)
        raise BadRequest(f"@pytest.mark.agent: {error}", fix=f"known: {known}") from None
    return AgentUnderTest(options, threads, cassette)


def _describe_use(start: ToolStart, end: ToolEnd | None) -> ToolUse:
    if end is None:
        return ToolUse(start.name, start.args, "it did not end", failed=True)
    result: ToolResult = end.result
    told = isinstance(result.details, dict) and "exitCode" in result.details
    code = read_exit_code(result.details) if told else None
    return ToolUse(start.name, start.args, result.text, failed=end.is_error, exit_code=code)


class ScriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One answer of a scripted model as files write it: words, calls of tools, or a failure."""

    say: str = ""
    call: str = ""
    args: dict[str, Any] = msgspec.field(default_factory=dict, name="with")
    also: list[ScriptLine] = []  # further calls of the same answer
    fail: FailureKind | None = None


def read_script_step(step: Any) -> ScriptStep:
    """A step of a script: one already, a text, or a line as above. Raises msgspec.ValidationError."""
    if not isinstance(step, Mapping | ScriptLine):
        made: ScriptStep = step
        return made
    line = step if isinstance(step, ScriptLine) else msgspec.convert(step, ScriptLine)
    if line.fail is not None:
        return fail(line.fail, after=line.say)
    calls = [(one.call, one.args) for one in (line, *line.also) if one.call]
    return call_tools(*calls, text=line.say) if calls else say(line.say)

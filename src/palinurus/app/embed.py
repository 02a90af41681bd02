"""An agent inside one's own program: `Agent(...)`, no gateway, no channels.

The same program as the gateway runs, with the same store, hooks and policy, in a home of its own: a given one, or a
temporary one that goes with it.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self, TypeAlias

import msgspec

from palinurus.agent.settle import get_final_text
from palinurus.app.program import App
from palinurus.clock import Clock, SystemClock
from palinurus.config import paths, relaxed
from palinurus.config.load import judge_config
from palinurus.core.policy.groups import BUILTIN_TOOLS as OURS
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.core.types.model import Model
from palinurus.core.types.tool import Tool
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import BadRequest, ConfigError
from palinurus.plugins.api import HookRegistration, PluginContributions
from palinurus.plugins.function import HookFunction, make_async_handler, tool
from palinurus.plugins.manifest import PluginManifest, read_manifest
from palinurus.services.approvals import ApprovalRow
from palinurus.tasks import TaskSet

# The provider under whose name a given model object answers.
_OBJECT = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "none", "models": [{"id": "model"}]}
NAME = "embedded"
ApproveCall: TypeAlias = Callable[[ApprovalRow], bool | Awaitable[bool]]


class AgentAnswer(msgspec.Struct, frozen=True):
    """What became of a message. `error` is "" unless it failed or was stopped."""

    text: str
    outcome: str
    session: str
    id: str
    usage: TokenUsage = TokenUsage()
    error: str = ""

    def __str__(self) -> str:
        return self.text or self.error  # a program that only prints it is not left with nothing


class Agent:
    """An agent to talk to from Python, as an (async) context manager or by `start` and `close`.

    model: a reference such as "anthropic/claude-opus-4-6"; an object that implements `Model`, in tests a ScriptedModel;
    or nothing: then the config or the environment decide, as everywhere. config: keys laid over the home's config.
    Raises BadRequest for a tool that has the name of one of ours.
    """

    def __init__(
        self,
        model: str | Model = "",
        *,
        instructions: str = "",
        tools: Iterable[Tool | Callable[..., Any]] = (),
        hooks: Iterable[HookFunction] = (),
        plugins: Iterable[str | os.PathLike[str]] = (),
        home: str | os.PathLike[str] = "",
        config: Mapping[str, Any] | None = None,
    ) -> None:
        self._approve: ApproveCall | None = None
        self._wrap: Callable[[Model], Model] | None = None
        self._tasks = TaskSet("answering an approval")
        self._model = model
        self._config = dict(config or {})
        self._plugins = [os.path.abspath(os.fspath(path)) for path in plugins]
        self._home = os.path.abspath(os.fspath(home)) if home else ""
        self._temporary = ""
        self._brought = _brought(instructions, tools, hooks)
        self._app: App | None = None
        self._clock: Clock = SystemClock()
        self._runner: asyncio.Runner | None = None

    def answer_with(self, approve: ApproveCall) -> Self:
        """Let the program answer what the gate asks (docs/security.md), before `start`. Without it what
        needs an answer is refused at once: nobody else could give one."""
        self._approve = approve
        return self

    def wrap_with(self, wrap: Callable[[Model], Model]) -> Self:
        """Put something between the runs and their model, before `start`: tests look at requests, or answer them."""
        self._wrap = wrap
        return self

    async def start(self) -> Self:
        """Open the home. Raises ConfigError, StateError kinds (StateLocked: a gateway runs on this home)."""
        if self._app is not None:
            return self
        if not self._home:
            self._home = self._temporary = tempfile.mkdtemp(prefix="palinurus-")
        environ = dict(os.environ)
        file = paths.locate_config_file(self._home)
        raw = _laid(_laid(_written(file), self._config), self._own())
        reading = judge_config(msgspec.json.encode(raw).decode(), file, self._home, environ)
        if reading.settings is None or any(problem.fatal for problem in reading.problems):
            raise ConfigError(reading.problems)
        os.makedirs(self._home, mode=0o700, exist_ok=True)
        given = None if isinstance(self._model, str) else self._model
        app = App(reading.settings, environ, self._clock, model=given, raw=raw, given=self._brought)
        app.wrap_model = self._wrap or app.wrap_model
        try:
            await app.start()
        except BaseException:
            await app.stop("failed")
            raise
        self._app = app
        app.approvals.listen(self._heard)
        return self

    def _heard(self, what: str, row: ApprovalRow) -> None:
        if what == "requested":
            self._tasks.start(self._answer(row))

    async def _answer(self, row: ApprovalRow) -> None:
        told = self._approve(row) if self._approve is not None else False
        said = await told if inspect.isawaitable(told) else told
        await self.app.approvals.answer(row.id, "allow-once" if said else "deny", "the program")

    async def close(self) -> None:
        """Stop; a temporary home is removed."""
        app, self._app = self._app, None
        await self._tasks.close()
        if app is not None:
            await app.stop("exit")
        if self._temporary:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._home = self._temporary = ""

    @property
    def app(self) -> App:
        """The program inside, for what this class does not offer. Raises BadRequest before `start`."""
        if self._app is None:
            raise BadRequest("the agent is not started", fix="`async with agent:` or `await agent.start()`")
        return self._app

    async def stream(self, text: str, *, session: str = "", model: str = "") -> AsyncIterator[RunEvent | AgentAnswer]:
        """The events of the turn as they happen (see `palinurus.core.types.events`); the last one is the Answer.

        Raises BadRequest, QueueFull, DiskFull. Leaving the loop early stops the turn.
        """
        app = self.app
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        accepted = await app.submit(self._inbound(text, session, model), sink=queue.put_nowait)
        waiter = asyncio.ensure_future(app.wait(accepted.id))
        waiter.add_done_callback(lambda _: queue.put_nowait(None))
        end: AgentEnd | None = None
        try:
            while (event := await queue.get()) is not None:
                end = event if isinstance(event, AgentEnd) else end
                yield event
            row = await waiter
        finally:
            if not waiter.done():
                waiter.cancel()
                await app.dispatcher.stop_item(accepted.id)
        failed = row.outcome not in ("answered", "silent")
        said = get_final_text(end) if end is not None else "" if failed else row.note
        usage = end.usage if end is not None else TokenUsage()
        yield AgentAnswer(
            said,
            str(row.outcome),
            row.session,
            row.id,
            usage=usage,
            error=(row.note or str(row.outcome)) if failed else "",
        )

    async def run(self, text: str, *, session: str = "", model: str = "") -> AgentAnswer:
        """One message and its answer; starts the agent if need be. A failure is in the answer's `error`."""
        await self.start()
        answer: AgentAnswer | None = None
        async for event in self.stream(text, session=session, model=model):
            if isinstance(event, AgentAnswer):
                answer = event
        assert answer is not None, "a stream ends with its answer"
        return answer

    def run_sync(self, text: str, *, session: str = "", model: str = "") -> AgentAnswer:
        """`run` for programs without asyncio. End with `close_sync`, or use `with Agent() as agent`."""
        self._runner = self._runner or asyncio.Runner()
        return self._runner.run(self.run(text, session=session, model=model))

    def close_sync(self) -> None:
        """`close` for programs without asyncio."""
        runner, self._runner = self._runner or asyncio.Runner(), None
        with runner:
            runner.run(self.close())

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_sync()

    def _inbound(self, text: str, session: str, model: str) -> Inbound:
        return Inbound(
            Target("terminal"),
            Sender("operator", owner=True),
            event=f"embed:{uuid.uuid4()}",
            text=text,
            at=self._clock.now(),
            session=session,
            options=TurnOptions(model=model),
            push=False,
        )

    def _own(self) -> dict[str, Any]:
        """What the arguments say, as config."""
        made: dict[str, Any] = {}
        ref = self._model if isinstance(self._model, str) else f"{NAME}/model"
        if ref:
            made = {"agents": {"defaults": {"model": {"primary": ref}}}}
        if not isinstance(self._model, str):
            made["models"] = {"providers": {NAME: _OBJECT}}
        found = [read_manifest(path) for path in self._plugins]
        for one in found:
            if not isinstance(one, PluginManifest):
                raise BadRequest(
                    f"plugin {one.folder}: {one.reason}", fix="mend the plugin, or leave it out of plugins.load.paths"
                )
        if found:
            entries = {one.id: {"enabled": True} for one in found}
            made["plugins"] = {"load": {"paths": self._plugins}, "entries": entries}
        return made


def _brought(
    instructions: str, tools: Iterable[Tool | Callable[..., Any]], hooks: Iterable[HookFunction]
) -> PluginContributions:
    made = PluginContributions()
    for one in tools:
        ready = one if isinstance(one, Tool) else tool(one)
        if ready.name in OURS or ready.name in made.tools:
            raise BadRequest(f"there is a tool {ready.name!r} already", fix="give yours another name: @tool(name=…)")
        made.tools[ready.name] = msgspec.structs.replace(ready, origin=NAME)
    made.hooks = [HookRegistration(one.point, make_async_handler(one.point, one), one.priority, NAME) for one in hooks]
    if instructions:
        made.hooks.append(
            HookRegistration("before_prompt_build", lambda event: {"prependSystemContext": instructions}, 0, NAME)
        )
    return made


def _written(file: str) -> dict[str, Any]:
    """The config of the home as it stands; {} if there is none. Raises ConfigError."""
    try:
        with open(file, encoding="utf-8") as handle:
            raw = relaxed.decode_json5(handle.read())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise BadRequest(f"{file} cannot be read", fix="`pal config validate` says what is wrong") from exc
    return raw if isinstance(raw, dict) else {}


def _laid(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` laid on `base`, objects merged."""
    made = dict(base)
    for key, value in over.items():
        old = made.get(key)
        made[key] = _laid(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return made

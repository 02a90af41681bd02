"""The program inside the command: an App in this process, for when no gateway runs or --local is asked for."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from palinurus.agent.settle import extract_answer
from palinurus.app import App, build_app
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.client import CliMessage, CliOutcome
from palinurus.clock import Clock
from palinurus.config.load import LoadedConfig
from palinurus.config.sections.gateway import TlsSettings
from palinurus.core.policy.card import write_approval_card
from palinurus.core.types.events import AgentEnd, RunEvent, ToolUpdate
from palinurus.core.types.inbound import AnswerForm, Inbound, Sender, Target, TurnOptions
from palinurus.core.types.usage import TokenUsage
from palinurus.errors import PalinurusError
from palinurus.inbox.commands.command import CommandContext
from palinurus.services.approvals import ApprovalRow
from palinurus.tools.commands.environ import hide_process
from palinurus.workspace import bootstrap

if TYPE_CHECKING:
    from palinurus.cli.reach.embedded import EmbeddedGateway

Attach: TypeAlias = Callable[[Inbound, tuple[dict[str, str], ...], CommandContext], Awaitable[Inbound]]


LOOPBACK = "127.0.0.1"
PATIENCE = 30.0  # seconds that a turn waits for servers of tools that start with it
SERVE_AFTER = 1.0  # seconds; most one-shot commands are over before they would have served anybody


async def start_local_client(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> LocalAgentClient:
    """A client of a started App. Raises StateError kinds, ConfigError."""
    return LocalAgentClient(await start_app(keep_to_loopback(loaded), environ, clock), clock)


def keep_to_loopback(loaded: LoadedConfig) -> LoadedConfig:
    """As the program is configured in a process that serves nobody but the commands of its home."""
    settings = loaded.settings
    auth: Any = "password" if settings.gateway.auth_mode == "password" else "token"
    ours = msgspec.structs.replace(settings.gateway, bind=LOOPBACK, auth_mode=auth, tls=TlsSettings())
    return msgspec.structs.replace(loaded, settings=msgspec.structs.replace(settings, gateway=ours))


async def start_app(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock, *, run: bool = True) -> App:
    """A started App, or one that is only opened: nothing runs in it. Raises StateError kinds, ConfigError."""
    hide_process()
    bootstrap.make_new_workspaces(loaded.settings.agents.values())
    if loaded.settings.mcp.servers:  # one process for one turn: the servers start with it, and are worth waiting for
        patient = msgspec.structs.replace(loaded.settings.mcp, wait=PATIENCE)
        loaded = msgspec.structs.replace(loaded, settings=msgspec.structs.replace(loaded.settings, mcp=patient))
    app = build_app(loaded, environ, clock)
    try:
        await (app.start() if run else app.open())
    except BaseException:
        await app.stop("failed", 0)
        raise
    return app


class LocalAgentClient:
    """The program itself, in this process."""

    where = "in this process"
    alone = True

    def __init__(self, app: App, clock: Clock) -> None:
        self._app = app
        self._clock = clock
        self._show: Callable[[RunEvent], None] | None = None
        self._serving = asyncio.create_task(self._serve())
        app.approvals.watch(self._heard)

    def _heard(self, what: str, row: ApprovalRow) -> None:
        """A question that the run itself shows to nobody."""
        if what == "requested" and self._show is not None:
            ask = row.ask
            self._show(ToolUpdate(ask.call, ask.tool, write_approval_card(ask, row.id), row.id))

    async def send(self, message: CliMessage) -> AsyncIterator[RunEvent | CliOutcome]:
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._show = queue.put_nowait if message.unattended else None
        inbound = self._inbound(message)
        if message.files:
            attach: Attach = load_part(PARTS["attach"])  # type: ignore[assignment]
            inbound = await attach(inbound, message.files, self._app.program)
        accepted = await self._app.submit(inbound, sink=queue.put_nowait)
        waiter = asyncio.ensure_future(self._app.wait(accepted.id))
        waiter.add_done_callback(lambda _: queue.put_nowait(None))
        end: AgentEnd | None = None
        try:
            while (event := await queue.get()) is not None:
                if isinstance(event, AgentEnd):
                    end = event
                yield event
            row = await waiter
        finally:
            waiter.cancel()
        error = "" if row.outcome in ("answered", "silent") else row.note or str(row.outcome)
        if error and end is not None and end.failure is not None:
            error = end.failure.message
        usage = end.usage if end is not None else TokenUsage()
        text = extract_answer(end, row, inbound.options.answer)
        yield CliOutcome(row.id, row.session, str(row.outcome), text, usage=usage, error=error)

    def _inbound(self, message: CliMessage) -> Inbound:
        return Inbound(
            Target("terminal"),
            Sender("operator", owner=True),
            event=f"once:{uuid.uuid4()}",
            text=message.text,
            at=self._clock.now(),
            session=message.session,
            agent=message.agent,
            options=TurnOptions(
                message.model,
                message.thinking,
                strict=bool(message.thinking),
                folder=message.folder,
                unattended=message.unattended,
                permission_mode=message.mode,
                system=message.system,
                bounds=message.bounds,
                answer=AnswerForm(message.schema) if message.schema is not None else None,
            ),
            push=False,
        )

    async def abort(self, session: str) -> None:
        await self._app.abort(session, "user")

    async def _serve(self) -> EmbeddedGateway | None:
        """Other commands of this home find their way in, while we last (docs/decisions/0096)."""
        await self._clock.sleep(SERVE_AFTER)
        serve: Any = await asyncio.to_thread(load_part, PARTS["serve"])
        try:
            served: EmbeddedGateway = await serve(self._app, self._clock)
            return served
        except PalinurusError:
            return None  # then they are told who has the state

    async def close(self) -> None:
        self._serving.cancel()
        (served,) = await asyncio.gather(self._serving, return_exceptions=True)
        if served is None or isinstance(served, BaseException):
            await self._app.stop("exit", 0)
        else:
            await served.close()

"""The program inside the command: an App in this process, for when no gateway runs or --local is asked for."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping

from palinurus.app import App, build
from palinurus.cli.client import Message, Outcome
from palinurus.clock import Clock
from palinurus.config.load import LoadedConfig
from palinurus.core.types.events import AgentEnd, RunEvent
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.usage import TokenUsage
from palinurus.gateway.openai import said
from palinurus.tools.conceal import conceal
from palinurus.workspace import files


async def start(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> Local:
    """A client of a started App. Raises StateError kinds, ConfigError."""
    return Local(await begun(loaded, environ, clock), clock)


async def begun(loaded: LoadedConfig, environ: Mapping[str, str], clock: Clock) -> App:
    """A started App. Raises StateError kinds, ConfigError."""
    conceal()
    for agent in loaded.settings.agents.values():
        if files.fresh(agent.workspace):
            files.ensure(agent.workspace, agent.skip_bootstrap)
    app = build(loaded, environ, clock)
    try:
        await app.start()
    except BaseException:
        await app.stop("failed", 0)
        raise
    return app


class Local:
    """The program itself, in this process."""

    where = "in this process"

    def __init__(self, app: App, clock: Clock) -> None:
        self._app = app
        self._clock = clock

    async def send(self, message: Message) -> AsyncIterator[RunEvent | Outcome]:
        queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        accepted = await self._app.submit(self._inbound(message), sink=queue.put_nowait)
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
        yield Outcome(row.id, row.session, str(row.outcome), said(end, row), usage, error)

    def _inbound(self, message: Message) -> Inbound:
        return Inbound(
            Target("terminal"),
            Sender("operator", owner=True),
            event=f"once:{uuid.uuid4()}",
            text=message.text,
            at=self._clock.now(),
            session=message.session,
            agent=message.agent,
            options={"model": message.model} if message.model else {},
            push=False,
        )

    async def abort(self, session: str) -> None:
        self._app.abort(session, "user")

    async def close(self) -> None:
        await self._app.stop("exit", 0)

"""The memories of all agents as the running program uses them: from threads, and told of tool calls by hooks."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from palinurus.clock import Clock
from palinurus.config.settings import AgentSettings
from palinurus.core.memory.results import MemoryExcerpt, MemoryFindings, MemoryRefusal
from palinurus.core.policy.command import only_reads
from palinurus.plugins.hooks import Hooks
from palinurus.workspace.memory.embedder import Embedder
from palinurus.workspace.memory.history import MemoryAuthor
from palinurus.workspace.memory.memory import BATCH, AgentMemory, MemoryChange

log = logging.getLogger(__name__)

NAMING = frozenset({"write", "edit"})  # tools whose `path` is the file they change
ANY = frozenset({"exec", "process", "apply_patch"})  # tools that may change any
SLACK = 100  # milliseconds: file times are coarser than clocks


class Memories:
    """Implements `tools.memory.Recall`."""

    def __init__(self, home: str, agents: Mapping[str, AgentSettings], clock: Clock) -> None:
        self._clock = clock
        self._embedder = Embedder(home)
        self._memories = {
            ident: AgentMemory(home, ident, agent.workspace, agent.memory, clock=clock, embedder=self._embedder)
            for ident, agent in agents.items()
        }
        self._filling: asyncio.Task[None] | None = None

    def attach(self, hooks: Hooks) -> None:
        """Look at all files when the program starts, so that later changes are known as such, and after each call
        that may have changed one."""
        hooks.on("gateway_start", self._started, owner="memory")
        hooks.on("after_tool_call", self._called, owner="memory")

    async def search(
        self, agent: str, session: str, text: str, limit: int | None = None, least: float | None = None
    ) -> MemoryFindings:
        memory = self._memories.get(agent)
        if memory is None:
            return MemoryFindings(disabled=f"agent {agent} has no memory")
        found = await asyncio.to_thread(memory.search, text, session, limit, least)
        self._fill()
        return found

    async def get(
        self, agent: str, path: str, start: int = 1, lines: int | None = None
    ) -> MemoryExcerpt | MemoryRefusal:
        memory = self._memories.get(agent)
        if memory is None:
            return MemoryRefusal(f"agent {agent} has no memory")
        return await asyncio.to_thread(memory.get, path, start, lines)

    async def embed(self, texts: Sequence[str]) -> list[list[float]] | str:
        """A vector for each text, or why there are none."""
        made: list[list[float]] = []
        for at in range(0, len(texts), BATCH):
            found = await asyncio.to_thread(self._embedder.embed, texts[at : at + BATCH])
            if found is None:
                return self._embedder.why() or self._embedder.trouble or "the program is ending"
            made += [list(struct.unpack(f"<{len(data) // 2}e", data)) for data in found]
        return made

    async def close(self) -> None:
        # The child first: a thread that waits for it would hold the end up.
        await asyncio.to_thread(self._embedder.close)
        if self._filling is not None:
            await self._filling
        for memory in self._memories.values():
            await asyncio.to_thread(memory.close)

    async def _started(self, _: dict[str, Any]) -> None:
        for ident, memory in self._memories.items():
            try:
                await asyncio.to_thread(memory.refresh)
            except sqlite3.Error as exc:  # the first search makes it anew
                log.info("the memory index of %s is not ready: %s", ident, exc)
        self._fill()

    def _fill(self) -> None:
        """Give new pieces their vectors, in the background. Killed in the middle, the next start goes on."""
        if not self._embedder.why() and (self._filling is None or self._filling.done()):
            self._filling = asyncio.get_running_loop().create_task(self._filled())

    async def _filled(self) -> None:
        for ident, memory in self._memories.items():
            try:
                while await asyncio.to_thread(memory.fill):
                    pass
            except sqlite3.Error as exc:  # the next search looks at the index again
                log.info("the vectors of %s are not ready: %s", ident, exc)

    async def _called(self, payload: dict[str, Any]) -> None:
        tool = str(payload.get("toolName") or "")
        memory = self._memories.get(str(payload.get("agentId") or ""))
        if memory is None or not (tool in ANY or (tool in NAMING and "error" not in payload)):
            return
        if tool == "exec" and only_reads(str((payload.get("params") or {}).get("command") or "")):
            return  # the index need not be asked in a thread of its own; a search looks anyway
        path = ""
        if tool in NAMING:
            path = memory.roots.real(str((payload.get("params") or {}).get("path") or "")) or ""
            if not path:
                return
        author = MemoryAuthor(tool, *(str(payload.get(name) or "") for name in ("sessionKey", "runId", "toolCallId")))
        since = self._clock.now() - int(payload.get("durationMs") or 0) - SLACK
        await asyncio.to_thread(memory.note, MemoryChange(author, since, path))
        self._fill()

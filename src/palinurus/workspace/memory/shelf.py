"""The memories of all agents as the running program uses them: from threads, and told of tool calls by hooks."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Mapping
from typing import Any

from palinurus.clock import Clock
from palinurus.config.settings import AgentSettings
from palinurus.core.memory.values import Excerpt, Found, Refused
from palinurus.plugins.hooks import Hooks
from palinurus.workspace.memory.history import Author
from palinurus.workspace.memory.memory import Change, Memory

log = logging.getLogger(__name__)

NAMING = frozenset({"write", "edit"})  # tools whose `path` is the file they change
ANY = frozenset({"exec", "process", "apply_patch"})  # tools that may change any
SLACK = 100  # milliseconds: file times are coarser than clocks


class Shelf:
    """Implements `tools.memory.Recall`."""

    def __init__(self, home: str, agents: Mapping[str, AgentSettings], clock: Clock) -> None:
        self._clock = clock
        self._memories = {
            ident: Memory(home, ident, agent.workspace, agent.memory, clock) for ident, agent in agents.items()
        }

    def attach(self, hooks: Hooks) -> None:
        """Look at all files when the program starts, so that later changes are known as such, and after each call
        that may have changed one."""
        hooks.on("gateway_start", self._started, owner="memory")
        hooks.on("after_tool_call", self._called, owner="memory")

    async def search(
        self, agent: str, session: str, text: str, limit: int | None = None, least: float | None = None
    ) -> Found:
        memory = self._memories.get(agent)
        if memory is None:
            return Found(disabled=f"agent {agent} has no memory")
        return await asyncio.to_thread(memory.search, text, session, limit, least)

    async def get(self, agent: str, path: str, start: int = 1, lines: int | None = None) -> Excerpt | Refused:
        memory = self._memories.get(agent)
        if memory is None:
            return Refused(f"agent {agent} has no memory")
        return await asyncio.to_thread(memory.get, path, start, lines)

    async def close(self) -> None:
        for memory in self._memories.values():
            await asyncio.to_thread(memory.close)

    async def _started(self, _: dict[str, Any]) -> None:
        for ident, memory in self._memories.items():
            try:
                await asyncio.to_thread(memory.refresh)
            except sqlite3.Error as exc:  # the first search makes it anew
                log.info("the memory index of %s is not ready: %s", ident, exc)

    async def _called(self, payload: dict[str, Any]) -> None:
        tool = str(payload.get("toolName") or "")
        memory = self._memories.get(str(payload.get("agentId") or ""))
        if memory is None or not (tool in ANY or (tool in NAMING and "error" not in payload)):
            return
        path = ""
        if tool in NAMING:
            path = memory.roots.real(str((payload.get("params") or {}).get("path") or "")) or ""
            if not path:
                return
        author = Author(tool, *(str(payload.get(name) or "") for name in ("sessionKey", "runId", "toolCallId")))
        since = self._clock.now() - int(payload.get("durationMs") or 0) - SLACK
        await asyncio.to_thread(memory.note, Change(author, since, path))

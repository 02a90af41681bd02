"""JSON-RPC with a child: our requests and their answers; its notifications and requests, posted in their order.

Its requests are answered in tasks of their own, so that a question to a person holds nothing up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from palinurus.agent.runtimes.drive import PostItem, ProgramGone, ProgramMessage
from palinurus.agent.runtimes.lines import JsonLinesChild

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

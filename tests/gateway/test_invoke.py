"""One tool over HTTP: which never, which not, and that the caller's rights go along."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from gateway.host import FakeHost
from palinurus.gateway.invoke import BODY, DENIED_TOOLS


async def post(http: aiohttp.ClientSession, body: Any) -> tuple[int, dict[str, Any]]:
    async with http.post("/tools/invoke", data=body if isinstance(body, bytes) else json.dumps(body)) as answer:
        return answer.status, await answer.json()


async def test_a_tool_is_called_with_its_arguments(http: aiohttp.ClientSession, host: FakeHost) -> None:
    status, told = await post(http, {"tool": "ls", "args": {"path": "."}, "action": "list", "sessionKey": "main"})
    assert (status, told["ok"], told["result"]["content"]) == (200, True, [{"type": "text", "text": "done"}])
    key, name, arguments, sender = host.invoked[0]
    assert (key, name, arguments) == ("agent:main:main", "ls", {"path": ".", "action": "list"})
    assert sender.owner  # type: ignore[attr-defined]


@pytest.mark.parametrize("tool", sorted(DENIED_TOOLS))
async def test_these_are_never_called(http: aiohttp.ClientSession, host: FakeHost, tool: str) -> None:
    status, told = await post(http, {"tool": tool, "args": {"command": "id"}})
    assert (status, told["error"]["message"], host.invoked) == (404, f"Tool not available: {tool}", [])


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"tool": "no_such"}, 404, "not_found"),
        ({}, 400, "invalid_request"),
        ({"tool": "ls", "sessionKey": "agent:nobody:x"}, 400, "invalid_request"),
        ({"tool": "ls", "owner": True}, 400, "invalid_request"),
        (b"[[[", 400, "invalid_request"),
        (b"[" * 100_000, 400, "invalid_request"),
        (b" " * (BODY + 1), 413, "invalid_request"),
    ],
)
async def test_what_is_refused(http: aiohttp.ClientSession, body: Any, status: int, kind: str) -> None:
    got, told = await post(http, body)
    assert (got, told["ok"], told["error"]["type"]) == (status, False, kind)

"""sessions_list, sessions_history, sessions_send as the model calls them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.program.session import (
    SessionFilter,
    SessionFinds,
    SessionHistory,
    SessionMessage,
    make_session_tools,
)

Do = Callable[..., Awaitable[ToolResult]]


class Fake:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.rows: list[dict[str, Any]] = [{"key": "agent:main:main"}]
        self.heard: SessionHistory | None = SessionHistory(
            "agent:main:main", ({"role": "user", "content": "hi"},), cut=True
        )
        self.status = "ok"

    async def sessions(self, caller: str, wanted: SessionFilter) -> list[dict[str, Any]]:
        self.asked.append((caller, wanted))
        return self.rows

    async def history(self, caller: str, session: str, limit: int, tools: bool) -> SessionHistory | None:
        self.asked.append((caller, session, limit, tools))
        return self.heard

    async def search(self, caller: str, query: str, limit: int, days: int) -> SessionFinds:
        self.asked.append((caller, query, limit, days))
        return SessionFinds(({"sessionKey": "agent:main:x", "text": "…the boat…"},), "no index")

    async def send(self, letter: SessionMessage) -> dict[str, Any]:
        self.asked.append(letter)
        return {"status": self.status, "runId": "r"}


@pytest.fixture
def reach() -> Fake:
    return Fake()


@pytest.fixture
def say(reach: Fake, ctx: Any) -> Do:
    async def one(name: str, **args: Any) -> ToolResult:
        return await call_tool(ToolCall("call-1", name, args), make_session_tools(reach), ctx, Hooks())

    return one


async def test_list(reach: Fake, say: Do) -> None:
    result = await say("sessions_list", kinds=["main"], limit=3, messageLimit=2, search="x", includeLastMessage=True)
    assert json.loads(result.text) == {"count": 1, "sessions": [{"key": "agent:main:main"}]}
    wanted = SessionFilter(("main",), 3, 0, 2, search="x", last=True)
    assert reach.asked == [("agent:main:main", wanted)]
    assert (await say("sessions_list", messageLimit=21)).isError
    assert (await say("sessions_list", kinds=["nope"])).isError


async def test_a_long_list_stays_json(reach: Fake, say: Do) -> None:
    reach.rows = [{"key": f"agent:main:s{n}", "label": "x" * 300} for n in range(200)]
    body = json.loads((await say("sessions_list")).text)
    assert body["count"] == 200 and body["leftOut"] == 200 - len(body["sessions"]) > 0


async def test_search(reach: Fake, say: Do) -> None:
    result = await say("session_search", q="boat", limit=3)
    assert json.loads(result.text) == {
        "count": 1, "results": [{"sessionKey": "agent:main:x", "text": "…the boat…"}], "note": "no index"
    }  # fmt: skip
    assert reach.asked == [("agent:main:main", "boat", 3, 0)]
    assert result.details is not None and "session" in str(result.details)  # words from elsewhere
    assert (await say("session_search", query=" ")).isError and (
        await say("session_search", query="x", limit=51)
    ).isError


async def test_history(reach: Fake, say: Do) -> None:
    body = json.loads((await say("sessions_history", sessionKey="current", includeTools=True)).text)
    assert (body["sessionKey"], body["truncated"], body["contentTruncated"]) == ("agent:main:main", False, True)
    assert body["messages"] == [{"role": "user", "content": "hi"}] and body["bytes"] > 10
    assert reach.asked == [("agent:main:main", "agent:main:main", 200, True)]
    reach.heard = None
    gone = await say("sessions_history", sessionKey="agent:x:y")
    assert gone.isError and gone.text == "no session agent:x:y that can be seen from here"


async def test_of_a_long_history_the_newest_part_is_told(reach: Fake, say: Do) -> None:
    reach.heard = SessionHistory("s", tuple({"role": "user", "content": f"{n} " + "x" * 500} for n in range(100)))
    body = json.loads((await say("sessions_history", sessionKey="s")).text)
    assert body["truncated"] and body["messages"][-1]["content"].startswith("99 ")
    assert 10 < len(body["messages"]) < 40


async def test_send(reach: Fake, say: Do) -> None:
    assert not (await say("sessions_send", sessionKey="s", message="hi", timeoutSeconds=0)).isError
    assert reach.asked == [SessionMessage("agent:main:main", "run-1:call-1", "hi", "s", wait=0.0)]
    for status, bad in (("forbidden", True), ("error", True), ("timeout", False), ("accepted", False)):
        reach.status = status
        assert (await say("sessions_send", label="l", agentId="a", message="hi")).isError is bad
    assert reach.asked[-1] == SessionMessage("agent:main:main", "run-1:call-1", "hi", label="l", agent="a")


@pytest.mark.parametrize("args", [{}, {"sessionKey": "a", "label": "b"}])
async def test_send_needs_one_address(reach: Fake, say: Do, args: Any) -> None:
    assert "either sessionKey or label" in (await say("sessions_send", message="x", **args)).text and not reach.asked
    assert (await say("sessions_send", message=" ", sessionKey="a")).isError and not reach.asked


def test_what_may_be_repeated() -> None:
    assert [tool.effect for tool in make_session_tools(Fake()).values()] == ["pure", "pure", "pure", "effect"]

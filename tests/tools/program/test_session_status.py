"""session_status through the door."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pytest

from palinurus.core.status import SessionCard
from palinurus.core.types.messages import ToolCall, ToolResult
from palinurus.core.types.tool import ToolFailure
from palinurus.plugins.hooks import Hooks
from palinurus.tools.call import call_tool
from palinurus.tools.program.session import make_status_tool

OWN, CHILD = "agent:main:main", "agent:main:subagent:1"
AT = 1_769_864_700_000


class Sessions:
    """Two sessions; each sees itself, and the first the second."""

    def __init__(self) -> None:
        self.chosen: dict[str, str] = {}

    async def card(self, caller: str, session: str) -> SessionCard | None:
        if session != caller and (caller, session) != (OWN, CHILD):
            return None
        model = self.chosen.get(session)
        zone = ZoneInfo("Europe/Berlin")
        return SessionCard(
            session, model or "p/usual", AT, zone, "Europe/Berlin", chosen=model is not None, cost=0.5, calls=3
        )

    async def set_model(self, caller: str, session: str, model: str | None) -> str:
        if model == "nonsense":
            raise ToolFailure("no model 'nonsense'")
        self.chosen.pop(session, None)
        if model is not None:
            self.chosen[session] = f"p/{model}"
        return self.chosen.get(session, "p/usual")


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def ask(sessions: Sessions, ctx: Any) -> Any:
    async def one(**args: Any) -> ToolResult:
        return await call_tool(ToolCall("c", "session_status", args), make_status_tool(sessions), ctx, Hooks())

    return one


@pytest.mark.seed(257)
async def test_the_card_has_a_time_line_in_the_users_zone(ask: Any) -> None:
    result = await ask()
    assert result.text.split("\n")[0] == "Time: Saturday, 2026-01-31 14:05 (Europe/Berlin, UTC+01:00)"
    assert "Model: p/usual" in result.text and "Cost: $0.5000" in result.text
    assert result.details["session"] == OWN


async def test_the_model_is_chosen_and_the_choice_taken_back(ask: Any, sessions: Sessions) -> None:
    result = await ask(model="big")
    assert "Model set to p/big" in result.text and "Model: p/big (chosen for this session)" in result.text
    assert sessions.chosen == {OWN: "p/big"}
    result = await ask(model=" Default ")
    assert "cleared; p/usual applies" in result.text and sessions.chosen == {}


async def test_a_model_that_is_none_changes_nothing(ask: Any, sessions: Sessions) -> None:
    result = await ask(model="nonsense")
    assert result.isError and result.text == "no model 'nonsense'" and sessions.chosen == {}


async def test_what_the_caller_may_not_see_is_neither_shown_nor_changed(ask: Any, ctx: Any, sessions: Sessions) -> None:
    assert CHILD in (await ask(sessionKey=CHILD)).text
    ctx.session = CHILD
    for args in ({"sessionKey": OWN}, {"sessionKey": OWN, "model": "big"}, {"sessionKey": "agent:other:main"}):
        result = await ask(**args)
        assert result.isError and "can be seen from here" in result.text
    assert sessions.chosen == {}
    assert CHILD in (await ask(sessionKey="current")).text

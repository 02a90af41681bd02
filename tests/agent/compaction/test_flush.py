"""The memory flush: one tool, one file, nothing else, whatever the model asks for."""

from __future__ import annotations

from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from palinurus.abort import Abort
from palinurus.agent.compaction.flush import CALLS, flush_memory, locate_daily_notes
from palinurus.agent.compaction.summarize import SummaryClient
from palinurus.clock import SystemClock
from palinurus.config.sections.context import MemoryFlushSettings
from palinurus.core.types.messages import ToolResult, UserMessage
from palinurus.testing.model import ScriptedModel, call_tools, fail, make_model_info, say
from palinurus.workspace.memory.files import MemoryRoots

DAY = "memory/2026-06-10.md"


async def run(folder: Path, model: ScriptedModel, settings: MemoryFlushSettings = MemoryFlushSettings()) -> str:
    asker = SummaryClient(model, SystemClock(), Abort(), (make_model_info(),), "k", [])
    return await flush_memory((UserMessage("I sail to Ithaca"),), asker, MemoryRoots(str(folder)), DAY, settings)


async def test_a_note_is_added_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    (tmp_path / DAY).write_text("earlier")
    model = ScriptedModel([call_tools(("note", {"text": " new \n"})), say("NO_REPLY")])
    assert await run(tmp_path, model) == ""
    assert (tmp_path / DAY).read_text() == "earlier\n\nnew\n"
    assert [t.name for t in model.requests[0].tools] == ["note"]
    assert "I sail to Ithaca" in model.requests[0].messages[0].text and "NO_REPLY" in model.requests[0].messages[0].text


async def test_the_same_note_is_not_added_twice(tmp_path: Path) -> None:
    for _ in range(2):
        await run(tmp_path, ScriptedModel([call_tools(("note", {"text": "once"})), say("NO_REPLY")]))
    assert (tmp_path / DAY).read_text() == "once\n"


@pytest.mark.parametrize(
    "call",
    [
        ("write", {"path": "x", "content": "y"}),
        ("exec", {"command": "touch x"}),
        ("note", {}),
        ("note", {"text": 7}),
        ("note", {"text": " "}),
    ],
)
async def test_anything_else_is_refused(tmp_path: Path, call: tuple[str, dict[str, object]]) -> None:
    model = ScriptedModel([call_tools(call), say("NO_REPLY")])
    await run(tmp_path, model)
    result = model.requests[1].messages[-1]
    assert isinstance(result, ToolResult) and result.isError and list(tmp_path.iterdir()) == []


async def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "w" / "memory").mkdir(parents=True)
    (tmp_path / "secret.md").write_text("secret")
    (tmp_path / "w" / DAY).symlink_to(tmp_path / "secret.md")
    assert await run(tmp_path / "w", ScriptedModel([call_tools(("note", {"text": "x"}))], repeat=True)) != ""
    assert (tmp_path / "secret.md").read_text() == "secret"


async def test_a_model_that_never_stops_is_stopped_and_failures_are_words(tmp_path: Path) -> None:
    model = ScriptedModel([lambda r: call_tools(("note", {"text": f"n{len(r.messages)}"}))], repeat=True)
    assert await run(tmp_path, model) == "" and len(model.requests) == CALLS
    assert "overloaded" in await run(tmp_path, ScriptedModel([fail("overloaded")]))


async def test_the_words_can_be_changed_but_the_hint_stays(tmp_path: Path) -> None:
    model = ScriptedModel([say("NO_REPLY")])
    await run(tmp_path, model, MemoryFlushSettings(prompt="Note the tides.", system="You are a pilot."))
    request = model.requests[0]
    assert request.prompt.text == "You are a pilot." and request.messages[0].text.startswith("Note the tides.")
    assert "NO_REPLY" in request.messages[0].text


def test_the_day_is_the_users() -> None:
    late = 1_781_136_000_000  # 2026-06-11T00:00Z
    assert locate_daily_notes(late, None) == "memory/2026-06-11.md"
    assert locate_daily_notes(late, ZoneInfo("America/New_York")) == "memory/2026-06-10.md"

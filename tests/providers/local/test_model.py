"""`local/…` over a runtime that is none: answers, calls, aborts, crashes, one model at a time, idle."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from palinurus.abort import Abort
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import AssistantMessage, ToolCall, UserMessage
from palinurus.core.types.model import (
    ModelEvent,
    ModelRequest,
    ModelSpec,
    Prompt,
    StreamDone,
    StreamFailed,
    StreamProgress,
    TextDelta,
)
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.local.model import IDLE, LocalModel
from palinurus.testing.clock import FakeClock

ENGINE = (sys.executable, str(Path(__file__).parent / "engine.py"))
READ = ToolSpec("read", "Read a file. Long story.", {"type": "object", "properties": {"path": {"type": "string"}}})


def ask(text: str, model: str = "tiny", *tools: ToolSpec, context: int = 512) -> ModelRequest:
    info = ModelSpec(ModelRef("local", model), "local", context_window=context, max_tokens=64)
    return ModelRequest(info, Prompt("Be brief."), (UserMessage(text),), tools)


async def whole(model: LocalModel, request: ModelRequest, stop: Abort | None = None) -> tuple[str, ModelEvent]:
    """All text, and the last event."""
    events = [e async for e in model.stream(request, stop or Abort())]
    assert sum(isinstance(e, StreamDone | StreamFailed) for e in events) == 1
    return "".join(e.text for e in events if isinstance(e, TextDelta)), events[-1]


def message(end: ModelEvent) -> AssistantMessage:
    assert isinstance(end, StreamDone), end
    return end.message


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "models").mkdir()
    for name in ("tiny", "other"):
        (tmp_path / "models" / f"{name}.gguf").write_text("weights")
    (tmp_path / "models" / "broken.gguf").write_text("bad")
    return tmp_path


@pytest.fixture
async def local(home: Path) -> AsyncIterator[LocalModel]:
    model = LocalModel(str(home), argv=ENGINE)
    yield model
    await model.close()


async def test_it_answers_and_stays_loaded(local: LocalModel) -> None:
    text, end = await whole(local, ask("hello"))
    assert text.startswith("tiny 512 hello ")
    assert message(end).text == text
    assert message(end).usage.output == 3
    assert (message(end).api, message(end).provider, message(end).model) == ("local", "local", "tiny")
    assert (await whole(local, ask("hello")))[0] == text  # the same process


async def test_loading_and_reading_are_told_while_they_last(local: LocalModel) -> None:
    events = [e async for e in local.stream(ask("hello"), Abort())]
    assert events[0] == StreamProgress("loading", len("weights"))
    reading = [e for e in events if isinstance(e, StreamProgress) and e.stage == "reading"]
    assert [(e.done, e.total) for e in reading] == [(0, 9), (9, 9)] and reading[-1].seconds == 3
    words = next(at for at, e in enumerate(events) if isinstance(e, TextDelta))
    assert not any(isinstance(e, StreamProgress) for e in events[words:])
    again = [e async for e in local.stream(ask("hello"), Abort())]
    assert not any(isinstance(e, StreamProgress) and e.stage == "loading" for e in again)  # it is there


async def test_who_waits_for_another_answer_is_told(local: LocalModel) -> None:
    first, stop = local.stream(ask("slow"), Abort()), Abort()
    while not isinstance(await anext(first), TextDelta):
        pass
    second = local.stream(ask("hello"), stop)
    assert await anext(second) == StreamProgress("waiting")
    stop.set("user")
    assert isinstance(await anext(second), StreamFailed)
    await first.aclose()  # type: ignore[attr-defined]


async def test_an_abort_while_it_is_loaded(local: LocalModel) -> None:
    stop = Abort()
    async for event in local.stream(ask("hello"), stop):
        if isinstance(event, StreamProgress) and event.stage == "loading":
            stop.set("user")
    assert isinstance(event, StreamFailed) and event.failure.kind == "aborted"
    assert message((await whole(local, ask("hello")))[1]).text


async def test_who_leaves_while_it_is_loaded_leaves_nothing_behind(local: LocalModel) -> None:
    events = local.stream(ask("hello"), Abort())
    assert isinstance(await anext(events), StreamProgress)
    await events.aclose()  # type: ignore[attr-defined]
    assert message((await whole(local, ask("hello")))[1]).text


@pytest.mark.parametrize("text", ["tools", "function", "prose"])
async def test_other_written_calls_become_calls(local: LocalModel, text: str) -> None:
    said, end = await whole(local, ask(text, "tiny", READ))
    assert "{" not in said and message(end).calls == (ToolCall("text_1_0", "read", {"path": "a.txt"}),)


async def test_half_a_call_is_not_shown_when_the_runtime_dies(local: LocalModel) -> None:
    said, end = await whole(local, ask("half", "tiny", READ))
    assert said.strip() == "I look." and isinstance(end, StreamFailed) and end.message.text.strip() == "I look."


async def test_written_calls_become_calls(local: LocalModel) -> None:
    text, end = await whole(local, ask("call", "tiny", READ))
    assert text == ""
    assert message(end).calls == (ToolCall("text_1_0", "read", {"path": "a.txt"}),)
    assert message(end).stopReason == "toolUse"


async def test_without_tools_the_same_text_is_text(local: LocalModel) -> None:
    assert "```json" in (await whole(local, ask("call")))[0]


async def test_one_model_in_memory(local: LocalModel) -> None:
    first = (await whole(local, ask("hello")))[0].split()
    second = (await whole(local, ask("hello", "other")))[0].split()
    third = (await whole(local, ask("hello", "other", context=1024)))[0].split()
    assert [w[0] for w in (first, second, third)] == ["tiny", "other", "other"]
    assert third[1] == "1024"
    assert len({w[-1] for w in (first, second, third)}) == 3
    assert not Path(f"/proc/{first[-1]}").exists() or not Path("/proc").is_dir()


async def test_questions_wait_for_each_other(local: LocalModel) -> None:
    answers = await asyncio.gather(*(whole(local, ask(f"hello{n}")) for n in range(4)))
    assert [a[0].split()[2] for a in answers] == [f"hello{n}" for n in range(4)]


async def test_an_abort_stops_the_answer_and_keeps_the_model(local: LocalModel) -> None:
    pid = (await whole(local, ask("hello")))[0].split()[-1]
    stop, seen = Abort(), []
    async for event in local.stream(ask("slow"), stop):
        seen.append(event)
        if len(seen) == 3:
            stop.set("user")
    end = seen[-1]
    assert isinstance(end, StreamFailed) and end.failure.kind == "aborted" and end.failure.message == "user"
    assert end.message.stopReason == "aborted"
    assert end.message.text.startswith("tick ")
    assert (await whole(local, ask("hello")))[0].split()[-1] == pid


async def test_an_abort_while_waiting_for_another(local: LocalModel) -> None:
    first, stop = Abort(), Abort()
    running = asyncio.ensure_future(whole(local, ask("slow"), first))
    waiting = asyncio.ensure_future(whole(local, ask("hello"), stop))
    await asyncio.sleep(0)
    stop.set("user")
    end = (await waiting)[1]
    assert isinstance(end, StreamFailed) and end.failure.kind == "aborted"
    first.set("user")
    await running


async def test_whoever_leaves_early_leaves_the_model_free(local: LocalModel) -> None:
    stream = local.stream(ask("slow"), Abort())
    async for _ in stream:
        break
    await stream.aclose()  # type: ignore[attr-defined]
    assert (await whole(local, ask("hello")))[0].startswith("tiny")


async def test_a_child_that_does_not_stop_is_ended(home: Path) -> None:
    local = LocalModel(str(home), argv=ENGINE, grace=0.05)
    stop = Abort()
    async for event in local.stream(ask("deaf"), stop):
        if isinstance(event, TextDelta):
            stop.set("user")
    assert (await whole(local, ask("hello")))[0].startswith("tiny")
    await local.close()


async def test_a_crash_is_a_failure_and_the_next_question_is_answered(local: LocalModel) -> None:
    text, end = await whole(local, ask("crash"))
    assert text == "half "
    assert isinstance(end, StreamFailed) and end.failure.kind == "server" and end.failure.partial
    assert "SIGSEGV" in end.failure.message and "something is rotten" in end.failure.message
    assert end.message.text == "half "
    assert (await whole(local, ask("hello")))[0].startswith("tiny")


async def test_a_file_that_cannot_be_loaded(local: LocalModel) -> None:
    _, end = await whole(local, ask("hello", "broken"))
    assert isinstance(end, StreamFailed) and end.failure.kind == "server"
    assert "not a model file" in end.failure.message


async def test_what_the_runtime_raises_is_a_failure(local: LocalModel) -> None:
    _, end = await whole(local, ask("raise"))
    assert isinstance(end, StreamFailed) and "no such template" in end.failure.message
    assert (await whole(local, ask("hello")))[0].startswith("tiny")


async def test_a_prompt_that_does_not_fit(local: LocalModel) -> None:
    _, end = await whole(local, ask("overflow"))
    assert isinstance(end, StreamFailed) and end.failure.kind == "overflow"


async def test_a_model_that_is_not_here_says_how_to_get_it(local: LocalModel) -> None:
    _, end = await whole(local, ask("hello", "qwen2.5-coder-1.5b"))
    assert isinstance(end, StreamFailed) and end.failure.kind == "not_found"
    assert "`pal models pull qwen2.5-coder-1.5b`" in end.failure.message
    _, end = await whole(local, ask("hello", "../../etc/passwd"))
    assert isinstance(end, StreamFailed) and end.failure.kind == "not_found"


async def test_the_child_gets_no_keys(local: LocalModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    assert "OPENAI_API_KEY" not in (await whole(local, ask("env")))[0]


async def test_half_characters_do_not_stop_the_request(local: LocalModel) -> None:
    request = msgspec.structs.replace(ask("hello"), prompt=Prompt("\ud83d"))
    assert (await whole(local, request))[0].startswith("tiny")


async def test_a_model_nobody_asks_is_let_go_of(home: Path) -> None:
    clock = FakeClock()
    local = LocalModel(str(home), clock, argv=ENGINE)
    pid = (await whole(local, ask("hello")))[0].split()[-1]
    await clock.until_sleeping()
    await clock.advance(IDLE - 1)
    assert (await whole(local, ask("hello")))[0].split()[-1] == pid
    await clock.until_sleeping()
    await clock.advance(IDLE)
    again = (await whole(local, ask("hello")))[0].split()[-1]
    assert again != pid
    await local.close()


async def test_closing_ends_what_runs(home: Path) -> None:
    local = LocalModel(str(home), argv=ENGINE)
    stop, ends = Abort(), []

    async def run() -> None:
        async for event in local.stream(ask("slow"), stop):
            ends.append(event)
            if len(ends) == 2:
                closing.set()

    closing = asyncio.Event()
    task = asyncio.ensure_future(run())
    await closing.wait()
    await local.close()
    await task
    assert isinstance(ends[-1], StreamFailed) and ends[-1].failure.kind == "server"

"""Long conversations through the App: room is made, nothing is lost, every fault of the summariser is survived."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from palinurus.agent.compaction import flush
from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.history import compaction
from palinurus.core.history.repair import is_valid_history
from palinurus.core.history.tokens import estimate_tokens
from palinurus.core.types.events import RunEvent
from palinurus.core.types.inbound import Sender
from palinurus.core.types.model import ModelRequest
from palinurus.core.types.usage import TokenUsage
from palinurus.sessions.record import SessionRecord
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, ScriptedTurn, StreamGate, call_tools, fail, hold_at, say
from support import inbound

GOOD = "## Goal\n- sail home\n## Progress\n- the oars are mended"
OWNER = Sender("me", owner=True)
WINDOW = 40_000  # tokens
LONG = "word " * 1600  # 2,000 tokens


class Quick(SystemClock):
    """Waits between tries are short."""

    async def sleep(self, seconds: float) -> None:
        await super().sleep(seconds if seconds > 10 else seconds / 100)


class Crew:
    """Three models in one: who talks, who summarises, who remembers. Each is a list of steps; the last one repeats."""

    def __init__(self, talk: Any = None, summaries: Any = None, notes: Any = None) -> None:
        self.talk, self.summaries, self.notes = (
            talk or [say(LONG)],
            summaries or [say(GOOD)],
            notes or [say("NO_REPLY")],
        )
        self.asked: dict[str, list[ModelRequest]] = {"talk": [], "summary": [], "flush": []}
        self.model = ScriptedModel([self], repeat=True)

    def __call__(self, request: ModelRequest) -> Any:
        head = request.prompt.stable
        kind = "summary" if head == compaction.SUMMARY_SYSTEM else "flush" if head == flush.SYSTEM else "talk"
        steps = {"talk": self.talk, "summary": self.summaries, "flush": self.notes}[kind]
        number = len(self.asked[kind])
        self.asked[kind].append(request)
        step = steps[min(number, len(steps) - 1)]
        turn = step(request) if callable(step) else step
        if isinstance(turn, ScriptedTurn) and turn.failure is None and turn.usage == TokenUsage(10, 5, 0, 0, 15):
            return ScriptedTurn(turn.text, turn.thinking, turn.calls, None, TokenUsage(), turn.gates)
        return turn

    @property
    def seen(self) -> str:
        """What the model saw last."""
        return "\n".join(m.text for m in self.asked["talk"][-1].messages)


@asynccontextmanager
async def running(
    home: Path,
    crew: Crew,
    window: int = WINDOW,
    limits: dict[str, int] | None = None,
    *,
    own: dict[str, int] | None = None,
    channel: FakeChannel | None = None,
    **compaction: Any,
) -> AsyncIterator[App]:
    home.mkdir(exist_ok=True)
    model = {"id": "m", "contextWindow": window}
    config = {
        "models": {"providers": {"fake": {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [model]}}},
        "agents": {
            "defaults": {"model": {"primary": "fake/m"}, "compaction": compaction, "contextLimits": limits or {}},
            "list": [{"id": "main", "contextLimits": own or {}}],
        },
        "tools": {
            "allow": ["read", "write", "ls", "update_plan"]
        },  # what a request weighs does not grow with the program
    }
    (home / "palinurus.json").write_text(json.dumps(config))
    app = App(
        load_config(str(home), {}).settings,
        {},
        Quick(),
        model=crew.model,
        channels={"fake": channel} if channel else None,
    )
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def tell(app: App, text: str, sink: Callable[[RunEvent], None] | None = None) -> str:
    accepted = await app.submit(inbound(text, session="main", sender=OWNER), sink)
    row = await app.wait(accepted.id)
    assert row.outcome in ("answered", "silent", "failed"), row
    return row.note


async def converse(app: App, turns: int) -> None:
    for n in range(turns):
        await tell(app, f"{n}: {LONG}")


async def session(app: App) -> SessionRecord:
    row = await app.store.session("agent:main:main")
    assert row is not None
    return SessionRecord.decode(row.data)


def lines(home: Path) -> list[dict[str, Any]]:
    files = list((home / "agents" / "main" / "sessions").glob("*.jsonl"))
    assert len(files) <= 1
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def compactions(home: Path) -> list[dict[str, Any]]:
    return [line for line in lines(home) if line["type"] == "compaction"]


def kinds(events: list[RunEvent]) -> list[str]:
    return [event.__struct_config__.tag for event in events]  # type: ignore[misc]


@pytest.mark.seed(330, 332, 337, 338)
async def test_a_conversation_that_fills_its_window_is_summarised_and_goes_on(tmp_path: Path) -> None:
    crew, home, hooked = Crew(), tmp_path / "h", list[tuple[str, dict[str, Any]]]()
    events: list[RunEvent] = []
    async with running(home, crew) as app:
        for point in ("before_compaction", "after_compaction"):
            app.hooks.on(point, lambda payload, point=point: hooked.append((point, payload)))
        n = 0
        while not compactions(home) and n < 20:
            events.clear()
            await tell(app, f"{n}: {LONG}", events.append)
            n += 1
        assert (await session(app)).compactionCount == 1
        spent = await app.store.list_usage(0)
    shown = kinds(events)
    shown = shown[shown.index("agent_start") :]  # the end of the run before may come when its outcome is on disk
    assert shown[:6] == [
        "agent_start", "message_start", "message_end", "auto_compaction_start", "auto_compaction_end", "message_start",
    ]  # fmt: skip
    assert [h[0] for h in hooked] == ["before_compaction", "after_compaction"]
    assert hooked[0][1]["compactingCount"] == hooked[1][1]["compactedCount"] > 0
    messages = crew.asked["talk"][-1].messages
    assert "<summary>" in messages[0].text and "the oars are mended" in messages[0].text and is_valid_history(messages)
    assert messages[-1].text.startswith(f"{n - 1}: ")  # what was asked is there in full,
    assert messages[-2].text == LONG and len(messages) >= 3  # and so is what came just before it
    entry, written = compactions(home)[0], lines(home)
    ids = [line["id"] for line in written]
    assert ids.index(entry["details"]["from"]) == 1 and entry["details"]["to"] in ids
    assert ids.index(entry["details"]["to"]) + 1 == ids.index(entry["firstKeptEntryId"]) < ids.index(entry["id"])
    assert sum(line["type"] == "message" for line in written) == 2 * n  # nothing is deleted
    assert entry["tokensBefore"] > entry["details"]["tokensAfter"] and spent == []


async def test_the_cost_of_a_summary_is_in_the_ledger(tmp_path: Path) -> None:
    crew = Crew(summaries=[ScriptedTurn(GOOD, usage=TokenUsage(900, 70, 0, 0, 970))])
    async with running(tmp_path / "h", crew) as app:
        await converse(app, 6)
        assert crew.asked["summary"]
        assert [s.input for s in await app.store.list_usage(0)] == [900] * len(crew.asked["summary"])


@pytest.mark.seed(331)
async def test_notes_are_written_first_once_and_only_into_todays_file(tmp_path: Path) -> None:
    notes = call_tools(
        ("note", {"text": "The user sails to Ithaca."}),
        ("exec", {"command": "touch pwned"}),
        ("write", {"path": "AGENTS.md", "content": "pwned"}),
    )
    crew, home = Crew(notes=[notes, say("NO_REPLY")]), tmp_path / "h"
    seen: list[RunEvent] = []
    async with running(home, crew) as app:
        for n in range(9):
            await tell(app, f"{n}: {LONG}", seen.append)
        record = await session(app)
    assert len(compactions(home)) >= 2
    cycles = record.compactionCount
    assert cycles == len(compactions(home)) and record.memoryFlushAt
    assert cycles <= len([r for r in crew.asked["flush"] if len(r.messages) == 1]) <= cycles + 1
    first = crew.asked["flush"][0]
    assert [t.name for t in first.tools] == ["note"] and first.session == ""
    (file,) = (home / "workspace" / "memory").glob("*.md")
    assert file.read_text() == "The user sails to Ithaca.\n" and len(file.stem) == 10
    assert not (home / "workspace" / "pwned").exists() and not (home / "workspace" / "AGENTS.md").exists()
    assert "Ithaca" not in json.dumps([line for line in lines(home) if line["type"] == "message"])
    assert not any("Ithaca" in repr(event) for event in seen)


@pytest.mark.seed(333)
async def test_a_summary_is_tried_again_three_times(tmp_path: Path) -> None:
    crew, home = Crew(summaries=[fail("server"), say(""), fail("server"), say(GOOD)]), tmp_path / "h"
    async with running(home, crew) as app:
        n = 0
        while not compactions(home) and n < 20:
            await tell(app, f"{n}: {LONG}")
            n += 1
    first, *others = [r.messages[0].text.partition("<conversation>")[2][:2000] for r in crew.asked["summary"]]
    assert len(compactions(home)) == 1 and others[:3] == [first] * 3 and first not in others[3:]
    assert "could not be used: it was empty" not in crew.asked["summary"][1].messages[0].text
    assert "could not be used: it was empty" in crew.asked["summary"][2].messages[0].text


FAULTS = {
    "server": fail("server"),
    "refused": fail("refused"),
    "empty": say(""),
    "garbage": say("zxqv wplk qwrt mnbv plokij uhygtf rdeswa qazxsw"),
    "refusal": say("I'm sorry, but I can't help with that."),
    "cut": fail("cut", after="## Goal\n- sa"),
    "overflow": fail("overflow"),
}


@pytest.mark.seed(334)
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_failed_summary_changes_nothing_and_the_conversation_goes_on(tmp_path: Path, fault: str) -> None:
    crew, home = Crew(summaries=[FAULTS[fault]]), tmp_path / "h"
    told: list[RunEvent] = []
    async with running(home, crew) as app:
        for n in range(6):
            assert await tell(app, f"{n}: {LONG}", told.append) == LONG.strip()
    unusable = fault in ("empty", "garbage", "refusal")  # qualityGuard.maxRetries
    assert len(crew.asked["summary"]) == (3 if unusable else 4)  # and then it rests
    assert compactions(home) == []
    assert len(crew.asked["talk"][-1].messages) == 11  # the whole conversation, as before
    assert sum("could not be summarised" in str(getattr(event, "notices", "")) for event in told) == 1


@pytest.mark.seed(334)
async def test_a_summary_that_takes_too_long_leaves_the_conversation_as_it_was(tmp_path: Path) -> None:
    crew, home = Crew(summaries=[hold_at(say(GOOD), StreamGate(), 0)]), tmp_path / "h"
    async with running(home, crew, timeoutSeconds=1) as app:
        await converse(app, 5)
        assert await tell(app, "are you there?") == LONG.strip()
    assert compactions(home) == [] and len(crew.asked["summary"]) == 1
    assert len(crew.asked["talk"][-1].messages) == 11


@pytest.mark.parametrize("fault", ["server", "garbage", "empty"])
async def test_without_a_summariser_a_cut_with_the_must_keep_set_lets_it_go_on(tmp_path: Path, fault: str) -> None:
    crew, home = Crew(summaries=[FAULTS[fault]]), tmp_path / "h"
    rule = "Never cut the mast of hull-77213 without asking."
    async with running(home, crew) as app:
        await tell(app, rule)
        await converse(app, 14)
    assert compactions(home) == [] and sum(line["type"] == "message" for line in lines(home)) == 30
    messages = crew.asked["talk"][-1].messages
    assert is_valid_history(messages) and estimate_tokens(messages) < WINDOW - 4000
    assert rule in messages[0].text and "hull-77213" in messages[0].text and messages[-1].text.startswith("13: ")


async def test_an_overflow_of_the_provider_is_compacted_and_tried_again_with_the_flush_before_it(
    tmp_path: Path,
) -> None:
    talk = [say("short answer"), say("short answer"), say(LONG), fail("overflow"), say("after the overflow")]
    crew, home = Crew(talk), tmp_path / "h"
    seen: list[RunEvent] = []
    async with running(home, crew, 1_000_000) as app:
        for _ in range(3):
            await tell(app, LONG)
        assert await tell(app, "and this one is too much", seen.append) == "after the overflow"
    (entry,) = compactions(home)
    assert entry["details"]["reason"] == "overflow" and len(crew.asked["flush"]) == 1
    assert kinds(seen).count("auto_compaction_start") == 1 and crew.seen.endswith("and this one is too much")
    assert len(crew.asked["talk"][-1].messages) < 7


async def test_an_overflow_that_stays_ends_with_an_explanation_and_a_whole_file(tmp_path: Path) -> None:
    crew, home = Crew([say(LONG), say(LONG), fail("overflow", "prompt is too long")]), tmp_path / "h"
    async with running(home, crew, 1_000_000) as app:
        for _ in range(2):
            await tell(app, LONG)
        assert "too long" in await tell(app, "no way")
    assert 2 <= len(crew.asked["talk"]) - 2 <= 4
    assert sum(line["type"] == "message" for line in lines(home)) == 5


async def test_a_long_turn_is_cut_in_two_and_the_run_goes_on_with_its_ask_and_its_plan(tmp_path: Path) -> None:
    ask = "Sort the 4711 boxes by weight, and never open box PAL-9."
    (tmp_path / "h" / "workspace").mkdir(parents=True)
    (tmp_path / "h" / "workspace" / "big.txt").write_text("grain and wine\n" * 900)
    plan = {"plan": [{"step": "weigh box 17", "status": "in_progress"}]}
    steps = [call_tools(("update_plan", plan))] + [
        call_tools(("read", {"path": "big.txt", "offset": n})) for n in range(1, 16)
    ]
    crew = Crew([*steps, say("sorted")])
    async with running(tmp_path / "h", crew) as app:
        assert await tell(app, ask) == "sorted"
    made = compactions(tmp_path / "h")
    assert made and "The turn that is going on" in made[0]["summary"]
    assert ask in crew.seen and "plan, in_progress: weigh box 17" in crew.seen
    assert all(is_valid_history(request.messages) for request in crew.asked["talk"])
    assert len(crew.asked["talk"]) == 17


async def test_later_compactions_merge_the_earlier_ones(tmp_path: Path) -> None:
    crew, home = Crew(), tmp_path / "h"
    rule = "Always keep the keys of vault 90210 in the drawer."
    async with running(home, crew) as app:
        await tell(app, rule)
        await converse(app, 14)
    made = compactions(home)
    assert len(made) >= 3 and all(rule in entry["summary"] for entry in made) and rule in crew.seen
    later = crew.asked["summary"][-1].messages[0].text
    assert "<record>" in later and "the oars are mended" in later
    assert len({line["id"] for line in lines(home)[1:]}) == len(lines(home)) - 1


async def test_between_compactions_the_summary_keeps_its_bytes(tmp_path: Path) -> None:
    crew, home = Crew([say("a short one")]), tmp_path / "h"
    async with running(home, crew) as app:
        while not compactions(home):
            await tell(app, LONG)
        first = crew.asked["talk"][-1].messages[0]
        await tell(app, "short")
    async with running(home, crew) as app:  # also after a restart
        await tell(app, "short again")
    assert crew.asked["talk"][-1].messages[0].text == crew.asked["talk"][-2].messages[0].text == first.text


async def test_messages_steered_in_while_room_is_made_are_not_lost(tmp_path: Path) -> None:
    gate = StreamGate()
    crew, home = Crew([say(LONG)], summaries=[hold_at(say(GOOD), gate, 0)]), tmp_path / "h"
    async with running(home, crew) as app:
        reached = asyncio.ensure_future(gate.wait_reached())
        first: asyncio.Future[str] = asyncio.ensure_future(tell(app, LONG))
        while not reached.done():
            await asyncio.wait((first, reached), return_when=asyncio.FIRST_COMPLETED)
            if not reached.done():
                first = asyncio.ensure_future(tell(app, LONG))
        second = await app.submit(inbound("and mind the rocks", session="main", sender=OWNER))
        gate.open()
        await first
        await app.wait(second.id)
    said = [line["message"]["content"] for line in lines(home) if line.get("message", {}).get("role") == "user"]
    assert said.count("and mind the rocks") == 1 and crew.seen.count("and mind the rocks") == 1
    assert len(compactions(home)) == 1


async def test_a_session_that_cannot_be_made_smaller_says_so_once_and_does_not_try_for_ever(tmp_path: Path) -> None:
    crew, home = Crew([say("ok")]), tmp_path / "h"
    told: list[RunEvent] = []
    async with running(home, crew) as app:
        await tell(app, "word " * 26_000, told.append)  # one message, nearly the whole window
        for n in range(3):
            await tell(app, f"short {n}", told.append)
    notices = [text for event in told for text in getattr(event, "notices", ())]
    assert sum("cannot be made smaller" in text for text in notices) == 1
    assert len(crew.asked["summary"]) <= 1


async def test_the_models_of_summary_and_flush_can_be_chosen(tmp_path: Path) -> None:
    crew = Crew()
    flushed = {"model": "builtin/demo"}
    wishes = {"model": "builtin/demo", "customInstructions": "mention the wind", "memoryFlush": flushed}
    async with running(tmp_path / "h", crew, **wishes) as app:
        await converse(app, 6)
    assert {str(r.model.ref) for r in crew.asked["summary"]} == {"builtin/demo"}
    assert "mention the wind" in crew.asked["summary"][0].messages[0].text
    assert "exactly as it stands" in crew.asked["summary"][0].messages[0].text


# --- /compact -----------------------------------------------------------------------------------------------------


async def test_by_hand_and_back_again(tmp_path: Path) -> None:
    crew, home = Crew([say("a word")]), tmp_path / "h"
    async with running(home, crew) as app:
        assert "nothing to compact" in await tell(app, "/compact")
        for n in range(4):
            await tell(app, f"{n}: {LONG}")
        before = crew.asked["talk"][-1].messages
        said = await tell(app, "/compact mind the wind")
        assert said.startswith("🧹 Compacted: ") and "→" in said and "8 messages" in said
        assert "The user asks: mind the wind" in crew.asked["summary"][0].messages[0].text
        assert len(crew.asked["flush"]) == 1 and (await session(app)).compactionCount == 1
        shown = await tell(app, "/compact show")
        assert "the oars are mended" in shown and "manual" in shown and "in use" in shown
        await tell(app, "go on")
        assert len(crew.asked["talk"][-1].messages) == 2
        assert "messages again" in await tell(app, "/compact undo")
        await tell(app, "and on")
        after = crew.asked["talk"][-1].messages
        assert after[: len(before)] == before
        assert [m.text for m in after[len(before) + 1 :]] == ["go on", "a word", "and on"]
        assert "taken back" in await tell(app, "/compact list")
        assert "Nothing was compacted" in await tell(app, "/compact undo")
    async with running(home, crew) as app:  # the file says the same
        await tell(app, "still")
        assert len(crew.asked["talk"][-1].messages) == len(after) + 2
        assert sum(m.text.startswith("What was said before") for m in crew.asked["talk"][-1].messages) == 0


async def test_going_on_from_before_a_compaction(tmp_path: Path) -> None:
    crew, home = Crew([say("a word")]), tmp_path / "h"
    async with running(home, crew) as app:
        await tell(app, f"one {LONG}")
        await tell(app, "/compact")
        await tell(app, "two")
        await tell(app, "/compact branch 1")
        await tell(app, "three")
        texts = [m.text for m in crew.asked["talk"][-1].messages]
    assert texts == [f"one {LONG}", "a word", "three"]
    assert sum(line["type"] == "message" for line in lines(home)) == 6


async def test_by_hand_while_the_agent_works_the_run_does_it(tmp_path: Path) -> None:
    gate = StreamGate()
    crew, home = Crew([say(LONG), hold_at(call_tools(("ls", {})), gate, 0), say("done")]), tmp_path / "h"
    async with running(home, crew) as app:
        await tell(app, LONG)
        turn = asyncio.ensure_future(tell(app, "list the files"))
        await gate.wait_reached()
        assert "before its next model call" in await tell(app, "/compact")
        assert "at work" in await tell(app, "/compact undo")
        gate.open()
        assert await turn == "done"
    (entry,) = compactions(home)
    assert entry["details"]["reason"] == "manual" and is_valid_history(crew.asked["talk"][-1].messages)


@pytest.mark.parametrize("fault", ["server", "refusal"])
async def test_by_hand_a_failure_is_told_and_nothing_changes(tmp_path: Path, fault: str) -> None:
    crew, home = Crew([say("a word")], summaries=[FAULTS[fault]]), tmp_path / "h"
    async with running(home, crew) as app:
        await tell(app, LONG)
        said = await tell(app, "/compact")
        assert said.startswith("Not compacted: ") and said.endswith("The conversation is as it was.")
        await tell(app, "go on")
    assert compactions(home) == [] and len(crew.asked["talk"][-1].messages) == 3


AGENTS = (
    "# House\n## Rules\nNever paint the boat.\n### Colours\nNo red.\n```\n# Rules\n```\n## Other\nBuy tar.\n"
    "## rules #\nKeep dry.\n"
)


@pytest.mark.seed(396)
@pytest.mark.parametrize("most", [None, 90])
async def test_sections_of_agents_md_are_said_again_after_a_compaction(tmp_path: Path, most: int | None) -> None:
    """contextLimits.postCompactionMaxChars, the agent's before everybody's; without names nothing is said again."""
    crew, home = Crew(), tmp_path / "h"
    (home / "workspace").mkdir(parents=True)
    (home / "workspace" / "AGENTS.md").write_text(AGENTS + "x" * 500)
    for sections in (["Rules"], []):
        own = {} if most is None else {"postCompactionMaxChars": most}
        shared = {"postCompactionMaxChars": 400}
        async with running(home, crew, limits=shared, own=own, postCompactionSections=sections) as app:
            await converse(app, 3)
            await tell(app, "/compact")
            await tell(app, "and now?")
        summary = compactions(home)[-1]["summary"]
        told = summary.partition("## Rules of this workspace (AGENTS.md)\n")[2]
        if not sections:
            assert told == "" and "paint" not in summary
        elif most is None:
            assert told.startswith("**Rules**\nNever paint the boat.\n**Colours**\nNo red.") and "Keep dry." in told
            assert "Buy tar." not in told and "Never paint the boat." in crew.seen
        else:
            assert len(told) <= most + 40 and told.startswith("**Rules**")

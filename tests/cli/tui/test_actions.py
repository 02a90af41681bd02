"""What keys and words of the screen's own do, on a small, a usual and a large terminal."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input, OptionList, Static

from cli.tui.screen import Seat, seat
from palinurus.cli.tui.dialogs import Picker
from palinurus.cli.tui.panel import TaskPanel
from palinurus.core.types.model import ModelEvent, ModelFailure, ModelRequest, StopSignal, StreamRetry
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, say

# Here a small one, where things do not fit; the others in `make torture`. Where the size decides: both ends.
LATER = [pytest.param(size, marks=pytest.mark.torture) for size in ((80, 24), (200, 50))]
SIZES = pytest.mark.parametrize("size", [(60, 20), *LATER])
ENDS = pytest.mark.parametrize("size", [(60, 20), LATER[0], (200, 50)])
FREE = {"tools": {"exec": {"security": "full", "ask": "off", "host": "gateway"}}}
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


async def picked(here: Seat, text: str) -> None:
    await here.until(lambda: isinstance(here.chat.screen, Picker))
    await here.pick(text)


async def answered(here: Seat, text: str) -> None:
    await here.until(lambda: here.said("words")[-1:] == [text] and not here.chat.remote.talk.run)


@SIZES
async def test_a_plan_ticks_off_above_the_line_and_is_gone_when_all_is_done(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    def plan(first: str, second: str) -> Any:
        steps = [{"step": "Look at it", "status": first}, {"step": "Mend it", "status": second}]
        return call_tools(("update_plan", {"plan": steps}))

    gate = StreamGate()
    script = [plan("completed", "in_progress"), hold_at(plan("completed", "completed"), gate, 0), say("Done.")]
    async with seat(tmp_path, ScriptedModel(script), size=size) as here:
        await here.type("go")
        await here.until(lambda: here.chat.strip.display and "Plan 1/2" in here.screen())
        assert "▸ Mend it" in here.screen()
        gate.open()
        await answered(here, "Done.")
        await here.until(lambda: not here.chat.strip.display)
        assert "✔ Mend it" in here.screen()


@ENDS
async def test_changes_are_beside_each_other_where_there_is_room(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text("one\ntwo\nthree\n")
    edit = call_tools(("edit", {"path": "a.txt", "edits": [{"oldText": "two", "newText": "2"}]}))
    async with seat(tmp_path, ScriptedModel([edit, say("Done.")]), size=size) as here:
        await here.type("go")
        await answered(here, "Done.")
        wide = size[0] >= 160
        await here.until(lambda: ("-two" in here.screen()) and ((" │ " in here.screen()) == wide))
        row = next(line for line in here.screen().split("\n") if "-two" in line)
        assert ("+2" in row) == wide


@SIZES
async def test_back_to_an_earlier_message_with_its_files(tmp_path: Path, size: tuple[int, int]) -> None:
    write = call_tools(("write", {"path": "new.txt", "content": "x"}))
    model = ScriptedModel([say("first"), write, say("second"), say("third")])
    async with seat(tmp_path, model, size=size) as here:
        await here.type("begin")
        await answered(here, "first")
        await here.type("write it")
        await answered(here, "second")
        file = tmp_path / "workspace" / "new.txt"
        assert file.exists()
        await here.pilot.press("escape", "escape")
        await picked(here, "write it")
        await picked(here, "and the files")
        await here.until(lambda: here.chat.composer.text == "write it" and here.said("words") == ["first"])
        assert not file.exists() and "new.txt" in here.said("note")[-1]
        await here.type("other")
        await answered(here, "third")
        assert here.said("user") == ["begin", "other"]


@SIZES
async def test_the_last_thing_is_asked_again(tmp_path: Path, size: tuple[int, int]) -> None:
    async with seat(tmp_path, ScriptedModel([fail("auth", "no such key"), say("now")]), size=size) as here:
        await here.type("hello")
        await here.until(lambda: here.said("error"))
        assert "no such key" in here.said("error")[0] and "fix: the key was refused" in here.said("error")[0]
        await here.house.cut()  # what failed is told also to who comes later
        await here.until(lambda: len(here.house.lines) == 2 and not here.chat.remote.line and here.said("error"))
        assert "no such key" in here.said("error")[0]
        await here.type("/retry")
        await answered(here, "now")
        assert here.said("user") == ["hello"]


@SIZES
async def test_work_in_the_background_is_counted_listed_read_and_stopped(tmp_path: Path, size: tuple[int, int]) -> None:
    script = [call_tools(("exec", {"command": "echo tick; sleep 60", "background": True})), say("started")]
    async with seat(tmp_path, ScriptedModel(script), size=size, **FREE) as here:
        await here.type("go")
        await answered(here, "started")
        await here.until(lambda: "1 in the background" in here.status)
        await here.pilot.press("f2")
        await here.until(lambda: isinstance(here.chat.screen, TaskPanel))
        panel = here.chat.screen
        await here.until(lambda: panel.query_one(OptionList).option_count == 1 and "running" in here.screen())
        await here.pilot.press("enter")
        await here.until(lambda: "tick" in str(panel.query_one("#log-text", Static).render()))
        await here.pilot.press("s")
        await here.until(lambda: here.here.app.processes.all()[0].status != "running")
        await here.pilot.press("escape")
        await here.until(lambda: "in the background" not in here.status)


@SIZES
async def test_what_was_typed_is_found_and_words_of_the_conversation_too(tmp_path: Path, size: tuple[int, int]) -> None:
    async with seat(tmp_path, ScriptedModel([say("The harbour is full."), say("no")]), size=size) as here:
        await here.type("tell me about ships")
        await answered(here, "The harbour is full.")
        await here.type("else")
        await answered(here, "no")
        await here.pilot.press("ctrl+r")
        await picked(here, "ships")
        await here.until(lambda: here.chat.composer.text == "tell me about ships")
        await here.pilot.press("ctrl+c")
        await here.house.cut()
        await here.until(lambda: len(here.house.lines) == 2 and not here.chat.remote.line)
        await here.pilot.press("f3")
        await picked(here, "harbour")
        await here.until(lambda: list(here.chat.query(".found")))


@SIZES
async def test_long_pastes_are_folded_and_pictures_go_along(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "a dot.png").write_bytes(PNG)
    model = ScriptedModel([say("seen")])
    config = {
        "models": {
            "providers": {
                "fake": {
                    "baseUrl": "http://127.0.0.1:9/v1",
                    "apiKey": "k",
                    "models": [{"id": "m", "input": ["text", "image"]}],
                }
            }
        }
    }
    async with seat(tmp_path, model, size=size, **config) as here:
        box = here.chat.composer.box
        box.post_message(events.Paste("\r".join(f"row {n}" for n in range(40))))
        await here.until(lambda: "[pasted 1: 40 lines" in here.chat.composer.text)
        box.post_message(events.Paste(f"{tmp_path}/a\\ dot.png"))
        await here.until(lambda: "[picture 1: a dot.png]" in here.chat.composer.text)
        await here.pilot.press("enter")
        await answered(here, "seen")
        (asked,) = model.requests
        assert "row 39" in str(asked) and "image/png" in str(asked)


@SIZES
async def test_a_note_goes_to_memory_and_nowhere_else(tmp_path: Path, size: tuple[int, int]) -> None:
    model = ScriptedModel([])
    async with seat(tmp_path, model, size=size) as here:
        await here.type("#likes tea")
        await here.until(lambda: here.said("note") and "likes tea" in here.said("note")[-1])
        await here.until(lambda: "likes tea" in here.screen())
        assert (tmp_path / "workspace" / "MEMORY.md").read_text().endswith("- likes tea\n") and not model.requests


async def test_an_unknown_command_asks_once_and_then_goes_out(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("fine")])) as here:
        await here.type("/foo bar")
        await here.until(lambda: here.chat.composer.text == "/foo bar")
        assert not here.said("user")
        await here.pilot.press("enter")
        await answered(here, "fine")


@SIZES
async def test_what_waits_is_taken_back_to_be_changed(tmp_path: Path, size: tuple[int, int]) -> None:
    gate = StreamGate()
    async with seat(tmp_path, ScriptedModel([hold_at(say("one"), gate, 0), say("two")]), size=size) as here:
        await here.type("/queue followup")
        await here.until(lambda: here.said("note"))
        await here.type("first")
        await gate.wait_reached()
        await here.type("secnd")
        await here.until(lambda: here.blocks[-1].state == "waiting" and "secnd (waiting)" in here.screen())
        await here.pilot.press("alt+up")
        await here.until(lambda: here.chat.composer.text == "secnd")
        gate.open()
        await answered(here, "one")


@SIZES
async def test_vi_keys_where_they_are_wanted(tmp_path: Path, size: tuple[int, int]) -> None:
    async with seat(tmp_path, ScriptedModel([say("ok")]), ui={"terminal": {"keys": "vi"}}, size=size) as here:
        await here.pilot.press(*"one", "space", *"two", "escape")
        await here.until(lambda: here.status.startswith("NORMAL") and "NORMAL" in here.screen())
        await here.pilot.press("b", "c", "w", *"six", "escape", "0", "x")
        assert here.chat.composer.text == "ne six"
        await here.pilot.press("u")
        await here.pilot.press("enter")
        await answered(here, "ok")
        assert here.said("user")[0] in ("one six", "ne six")


@SIZES
async def test_the_editor_gets_the_text_and_gives_it_back(tmp_path: Path, size: tuple[int, int]) -> None:
    script = tmp_path / "ed"
    script.write_text("#!/bin/sh\nprintf 'and more' >> \"$1\"\n")
    script.chmod(0o755)
    environ = {"EDITOR": str(script), "PATH": "/usr/bin:/bin"}
    async with seat(tmp_path, ScriptedModel([]), environ=environ, size=size) as here:
        here.chat.composer.set("draft ")
        await here.pilot.press("ctrl+x", "ctrl+e")
        await here.until(lambda: here.chat.composer.text == "draft and more" and "draft and more" in here.screen())


@ENDS
async def test_a_theme_is_picked_at_every_size(tmp_path: Path, size: tuple[int, int]) -> None:
    async with seat(tmp_path, ScriptedModel([]), size=size) as here:
        await here.type("/theme")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        await here.until(lambda: "dracula" in here.screen() and "16-light" in here.screen())
        await here.pick("dracula")
        await here.until(lambda: here.chat.theme == "dracula")


@SIZES
async def test_a_call_that_is_made_again_says_which_try_and_why(tmp_path: Path, size: tuple[int, int]) -> None:
    class Crowded(ScriptedModel):
        async def stream(self, request: ModelRequest, stop: StopSignal) -> AsyncIterator[ModelEvent]:
            yield StreamRetry(ModelFailure("rate_limit", "too many requests"), attempt=1, wait=6)
            async for event in super().stream(request, stop):
                yield event

    gate = StreamGate()
    async with seat(tmp_path, Crowded([hold_at(say("ok"), gate, 0)]), size=size) as here:
        await here.type("hi")
        await gate.wait_reached()
        await here.until(lambda: "too many requests; trying again in 6 s" in " ".join(here.screen().split()))
        assert "(try 2)" in here.said("note")[-1]
        gate.open()
        await answered(here, "ok")


@ENDS
async def test_the_line_at_the_bottom_keeps_what_matters_most(tmp_path: Path, size: tuple[int, int]) -> None:
    parts = ["state", "mode", "folder", "model", "context", "cost", "command", "sandbox"]
    async with seat(tmp_path, ScriptedModel([say("ok")]), size=size, ui={"terminal": {"status": parts}}) as here:
        await here.pilot.press("shift+tab")
        await here.type("hi")
        await answered(here, "ok")
        await here.until(lambda: "acceptEdits mode" in here.screen().split("\n")[-1])
        line = here.screen().split("\n")[-1]
        assert "fake/m" in line and len(line) <= size[0]
        assert ("tokens" in line) or size[0] == 60


@pytest.mark.parametrize("theme", ["auto", "dark", "light", "16", "16-light", "nord", "nosuch"])
async def test_every_theme_draws_and_can_be_changed(tmp_path: Path, theme: str) -> None:
    async with seat(tmp_path, ScriptedModel([say("**ok** `x`")]), ui={"terminal": {"theme": theme}}) as here:
        await here.type("hi")
        await answered(here, "**ok** `x`")
        if theme not in ("auto", "dark"):  # from one to another of them is the same way for all
            return
        await here.type("/theme light")
        await here.until(lambda: here.chat.theme == "pal-light")
        await here.type("/theme")
        await picked(here, "dracula")
        await here.until(lambda: here.chat.theme == "dracula")


async def test_without_colours_there_is_none(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("**ok** `x`")]), environ={"NO_COLOR": "1"}) as here:
        assert here.chat.native_ansi_color and here.chat.theme == "ansi-dark"


@SIZES
async def test_shift_tab_goes_through_the_modes_and_the_line_says_which(tmp_path: Path, size: tuple[int, int]) -> None:
    async with seat(tmp_path, ScriptedModel([]), size=size) as here:
        for mode in ("acceptEdits", "full", "plan", "ask"):
            await here.pilot.press("shift+tab")
            await here.until(lambda mode=mode: f"{mode} mode" in here.status)
        await here.pilot.press("shift+tab")
        await here.until(lambda: "mode" not in here.status and "permissionMode" not in here.chat.remote.row)


async def test_leaving_says_how_to_go_on_and_what_it_took(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("ok")])) as here:
        await here.type("hi")
        await answered(here, "ok")
        await here.until(lambda: here.chat.remote.row.get("outputTokens"))
        said = here.chat.tell_farewell()
        assert said.startswith("To go on with this conversation: pal") and "15 tokens" in said


async def test_a_letter_of_the_program_is_a_card_that_unfolds(tmp_path: Path) -> None:
    model = ScriptedModel(
        [call_tools(("sessions_spawn", {"task": "look"})), say("waiting"), say("found it"), say("thanks")]
    )
    async with seat(tmp_path, model) as here:
        await here.type("go")
        await here.until(lambda: here.said("told"))
        (card,) = here.chat.query(".told")
        assert str(card.render()).startswith("✉ sub-agent") and "EXTERNAL" not in str(card.render())
        assert any(b.text.startswith("started; F2") for b in here.blocks if b.kind == "tool")
        await here.pilot.press("ctrl+o")
        await here.until(lambda: "EXTERNAL" in str(card.render()))


async def test_ctrl_c_after_typing_does_not_leave(tmp_path: Path) -> None:
    gate = StreamGate()
    async with seat(tmp_path, ScriptedModel([hold_at(say("x"), gate, 0)])) as here:
        await here.pilot.press("ctrl+c")
        await here.type("hi")
        await gate.wait_reached()
        await here.until(lambda: here.chat.remote.talk.run)
        await here.pilot.press("ctrl+c")
        await here.until(lambda: here.said("note") == ["stopped"])
        await here.pilot.press("ctrl+c")
        assert here.chat.is_running


async def test_the_filter_of_a_list_can_begin_with_what_was_typed(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("a")])) as here:
        await here.type("alpha")
        await answered(here, "a")
        here.chat.composer.set("alp")
        await here.pilot.press("ctrl+r")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        assert here.chat.screen.query_one(Input).value == "alp"


@ENDS
async def test_unfolding_keeps_what_is_looked_at_where_it_is(tmp_path: Path, size: tuple[int, int]) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text("\n".join(f"line {n}" for n in range(60)))
    read = call_tools(("read", {"path": "a.txt"}))
    words = "\n\n".join(f"word {n}" for n in range(60))
    async with seat(tmp_path, ScriptedModel([read, say(f"MARK\n\n{words}"), say("end")]), size=size) as here:
        await here.type("go")
        await here.until(lambda: here.said("words") and not here.chat.remote.talk.run)
        await here.pilot.pause(0.3)
        answer = here.chat.query_one(".words")
        here.chat.talk.release_anchor()
        here.chat.talk.scroll_to(y=answer.virtual_region.y, animate=False)
        await here.until(lambda: "MARK" in here.screen().split("\n")[0])
        await here.pilot.press("ctrl+o")
        await here.until(lambda: "line 2" in str(here.chat.query_one(".tool").render()))
        await here.until(lambda: "MARK" in here.screen().split("\n")[0])


async def test_a_question_stands_once(tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch X", "elevated": True})), say("no")])
    async with seat(tmp_path, model) as here:
        await here.type("go")
        await here.until(lambda: here.chat.card.display and "waits for your answer" in here.screen())
        assert here.screen().count("touch X") == 2 and "Tab, then" not in str(here.chat.query_one(".tool").render())
        await here.pilot.press("tab", "d")
        await answered(here, "no")


async def test_a_shorter_conversation_is_seen_in_the_line_at_once(tmp_path: Path) -> None:
    long = "tell " * 4000
    summary = say("## Goal\nA summary of all that was said.")
    model = ScriptedModel([say("a " * 4000), say("b " * 4000), *[summary] * 4])
    async with seat(tmp_path, model) as here:
        for n in range(2):
            await here.type(f"{long} {n}")
            await here.until(lambda n=n: len(here.said("words")) == n + 1 and not here.chat.remote.talk.run)
        before = here.chat.remote.row["totalTokens"]
        await here.type("/compact")
        await here.until(lambda: any("ompacted" in text for text in here.said("note")))
        assert not any("Not compacted" in text for text in here.said("note"))
        await here.until(lambda: here.chat.remote.row["totalTokens"] != before and "~" in here.status)

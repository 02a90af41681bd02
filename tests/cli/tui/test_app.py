"""The screen against a real gateway, keys pressed by Textual's pilot."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.widgets import Input, Static

from cli.tui.screen import seat
from gateway.whole import KEY, place
from palinurus.cli.tui.actions import ScreenStart
from palinurus.cli.tui.app import ChatScreen
from palinurus.cli.tui.blocks import AnswerWidget
from palinurus.cli.tui.complete import OURS, gather_completion_words
from palinurus.cli.tui.composer import CompletionMenu
from palinurus.cli.tui.dialogs import Picker
from palinurus.clock import SystemClock
from palinurus.errors import StateLocked
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, fail, hold_at, say

THINKER = {
    "models": {
        "providers": {
            "fake": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "k",
                "models": [{"id": "m", "reasoning": True}, {"id": "n"}],
            }
        }
    }
}


async def test_a_message_is_answered_as_markdown_and_the_status_line_tells_where(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("# Hello\n\nall **good**, see NOTES.md")])) as here:
        await here.type("hi there")
        await here.until(lambda: here.said("words") and not here.chat.remote.talk.run)
        assert here.said("user") == ["hi there"]
        assert here.said("words") == ["# Hello\n\nall **good**, see NOTES.md"]
        assert here.chat.composer.text == ""
        await here.until(lambda: "15/" in here.status)
        assert here.status.startswith("main/main  fake/m  think off  ") and here.house.closed == 0
    assert here.house.closed == 1
    assert (tmp_path / "history").read_text() == "hi there\n"


async def test_a_tool_is_a_card_that_unfolds_and_escape_sequences_are_text(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text("\n".join(f"line {n}\x1b[31m" for n in range(20)))
    model = ScriptedModel([call_tools(("read", {"path": "a.txt"}), text="Let me look."), say("Done\x1b]0;x\x07.")])
    async with seat(tmp_path, model) as here:
        await here.type("look")
        await here.until(lambda: here.said("words") == ["Let me look.", "Done]0;x."])
        (tool,) = [block for block in here.blocks if block.kind == "tool"]
        assert (tool.head, tool.state) == ("read a.txt", "done")
        assert here.said("words") == ["Let me look.", "Done]0;x."]
        assert [b.kind for b in here.blocks] == ["user", "words", "tool", "words"]
        card = here.chat.query_one(".tool")
        short = str(card.render())
        assert "line 19" in short and "line 2[" not in short and "\x1b" not in short
        await here.pilot.press("ctrl+o")
        await here.until(lambda: "line 2[" in str(card.render()))


async def test_an_edit_shows_what_it_changed_and_a_failed_command_how_it_ended(tmp_path: Path) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "app.py").write_text("one\ntwo\nthree\n")
    edit = {"path": "app.py", "edits": [{"oldText": "two", "newText": "2\n2b"}]}
    model = ScriptedModel(
        [
            call_tools(("edit", edit)),
            call_tools(("write", {"path": "new.txt", "content": "\n".join(f"row {n}" for n in range(30))})),
            call_tools(("exec", {"command": "ls /nope"})),
            say("Done."),
        ]
    )
    async with seat(tmp_path, model) as here:
        await here.type("go")
        await here.until(lambda: here.said("words") == ["Done."])
        cards = [str(card.render()) for card in here.chat.query(".tool")]
        assert cards[0].startswith("⚙ edit app.py ok") and "\n  -two\n  +2\n  +2b\n   three" in cards[0]
        assert cards[1].startswith("⚙ write new.txt ok") and "+row 19" in cards[1] and "… 10 more below" in cards[1]
        assert cards[2].startswith("⚙ exec ls /nope exit 2 ")
        await here.house.cut()  # read again from disk it looks the same
        await here.until(lambda: len(here.house.lines) == 2 and len(here.chat.query(".tool")) == 3)
        await here.until(lambda: str(next(iter(here.chat.query(".tool"))).render()).split(" ok")[0] == "⚙ edit app.py")
        assert "+2b" in str(next(iter(here.chat.query(".tool"))).render())


async def test_lines_stay_lines_and_files_are_no_addresses(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("see NOTES.md\nand then")])) as here:
        await here.type("hi")
        await here.until(lambda: here.said("words") and not here.chat.remote.talk.run)
        await here.until(lambda: "and then" in here.screen())
        drawn = here.chat.query_one(AnswerWidget).query_one(Static).render()
        assert str(drawn) == "see NOTES.md\nand then" and "@click" not in repr(drawn)
        here.chat.action_copy_address("https://x.test/\x1b[31m")
        await here.until(lambda: here.chat.clipboard == "https://x.test/[31m")


async def test_long_lines_of_a_tool_go_on_below_their_beginning(tmp_path: Path) -> None:
    line = "watching " + "the harbour and the sea beyond it " * 3
    model = ScriptedModel([call_tools(("exec", {"command": f"echo {line}"})), say("ok")])
    free = {"exec": {"security": "full", "ask": "off", "host": "gateway"}}
    async with seat(tmp_path, model, size=(60, 20), tools=free) as here:
        await here.type("go")
        await here.until(lambda: here.said("words") == ["ok"] and "watching the" in here.screen())
        rows = here.screen().split("\n")
        first = next(row for row in rows if "  watching the" in row)
        after = rows[rows.index(first) + 1]
        assert after[: first.index("watching")].replace("█", " ").isspace() and after[first.index("watching")].isalpha()


async def test_long_lines_of_code_wrap_and_links_say_where_they_lead(tmp_path: Path) -> None:
    code = "def fib(n: int) -> int:  # " + " ".join(f"word{n}" for n in range(20)) + " END"
    model = ScriptedModel(
        [say(f"```python\n{code}\n```\nSee [the page](https://example.org/a?b=c) and <https://x.org/>.")]
    )
    async with seat(tmp_path, model, size=(60, 20)) as here:
        await here.type("go")
        await here.until(lambda: here.said("words"))
        await here.until(lambda: "the page (https://example.org/a?b=c)" in here.screen())
        seen = here.screen()
        assert "word9" in seen and "END" in seen and seen.count("https://x.org/") == 1, seen


async def test_leaving_before_anybody_is_there(tmp_path: Path) -> None:
    async def never() -> Any:
        await asyncio.Event().wait()

    chat = ChatScreen(ScreenStart(never, KEY), SystemClock())
    async with chat.run_test() as pilot:
        await pilot.press("h", "i")
        assert chat.composer.text == "hi" and "starting" in str(chat.query_one("#status").render())
        await pilot.press("ctrl+c", "ctrl+d")
        await pilot.pause()
        assert not chat.is_running and chat.trouble is None


async def test_an_agent_that_cannot_be_reached_is_said_after_the_screen_is_gone() -> None:
    async def locked() -> Any:
        raise StateLocked("somebody else has it", fix="wait")

    chat = ChatScreen(ScreenStart(locked, KEY), SystemClock())
    async with chat.run_test() as pilot:
        await pilot.pause(0.05)
    assert isinstance(chat.trouble, StateLocked) and chat.return_code == 1


async def test_escape_stops_a_run(tmp_path: Path) -> None:
    gate = StreamGate()
    async with seat(tmp_path, ScriptedModel([hold_at(say("never"), gate), say("again")])) as here:
        await here.type("go")
        await gate.wait_reached()
        await here.until(lambda: here.chat.remote.talk.run)
        await here.until(lambda: "Esc stops" in here.status)
        await here.pilot.press("escape")
        await here.until(lambda: here.said("note") == ["stopped"])
        assert not here.chat.remote.talk.run
        await here.type("and now")
        await here.until(lambda: here.said("words")[-1:] == ["again"])


async def test_what_is_said_while_it_works_is_steered_in(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(call_tools(("ls", {"path": "."})), gate), say("both done")])
    async with seat(tmp_path, model) as here:
        await here.type("first")
        await gate.wait_reached()
        await here.until(lambda: here.chat.remote.talk.run)
        await here.type("second")
        await here.until(lambda: here.blocks[-1].state == "waiting")
        gate.open()
        await here.until(lambda: here.said("words") == ["both done"] and not here.chat.remote.talk.run)
        assert [b.text for b in here.blocks if b.kind == "user"] == ["first", "second"]
        assert all(b.state in ("done", "taken") for b in here.blocks if b.kind == "user")


async def test_thoughts_are_shown_folded_and_a_failure_says_why(tmp_path: Path) -> None:
    model = ScriptedModel([say("yes", thinking="one\ntwo"), fail("refused", "no such thing")])
    async with seat(tmp_path, model, **THINKER) as here:
        await here.type("/reasoning stream")
        await here.until(lambda: here.said("note"))
        await here.type("think")
        await here.until(lambda: here.said("words") == ["yes"])
        assert here.said("thought") == ["one\ntwo"]
        assert "two" not in str(here.chat.query_one(".thought").render())
        await here.until(lambda: not here.chat.remote.talk.run)
        await here.type("fail")
        await here.until(lambda: here.said("error"))
        assert "no such thing" in here.said("error")[0]


async def test_completion_and_commands(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([]), **THINKER) as here:
        menu = here.chat.query_one(CompletionMenu)
        await here.pilot.press("/", "t", "h", "i")
        await here.until(lambda: menu.display)
        assert [offer.label for offer in menu.found] == ["/think"]
        await here.pilot.press("tab")
        assert here.chat.composer.text == "/think "
        await here.pilot.press("h", "i")
        await here.until(lambda: [offer.label for offer in menu.found] == ["high"])
        await here.pilot.press("down", "enter")
        assert here.chat.composer.text == "/think high"
        await here.pilot.press("enter")
        await here.until(lambda: here.said("note") == ["Thinking level set to high."])
        await here.until(lambda: "think high" in here.status)
        assert {name for name, _ in OURS} <= {name for name, _ in here.chat.composer.known.commands}
        await here.pilot.press("/", "t", "escape")
        assert not menu.display and here.chat.composer.text == "/t"
        await here.pilot.press("ctrl+c")
        assert here.chat.composer.text == ""


async def test_a_file_is_named_after_an_at_and_sent_as_typed(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([])) as here:
        menu, workspace = here.chat.query_one(CompletionMenu), Path(here.chat.composer.folder)
        (workspace / "boats").mkdir(parents=True)
        (workspace / "boats" / "argo.txt").write_text("fifty oars")
        await here.pilot.press(*"read", "space", *"@arg")
        await here.until(lambda: [one.label for one in menu.found] == ["boats/argo.txt"])
        await here.pilot.press("tab")
        assert here.chat.composer.text == "read ./boats/argo.txt " and not menu.display
        await here.pilot.press(*"@arg", "enter")  # Enter changes nothing that was typed
        await here.until(lambda: here.said("user") == ["read ./boats/argo.txt @arg"])


async def test_enter_sends_what_was_typed_even_where_a_longer_word_is_offered(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([]), **THINKER) as here:
        here.chat.composer.known = gather_completion_words([{"name": "think"}], [], ["high", "highest"])
        await here.pilot.press(*"/think", "space", *"high")
        await here.until(lambda: [one.label for one in here.chat.query_one(CompletionMenu).found] == ["highest"])
        await here.pilot.press("enter")
        await here.until(lambda: here.said("note") == ["Thinking level set to high."])


async def test_enter_right_behind_the_last_letter_sends_the_whole_line(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([]), **THINKER) as here:
        here.chat.composer.box.insert("/think hig")
        await here.until(lambda: here.chat.query_one(CompletionMenu).display)
        box = here.chat.composer.box
        box.insert("h")  # the box tells of its change later than the key comes
        await box._on_key(events.Key("enter", None))
        await here.until(lambda: here.said("note") == ["Thinking level set to high."])
        assert here.chat.composer.text == ""


async def test_model_and_level_are_picked(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([]), **THINKER) as here:
        await here.pilot.press("ctrl+t")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        shown = [choice.label for choice in here.chat.screen._shown]  # type: ignore[attr-defined]
        assert shown[0].startswith("Inherited: ") and "high" in shown
        await here.pick("high")
        await here.until(lambda: here.chat.remote.row.get("thinkingLevel") == "high")
        await here.pilot.press("ctrl+l")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        await here.pick("fake/n")
        await here.until(lambda: "fake/n" in here.status)
        await here.type("/model")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        await here.pick("inherit")
        await here.until(lambda: "fake/m" in here.status)
        assert "modelOverride" not in here.chat.remote.row
        await here.pilot.press("ctrl+t", "escape")
        await here.until(lambda: not isinstance(here.chat.screen, Picker))


async def test_sessions_are_switched_and_begun(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("one"), say("two")])) as here:
        await here.type("in the first")
        await here.until(lambda: here.said("words") == ["one"])
        await here.pilot.press("ctrl+n")
        await here.until(lambda: here.chat.remote.session != KEY and not here.blocks)
        await here.type("in the second")
        await here.until(lambda: here.said("words") == ["two"])
        await here.pilot.press("ctrl+p")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        await here.pick("first")
        await here.until(lambda: here.said("words") == ["one"])
        assert here.chat.remote.session == KEY and here.said("user") == ["in the first"]


@pytest.mark.parametrize("size", [(60, 20), (80, 24), (200, 50)])
async def test_a_session_is_found_by_what_was_said_in_it(tmp_path: Path, size: tuple[int, int]) -> None:
    model = ScriptedModel([say("The lighthouse keeper is called Ingeborg."), say("two")])
    async with seat(tmp_path, model, size=size) as here:
        await here.type("who keeps it?")
        await here.until(lambda: here.said("words") and not here.chat.remote.talk.run)
        await here.pilot.press("ctrl+n")
        await here.until(lambda: here.chat.remote.session != KEY and not here.blocks)
        await here.pilot.press("ctrl+p")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        here.chat.screen.query_one(Input).value = "ingeborg"
        await here.until(lambda: "called Ingeborg" in here.screen())
        await here.pilot.press("enter")
        await here.until(lambda: here.chat.remote.session == KEY and here.said("user") == ["who keeps it?"])


async def test_another_agent_is_a_session_away(tmp_path: Path) -> None:
    agents = {"defaults": {"model": {"primary": "fake/m"}}, "list": [{"id": "main", "default": True}, {"id": "other"}]}
    async with seat(tmp_path, ScriptedModel([say("I am other")]), agents=agents) as here:
        await here.pilot.press("ctrl+p")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        await here.pick("with other")
        await here.until(lambda: here.chat.remote.session.startswith("agent:other:") and here.chat.remote.row)
        await here.type("who")
        await here.until(lambda: here.said("words") == ["I am other"])
        assert here.status.startswith("other/") or "Esc stops  other/" in here.status


async def test_a_session_that_is_begun_anew_is_empty_but_for_the_answer(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("one")])) as here:
        await here.type("hello")
        await here.until(lambda: here.said("words") == ["one"] and not here.chat.remote.talk.run)
        await here.type("/new")
        await here.until(lambda: not here.said("words") and here.said("note"))
        assert here.said("user") == ["/new"]


async def test_a_question_is_answered_only_from_its_card(tmp_path: Path) -> None:
    wanted = call_tools(("exec", {"command": "touch X", "elevated": True}))
    model = ScriptedModel([wanted, say("made"), wanted, say("not made")])
    async with seat(tmp_path, model) as here:
        card, box = here.chat.card, here.chat.composer.box
        await here.type("touch it")
        await here.until(lambda: card.display)
        assert "touch X" in str(card.render()) and box.has_focus
        await here.pilot.press("o", "d")
        assert here.chat.composer.text == "od" and card.display
        await here.pilot.press("ctrl+c", "tab")
        await here.until(lambda: card.has_focus)
        await here.pilot.press("escape")
        await here.until(lambda: box.has_focus)
        await here.pilot.press("tab", "o")
        await here.until(lambda: here.said("words") == ["made"])
        assert not card.display and box.has_focus and "allowed once" in here.said("note")
        await here.type("again")
        await here.until(lambda: card.display)
        await here.pilot.press("tab", "d")
        await here.until(lambda: here.said("words")[-1] == "not made")
        assert [b.state for b in here.blocks if b.kind == "tool"] == ["done", "failed"]


async def test_a_shell_line_asks_the_first_time_and_stays_here(tmp_path: Path) -> None:
    model = ScriptedModel([])
    async with seat(tmp_path, model, environ={"SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}) as here:
        await here.type("!echo one; exit 3")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        await here.pilot.press("enter")
        await here.pilot.pause()
        assert not here.blocks
        await here.type("!echo one; exit 3")
        await here.until(lambda: isinstance(here.chat.screen, Picker))
        await here.pilot.press("down", "enter")
        await here.until(lambda: here.blocks and here.blocks[-1].state == "failed")
        assert here.blocks[-1].text == "one\n" and here.blocks[-1].head == "! echo one; exit 3"
        await here.type("!sleep 60")
        await here.until(lambda: here.blocks[-1].state == "running")
        await here.until(lambda: here.chat._shell.busy)
        await here.pilot.press("escape")
        await here.until(lambda: here.blocks[-1].state == "failed")
        assert model.requests == []


async def test_a_broken_line_is_made_again_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("a long answer"), gate), say("more")])
    async with seat(tmp_path, model) as here:
        await here.type("tell me")
        await gate.wait_reached()
        await here.until(lambda: here.chat.remote.talk.run)
        await here.house.cut()
        await here.until(lambda: "reconnecting" in here.status)
        await here.type("and then")
        gate.open()
        await here.until(lambda: here.said("words") == ["a long answer", "more"])
        assert here.said("user") == ["tell me", "and then"] and len(here.house.lines) == 2


async def test_history_and_leaving(tmp_path: Path) -> None:
    (tmp_path / "history").write_text("older\n")
    async with seat(tmp_path, ScriptedModel([say("a"), say("b")])) as here:
        await here.type("first\nsecond line")
        await here.until(lambda: here.said("words"))
        await here.pilot.press("x", "up")
        assert here.chat.composer.text == "first\nsecond line"
        await here.pilot.press("up", "up")
        assert here.chat.composer.text == "older"
        await here.pilot.press("down", "down", "down")
        assert here.chat.composer.text == "x"
        await here.pilot.press("ctrl+j", "y")
        assert here.chat.composer.text == "x\ny"
        await here.pilot.press("ctrl+c", "ctrl+c")
        assert here.chat.is_running
        await here.pilot.press("ctrl+c")
        await here.until(lambda: not here.chat.is_running)


async def test_broken_markdown_and_markup_break_nothing(tmp_path: Path) -> None:
    nasty = [
        "```py\nx",
        "|a|b|\n|---|---|\n|c",
        "**_`",
        "[bold]x[/red] [@click=app.quit]y[/]",
        "<script>&lt;",
        "> - 1. #",
    ]
    answers = ["\n\n".join(nasty), "\n".join(reversed(nasty))]
    async with seat(tmp_path, ScriptedModel([say(text) for text in answers])) as here:
        for count, text in enumerate(answers, 1):
            await here.type(f"{text} {count}")
            await here.until(lambda count=count: len(here.said("words")) == count and not here.chat.remote.talk.run)
        assert here.said("words") == answers and here.chat.is_running


async def test_a_small_terminal_still_shows_all_parts(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("ok")]), size=(40, 10)) as here:
        await here.type("hi")
        await here.until(lambda: here.said("words"))
        assert here.chat.query_one("#status").region.bottom == 10
        assert here.chat.composer.box.region.height >= 1 and here.chat.talk.region.height >= 3


async def test_page_up_at_the_top_shows_what_came_before_down_to_the_first_message(tmp_path: Path) -> None:
    async with place(tmp_path, ScriptedModel([say("Begun.")])) as before:  # nobody looks: drawing each takes long
        await before.say("the very first", "run")
        for n in range(140):
            await before.call("chat.inject", sessionKey="main", message=f"note {n}")
    async with seat(tmp_path, ScriptedModel([])) as here:
        await here.until(lambda: any("note 139" in text for text in here.said("words")))
        assert not any(text.endswith("note 10") for text in here.said("words"))

        async def look_up() -> bool:
            await here.pilot.press("pageup")
            await here.pilot.pause(0.05)
            return here.said("user") == ["the very first"]

        for _ in range(2000):
            if await look_up():
                break
        assert [b.text for b in here.blocks if b.kind == "user"] == ["the very first"]
        words = here.said("words")
        assert len(words) == 141 and words[0] == "Begun." and words[-1].endswith("note 139")


async def test_ctrl_z_is_the_shells_and_changes_nothing_in_the_box(tmp_path: Path) -> None:
    drawn: list[bool] = []
    async with seat(tmp_path, ScriptedModel([])) as here:
        await here.pilot.press("a", "b", "ctrl+z")
        assert here.chat.composer.text == "ab"
        chat: Any = here.chat
        chat.refresh = lambda **given: drawn.append(given["repaint"])
        chat.app_resume_signal.publish(chat)  # after `fg` the terminal shows nothing of ours
        await here.until(lambda: drawn)
        assert drawn == [True]
        del chat.refresh


async def test_all_lines_of_what_somebody_said_begin_below_the_first(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("ok")]), size=(60, 20)) as here:
        await here.type("one\n" + "many words " * 8)
        await here.until(lambda: here.said("words"))
        rows = here.screen().split("\n")
        at = next(at for at, row in enumerate(rows) if "› one" in row)
        assert [row.index(word) for row, word in zip(rows[at : at + 3], ("one", "many", "words"), strict=True)] == [
            4
        ] * 3
        await here.pilot.resize_terminal(40, 20)
        await here.until(lambda: "    many words many words many words" in here.screen().split("\n"))

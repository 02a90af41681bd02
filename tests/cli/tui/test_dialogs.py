from __future__ import annotations

import asyncio

from textual.app import App, ComposeResult
from textual.widgets import Input

from palinurus.cli.tui.dialogs import Picker, PickerChoice, QuestionCard, parse_question


def test_what_is_asked_is_shown_as_text() -> None:
    request = {"command": "rm \x1b[8mx\u202e", "cwd": "/w", "warningText": "why\x07", "allowedDecisions": ["deny"]}
    asked = parse_question({"id": "1", "request": request})
    assert (asked.title, asked.body, asked.why) == ("The agent wants to run in /w:", "rm [8mx", "why")
    assert asked.allowed == ("deny",)


def test_a_question_of_a_plugin_has_its_own_title() -> None:
    asked = parse_question({"id": "plugin:1", "request": {"title": "Send it?", "description": "to all"}})
    assert (asked.title, asked.body, asked.allowed) == ("Send it?", "to all", ("allow-once", "deny"))


def test_a_question_from_another_session_says_so() -> None:
    payload = {"id": "1", "request": {"command": "ls", "sessionKey": "agent:main:other"}}
    assert parse_question(payload, "agent:main:main").title == "The agent wants to run: (asked in agent:main:other)"
    assert parse_question(payload, "agent:main:other").title == "The agent wants to run:"


def test_what_decides_stands_before_the_rest_and_the_reason_is_told_once() -> None:
    fact = "to: DE1  (from read_file bill.txt, not from you)"
    lines = {"warningLines": [fact, "not from you: to"]}
    request = {"title": "pay", "description": "{}", "facts": [fact], "commandAnalysis": lines}
    asked = parse_question({"id": "plugin:1", "request": request})
    assert (asked.facts, asked.body, asked.why) == ((fact,), "{}", "not from you: to")


class CardAlone(App[None]):
    def compose(self) -> ComposeResult:
        yield Input()
        yield QuestionCard()


async def test_a_card_says_which_keys_it_takes_now() -> None:
    app = CardAlone()
    async with app.run_test() as pilot:
        card, box = app.query_one(QuestionCard), app.query_one(Input)
        card.ask(parse_question({"id": "1", "request": {"command": "ls"}}))
        for place, last in ((box, "Tab, then"), (card, "Esc later"), (box, "Tab, then")):
            app.set_focus(place)
            await pilot.pause()
            assert last in str(card.render()).split("\n")[-1]


async def test_what_is_found_after_a_picker_was_left_harms_nothing() -> None:
    asked, found = asyncio.Event(), asyncio.Event()

    async def search(text: str) -> list[PickerChoice]:
        asked.set()
        try:
            await found.wait()
        except asyncio.CancelledError:  # it comes all the same
            await found.wait()
        return [PickerChoice("late", text)]

    app: App[None] = App()
    async with app.run_test() as pilot:
        picker = Picker("Sessions", [PickerChoice("a", "alpha")], more=search)
        app.push_screen(picker)
        await pilot.press(*"alph")
        await asked.wait()
        await picker.query_one("#choices").remove()  # as it is while the picker leaves
        found.set()
        await pilot.pause()
        assert app.is_running and not app._exception
        assert [choice.value for choice in picker._shown] == ["a"]

"""An answer that grows looks, at every moment, as if it had been drawn at once."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from palinurus.cli.tui.answer import AnswerWidget
from palinurus.cli.tui.conversation import ConversationBlock
from palinurus.cli.tui.markdown import draw_markdown

TEXT = (
    "# Head\n\nSome *words* here\nand there.\n\n- a\n- b\n  more\n\n  para\n- c\n\n1. x\n2. y\n\n> said\n\n"
    "| a | b |\n|---|--:|\n| c | 5 |\n\n```python\n" + "".join(f"x = {n}\n" for n in range(150)) + "```\n\nThe end.\n"
)


class One(App[None]):
    CSS = "Screen { overflow: hidden; } .words { height: auto; } .words Static { height: auto; }"

    def __init__(self, text: str) -> None:
        super().__init__()
        self.answer = AnswerWidget(ConversationBlock("a", "words", text))

    def compose(self) -> ComposeResult:
        yield self.answer


def seen(answer: AnswerWidget) -> str:
    return "\n".join(str(piece.render()) for piece in answer.query(Static))


@pytest.mark.parametrize("step", [7, 64, 10_000])
async def test_it_grows_to_what_it_would_be_at_once(step: int) -> None:
    app = One("")
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        for end in range(step, len(TEXT) + step, step):
            app.answer.block = ConversationBlock("a", "words", TEXT[:end])
            app.answer._redraw()
        await pilot.pause()
        assert seen(app.answer).split() == " ".join(line.plain for line in draw_markdown(TEXT, 60)).split()
        assert len(app.answer.query(Static)) < 12


async def test_another_text_or_width_is_drawn_anew() -> None:
    app = One("one\n\ntwo\n\n" + "word " * 30)
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        await pilot.resize_terminal(30, 20)
        await pilot.pause()
        assert max(map(len, seen(app.answer).split("\n"))) <= 30
        await app.answer.show(ConversationBlock("a", "words", "other"))
        await pilot.pause(0.2)
        assert seen(app.answer).strip() == "other"


async def test_of_a_paragraph_that_grows_only_the_end_is_drawn_again() -> None:
    words = [f"word{n}" for n in range(2000)]
    app = One(" ".join(words[:1900]))
    async with app.run_test(size=(60, 20)) as pilot:
        await pilot.pause()
        before = list(app.answer._shown)
        app.answer.block = ConversationBlock("a", "words", " ".join(words))
        app.answer._redraw()
        await pilot.pause()
        after = app.answer._shown
        assert len(before) > 5 and all(one is same for one, same in zip(before[:-1], after, strict=False))
        assert seen(app.answer).split() == words
        app.answer.block = ConversationBlock("a", "words", "short")
        app.answer._redraw()
        await pilot.pause()
        assert seen(app.answer) == "short"

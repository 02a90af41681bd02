"""Typing at every size of terminal: the keys of Emacs, what completes, and with which colours."""

from __future__ import annotations

from pathlib import Path

from cli.tui.screen import seat
from cli.tui.test_actions import SIZES
from cli.tui.test_app import THINKER
from palinurus.cli.tui.composer import CompletionMenu
from palinurus.testing.model import ScriptedModel, say


@SIZES
async def test_the_keys_of_emacs_arguments_and_no_colours(tmp_path: Path, size: tuple[int, int]) -> None:
    ui = {"terminal": {"theme": "16"}}
    model = ScriptedModel([say("**ok** `x`")])
    async with seat(tmp_path, model, size=size, environ={"NO_COLOR": "1"}, ui=ui, **THINKER) as here:
        box, menu = here.chat.composer.box, here.chat.query_one(CompletionMenu)
        here.chat.composer.set("one two three")
        for keys, text in (
            (("ctrl+a", "X"), "Xone two three"),
            (("alt+f", "Y"), "XoneY two three"),
            (("ctrl+e", "Z"), "XoneY two threeZ"),
            (("ctrl+b", "ctrl+b", "W"), "XoneY two threWeZ"),
            (("alt+b", "alt+d"), "XoneY two "),
            (("ctrl+w",), "XoneY "),
            (("ctrl+underscore",), "XoneY two threWeZ"),
            (("ctrl+a", "ctrl+k"), ""),
        ):
            await here.pilot.press(*keys)
            assert box.text == text, keys
        await here.pilot.press(*"/think", "space", *"hi")
        await here.until(lambda: [offer.label for offer in menu.found] == ["high"])
        assert "high" in here.screen() and "/think hi" in here.screen()
        await here.pilot.press("tab", "enter")
        await here.until(lambda: here.said("note") == ["Thinking level set to high."])
        await here.type("hello")
        await here.until(lambda: here.said("words") and not here.chat.remote.talk.run)
        await here.until(lambda: "ok x" in here.screen())
        assert here.chat.native_ansi_color and here.chat.theme == "ansi-dark"

"""What of a model's words goes out, through the App: <final>, silence and the tokens in whatever dress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flow.test_app import CONFIG, running, until
from palinurus.core.stream.answer import LiveText
from palinurus.core.types.events import RunEvent
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, say
from support import inbound

PROVIDER: dict[str, Any] = CONFIG["models"]["providers"]["fake"]


def compat(**facts: Any) -> dict[str, Any]:
    """A model of which the configuration says this."""
    model = {"id": "m", "reasoning": True, "compat": facts}
    return {"models": {"providers": {"fake": {**PROVIDER, "models": [model]}}}}


@pytest.mark.seed(310)
@pytest.mark.parametrize("tagged", [True, False])
@pytest.mark.parametrize("blocks", ["on", "off"])
async def test_where_final_is_used_only_its_content_goes_out(tmp_path: Path, tagged: bool, blocks: str) -> None:
    model, channel = ScriptedModel([say("pre<final>ok</final>post")]), FakeChannel()
    agents = {"defaults": {"model": {"primary": "fake/m"}, "blockStreamingDefault": blocks}}
    async with running(tmp_path / "h", model, channel, agents=agents, **compat(taggedReasoning=tagged)) as app:
        (ident,) = await channel.receive("hello", event="e1")
        assert (await app.wait(ident)).note == "ok"
        await until(lambda: bool(channel.seen))
    assert channel.texts == ["ok"]


@pytest.mark.seed(184)
@pytest.mark.parametrize("tagged", [True, False])
async def test_a_model_that_reasons_in_its_text_is_told_the_tags_and_nothing_shows_before_final(
    tmp_path: Path, tagged: bool
) -> None:
    model, live, shown = ScriptedModel([say("pre <think>hm</think> so <final>ok</final>")]), LiveText(), ""

    def sink(event: RunEvent) -> None:
        nonlocal shown
        shown += "".join(text for kind, text in live.feed(event) if kind == "text")

    async with running(tmp_path / "h", model, **compat(taggedReasoning=tagged)) as app:
        item = await app.submit(inbound("hi", push=False), sink)
        assert (await app.wait(item.id)).note == "ok"
    prompt = model.requests[0].prompt.stable
    assert ("<final>" in prompt and "<think>" in prompt) is tagged
    assert shown == ("ok" if tagged else "pre so ok")  # unasked, it is set right when <final> comes


@pytest.mark.parametrize(
    "text", ["NO_REPLY.", "**NO_REPLY**", "**HEARTBEAT_OK**", "`HEARTBEAT_OK`", "<b>HEARTBEAT_OK</b>", "HEARTBEAT_OK."]
)
@pytest.mark.parametrize("blocks", ["on", "off"])
async def test_a_token_in_any_dress_is_silence(tmp_path: Path, text: str, blocks: str) -> None:
    model, channel = ScriptedModel([say(text), say(f"Wet.\n\n{text}"), say("Dry.")]), FakeChannel()
    agents = {"defaults": {"model": {"primary": "fake/m"}, "blockStreamingDefault": blocks}}
    async with running(tmp_path / "h", model, channel, agents=agents) as app:
        (ident,) = await channel.receive("anything?", event="e1")
        assert (await app.wait(ident)).outcome == "silent"
        for at, answer in enumerate(("Wet.", "Dry.")):
            (ident,) = await channel.receive("and?", event=f"e{at + 2}")
            assert (await app.wait(ident)).note == answer
        await until(lambda: len(channel.texts) == 2)
    assert channel.texts == ["Wet.", "Dry."]

"""Pictures that the agent makes, through the whole program: who is asked for what, what people and the ledger get."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from channels.scene import Gateway, until
from channels.telegram.world import running
from palinurus.testing.images import FakeImages, make_png
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.testing.server import ModelServer
from palinurus.testing.speech import FakeSpeech
from palinurus.testing.telegram.server import ANN, FakeTelegram


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as made:
        yield made


@pytest.fixture
async def paint() -> AsyncIterator[FakeImages]:
    async with FakeImages() as made:
        yield made


def config(paint: FakeImages, model: Any, **more: Any) -> dict[str, Any]:
    fakes = {"baseUrl": "http://127.0.0.1:9/v1", "apiKey": "k", "models": [{"id": "m"}]}
    cost = {"input": 5, "output": 40}
    own = {"baseUrl": f"{paint.url}/v1", "apiKey": "sk-paint-1234", "models": [{"id": "gpt-image-2", "cost": cost}]}
    google = {"baseUrl": f"{paint.url}/v1beta", "apiKey": "g-key-12345", "api": "google-generative-ai"}
    providers = {"fake": fakes, "paint": own, "gem": {**google, "models": [{"id": "gemini-3-image"}]}}
    agents = {"defaults": {"model": {"primary": "fake/m"}, "imageGenerationModel": model}}
    return {"models": {"providers": providers}, "agents": agents, **more}


def draw(**args: Any) -> Any:
    return call_tools(("image_generate", {"prompt": "A small grey square", **args}))


async def test_a_picture_is_made_kept_and_sent(tmp_path: Path, fake: FakeTelegram, paint: FakeImages) -> None:
    model = ScriptedModel([draw(aspectRatio="16:9", quality="low"), say("There you are.")])
    async with running(tmp_path / "h", model, fake, **config(paint, "paint/gpt-image-2")) as app:
        await fake.say("draw me a square")
        await until(lambda: "There you are." in fake.read())
        rows = await app.store.list_usage(0)
        workspace = Path(app.settings.agents["main"].workspace)
    (asked,) = paint.asked
    assert asked.path == "/v1/images/generations" and asked.headers["authorization"] == "Bearer sk-paint-1234"
    assert asked.body == {
        "model": "gpt-image-2", "prompt": "A small grey square", "n": 1, "size": "1536x1024", "quality": "low",
    }  # fmt: skip
    assert len(fake.calls_of("sendPhoto")) == 1 and make_png() in fake.files.values()
    (kept,) = (workspace / "images").iterdir()
    assert kept.read_bytes() == make_png() and kept.name.startswith("a-small-grey-square-")
    (row,) = (row for row in rows if row.provider == "paint")
    assert (row.model, row.input, row.output) == ("gpt-image-2", 20, 1000)
    assert row.cost == pytest.approx((20 * 5 + 1000 * 40) / 1e6)
    result = model.requests[1].messages[-1]
    assert "sent to the person" in result.text.lower() and len(result.content) == 2  # and a look at it


async def test_gemini_is_asked_once_for_each_and_goes_by_pictures(
    tmp_path: Path, fake: FakeTelegram, paint: FakeImages
) -> None:
    model = ScriptedModel([draw(count=2, size="1024x1536", image="in.png"), say("Two.")])
    async with running(tmp_path / "h", model, fake, **config(paint, {"primary": "gem/gemini-3-image"})) as app:
        (Path(app.settings.agents["main"].workspace) / "in.png").write_bytes(make_png())
        await fake.say("two of them")
        await until(lambda: "Two." in fake.read())
    assert [one.path for one in paint.asked] == ["/v1beta/models/gemini-3-image:generateContent"] * 2
    body = paint.asked[0].body
    assert paint.asked[0].headers["x-goog-api-key"] == "g-key-12345"
    assert body["generationConfig"] == {"responseModalities": ["TEXT", "IMAGE"], "imageConfig": {"aspectRatio": "2:3"}}
    assert [list(part) for part in body["contents"][0]["parts"]] == [["text"], ["inlineData"]]
    assert len(fake.calls_of("sendPhoto")) == 2


async def test_pictures_to_go_by_are_a_form_and_the_next_is_asked_when_one_fails(
    tmp_path: Path, fake: FakeTelegram, paint: FakeImages
) -> None:
    model = ScriptedModel([draw(image="in.png"), draw(model="gem/gemini-3-image"), say("Done.")])
    paint.words = "I cannot draw that."
    wanted = {"primary": "gem/gemini-3-image", "fallbacks": ["paint/gpt-image-2"], "timeoutMs": 5000}
    async with running(tmp_path / "h", model, fake, **config(paint, wanted)) as app:
        (Path(app.settings.agents["main"].workspace) / "in.png").write_bytes(make_png())
        await fake.say("like this")
        await until(lambda: any("Done." in text for text in fake.read()))
    assert [one.path.rpartition("/")[2] for one in paint.asked] == [
        "gemini-3-image:generateContent",
        "edits",
        "gemini-3-image:generateContent",
    ]
    assert paint.asked[1].files == (make_png(),) and paint.asked[1].body["prompt"] == "A small grey square"
    told = [one.messages[-1].text for one in model.requests[1:]]
    assert "not by gem/gemini-3-image: I cannot draw that" in told[0] and "I cannot draw that" in told[1]


async def test_budgets_count_pictures(tmp_path: Path, fake: FakeTelegram, paint: FakeImages) -> None:
    model = ScriptedModel([draw(), draw(), say("Enough.")])
    limit = {"day": {"hardUsd": 0.06}}  # one costs 0.04
    async with running(tmp_path / "h", model, fake, **config(paint, "paint/gpt-image-2", budgets=limit)):
        await fake.say("as many as you can")
        await until(lambda: any("Enough." in text for text in fake.read()))
    assert len(paint.asked) == 1 and len(fake.calls_of("sendPhoto")) == 1
    assert "the budget for today does not allow another call" in model.requests[2].messages[-1].text


async def test_nobody_who_makes_pictures_no_tool(tmp_path: Path, fake: FakeTelegram, paint: FakeImages) -> None:
    async with running(tmp_path / "h", ScriptedModel([say("Hi.")]), fake, **config(paint, "nobody/nothing")) as app:
        assert "image_generate" not in app.program.tools


async def test_a_voice_note_by_the_tool(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([call_tools(("tts", {"text": "Good morning to you."})), say("NO_REPLY")])
    async with FakeSpeech() as voice:
        section = {"provider": "mine", "providers": {"mine": {"baseUrl": voice.url}}}
        async with running(tmp_path / "h", model, fake, tts=section) as app:
            await fake.say("say good morning")
            await until(lambda: fake.calls_of("sendVoice"))
            assert "tts" in app.program.tools
        assert voice.said == ["Good morning to you."]
    assert fake.read() == [""] and "- tts:" in model.requests[0].prompt.text


@pytest.mark.parametrize("crash", ["result.after:1", "tool.after:1"])
async def test_killed_after_the_picture_was_made(
    tmp_path: Path, fake: FakeTelegram, paint: FakeImages, crash: str
) -> None:
    """On disk: sent once. Not on disk: the outcome is unknown, and nobody makes it again by himself."""
    async with ModelServer() as model:
        own = config(paint, "paint/gpt-image-2")["models"]["providers"]["paint"]
        defaults = {"model": {"primary": "fake/m"}, "imageGenerationModel": "paint/gpt-image-2"}
        providers = {"fake": {"baseUrl": model.url, "apiKey": "k", "models": [{"id": "m"}]}, "paint": own}
        more: dict[str, Any] = {"models": {"providers": providers}, "agents": {"defaults": defaults}}
        gateway = Gateway(tmp_path, model.url, fake, str(ANN), **more)
        with gateway.up(crash) as process:
            await fake.say('TOOL image_generate {"prompt": "a square"}')
            await until(lambda: process.poll() is not None)
        with gateway.up():
            await until(lambda: fake.calls_of("sendMessage") and gateway.delivered())
    assert len(paint.asked) == 1 and len(fake.calls_of("sendPhoto")) == (1 if crash.startswith("result") else 0)

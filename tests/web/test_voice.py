"""Reading aloud and talking on the page, in a real browser: what the gateway is asked to say, and when it is silent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from palinurus.testing.model import ScriptedModel, StreamGate, hold_at, say
from palinurus.testing.server import FakeTranscriber
from palinurus.testing.speech import FakeSpeech, make_wav
from web.served import served

BOX = "pal-composer textarea"
READ, STOP, TALK = "[aria-label='Read aloud']", "[aria-label='Stop reading']", "[aria-label='Talk']"
FIRST = "This is the first of several sentences that are said."
LONG = " ".join(f"Sentence number {n} is here so that there is enough to listen to for a while." for n in range(12))


def tts(voice: FakeSpeech) -> dict[str, Any]:
    return {"provider": "mine", "providers": {"mine": {"baseUrl": voice.url, "outputFormat": "wav"}}}


async def write(page: Any, text: str) -> None:
    await page.fill(BOX, text)
    await page.press(BOX, "Enter")


async def until(true: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not true():
            await asyncio.sleep(0.02)


async def test_a_message_is_read_aloud_sentence_by_sentence(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([say(f"{FIRST}\n\n```\nnot this\n```\n\nAnd this is what comes after it, in the end.")])
    async with FakeSpeech(make_wav(0.5)) as voice, served(tmp_path / "h", model, tts=tts(voice)) as site:
        await page.goto(site.url)
        await page.wait_for_selector(BOX)
        await write(page, "tell me")
        await page.click(READ)
        await page.wait_for_selector(STOP)
        await until(lambda: len(voice.said) == 2)
        await page.wait_for_selector(READ)  # it has been read
    # the second is fetched while the first is heard, and may overtake it on the way
    assert sorted(voice.said) == sorted([FIRST, "And this is what comes after it, in the end."])


async def test_reading_can_be_stopped(page: Any, tmp_path: Path) -> None:
    async with (
        FakeSpeech(make_wav(30)) as voice,
        served(tmp_path / "h", ScriptedModel([say(LONG)]), tts=tts(voice)) as site,
    ):
        await page.goto(site.url)
        await page.wait_for_selector(BOX)
        await write(page, "tell me")
        await page.click(READ)
        await page.click(STOP)
        await page.wait_for_selector(READ)
        await page.click(READ)
        await page.wait_for_selector(STOP)
        await page.fill(BOX, "wait")  # whoever writes interrupts
        await page.wait_for_selector(READ)
        await page.click(READ)
        await page.press("body", "Escape")
        await page.wait_for_selector(READ)


async def test_talking_reads_the_answer_while_it_grows(page: Any, tmp_path: Path) -> None:
    gate = StreamGate()
    text = f"{FIRST} And this second one comes only when the gate has been opened for it."
    model = ScriptedModel([hold_at(say(text), gate, before=len(FIRST) // 8 + 2)])
    async with FakeSpeech(make_wav(0.05)) as voice, served(tmp_path / "h", model, tts=tts(voice)) as site:
        await page.goto(site.url)
        await page.click(TALK)
        await write(page, "tell me")
        await until(lambda: voice.said)
        assert voice.said == [FIRST] and "opened for it" not in await page.inner_text("pal-chat")
        gate.open()
        await until(lambda: len(voice.said) == 2)
        assert voice.said[1].endswith("opened for it.")
        await page.click(TALK)
        assert await page.get_attribute(TALK, "aria-pressed") == "false"


async def test_push_to_talk_sends_what_was_said_and_interrupts_speech(page: Any, tmp_path: Path) -> None:
    model = ScriptedModel([say(LONG), say("You said it aloud, and I have heard it."), say("And that, too.")])
    async with FakeSpeech(make_wav(30)) as voice, FakeTranscriber("what do you say now") as ears:
        mine = {"baseUrl": ears.url, "apiKey": "k", "models": [{"id": "m"}]}
        hears = {"media": {"audio": {"models": [{"provider": "mine", "model": "w"}]}}}
        async with served(
            tmp_path / "h", model, tts=tts(voice), tools=hears, talk={"silenceTimeoutMs": 250},
            models={"providers": {"mine": mine}}, agents={"defaults": {"model": {"primary": "mine/m"}}},
        ) as site:  # fmt: skip
            await page.goto(site.url)
            await page.click(TALK)
            await write(page, "tell me")
            await until(lambda: voice.said)
            await page.wait_for_selector(".row.assistant .bar")
            button = page.locator("[aria-label='Hold to talk']")
            await button.hover()
            await page.mouse.down()
            await page.wait_for_selector(".recording")
            await asyncio.sleep(0.6)
            before = len(voice.said)
            await page.mouse.up()
            await page.wait_for_selector("text=You said it aloud")
            await until(lambda: any("You said it aloud" in text for text in voice.said[before:]))
            await button.click()  # let go before the microphone is there: it listens until the person pauses
            await page.wait_for_selector("text=And that, too.")
    assert len(ears.asked) == 2 and len(ears.asked[1].data) > 1000
    assert "what do you say now" in str(model.requests[1].messages[-1].text)

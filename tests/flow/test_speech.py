"""Replies read aloud, through the whole program: what people on Telegram hear, and what they get when nobody speaks."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from channels.scene import Gateway, until
from channels.telegram.world import running
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.server import FakeTranscriber, ModelServer
from palinurus.testing.speech import OGG, FakeSpeech
from palinurus.testing.telegram.server import ANN, FakeTelegram

TEXT = "Here is the plan for today."


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as made:
        yield made


@pytest.fixture
async def voice() -> AsyncIterator[FakeSpeech]:
    async with FakeSpeech() as made:
        yield made


def tts(voice: FakeSpeech, **changes: Any) -> dict[str, Any]:
    return {"auto": "always", "provider": "mine", "providers": {"mine": {"baseUrl": voice.url}}, **changes}


def voiced(fake: FakeTelegram) -> list[dict[str, Any]]:
    return fake.calls_of("sendVoice")


def prompts(model: ScriptedModel) -> str:
    return "".join(one.prompt.stable + one.prompt.volatile for one in model.requests)


@pytest.mark.seed(181, 313)
async def test_every_reply_is_written_and_then_spoken(tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech) -> None:
    model = ScriptedModel([say(f"**{TEXT}** See https://example.org/x \U0001f389\n```\ncode\n```")])
    async with running(tmp_path / "h", model, fake, messages={"tts": tts(voice)}) as app:
        await fake.say("what now?")
        await until(lambda: voiced(fake))
        assert app.voices.last["success"]
    assert voice.said == [f"{TEXT} See"]
    sent = [name for name, _ in fake.calls if name in ("sendMessage", "sendVoice")]
    assert sent == ["sendMessage", "sendVoice"] and voice.asked[0].body["response_format"] == "opus"
    assert OGG in fake.files.values() and "## Voice (TTS)" in prompts(model)


async def test_tagged_speaks_only_what_is_tagged(tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech) -> None:
    both = f"{TEXT} [[tts:voice=nova speed=1.2]]\n[[tts:text]]Listen to this instead.[[/tts:text]]"
    model = ScriptedModel([say(TEXT), say(both), say("[[tts:text]]Only for your ears.[[/tts:text]]")])
    async with running(tmp_path / "h", model, fake, tts=tts(voice, auto="tagged")):
        await fake.say("one")
        await until(lambda: fake.read() == [TEXT])
        await fake.say("two")
        await until(lambda: len(voiced(fake)) == 1)
        await fake.say("three")
        await until(lambda: len(voiced(fake)) == 2)
    assert voice.said == ["Listen to this instead.", "Only for your ears."]
    assert [text for text in fake.read() if text] == [TEXT, TEXT]
    assert (voice.asked[0].body["voice"], voice.asked[0].body["speed"]) == ("nova", 1.2)
    assert voice.asked[1].body["voice"] == "coral"


async def test_answers_to_voice_notes_are_spoken_and_others_are_not(
    tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech
) -> None:
    model = ScriptedModel([say(TEXT), say("You asked me aloud.")])
    async with FakeTranscriber("what is the plan?") as ears:
        own = {"models": {"providers": {"fake": {"baseUrl": ears.url, "apiKey": "k", "models": [{"id": "m"}]}}}}
        hears = {"media": {"audio": {"models": [{"provider": "fake", "model": "w"}]}}}
        async with running(tmp_path / "h", model, fake, tts=tts(voice, auto="inbound"), tools=hears, **own):
            await fake.say("typed")
            await until(lambda: fake.read() == [TEXT])
            fake.tell({"voice": {**fake.keep("v.ogg", OGG), "duration": 1, "mime_type": "audio/ogg"}})
            await until(lambda: voiced(fake))
    assert voice.said == ["You asked me aloud."]


async def test_where_speech_fails_the_text_is_there(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say(TEXT), say("[[tts:text]]For ears only, if there were any.[[/tts:text]]")])
    key = "sk-secret-of-the-voice"
    async with FakeSpeech(status=500) as voice:
        section = tts(voice, auto="tagged")
        section["providers"]["mine"]["apiKey"] = key
        section["providers"]["espeak-ng"] = {"enabled": False}
        async with running(tmp_path / "h", model, fake, tts=section) as app:
            await fake.say("one")
            await until(lambda: fake.read() == [TEXT])
            await fake.say("two")
            await until(lambda: len(fake.read()) == 2)
            assert not app.voices.last["success"] and key not in str(app.voices.last)
        assert voice.asked[0].headers["authorization"] == f"Bearer {key}"
    assert fake.read() == [TEXT, "For ears only, if there were any."] and not voiced(fake)
    assert key not in "".join(path.read_text(errors="replace") for path in tmp_path.rglob("*.log"))


async def test_without_a_voice_nothing_speaks_of_one(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say(f"{TEXT} [[tts:voice=x]]"), say("[[tts:text]]Hidden.[[/tts:text]]")])
    off = {"espeak-ng": {"enabled": False}, "microsoft": {}}
    async with running(tmp_path / "h", model, fake, tts={"auto": "always", "providers": off}) as app:
        await fake.say("one")
        await until(lambda: fake.read() == [TEXT])
        await fake.say("two")
        await until(lambda: fake.read() == [TEXT, "Hidden."])
        assert "tts" not in app.program.tools
    assert not any(word in prompts(model) for word in ("Voice (TTS)", "aloud", "spoken", "- tts"))


async def test_a_long_reply_is_summarized_before_it_is_spoken(
    tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech
) -> None:
    model = ScriptedModel([say("A very long story. " * 20), say("In short: a story.")])
    async with running(tmp_path / "h", model, fake, tts=tts(voice, maxLength=100)):
        await fake.say("tell me")
        await until(lambda: voiced(fake))
    assert voice.said == ["In short: a story."] and len(model.requests) == 2
    assert model.requests[1].owner == "agent:main:main"


@pytest.mark.skipif(not shutil.which("espeak-ng"), reason="espeak-ng is not installed")
async def test_a_voice_note_from_espeak(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say(TEXT)])
    encoder = shutil.which("ffmpeg") or shutil.which("opusenc")
    async with running(tmp_path / "h", model, fake, tts={"auto": "always", "provider": "espeak-ng"}):
        await fake.say("what now?")
        kind = "sendVoice" if encoder else "sendDocument"
        await until(lambda: fake.calls_of(kind))
    sound = next(data for name, data in fake.files.items() if name.startswith("sent/"))
    assert sound.startswith(b"OggS" if encoder else b"RIFF") and len(sound) > 2000
    assert not encoder or b"OpusHead" in sound[:100]


@pytest.mark.parametrize("crash", ["speech.made:1", "settle.after:1"])
async def test_killed_between_making_and_sending_it_is_sent_once(
    tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech, crash: str
) -> None:
    async with ModelServer() as model:
        gateway = Gateway(tmp_path, model.url, fake, str(ANN), tts=tts(voice))
        with gateway.up(crash) as process:
            await fake.say(f"SAY {TEXT}")
            await until(lambda: process.poll() is not None)
        assert not voiced(fake)
        with gateway.up():
            await until(lambda: voiced(fake) and gateway.delivered())
    assert len(voiced(fake)) == 1 and voice.said == [TEXT] and fake.read().count(TEXT) == 1


async def test_what_people_switch_with_tts(tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech) -> None:
    model = ScriptedModel([say(TEXT), say("Now I speak to you."), say("And now I am quiet.")])
    off = tts(voice, auto="off")
    off["providers"]["espeak-ng"] = {"enabled": False}
    async with running(tmp_path / "h", model, fake, tts=off) as app:

        async def told(text: str) -> str:
            before = len(fake.read())
            await fake.say(text)
            await until(lambda: len(fake.read()) > before)
            return fake.read()[before]  # a voice may have come after it

        assert await told("one") == TEXT
        assert "Read aloud here: off; elsewhere: off." in await told("/tts")
        assert await told("/tts chat on") == "Read aloud in this chat: always."
        assert await told("two") == "Now I speak to you."
        await until(lambda: len(voiced(fake)) == 1)
        assert await told("/tts chat default") == "Read aloud in this chat: off."
        assert await told("/tts on") == "Read aloud: always."
        assert await told("/tts off") == "Nothing is read aloud."
        assert await told("three") == "And now I am quiet."
        assert "from 100 to 4096" in await told("/tts limit 7") and "200" in await told("/tts limit 200")
        assert await told("/tts summary off") == "Long replies are cut."
        assert "edge-tts" in await told("/tts provider edge") and await told("/tts provider mine") == "mine speaks."
        await fake.say("/tts audio Just this once.")
        await until(lambda: len(voiced(fake)) == 2)
        await fake.say("/tts latest")
        await until(lambda: len(voiced(fake)) == 3)
        assert (await told("/tts what")).startswith("Use /tts on")
        assert (app.voices.preferences.long, app.voices.preferences.provider) == (200, "mine")
    assert voice.said == ["Now I speak to you.", "Just this once.", "And now I am quiet."]


async def test_a_guest_switches_only_this_chat(tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech) -> None:
    rules = {"groupAllowFrom": ["*"]}
    async with running(tmp_path / "h", ScriptedModel([]), fake, rules, tts=tts(voice, auto="off")) as app:
        await fake.say("/tts on", chat="group", sender="bob", mention=False)
        await until(lambda: fake.read("group") or app.voices.preferences.auto)
        assert app.voices.preferences.auto is None


@pytest.mark.seed(344)
async def test_a_hook_changes_and_holds_back_what_is_said_aloud_too(
    tmp_path: Path, fake: FakeTelegram, voice: FakeSpeech
) -> None:
    """Else whoever takes words out of replies would hear them."""
    model, seen = ScriptedModel([say("Never say this aloud to anybody."), say(TEXT)]), list[str]()

    def judge(event: dict[str, Any]) -> dict[str, Any]:
        seen.append(event["content"])
        return {"cancel": True} if "Never" in event["content"] else {"content": event["content"].upper()}

    async with running(tmp_path / "h", model, fake, messages={"tts": tts(voice)}) as app:
        app.hooks.on("message_sending", judge)
        await fake.say("one")
        await until(lambda: len(seen) == 2)
        await fake.say("two")
        await until(lambda: voiced(fake))
    assert voice.said == [TEXT.upper()] and [text for text in fake.read() if text] == [TEXT.upper()]
    assert seen == ["Never say this aloud to anybody."] * 2 + [TEXT] * 2 and len(voiced(fake)) == 1

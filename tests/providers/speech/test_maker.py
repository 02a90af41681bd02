"""Texts become files: by servers and programs, once, as a chat app wants them; who fails is followed by the next."""

from __future__ import annotations

import asyncio
import os
import shutil
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from configs import read_settings
from palinurus.core.types.model import ModelFailure
from palinurus.providers.catalog import Catalog
from palinurus.providers.speech.maker import SpeechMaker, SpeechOrder, SpokenAudio
from palinurus.providers.speech.voices import VoiceFinder
from palinurus.testing.speech import MP3, OGG, FakeSpeech, make_wav

OFF = {"espeak-ng": {"enabled": False}}


@pytest.fixture
async def voice() -> AsyncIterator[FakeSpeech]:
    async with FakeSpeech() as made:
        yield made


class Shop:
    """A maker with this configuration; programs are found in `bin`."""

    def __init__(self, home: Path, tts: dict[str, Any], environ: dict[str, str] | None = None, **more: Any) -> None:
        settings, findings = read_settings({"tts": tts, **more})
        assert not findings
        self.bin = home / "bin"
        self.bin.mkdir(parents=True, exist_ok=True)
        env = {"PATH": f"{self.bin}:/usr/bin:/bin"}
        self.speech = settings.agents["main"].speech
        self.finder = VoiceFinder(Catalog(settings, environ or {}), env)
        self.maker = SpeechMaker(self.finder, env, str(home))

    def program(self, name: str, body: str) -> None:
        (self.bin / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.bin / name).chmod(stat.S_IRWXU)

    async def make(self, text: str = "Say this.", **order: Any) -> SpokenAudio | ModelFailure:
        try:
            return await self.maker.make(SpeechOrder(text, self.speech, **order))
        finally:
            await self.maker.close()


def told(made: SpokenAudio | ModelFailure) -> str:
    assert isinstance(made, ModelFailure)
    return made.message


def done(made: SpokenAudio | ModelFailure) -> SpokenAudio:
    assert isinstance(made, SpokenAudio), made
    return made


async def test_elevenlabs_is_asked_in_its_own_way(tmp_path: Path, voice: FakeSpeech) -> None:
    own = {
        "baseUrl": voice.url, "speakerVoiceId": "a/b", "voiceSettings": {"stability": 0.1, "similarityBoost": 0.9},
        "languageCode": "de", "seed": 7, "applyTextNormalization": "on",
    }  # fmt: skip
    shop = Shop(tmp_path, {"provider": "elevenlabs", "providers": {"elevenlabs": own}}, {"XI_API_KEY": "el-1"})
    options = {"stability": "0.4", "speed": "1.2", "style": "7", "seed": "x"}
    made = done(await shop.make(use="note", options=options))
    (asked,) = voice.asked
    assert asked.voice == "a/b" and asked.query == {"output_format": "opus_48000_64"}
    assert asked.headers["xi-api-key"] == "el-1"
    assert asked.body == {
        "text": "Say this.", "model_id": "eleven_multilingual_v2", "language_code": "de", "seed": 7,
        "apply_text_normalization": "on",
        "voice_settings": {
            "stability": 0.4, "similarity_boost": 0.9, "style": 0.0, "use_speaker_boost": True, "speed": 1.2,
        },
    }  # fmt: skip
    assert (made.provider, made.format, made.note) == ("elevenlabs", "ogg", True)
    assert Path(made.path).read_bytes() == OGG and os.stat(made.path).st_mode & 0o077 == 0


async def test_made_once_and_never_for_other_words(tmp_path: Path, voice: FakeSpeech) -> None:
    shop = Shop(tmp_path, {"provider": "mine", "providers": {"mine": {"baseUrl": voice.url}}})
    first, again = done(await shop.make("One.")), done(await shop.make("One."))
    other, note = done(await shop.make("Two.")), done(await shop.make("One.", use="note"))
    assert first == again and voice.said == ["One.", "Two.", "One."]
    assert len({first.path, other.path, note.path}) == 3


async def test_the_next_speaks_when_one_fails_and_no_key_is_told(tmp_path: Path, voice: FakeSpeech) -> None:
    async with FakeSpeech(status=500) as broken:
        first = {"baseUrl": broken.url, "apiKey": "sk-very-secret-key"}
        shop = Shop(tmp_path, {"provider": "first", "providers": {"second": {"baseUrl": voice.url}, "first": first}})
        made = done(await shop.make())
        assert made.provider == "second" and made.failed[0].startswith("first: ")
        assert "very-secret" not in str(made.failed)
        voice.status = 401
        shop = Shop(tmp_path, {"providers": {"first": first, "second": {"baseUrl": voice.url}, **OFF}})
        assert "first: " in (why := told(await shop.make("Else."))) and "second: " in why and "very-secret" not in why


async def test_what_is_no_sound_is_not_sent(tmp_path: Path) -> None:
    async with FakeSpeech(b"<html>sign in</html>") as strange:
        shop = Shop(tmp_path, {"provider": "mine", "providers": {"mine": {"baseUrl": strange.url}, **OFF}})
        assert told(await shop.make()) == "mine: what came back is no sound"
    assert not list((tmp_path / "media").rglob("*"))


async def test_who_takes_too_long_is_not_waited_for(tmp_path: Path, voice: FakeSpeech) -> None:
    voice.gate.clear()
    shop = Shop(tmp_path, {"provider": "mine", "timeoutMs": 60, "providers": {"mine": {"baseUrl": voice.url}, **OFF}})
    assert "longer than 0.06 s" in told(await shop.make()) or "nothing" in told(await shop.make())


async def test_a_program_writes_a_file_or_prints_the_sound(tmp_path: Path) -> None:
    (tmp_path / "sound").write_bytes(MP3)
    command = {"command": "say", "args": ["-o", "{{OutputPath}}", "{{Text}}"], "env": {"KIND": "x"}}
    shop = Shop(tmp_path, {"provider": "cli", "providers": {"tts-local-cli": command}})
    shop.program("say", f'printf "%s|%s" "$3" "$KIND" > {tmp_path}/heard; cp {tmp_path}/sound "$2"')
    made = done(await shop.make("--evil option"))
    assert (tmp_path / "heard").read_text() == " --evil option|x" and made.provider == "tts-local-cli"
    shop = Shop(tmp_path, {"provider": "cli", "providers": {"tts-local-cli": {"command": "speak"}}})
    shop.program("speak", f"cat > {tmp_path}/heard; cat {tmp_path}/sound")
    assert Path(done(await shop.make("From standard input.")).path).read_bytes() == MP3
    assert (tmp_path / "heard").read_text() == "From standard input."


@pytest.mark.parametrize(
    ("body", "why"),
    [("echo it broke >&2; exit 3", "it broke"), ("sleep 60", "longer than"), ("exit 0", "nothing came back")],
)
async def test_a_program_that_fails(tmp_path: Path, body: str, why: str) -> None:
    command = {"command": "say", "timeoutMs": 300}
    shop = Shop(tmp_path, {"provider": "cli", "providers": {"tts-local-cli": command, **OFF}})
    shop.program("say", body)
    assert why in told(await shop.make())


async def test_what_a_program_started_ends_with_it(tmp_path: Path) -> None:
    command = {"command": "say", "timeoutMs": 500}
    shop = Shop(tmp_path, {"provider": "cli", "providers": {"tts-local-cli": command, **OFF}})
    shop.program("say", f"sleep 600 & echo $! > {tmp_path}/child; sleep 600")
    assert "longer than" in told(await shop.make())
    status = Path(f"/proc/{(tmp_path / 'child').read_text().strip()}/stat")
    async with asyncio.timeout(60):
        while status.exists() and status.read_text().rpartition(")")[2].split()[0] not in "ZX":
            await asyncio.sleep(0.02)


@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
async def test_other_sound_becomes_a_voice_note(tmp_path: Path) -> None:
    async with FakeSpeech(make_wav(0.3)) as plain:
        shop = Shop(tmp_path, {"provider": "mine", "providers": {"mine": {"baseUrl": plain.url}}})
        note, file, played = [done(await shop.make(use=use)) for use in ("note", "file", "play")]
    assert (note.format, file.format, played.format) == ("ogg", "mp3", "wav")
    assert b"OpusHead" in Path(note.path).read_bytes()[:64]


async def test_without_an_encoder_it_stays_a_file(tmp_path: Path) -> None:
    async with FakeSpeech(make_wav(0.3)) as plain:
        shop = Shop(tmp_path, {"provider": "mine", "providers": {"mine": {"baseUrl": plain.url}}})
        shop.maker._env["PATH"] = str(shop.bin)
        made = done(await shop.make(use="note"))
    assert (made.format, made.note) == ("wav", False)


def test_who_is_asked_and_in_which_order(tmp_path: Path) -> None:
    def ids(tts: dict[str, Any], first: str = "", **environ: str) -> list[str]:
        shop = Shop(tmp_path, tts, environ)
        shop.program("espeak-ng", "true")
        return [one.id for one in shop.finder.list_voices(shop.speech, first)]

    both = {"OPENAI_API_KEY": "k", "ELEVENLABS_API_KEY": "e"}
    assert ids({}, **both) == ["openai", "elevenlabs", "espeak-ng"]
    assert ids({"provider": "elevenlabs"}, **both) == ["elevenlabs", "espeak-ng"]  # text goes to nobody unnamed
    assert ids({"provider": "edge"}) == ["espeak-ng"]
    assert ids({"providers": {"openai": {"enabled": False}, "elevenlabs": {}}}, "espeak", **both) == [
        "espeak-ng",
        "elevenlabs",
    ]


async def test_espeak_says_it_though_the_voice_is_another_vendors(tmp_path: Path) -> None:
    """`alloy`, which every client of OpenAI's API sends, makes espeak-ng 1.51 crash; `x` makes it complain."""
    shop = Shop(tmp_path, {"provider": "espeak-ng"})
    sound = tmp_path / "sound.wav"
    sound.write_bytes(make_wav())
    asked = tmp_path / "asked"
    cases = f'case $2 in alloy) kill -SEGV $$;; en|de) cp {sound} "$7";; *) exit 1;; esac'
    shop.program("espeak-ng", f'echo "$2" >> {asked}\n{cases}')
    for number, name in enumerate(("alloy", "x", "de")):
        assert done(await shop.make(f"Words {number}.", options={"voice": name})).provider == "espeak-ng"
    assert asked.read_text().split() == ["alloy", "en", "x", "en", "de"]


def test_the_key_of_one_address_does_not_go_to_another(tmp_path: Path) -> None:
    moved = {"provider": "openai", "providers": {"openai": {"baseUrl": "http://127.0.0.1:9/v1"}}}
    shop = Shop(tmp_path, moved, {"OPENAI_API_KEY": "sk-mine"})
    voice = shop.finder.find("openai", shop.speech)
    assert not isinstance(voice, ModelFailure) and not voice.key and voice.base == "http://127.0.0.1:9/v1"
    shop = Shop(tmp_path, {"provider": "openai"}, {"OPENAI_API_KEY": "sk-mine"})
    usual = shop.finder.find("openai", shop.speech)
    assert not isinstance(usual, ModelFailure) and usual.key.reveal() == "sk-mine"
    nobody = shop.finder.find("nowhere", shop.speech)
    assert isinstance(nobody, ModelFailure) and "baseUrl" in nobody.message

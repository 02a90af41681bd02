"""tts.* and talk.*: what is switched stays switched, and sound comes over the line."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from gateway.whole import place
from palinurus.gateway.rpc import READ, MethodError
from palinurus.testing.speech import MP3, FakeSpeech


@pytest.fixture
async def voice() -> AsyncIterator[FakeSpeech]:
    async with FakeSpeech() as made:
        yield made


def tts(voice: FakeSpeech) -> dict[str, Any]:
    mine = {"baseUrl": voice.url, "apiKey": "sk-mine-1234567", "voice": "nova"}
    return {"provider": "mine", "providers": {"mine": mine, "espeak-ng": {"enabled": False}}}


async def test_switches_are_kept(tmp_path: Path, voice: FakeSpeech) -> None:
    async with place(tmp_path / "h", tts=tts(voice)) as here:
        before = await here.call("tts.status")
        assert await here.call("tts.enable") == {"enabled": True}
        assert await here.call("tts.setProvider", provider="Mine") == {"provider": "mine"}
        refused = await here.refused("tts.setProvider", provider="edge")
    assert (before["enabled"], before["auto"], before["provider"]) == (False, "off", "mine")
    assert "edge-tts" in refused.message
    async with place(tmp_path / "h", tts=tts(voice)) as here:
        assert (await here.call("tts.status"))["auto"] == "always"
        assert await here.call("tts.disable") == {"enabled": False}
        assert not (await here.call("tts.status"))["enabled"]


async def test_who_can_speak_and_what_the_others_lack(tmp_path: Path, voice: FakeSpeech) -> None:
    async with place(tmp_path / "h", tts=tts(voice)) as here, here.other(scopes=(READ,)) as reader:
        found = await reader.call("tts.providers", {})
        talk = await reader.call("talk.config", {"includeSecrets": True})
        catalog = await reader.call("talk.catalog", {})
    rows = {row["id"]: row for row in found["providers"]}
    assert found["active"] == "mine" and rows["mine"]["configured"] and rows["mine"]["voice"] == "nova"
    assert rows["espeak-ng"]["reason"] == "espeak-ng is switched off"
    assert talk["config"]["talk"]["resolved"] == {"provider": "mine", "config": {"voiceId": "nova"}}
    assert talk["config"]["talk"]["interruptOnSpeech"] and talk["config"]["talk"]["silenceTimeoutMs"] == 900
    assert catalog["speech"]["activeProvider"] == "mine" and "sk-mine" not in str((found, talk, catalog))


async def test_text_becomes_a_file_or_sound_over_the_line(tmp_path: Path, voice: FakeSpeech) -> None:
    talk = {"providers": {"mine": {"modelId": "tiny", "voiceAliases": {"Ada": "voice-7"}}}, "speechLocale": "de"}
    async with place(tmp_path / "h", tts=tts(voice), talk=talk) as here, here.other(scopes=(READ,)) as reader:
        file = await here.call("tts.convert", text="Say this to everybody.", channel="telegram")
        sound = await here.call("tts.speak", text="Say that.", voiceId="echo")
        spoken = await here.call("talk.speak", text="And this.", voiceId="ada", speed=1.5)
        again = await here.call("talk.speak", text="And this.", voiceId="ada", speed=1.5)
        empty = await here.refused("tts.convert", text="")
        long = await here.refused("tts.convert", text="x" * 5000)
        with pytest.raises(MethodError, match=r"operator\.write"):
            await reader.call("tts.speak", {"text": "x"})
        config = await here.call("talk.config")
    assert Path(file["audioPath"]).read_bytes() == MP3 and file["provider"] == "mine"
    assert base64.b64decode(sound["audioBase64"]) == MP3 and sound["mimeType"] == "audio/mpeg"
    bodies = [one.body for one in voice.asked]
    assert [(body["voice"], body["model"]) for body in bodies] == [
        ("nova", "gpt-4o-mini-tts"),
        ("echo", "gpt-4o-mini-tts"),
        ("voice-7", "tiny"),
    ]
    assert bodies[2]["speed"] == 1.5 and spoken == again  # made once
    assert "must NOT have fewer" in empty.message and "too many to say" in long.message
    assert config["config"]["talk"]["speechLocale"] == "de"


async def test_nobody_speaks(tmp_path: Path) -> None:
    async with FakeSpeech(status=401) as voice, place(tmp_path / "h", tts=tts(voice)) as here:
        refused = await here.refused("tts.speak", text="Hello there.")
        assert (refused.code, "sk-mine" in refused.message) == ("UNAVAILABLE", False)
        assert (await here.call("tts.status"))["lastAttempt"]["success"] is False

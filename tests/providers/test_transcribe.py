"""Hearing through a provider (a server on loopback) and through a command."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web

from palinurus.config.load import load_config
from palinurus.config.sections.audio import AudioSettings, TranscriptionMethod
from palinurus.core.types.model import ModelFailure
from palinurus.providers.catalog import Catalog
from palinurus.providers.transcribe import SoundRecording, SpeechTranscriber, build_form
from palinurus.testing.home import make_home
from palinurus.testing.server import FakeTranscriber

SOUND = SoundRecording("/m/note.ogg", 'no"te\r\n.ogg', "audio/ogg", b"OggS spoken")


@asynccontextmanager
async def listening(
    tmp_path: Path, url: str, *ways: TranscriptionMethod, **changes: Any
) -> AsyncIterator[SpeechTranscriber]:
    home = make_home(tmp_path, url=url)
    catalog = Catalog(load_config(home, {}).settings, {})
    ears = SpeechTranscriber(AudioSettings(ways, **changes), catalog, {"PATH": "/usr/bin:/bin"})
    try:
        yield ears
    finally:
        await ears.close()


async def test_a_provider_is_asked_with_its_key_the_language_and_the_file(tmp_path: Path) -> None:
    async with FakeTranscriber("hello there") as server:
        async with listening(tmp_path, server.url, TranscriptionMethod("fake", "whisper"), language="de") as ears:
            assert await ears.transcribe(SOUND) == "hello there"
    (asked,) = server.asked
    assert asked.fields == {"model": "whisper", "language": "de"} and asked.data == b"OggS spoken"
    assert asked.headers["authorization"] == "Bearer fake-key" and asked.name == "no_te__.ogg"


async def test_the_next_way_is_gone_when_one_fails_and_the_last_reason_is_told(tmp_path: Path) -> None:
    async with FakeTranscriber("", status=503) as server:
        local = TranscriptionMethod(argv=("/bin/sh", "-c", 'printf "from %s" "$1"', "x", "{{MediaPath}}"))
        async with listening(tmp_path, server.url, TranscriptionMethod("fake", "w"), local) as ears:
            assert await ears.transcribe(SOUND) == "from /m/note.ogg"
        async with listening(tmp_path, server.url, local, TranscriptionMethod("fake", "w")) as ears:
            assert await ears.transcribe(SOUND) == "from /m/note.ogg"
        assert len(server.asked) == 1
        async with listening(
            tmp_path, server.url, TranscriptionMethod("nobody", "w"), TranscriptionMethod("fake", "w")
        ) as ears:
            failed = await ears.transcribe(SOUND)
    assert isinstance(failed, ModelFailure) and failed.status == 503 and "fake-key" not in failed.message


async def test_what_a_command_writes_beside_its_output_goes_before_it(tmp_path: Path) -> None:
    line = 'echo progress; printf words > "$1.txt"'
    async with listening(
        tmp_path, "", TranscriptionMethod(argv=("/bin/sh", "-c", line, "x", "{{OutputBase}}"))
    ) as ears:
        assert await ears.transcribe(SOUND) == "words"


async def test_whatever_goes_wrong_is_a_reason(tmp_path: Path) -> None:
    cases = {
        "cannot be started": TranscriptionMethod(argv=("/nowhere/whisper",)),
        "bad file": TranscriptionMethod(argv=("/bin/sh", "-c", "echo bad file >&2; exit 3")),
        "took longer": TranscriptionMethod(argv=("/bin/sh", "-c", "sleep 60 & wait"), timeout=0.05),
        "no words": TranscriptionMethod(argv=("/bin/true",)),
        "unknown provider": TranscriptionMethod("nobody", "m"),
        "cannot reach": TranscriptionMethod("fake", "m"),
    }
    for words, way in cases.items():
        async with listening(tmp_path, "http://127.0.0.1:9/v1", way) as ears:
            found = await ears.transcribe(SOUND)
            assert isinstance(found, ModelFailure) and words in found.message, (words, found)
    async with listening(tmp_path, "", TranscriptionMethod(argv=("/bin/true",)), size=3) as ears:
        assert "larger than 3 bytes" in (await ears.transcribe(SOUND)).message  # type: ignore[union-attr]
    async with listening(tmp_path, "") as ears:
        assert "tools.media.audio" in (await ears.transcribe(SOUND)).message  # type: ignore[union-attr]


async def test_an_answer_that_is_no_transcript_is_a_reason(tmp_path: Path) -> None:
    async with FakeTranscriber("x", answer=lambda: web.Response(text="<html>")) as server:
        async with listening(tmp_path, server.url, TranscriptionMethod("fake", "w")) as ears:
            found = await ears.transcribe(SOUND)
    assert isinstance(found, ModelFailure) and found.kind == "malformed"


def test_names_do_not_leave_their_quotes() -> None:
    body = build_form({"model": "m", "language": ""}, SOUND, "b")
    assert body.count(b"\r\n--b") == 2 and b'filename="no_te__.ogg"' in body and b"language" not in body

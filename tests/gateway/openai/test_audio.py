"""Speech and transcriptions over HTTP, with the stock OpenAI SDK's kind of requests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.host import TOKEN
from gateway.whole import Place, place
from later import open_openai
from palinurus.gateway.openai.audio import split_form
from palinurus.testing.server import FakeTranscriber
from palinurus.testing.speech import MP3, OGG, FakeSpeech


def visit(here: Place, token: str = TOKEN) -> aiohttp.ClientSession:
    base = f"http://127.0.0.1:{here.server.port}"
    return aiohttp.ClientSession(base, headers={"Authorization": f"Bearer {token}"})


async def test_openais_own_client(tmp_path: Path) -> None:
    async with FakeSpeech() as voice, FakeTranscriber("I heard you.") as ears:
        own = {"providers": {"mine": {"baseUrl": ears.url, "apiKey": "k", "models": [{"id": "m"}]}}}
        hears = {"media": {"audio": {"models": [{"provider": "mine", "model": "w"}]}}}
        speech = {"provider": "other", "providers": {"other": {"baseUrl": voice.url}}}
        async with place(tmp_path / "h", models=own, tools=hears, tts=speech) as here:
            async with open_openai(here.server.port, TOKEN) as client:
                made = await client.audio.speech.create(model="tts-1", voice="alloy", input="Hello.")
                heard = await client.audio.transcriptions.create(model="whisper-1", file=("a.mp3", made.content))
    assert made.content == MP3 and heard.text == "I heard you." and ears.asked[0].data == MP3


async def test_a_text_becomes_sound(tmp_path: Path) -> None:
    async with FakeSpeech() as voice:
        own = {"provider": "mine", "providers": {"mine": {"baseUrl": voice.url}, "espeak-ng": {"enabled": False}}}
        async with place(tmp_path / "h", tts=own) as here, visit(here) as http:
            asked = {"model": "tts-1", "input": "Hello there.", "voice": "nova", "speed": 1.5}
            async with http.post("/v1/audio/speech", json=asked) as answer:
                assert (answer.status, answer.content_type, await answer.read()) == (200, "audio/mpeg", MP3)
            async with http.post("/v1/audio/speech", json={**asked, "response_format": "opus"}) as answer:
                assert (answer.content_type, await answer.read()) == ("audio/ogg", OGG)
            async with http.post("/v1/audio/speech", json={"input": ""}) as answer:
                assert answer.status == 400
            async with http.post("/v1/audio/speech", json={"input": "x" * 9000}) as answer:
                assert answer.status == 400 and "too many" in (await answer.json())["error"]["message"]
            voice.status = 500
            async with http.post("/v1/audio/speech", json={"input": "Something else."}) as answer:
                assert answer.status == 502
    assert voice.asked[0].body["voice"] == "nova" and voice.asked[0].body["speed"] == 1.5


async def test_a_recording_becomes_words(tmp_path: Path) -> None:
    async with FakeTranscriber("what was said") as ears:
        own = {"providers": {"mine": {"baseUrl": ears.url, "apiKey": "k", "models": [{"id": "m"}]}}}
        hears = {"media": {"audio": {"models": [{"provider": "mine", "model": "w"}]}}}
        async with place(tmp_path / "h", models=own, tools=hears) as here, visit(here) as http:

            async def ask(**fields: Any) -> aiohttp.ClientResponse:
                form = aiohttp.FormData()
                form.add_field("model", "whisper-1")
                for name, value in fields.items():
                    form.add_field(name, value, **({"filename": "a.wav"} if name == "file" else {}))
                return await http.post("/v1/audio/transcriptions", data=form)

            assert await (await ask(file=b"\r\n--RIFF\r\n")).json() == {"text": "what was said"}
            assert await (await ask(file=b"RIFF", response_format="text")).text() == "what was said\n"
            assert (await ask(file=b"RIFF", response_format="srt")).status == 400
            assert (await ask(file=b"RIFF", temperature="0", stream="false")).status == 200
            for odd in ({"temperature": "0.7"}, {"stream": "true"}, {"timestamp_granularities[]": "word"}):
                refused = await (await ask(file=b"RIFF", **odd)).json()
                assert refused["error"]["code"] == "unsupported_parameter"
            before = len(ears.asked)
            assert (await ask(file=b"RIFF", language="de", prompt="Halcyon")).status == 200
            assert ears.asked[before].fields["language"] == "de" and ears.asked[before].fields["prompt"] == "Halcyon"
            assert (await ask()).status == 400
            assert (await http.post("/v1/audio/transcriptions", json={})).status == 400
            ears.status = 500
            assert (await ask(file=b"RIFF")).status == 502
    assert ears.asked[0].data == b"\r\n--RIFF\r\n" and ears.asked[0].name == "a.wav"


async def test_nobody_hears_and_nobody_speaks(tmp_path: Path) -> None:
    off = {"providers": {"espeak-ng": {"enabled": False}}}
    async with place(tmp_path / "h", tts=off) as here, visit(here) as http, visit(here, "wrong") as stranger:
        async with http.post("/v1/audio/speech", json={"input": "Hello."}) as answer:
            assert answer.status == 503 and "nobody here can speak" in (await answer.json())["error"]["message"]
        for odd in ({"instructions": "whisper"}, {"stream_format": "sse"}):
            async with http.post("/v1/audio/speech", json={"input": "Hello.", **odd}) as answer:
                assert (await answer.json())["error"]["code"] == "unsupported_parameter"
        async with stranger.post("/v1/audio/speech", json={"input": "Hello."}) as answer:
            assert answer.status == 401


@pytest.mark.parametrize("data", [b"", b"--x", b"--x--\r\n", b"--x\r\nno body\r\n--x--"])
def test_what_is_no_form_has_no_parts(data: bytes) -> None:
    assert split_form(data, b"x") == []


@given(st.lists(st.binary(max_size=40).filter(lambda data: b"\r\n--xyz" not in b"\r\n" + data), max_size=4))
def test_parts_come_out_as_they_went_in(bodies: list[bytes]) -> None:
    data = b"".join(b'--xyz\r\nContent-Disposition: form-data; name="a"\r\n\r\n' + body + b"\r\n" for body in bodies)
    assert [body for _, body in split_form(data + b"--xyz--\r\n", b"xyz")] == bodies

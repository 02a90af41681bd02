"""A fake speech server on 127.0.0.1: OpenAI's `/v1/audio/speech` and ElevenLabs' `/v1/text-to-speech/VOICE`. Says
everything as the same short sound, or fails with `status`. Also the shortest sounds there are, for tests.
"""

from __future__ import annotations

import asyncio
import struct
from typing import Any

import msgspec
from aiohttp import web

from palinurus.testing.loopback import LoopbackHttp

# Heads that everybody takes for the sound they name; nobody listens in tests.
OGG = b"OggS\x00\x02" + b"\x00" * 20 + b"\x01\x13OpusHead" + b"\x00" * 12
MP3 = b"ID3\x04\x00\x00\x00\x00\x00\x00" + b"\xff\xfb\x90\x00" + b"\x00" * 413


def make_wav(seconds: float = 0.1) -> bytes:
    """Silence, 8 kHz, as a whole WAV file."""
    data = b"\x00\x00" * int(8000 * seconds)
    head = struct.pack("<4sI4s4sIHHIIHH4sI", b"RIFF", 36 + len(data), b"WAVE", b"fmt ", 16, 1, 1, 8000, 16000, 2, 16,
                       b"data", len(data))  # fmt: skip
    return head + data


def make_opus(seconds: float, packets: tuple[int, ...]) -> bytes:
    """An Ogg file whose packets have these sizes and last so long together; what is in them is nothing."""

    def page(position: int, sizes: tuple[int, ...]) -> bytes:
        head = b"OggS\x00\x00" + position.to_bytes(8, "little") + b"\x00" * 12
        return head + bytes((len(sizes), *sizes)) + b"".join(b"\x00" * size for size in sizes)

    return page(0, (19,)) + page(0, (16,)) + page(int(seconds * 48_000), packets)


class SpeechRequest(msgspec.Struct, frozen=True):
    """One request. Header names are lower-case; `voice` is ElevenLabs' (it stands in the address)."""

    body: dict[str, Any]
    headers: dict[str, str]
    query: dict[str, str]
    voice: str = ""


class FakeSpeech:
    """While `gate` is not set, nobody is answered. `sound` None: what the format asks for."""

    def __init__(self, sound: bytes | None = None, *, status: int = 200) -> None:
        self.sound = sound
        self.status = status
        self.asked: list[SpeechRequest] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self._http = LoopbackHttp(
            {"POST /v1/audio/speech": self._speak, "POST /v1/text-to-speech/{voice}": self._speak}, cancels=True
        )

    @property
    def url(self) -> str:
        return f"{self._http.url}/v1"

    @property
    def said(self) -> list[str]:
        """The texts, in order."""
        return [str(one.body.get("input") or one.body.get("text")) for one in self.asked]

    async def __aenter__(self) -> FakeSpeech:
        await self._http.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._http.stop()

    async def _speak(self, request: web.Request) -> web.Response:
        headers = {key.lower(): value for key, value in request.headers.items()}
        body, query = await request.json(), dict(request.query)
        self.asked.append(SpeechRequest(body, headers, query, request.match_info.get("voice", "")))
        await self.gate.wait()
        if self.status != 200:
            wrong = {"error": {"message": f"no voice today for {headers.get('authorization', '')}"}}
            return web.json_response(wrong, status=self.status)
        form = str(body.get("response_format") or query.get("output_format") or "")
        sound = self.sound or (OGG if form.startswith("opus") else make_wav() if form == "wav" else MP3)
        return web.Response(body=sound, content_type="audio/mpeg")

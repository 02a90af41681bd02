"""POST /v1/audio/speech and /v1/audio/transcriptions: the voices and the ears of the config, for clients of OpenAI's
API. Neither goes through the agent: nothing is said to it, and nothing of it is kept.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import msgspec
from aiohttp.web_request import BaseRequest
from aiohttp.web_response import Response, StreamResponse

from palinurus.core.speech import SpokenText
from palinurus.core.types.model import FailureKind, ModelFailure
from palinurus.files import read_plain_file
from palinurus.gateway import http
from palinurus.gateway.http import HttpFault, RouteRequest
from palinurus.patterns import compile_late, decode_late
from palinurus.providers.program import OUTPUT
from palinurus.providers.transcribe import SoundRecording

FORMATS = ("json", "text", "verbose_json")
# What would change the answer and nobody here can do; `model` means the configured one.
UNSERVED = frozenset(
    "languages temperature stream include timestamp_granularities chunking_strategy keywords"
    " known_speaker_names known_speaker_references".split()
)
ASKS_NOTHING = ("", "0", "0.0", "false")
OURS = ("", "tts-1", "tts-1-hd", "openclaw", "palinurus")  # names that mean the configured model
_BOUNDARY = compile_late(r'boundary=(?:"([^"]{1,70})"|([^\s;"]{1,70}))', re.IGNORECASE)
_NAMED = compile_late(r'\b(name|filename)="([^"\r\n]{0,200})"', re.IGNORECASE)
_KIND = compile_late(r"^content-type:\s*([^\s;]{1,100})", re.IGNORECASE | re.MULTILINE)
_STATUS: dict[FailureKind, int] = {"timeout": 504, "config": 503}


class _Speech(msgspec.Struct, frozen=True):
    input: Annotated[str, msgspec.Meta(min_length=1)]
    model: str = ""
    voice: str = ""
    response_format: str = "mp3"
    speed: float | None = None
    instructions: str = ""
    stream_format: str = ""


_SPEECH = decode_late(_Speech)


async def handle_speech(visit: RouteRequest) -> StreamResponse | HttpFault:
    """A text as sound. Opus where that is asked for, else what the voice gives that any player takes."""
    voices = visit.host.program.voices if visit.host.program is not None else None
    asked = await http.read_json(visit.request, _SPEECH)
    if isinstance(asked, HttpFault):
        return asked
    if asked.instructions or asked.stream_format == "sse":
        name = "instructions" if asked.instructions else "stream_format"
        return http.make_bad_request(f"{name} is not supported", name, code="unsupported_parameter")
    if voices is None:
        return HttpFault(503, "there is nobody here who speaks", "api_error", code="no_voice")
    told = {"voice": asked.voice, "speed": str(asked.speed) if asked.speed is not None else ""}
    told["model"] = "" if asked.model in OURS else asked.model
    said = SpokenText(asked.input, {name: one for name, one in told.items() if one}, visit.host.settings.default_agent)
    made = await voices.speak(said, "note" if asked.response_format == "opus" else "file")
    if isinstance(made, ModelFailure):
        return _fault(made)
    sound = await asyncio.to_thread(read_plain_file, made.path, OUTPUT)
    return http.reply_bytes(sound, made.mime)


async def handle_transcription(visit: RouteRequest) -> StreamResponse | HttpFault:
    """A recording as words."""
    ears = visit.host.program.ears if visit.host.program is not None else None
    if ears is None:
        return HttpFault(503, "there is nobody here who hears", "api_error", code="no_ears")
    found = await _read_form(visit.request)
    if isinstance(found, HttpFault):
        return found
    sound, fields = found
    form = fields.get("response_format") or "json"
    if form not in FORMATS:
        return http.make_bad_request(f"response_format: one of {', '.join(FORMATS)}", "response_format")
    odd = next(
        (name for name, value in fields.items() if name.removesuffix("[]") in UNSERVED and value not in ASKS_NOTHING),
        "",
    )
    if odd:
        return http.make_bad_request(f"{odd} is not supported", odd, code="unsupported_parameter")
    folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="pal-")
    path = os.path.join(folder, f"{secrets.token_hex(4)}{os.path.splitext(sound.name)[1][:8]}")
    try:
        await asyncio.to_thread(Path(path).write_bytes, sound.data)  # the folder is ours alone
        hints = {name: fields.get(name, "") for name in ("language", "prompt")}
        words = await ears.transcribe(msgspec.structs.replace(sound, path=path, **hints))
    finally:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    if isinstance(words, ModelFailure):
        return _fault(words)
    return Response(text=words + "\n") if form == "text" else http.reply_json({"text": words})


HANDLERS = {"speech": handle_speech, "transcriptions": handle_transcription}


async def _read_form(request: BaseRequest) -> tuple[SoundRecording, dict[str, str]] | HttpFault:
    found = _BOUNDARY.search(request.headers.get("Content-Type", ""))
    if request.content_type != "multipart/form-data" or found is None:
        return http.make_bad_request("a transcription is asked for with a form (multipart/form-data)")
    data = await http.read_body(request)
    if isinstance(data, HttpFault):
        return data
    fields: dict[str, str] = {}
    sound: SoundRecording | None = None
    for head, body in split_form(data, (found[1] or found[2]).encode()):
        named = {name.lower(): value for name, value in _NAMED.findall(head)}
        if named.get("name") == "file":
            kind = _KIND.search(head)
            sound = SoundRecording("", named.get("filename") or "audio", kind[1] if kind else "audio/*", body)
        else:
            fields[named.get("name", "")] = body[:1000].decode("utf-8", "replace")
    if sound is None or not sound.data:
        return http.make_bad_request("file: the recording is missing", "file")
    return sound, fields


def split_form(data: bytes, boundary: bytes) -> list[tuple[str, bytes]]:
    """The parts of a form: the head of each as text, and what is in it, byte by byte."""
    made: list[tuple[str, bytes]] = []
    for part in (b"\r\n" + data).split(b"\r\n--" + boundary)[1:]:
        if part.startswith(b"--"):
            break
        head, gap, body = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        if gap:
            made.append((head.decode("utf-8", "replace"), body))
    return made


def _fault(failure: ModelFailure) -> HttpFault:
    status = 400 if "too many to say" in failure.message else _STATUS.get(failure.kind, 502)
    kind = "invalid_request_error" if status == 400 else "api_error"
    return HttpFault(status, failure.message, kind, code=failure.kind)

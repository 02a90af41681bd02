"""Spoken words as text: a provider's transcription (the API that OpenAI began), or a command of the owner's. The ways
are tried in the order of the config; the first that gives words ends it. Nothing raises; spends no budget of tokens.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
import tempfile
from collections.abc import Mapping

import msgspec

from palinurus.abort import Abort
from palinurus.config.sections.audio import AudioSettings, TranscriptionMethod
from palinurus.config.settings import Secret
from palinurus.core.types.model import ModelFailure
from palinurus.providers.address import is_local_url
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import build_key_headers, find_key
from palinurus.providers.errors import classify_refusal, clip_message
from palinurus.providers.http import HttpClient, HttpTimeouts, TransportError
from palinurus.providers.program import ProgramCall, fill_template, run_program

BODY = 2_000_000  # bytes of an answer


class _Words(msgspec.Struct):
    text: str


class SoundRecording(msgspec.Struct, frozen=True):
    """A recording on our disk."""

    path: str
    name: str
    mime: str
    data: bytes
    language: str = ""  # for this one, instead of what the config says
    prompt: str = ""


class SpeechTranscriber:
    """`words` of a recording. `env` is the environment of commands. `close` when the program ends."""

    def __init__(self, settings: AudioSettings, catalog: Catalog, env: Mapping[str, str]) -> None:
        self._settings = settings
        self._catalog = catalog
        self._env = dict(env)
        self._http = HttpClient()

    async def close(self) -> None:
        """End all connections."""
        await self._http.close()

    async def transcribe(self, sound: SoundRecording) -> str | ModelFailure:
        """What is said, or why that is not known."""
        if not self._settings.ways:
            return ModelFailure("config", "nothing is set up for that (tools.media.audio)")
        if len(sound.data) > self._settings.size:
            return ModelFailure("refused", f"larger than {self._settings.size:,} bytes")
        why = ModelFailure("refused", "no words in it")
        for way in self._settings.ways:
            found = await (self._run(way, sound) if way.argv else self._ask(way, sound))
            if isinstance(found, str) and found.strip():
                return found.strip()[: self._settings.chars]
            why = found if isinstance(found, ModelFailure) else ModelFailure("refused", "no words in it")
        return why

    def _read_hints(self, sound: SoundRecording) -> dict[str, str]:
        rules = self._settings
        return {"language": sound.language or rules.language, "prompt": sound.prompt or rules.prompt}

    # a provider

    async def _ask(self, way: TranscriptionMethod, sound: SoundRecording) -> str | ModelFailure:
        settings, vendor = self._catalog.provider(way.provider), self._catalog.vendor(way.provider)
        base = ((settings and settings.base_url) or (vendor.base_url if vendor else "")).rstrip("/")
        if not base:
            return ModelFailure("config", f"unknown provider {way.provider!r}")
        key = self._key(way.provider, base)
        if isinstance(key, ModelFailure):
            return key
        boundary = secrets.token_hex(16)
        fields = {"model": way.model, **self._read_hints(sound)}
        sent = {
            **(settings.headers if settings else {}),
            **build_key_headers(key, "authorization"),
            "content-type": f"multipart/form-data; boundary={boundary}",
        }
        limits = HttpTimeouts(first=way.timeout, idle=way.timeout)
        try:
            async with asyncio.timeout(way.timeout):
                body = build_form(fields, sound, boundary)
                answer = await self._http.post(f"{base}/audio/transcriptions", body, sent, limits, stop=Abort())
                try:
                    told = await answer.body(BODY)
                finally:
                    answer.close()
        except TransportError as exc:
            return ModelFailure(exc.kind, exc.message)
        except TimeoutError:
            return ModelFailure("timeout", f"{way.provider} took longer than {way.timeout:g} s")
        if answer.status != 200:
            failure = classify_refusal(answer.status, told)
            return msgspec.structs.replace(
                failure, message=clip_message(failure.message, (key.reveal(),) if key else ())
            )
        try:
            return msgspec.json.decode(told, type=_Words).text
        except msgspec.MsgspecError:
            return ModelFailure("malformed", f"{way.provider} did not answer with a transcript")

    def _key(self, provider: str, base: str) -> Secret | ModelFailure:
        profile = next(iter(self._catalog.profiles(provider)), None)
        if profile is not None:
            return profile.secret
        catalog = self._catalog
        settings, vendor = catalog.provider(provider), catalog.vendor(provider)
        return find_key(provider, settings, vendor, catalog.environ, local=is_local_url(base))

    # a command

    async def _run(self, way: TranscriptionMethod, sound: SoundRecording) -> str | ModelFailure:
        folder = tempfile.mkdtemp(prefix="pal-")
        try:
            return await self._started(way, sound, folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    async def _started(self, way: TranscriptionMethod, sound: SoundRecording, folder: str) -> str | ModelFailure:
        base = os.path.splitext(os.path.basename(sound.path))[0]
        known = {"MediaPath": sound.path, "OutputDir": folder, "OutputBase": os.path.join(folder, base),
                 **{name.capitalize(): value for name, value in self._read_hints(sound).items()}}  # fmt: skip
        argv = tuple(fill_template(word, known) for word in way.argv)
        out = await run_program(ProgramCall(argv, self._env, folder, way.timeout))
        if isinstance(out, ModelFailure):
            return out
        return _written(os.path.join(folder, f"{base}.txt")) or out.decode("utf-8", "replace")


def build_form(fields: Mapping[str, str], sound: SoundRecording, boundary: str) -> bytes:
    """The body of the request. Names from outside cannot leave their quotes."""
    parts = [
        f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
        for name, value in fields.items()
        if value
    ]
    name = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in sound.name)[-80:] or "audio"
    kind = "".join(c for c in sound.mime if c.isascii() and (c.isalnum() or c in "/.+-"))
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\nContent-Type: {kind}'
    return b"".join((*parts, head.encode(), b"\r\n\r\n", sound.data, f"\r\n--{boundary}--\r\n".encode()))


def _written(path: str) -> str:
    """What a command wrote beside its output, as whisper does."""
    try:
        with open(path, encoding="utf-8", errors="replace") as source:
            return source.read(BODY)
    except OSError:
        return ""

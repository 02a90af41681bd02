"""Speech as files: a text said by the first voice that can, made once and kept under what it was made of, so that a
second try after a crash finds it. Chat apps show Ogg/Opus as a voice note; ffmpeg or opusenc makes that of other sound.

Nothing raises; no key gets into a message. What is sent where: `requests.py`; who can: `voices.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping

import msgspec

from palinurus.abort import Abort
from palinurus.config.sections.audio import SpeechSettings
from palinurus.core.types.model import ModelFailure
from palinurus.files import write_whole_file
from palinurus.providers.errors import classify_refusal, clip_message
from palinurus.providers.http import HttpClient, HttpTimeouts, TransportError
from palinurus.providers.program import OUTPUT, ProgramCall, fill_template, run_program
from palinurus.providers.speech.requests import SOUND_TYPES, SoundUse, apply_speech_options, detect_sound
from palinurus.providers.speech.voices import ESPEAK, SpeechVoice, VoiceFinder

SPEECH_FOLDER = os.path.join("media", "speech")  # below the home
COMMAND_TIME = 120.0  # seconds
RATE = 175  # words a minute of espeak-ng at speed 1
_FFMPEG = ("-hide_banner", "-loglevel", "error", "-i", "pipe:0", "-vn", "-ac", "1")
_OPUS = (*_FFMPEG, "-ar", "48000", "-c:a", "libopus", "-b:a", "64k", "-application", "voip", "-f", "ogg", "pipe:1")
_MP3 = (*_FFMPEG, "-c:a", "libmp3lame", "-b:a", "96k", "-f", "mp3", "pipe:1")


class SpeechOrder(msgspec.Struct, frozen=True):
    """A text to be said. `options` are a model's (already judged); `timeout` None: as configured."""

    text: str
    speech: SpeechSettings
    use: SoundUse = "file"
    first: str = ""  # who is asked before the others
    options: Mapping[str, str] = {}
    timeout: float | None = None


class SpokenAudio(msgspec.Struct, frozen=True):
    """A file with speech. `note`: chat apps can show it as spoken."""

    path: str
    mime: str
    format: str
    provider: str
    note: bool
    failed: tuple[str, ...] = ()  # who was asked before, and why they did not speak


class SpeechMaker:
    """`make` a file of a text. `env` is the environment of commands. `close` when the program ends."""

    def __init__(self, finder: VoiceFinder, env: Mapping[str, str], home: str) -> None:
        self._finder = finder
        self._env = dict(env)
        self._folder = os.path.join(home, SPEECH_FOLDER)
        self._http = HttpClient()

    async def close(self) -> None:
        """End all connections."""
        await self._http.close()

    async def make(self, order: SpeechOrder) -> SpokenAudio | ModelFailure:
        """The file, or why there is none."""
        failed: list[str] = []
        first = order.options.get("provider", "") or order.first
        for voice in self._finder.list_voices(order.speech, first):
            asked = msgspec.structs.replace(voice, voice=apply_speech_options(voice.voice, order.options))
            made = await self._speak(asked, order)
            if isinstance(made, SpokenAudio):
                return msgspec.structs.replace(made, failed=tuple(failed))
            failed.append(f"{voice.id}: {made.message}")
        if failed:
            return ModelFailure("refused", "; ".join(failed))
        found = [self._finder.find(name, order.speech) for name in self._finder.list_ids(order.speech, first)]
        reasons = [one.message for one in found if isinstance(one, ModelFailure)]
        return ModelFailure("config", f"nobody here can speak: {'; '.join(reasons)}")

    async def _speak(self, voice: SpeechVoice, order: SpeechOrder) -> SpokenAudio | ModelFailure:
        stem = os.path.join(self._folder, f"speech-{_digest(voice, order)}")
        found = await asyncio.to_thread(_find_made, stem)
        if not found:
            usual = order.speech.timeout if voice.kind == "server" else COMMAND_TIME
            seconds = order.timeout or voice.voice.timeout or usual
            data = await self._sound(voice, order, seconds)
            if isinstance(data, ModelFailure):
                return data
            kind = detect_sound(data)
            if not kind:
                return ModelFailure("malformed", "what came back is no sound" if data else "nothing came back")
            data, kind = await self._convert(data, kind, order.use)
            found = f"{stem}.{kind}"
            try:
                await asyncio.to_thread(_keep, found, data)
            except OSError as exc:
                return ModelFailure("refused", f"the speech could not be kept: {exc.strerror}")
        kind = found.rpartition(".")[2]
        return SpokenAudio(found, SOUND_TYPES[kind], kind, voice.id, note=kind == "ogg")

    async def _sound(self, voice: SpeechVoice, order: SpeechOrder, seconds: float) -> bytes | ModelFailure:
        if voice.kind == "server":
            return await self._ask(voice, order, seconds)
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="pal-")
        try:
            made = await self._run(voice, order.text, folder, seconds)
            if voice.kind == "espeak" and isinstance(made, ModelFailure):  # another vendor's voice, as `alloy` is?
                plain = msgspec.structs.replace(voice, voice=msgspec.structs.replace(voice.voice, voice=""))
                made = await self._run(plain, order.text, folder, seconds)
            return made
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _ask(self, voice: SpeechVoice, order: SpeechOrder, seconds: float) -> bytes | ModelFailure:
        call = voice.build(voice.voice, order.text, order.use, voice.base, voice.key)
        try:
            async with asyncio.timeout(seconds):
                limits = HttpTimeouts(first=seconds, idle=seconds)
                answer = await self._http.post(call.url, call.body, call.headers, limits, stop=Abort())
                try:
                    told = await answer.body(OUTPUT)
                finally:
                    answer.close()
        except TransportError as exc:
            return ModelFailure(exc.kind, exc.message)
        except TimeoutError:
            return ModelFailure("timeout", f"{voice.id} took longer than {seconds:g} s")
        if answer.status == 200:
            return told
        failure = classify_refusal(answer.status, told[:100_000])
        secrets = (voice.key.reveal(),) if voice.key else ()
        return msgspec.structs.replace(failure, message=clip_message(failure.message, secrets))

    async def _run(self, voice: SpeechVoice, text: str, folder: str, seconds: float) -> bytes | ModelFailure:
        """A program that writes a file, or prints the sound."""
        own, base = voice.voice, os.path.join(folder, "speech")
        ending = own.format if own.format in SOUND_TYPES else "wav" if voice.kind == "espeak" else "mp3"
        path = f"{base}.{ending}"
        if voice.kind == "espeak":
            pace = str(round(RATE * min(max(own.speed or 1.0, 0.5), 2.0)))
            argv: tuple[str, ...] = (ESPEAK, "-v", own.voice or own.language or "en", "-s", pace, "--stdin", "-w", path)
        else:
            # What begins with a dash would be taken for an option of the program.
            words = f" {text}" if text.startswith("-") else text
            known = {"Text": words, "OutputPath": path, "OutputDir": folder, "OutputBase": base}
            argv = tuple(fill_template(word, known) for word in own.argv)
        piped = voice.kind == "espeak" or not any("{{Text}}" in word for word in own.argv)
        env = {**self._env, **{name: str(value) for name, value in own.env.items()}}
        data = text.encode("utf-8", "replace") if piped else b""
        out = await run_program(ProgramCall(argv, env, own.cwd or folder, seconds, data=data))
        if isinstance(out, ModelFailure):
            return out
        return await asyncio.to_thread(_read, path) or out

    async def _convert(self, data: bytes, kind: str, use: SoundUse) -> tuple[bytes, str]:
        """As a chat app wants it, where a program for that is installed; else as it is."""
        wanted, argv = ("ogg", _OPUS) if use == "note" else ("mp3", _MP3)
        if kind == wanted or use == "play" or (use == "file" and kind != "wav"):
            return data, kind
        tools: list[tuple[str, ...]] = [("ffmpeg", *argv)]
        if wanted == "ogg" and kind in ("wav", "flac"):
            tools.append(("opusenc", "--quiet", "--bitrate", "48", "-", "-"))
        for tool in tools:
            if shutil.which(tool[0], path=self._env.get("PATH", "")) is not None:
                made = await run_program(ProgramCall(tool, self._env, self._folder_there(), COMMAND_TIME, data=data))
                if isinstance(made, bytes) and detect_sound(made) == wanted:
                    return made, wanted
        return data, kind

    def _folder_there(self) -> str:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        return self._folder


def _digest(voice: SpeechVoice, order: SpeechOrder) -> str:
    """Of everything that the sound depends on, and nothing that is secret."""
    own = msgspec.structs.replace(voice.voice, key=type(voice.key)(), env={})
    told = msgspec.json.encode([order.text, order.use, voice.base, msgspec.to_builtins(own)])
    return hashlib.blake2b(told, digest_size=16).hexdigest()


def _find_made(stem: str) -> str:
    return next((path for kind in SOUND_TYPES if os.path.exists(path := f"{stem}.{kind}")), "")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as source:
            return source.read(OUTPUT)
    except OSError:
        return b""


def _keep(path: str, data: bytes) -> None:
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_whole_file(path, data)

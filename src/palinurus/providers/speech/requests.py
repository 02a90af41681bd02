"""What a speech server is asked, per protocol: OpenAI's `/audio/speech`, which many servers speak, and ElevenLabs'.
Also which kind of sound a file is, told by its first bytes. No I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias
from urllib.parse import quote

import msgspec

from palinurus.config.sections.audio import VoiceSettings
from palinurus.config.settings import Secret
from palinurus.providers.credentials import build_key_headers

OPENAI, ELEVENLABS = "openai", "elevenlabs"
ELEVENLABS_URL = "https://api.elevenlabs.io"
SPEEDS = (0.25, 4.0)  # what OpenAI takes; others say so themselves

# A note is what chat apps show as spoken: Ogg with Opus. A file is for any player; what is played stays as it came.
SoundUse: TypeAlias = Literal["note", "file", "play"]
_HEADS: tuple[tuple[bytes, str], ...] = (
    (b"OggS", "ogg"),
    (b"RIFF", "wav"),
    (b"ID3", "mp3"),
    (b"\xff\xfb", "mp3"),
    (b"\xff\xf3", "mp3"),
    (b"\xff\xf2", "mp3"),
    (b"fLaC", "flac"),
    (b"\x1aE\xdf\xa3", "webm"),
)
SOUND_TYPES = {
    "ogg": "audio/ogg",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "webm": "audio/webm",
    "m4a": "audio/mp4",
}


class SpeechCall(msgspec.Struct, frozen=True):
    """One request."""

    url: str
    headers: dict[str, str]
    body: bytes


def detect_sound(data: bytes) -> str:
    """The ending that fits; "" if it is no sound we know."""
    if data[4:8] == b"ftyp":
        return "m4a"
    return next((kind for head, kind in _HEADS if data.startswith(head)), "")


def build_openai_speech(voice: VoiceSettings, text: str, use: SoundUse, base: str, key: Secret) -> SpeechCall:
    """OpenAI's, and every server's that has taken it over."""
    own = base.startswith("https://api.openai.com/")
    body: dict[str, Any] = {
        "model": voice.model or "gpt-4o-mini-tts",
        "input": text,
        "voice": voice.voice or "coral",
        "response_format": voice.format or ("opus" if use == "note" else "mp3"),
    }
    if voice.instructions:
        body["instructions"] = voice.instructions
    if voice.speed is not None:
        body["speed"] = min(max(voice.speed, SPEEDS[0]), SPEEDS[1]) if own else voice.speed
    headers = {**build_key_headers(key, "authorization"), "content-type": "application/json"}
    return SpeechCall(f"{base}/audio/speech", headers, msgspec.json.encode({**body, **voice.body}))


def build_elevenlabs_speech(voice: VoiceSettings, text: str, use: SoundUse, base: str, key: Secret) -> SpeechCall:
    """The voice is part of the address."""
    tuned = {"stability": 0.5, "similarityBoost": 0.75, "style": 0.0, "useSpeakerBoost": True, **voice.tuning}
    names = {"similarityBoost": "similarity_boost", "useSpeakerBoost": "use_speaker_boost"}
    speed = {"speed": voice.speed} if voice.speed is not None else {}
    body: dict[str, Any] = {
        "text": text,
        "model_id": voice.model or "eleven_multilingual_v2",
        "voice_settings": {names.get(name, name): value for name, value in {**tuned, **speed}.items()},
    }
    more: Mapping[str, Any] = {
        "language_code": voice.language, "seed": voice.seed, "apply_text_normalization": voice.normalization,
    }  # fmt: skip
    body |= {name: value for name, value in more.items() if value not in (None, "")}
    form = voice.format if "_" in voice.format else "opus_48000_64" if use == "note" else "mp3_44100_128"
    who = quote(voice.voice or "pMsXgVXv3BLzUgSXRplE", safe="")
    url = f"{base}/v1/text-to-speech/{who}?output_format={quote(form, safe='')}"
    headers = {**build_key_headers(key, "xi-api-key"), "content-type": "application/json"}
    return SpeechCall(url, headers, msgspec.json.encode(body))


BuildSpeech: TypeAlias = Callable[[VoiceSettings, str, SoundUse, str, Secret], SpeechCall]


def apply_speech_options(voice: VoiceSettings, options: Mapping[str, str]) -> VoiceSettings:
    """The voice as a directive wants it; what cannot be read there changes nothing."""
    changes: dict[str, Any] = {
        name: options[name] for name in ("voice", "model", "language", "normalization") if name in options
    }
    for name, make in (("speed", float), ("seed", int)):
        if (number := _number(options.get(name), make)) is not None:
            changes[name] = number
    tuned: dict[str, Any] = {}
    for name in ("stability", "similarityBoost", "style"):
        number = _number(options.get(name), float)
        if number is not None and 0 <= number <= 1:
            tuned[name] = number
    if "useSpeakerBoost" in options:
        tuned["useSpeakerBoost"] = options["useSpeakerBoost"].lower() in ("true", "1", "on", "yes")
    if tuned:
        changes["tuning"] = {**voice.tuning, **tuned}
    return msgspec.structs.replace(voice, **changes) if changes else voice


def _number(text: str | None, make: Callable[[str], Any]) -> Any:
    try:
        found = make(text) if text is not None else None
    except ValueError:
        return None
    return found if found is not None and -(2**32) < found < 2**32 else None

"""`tools.media.audio` (and the older `audio.transcription`): who turns spoken words into text, in which order; and
`media.ttlHours`: how long files that came in are kept. Pure.

The sections are free-form: what is not of the right kind there is a warning and counts as not written.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.config.findings import ConfigFinding
from palinurus.config.keypath import Path
from palinurus.config.schema import Config

# What a provider is asked for when the config names no model.
MODELS = {"openai": "gpt-4o-mini-transcribe", "groq": "whisper-large-v3-turbo", "mistral": "voxtral-mini-latest"}
_PATH: Path = ("tools", "media", "audio")


class TranscriptionMethod(msgspec.Struct, frozen=True):
    """One way to get the words: a provider's model, or a command of the owner's (`argv`). Seconds."""

    provider: str = ""
    model: str = ""
    argv: tuple[str, ...] = ()
    timeout: float = 60.0


class AudioSettings(msgspec.Struct, frozen=True):
    """`ways` are tried in order; none: what is spoken stays a file. `keep`: days until files that came in go."""

    ways: tuple[TranscriptionMethod, ...] = ()
    size: int = 20 * 1024 * 1024  # maxBytes: a larger file is not sent
    chars: int = 20_000  # maxChars of a transcript
    language: str = ""
    prompt: str = ""
    keep: float = 14.0


def resolve_audio(config: Config, findings: list[ConfigFinding]) -> AudioSettings:
    """The settings; what cannot be used is added to `findings`."""
    section = _table((config.tools.media if config.tools else None) or {}, "audio")
    usual = AudioSettings()
    ways = () if section.get("enabled") is False else (*_ways(section, findings), *_older(config, section))
    hours = (config.media or {}).get("ttlHours")
    return AudioSettings(
        ways,
        _count(section, "maxBytes", usual.size, findings),
        _count(section, "maxChars", usual.chars, findings),
        _text(section, "language"),
        _text(section, "prompt"),
        hours / 24 if isinstance(hours, int | float) and not isinstance(hours, bool) and hours > 0 else usual.keep,
    )


def _ways(section: dict[str, Any], findings: list[ConfigFinding]) -> tuple[TranscriptionMethod, ...]:
    written = section.get("models")
    found: list[TranscriptionMethod] = []
    for number, row in enumerate(written if isinstance(written, list) else ()):
        way = _way(row, _seconds(section)) if isinstance(row, dict) else None
        if way is None:
            text, hint = "names neither a provider nor a command", "write {provider, model} or {type: 'cli', command}"
            findings.append(ConfigFinding((*_PATH, "models", number), text, hint, False))
        else:
            found.append(way)
    return tuple(found)


def _way(row: dict[str, Any], usual: float) -> TranscriptionMethod | None:
    wait = _seconds(row) if "timeoutSeconds" in row else usual
    if command := _text(row, "command"):
        args = row.get("args")
        given = tuple(str(one) for one in args) if isinstance(args, list) else ("{{MediaPath}}",)
        return TranscriptionMethod(argv=(command, *given), timeout=wait)
    provider = _text(row, "provider").lower()
    model = _text(row, "model") or MODELS.get(provider, "")
    return TranscriptionMethod(provider, model, timeout=wait) if provider and model else None


def _older(config: Config, section: dict[str, Any]) -> tuple[TranscriptionMethod, ...]:
    """audio.transcription.command, where tools.media.audio says nothing."""
    written = _table(config.audio or {}, "transcription")
    argv = written.get("command")
    if section.get("models") or not isinstance(argv, list) or not argv:
        return ()
    named = tuple(str(one) for one in argv)
    path = () if any("{{MediaPath}}" in one for one in named) else ("{{MediaPath}}",)
    return (TranscriptionMethod(argv=(*named, *path), timeout=_seconds(written)),)


def _table(section: dict[str, Any], key: str) -> dict[str, Any]:
    found = section.get(key)
    return found if isinstance(found, dict) else {}


def _text(section: dict[str, Any], key: str) -> str:
    found = section.get(key)
    return found.strip() if isinstance(found, str) else ""


def _seconds(section: dict[str, Any]) -> float:
    found = section.get("timeoutSeconds")
    usable = isinstance(found, int | float) and not isinstance(found, bool) and 0 < found <= 3600
    return float(found) if usable else TranscriptionMethod().timeout  # type: ignore[arg-type]


def _count(section: dict[str, Any], key: str, usual: int, findings: list[ConfigFinding]) -> int:
    found = section.get(key)
    if found is None:
        return usual
    if isinstance(found, bool) or not isinstance(found, int) or found <= 0:
        findings.append(ConfigFinding((*_PATH, key), f"must be a number above 0; {usual} is used", "", False))
        return usual
    return found

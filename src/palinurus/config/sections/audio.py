"""`tools.media.audio` (and the older `audio.transcription`): who turns spoken words into text, in which order.

The sections are free-form: what is not of the right kind there is a warning and counts as not written.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

import msgspec

from palinurus.config.declare import Section, fill_section, option
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import Count, Lower, Text, Told
from palinurus.config.kinds import Written

# What a provider is asked for when the config names no model.
MODELS = {"openai": "gpt-4o-mini-transcribe", "groq": "whisper-large-v3-turbo", "mistral": "voxtral-mini-latest"}
MEDIA = "{{MediaPath}}"
AboveZero = Annotated[int, Told(Count, int, "must be a number above 0")]


def _seconds(value: Any) -> Any:
    return float(value) if 0 < value <= 3600 else msgspec.UNSET


class TranscriptionMethod(Section, frozen=True):
    """One way to get the words: a provider's model, or a command of the owner's (`argv`). Seconds."""

    provider: Lower = ""
    model: Text = ""
    argv: tuple[str, ...] = option((), at=None)
    timeout: Annotated[float, Written(float, _seconds)] = option(60.0, at="timeoutSeconds")

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"command": str, "args": list[str]}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        command, args = raw.get("command"), raw.get("args")
        if isinstance(command, str) and command.strip():
            given = [str(one) for one in args] if isinstance(args, list) else [MEDIA]
            return type(self)(argv=(command.strip(), *given), timeout=self.timeout)
        return msgspec.structs.replace(self, model=self.model or MODELS.get(self.provider, ""))


class AudioSettings(Section, frozen=True):
    """`ways` are tried in order; none: what is spoken stays a file. `keep`: days until files that came in go."""

    ways: tuple[TranscriptionMethod, ...] = option((), at=None)
    size: AboveZero = option(20 * 1024 * 1024, at="maxBytes")  # a larger file is not sent
    chars: AboveZero = option(20_000, at="maxChars")  # of a transcript
    language: Text = ""
    prompt: Text = ""
    keep: float = option(14.0, at=None)

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"enabled": bool, "timeoutSeconds": float, "models": list[TranscriptionMethod]}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        written = raw.get("models") if raw.get("enabled") is not False else None
        found: list[TranscriptionMethod] = []
        for number, row in enumerate(written if isinstance(written, list) else ()):
            told = {"timeoutSeconds": raw.get("timeoutSeconds"), **row} if isinstance(row, dict) else {}
            way = fill_section(TranscriptionMethod, told, here)
            if way.argv or (way.provider and way.model):
                found.append(way)
            else:
                hint = "write {provider, model} or {type: 'cli', command}"
                here.below("models", number).odd("", "names neither a provider nor a command", hint)
        return msgspec.structs.replace(self, ways=tuple(found))


class MediaSection(Section, frozen=True):
    """tools.media"""

    audio: AudioSettings = AudioSettings()

    LOOSE: ClassVar = True


def read_older_audio(section: Any, here: ConfigPlace) -> tuple[TranscriptionMethod, ...]:
    """audio.transcription.command, where tools.media.audio says nothing."""
    written = section.get("transcription") if isinstance(section, dict) else None
    argv = written.get("command") if isinstance(written, dict) else None
    if not isinstance(argv, list) or not argv or not isinstance(written, dict):
        return ()
    named = tuple(str(one) for one in argv)
    path = () if any(MEDIA in one for one in named) else (MEDIA,)
    usual = fill_section(TranscriptionMethod, {"timeoutSeconds": written.get("timeoutSeconds")}, here)
    return (msgspec.structs.replace(usual, argv=(*named, *path)),)

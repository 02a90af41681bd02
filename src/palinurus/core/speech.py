"""What is to be spoken: the value, texts cut where a sentence ends, the directives with which a model shapes its voice.
Pure; knows no voice. Markdown made fit for ears: `core/format/speakable.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from palinurus.patterns import compile_late

SHORT = 10  # characters below which a reply is not worth a voice note
# What a directive may say -> what it is called here. Whatever else stands there is dropped.
OPTION_NAMES: dict[str, str] = {
    **dict.fromkeys("voice voiceid voice_id voicename voice_name speakervoice speakervoiceid".split(), "voice"),
    **dict.fromkeys("model modelid model_id".split(), "model"),
    "provider": "provider",
    "speed": "speed",
    "stability": "stability",
    **dict.fromkeys(("similarityboost", "similarity_boost", "similarity"), "similarityBoost"),
    "style": "style",
    **dict.fromkeys(("usespeakerboost", "speakerboost", "use_speaker_boost"), "useSpeakerBoost"),
    **dict.fromkeys(("applytextnormalization", "normalize", "normalization"), "normalization"),
    **dict.fromkeys(("languagecode", "language", "lang"), "language"),
    "seed": "seed",
}
_PAIR = compile_late(r"([A-Za-z_]{1,32})\s*=\s*([^\s=]{1,120})")
_END = compile_late(r"[.!?…。！？][\"'»”)\]]*(?=\s|$)|\n")


class SpokenText(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something to be said aloud. `options` are the model's directives; `only`: people see nothing of it in writing,
    so that it is written to them when nobody can say it."""

    text: str = ""
    options: dict[str, str] = {}
    agent: str = ""
    session: str = ""
    only: bool = False


def parse_speech_options(written: str) -> dict[str, str]:
    """The pairs of a directive (`voice=x speed=1.1`), by our names; the first word for each counts."""
    made: dict[str, str] = {}
    for name, value in _PAIR.findall(written):
        if known := OPTION_NAMES.get(name.lower()):
            made.setdefault(known, value)
    return made


def cut_speech(text: str, most: int) -> str:
    """At most `most` characters, to the end of a sentence if one ends in the second half."""
    if len(text) <= most:
        return text
    ends = [found.end() for found in _END.finditer(text, most // 2, most)]
    return text[: ends[-1] if ends else most].rstrip()


def merge_speech(found: list[SpokenText]) -> SpokenText | None:
    """What several marks ask for, as one."""
    if not found:
        return None
    options: dict[str, str] = {}
    for one in found:
        options = {**one.options, **options}
    return SpokenText("\n".join(one.text for one in found if one.text), options)


def allow_options(options: Mapping[str, str], allowed: Mapping[str, bool]) -> dict[str, str]:
    """Those that the owner lets a model choose; `allowed` by name, what is not named follows "tuning"."""
    return {name: value for name, value in options.items() if allowed.get(name, allowed.get("tuning", False))}

from __future__ import annotations

from typing import Any

from configs import read_settings
from palinurus.config.findings import ConfigFinding
from palinurus.config.sections.audio import AudioSettings, TranscriptionMethod


def read(raw: dict[str, Any]) -> tuple[AudioSettings, list[ConfigFinding]]:
    settings, findings = read_settings(raw)
    return settings.audio, findings


def test_nothing_written_is_nobody_who_hears() -> None:
    assert read({}) == (AudioSettings(), [])


def test_providers_and_commands_in_their_order() -> None:
    models = [
        {"provider": "Groq"},
        {"provider": "mine", "model": "w", "timeoutSeconds": 5},
        {"type": "cli", "command": "whisper", "args": ["--model", "base", "{{MediaPath}}"]},
    ]
    section = {"models": models, "maxBytes": 5, "maxChars": 7, "language": "de", "timeoutSeconds": 9}
    found, findings = read({"tools": {"media": {"audio": section}}, "media": {"ttlHours": 48}})
    assert not findings and (found.size, found.chars, found.language, found.keep) == (5, 7, "de", 2.0)
    assert found.ways == (
        TranscriptionMethod("groq", "whisper-large-v3-turbo", timeout=9.0),
        TranscriptionMethod("mine", "w", timeout=5.0),
        TranscriptionMethod(argv=("whisper", "--model", "base", "{{MediaPath}}"), timeout=9.0),
    )


def test_what_cannot_be_used_is_told_and_left_out() -> None:
    section = {"models": [{"provider": "mine"}, "x"], "maxBytes": -1}
    found, findings = read({"tools": {"media": {"audio": section}}})
    assert found == AudioSettings()
    assert [finding.path[-1] for finding in findings] == ["maxBytes", 0, 1] and not any(f.fatal for f in findings)


def test_off_is_off_and_the_older_key_counts_where_the_new_one_is_silent() -> None:
    older = {"audio": {"transcription": {"command": ["w", "-x"], "timeoutSeconds": 3}}}
    assert read(older)[0].ways == (TranscriptionMethod(argv=("w", "-x", "{{MediaPath}}"), timeout=3.0),)
    both = {**older, "tools": {"media": {"audio": {"models": [{"provider": "openai"}]}}}}
    assert [way.provider for way in read(both)[0].ways] == ["openai"]
    off = {**both, "tools": {"media": {"audio": {"enabled": False, "models": [{"provider": "openai"}]}}}}
    assert read(off)[0].ways == ()

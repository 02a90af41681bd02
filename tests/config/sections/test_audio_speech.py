from __future__ import annotations

from typing import Any

from configs import read_settings
from palinurus.config.load import judge_config
from palinurus.config.sections.audio import SpeechSettings, VoiceSettings
from palinurus.config.settings import Settings


def read(raw: dict[str, Any]) -> Settings:
    settings, findings = read_settings(raw)
    assert not findings, findings
    return settings


def test_nothing_written_nothing_said() -> None:
    made = read({})
    assert made.agents["main"].speech == SpeechSettings() and not made.talk.speech.written
    assert made.agents["main"].pictures.models == ()


def test_layers_are_merged_down_to_the_voices() -> None:
    made = read(
        {
            "tts": {"auto": "always", "providers": {"elevenlabs": {"apiKey": "k", "modelId": "m"}}, "timeoutMs": 5000},
            "messages": {"tts": {"maxLength": 700, "openai": {"voice": "alloy"}}},
            "agents": {
                "defaults": {"tts": {"auto": "tagged"}},
                "list": [{"id": "a"}, {"id": "b", "tts": {"providers": {"elevenlabs": {"speakerVoiceId": "v"}}}}],
            },
        }
    )
    first, second = made.agents["a"].speech, made.agents["b"].speech
    assert (first.auto, first.long, first.timeout, first.written) == ("tagged", 700, 5.0, True)
    voice = second.voices["elevenlabs"]
    assert (voice.key.reveal(), voice.model, voice.voice) == ("k", "m", "v") and "k'" not in repr(second)
    assert first.voices["elevenlabs"].voice == "" and first.voices["openai"].voice == "alloy"


def test_a_command_and_the_older_switch() -> None:
    local = {"command": "piper --quiet", "args": ["-f", "{{OutputPath}}"], "env": {"A": "1"}, "timeoutMs": 9000}
    made = read({"tts": {"enabled": True, "providers": {"tts-local-cli": local}}}).agents["main"].speech
    assert made.auto == "always"
    assert made.voices["tts-local-cli"].argv == ("piper", "--quiet", "-f", "{{OutputPath}}")
    assert made.voices["tts-local-cli"].timeout == 9.0 and "1" not in repr(made.voices["tts-local-cli"].env and "")


def test_talk_has_voices_of_its_own_over_the_others() -> None:
    made = read(
        {
            "tts": {"provider": "openai", "providers": {"openai": {"voice": "a"}, "mine": {"voice": "b"}}},
            "talk": {
                "provider": "mine", "providers": {"mine": {"modelId": "m", "voiceAliases": {"Ada": "v-1"}}},
                "interruptOnSpeech": False, "silenceTimeoutMs": 400,
            },
        }
    ).talk  # fmt: skip
    assert (made.speech.provider, made.interrupt, made.silence) == ("mine", False, 0.4)
    assert made.speech.voices["mine"] == VoiceSettings("mine", voice="b", model="m") and made.aliases == {"ada": "v-1"}


def test_who_makes_pictures() -> None:
    shared = {"primary": "openai/gpt-image-2", "fallbacks": ["google/x"], "timeoutMs": 90_000}
    made = read({"agents": {"defaults": {"imageGenerationModel": shared}, "list": [
        {"id": "a"}, {"id": "b", "imageGenerationModel": "mine/y"}]}})  # fmt: skip
    assert (made.agents["a"].pictures.models, made.agents["a"].pictures.timeout) == (
        ("openai/gpt-image-2", "google/x"),
        90.0,
    )
    assert made.agents["b"].pictures.models == ("mine/y",)


def test_what_cannot_be_is_told() -> None:
    found = judge_config("{tts: {auto: 'loudly', provider: 7}}", "f", "/h", {})
    assert [problem.path for problem in found.problems] == ["tts.auto", "tts.provider"]


def test_an_older_word_of_a_layer_goes_before_a_newer_one_below() -> None:
    """`enabled`, `voice` and `tts.openai` of an agent lost to `auto`, `speakerVoice` and `tts.providers` of all."""
    agents = [
        {"id": "quiet", "tts": {"enabled": False}},
        {"id": "loud", "tts": {"enabled": True, "providers": {"OpenAI": {"voice": "b"}}}},
        {"id": "old", "tts": {"openai": {"voiceId": "c"}}},
        {"id": "off", "tts": {"auto": "off", "enabled": True}},
    ]
    shared = {"auto": "tagged", "providers": {"openai": {"speakerVoice": "a", "model": "m"}}}
    made = {name: one.speech for name, one in read({"tts": shared, "agents": {"list": agents}}).agents.items()}
    assert {name: one.auto for name, one in made.items()} == {
        "quiet": "off", "loud": "always", "old": "tagged", "off": "off",
    }  # fmt: skip
    assert {(one.voices["openai"].voice, one.voices["openai"].model) for one in made.values()} == {
        ("a", "m"), ("b", "m"), ("c", "m"),
    }  # fmt: skip


def test_an_agents_time_for_pictures_leaves_it_the_models_of_all() -> None:
    shared = {"primary": "openai/a", "fallbacks": ["x/b"], "timeoutMs": 9000}
    agents = [
        {"id": "t", "imageGenerationModel": {"timeoutMs": 5}},
        {"id": "f", "imageGenerationModel": {"fallbacks": []}},
        {"id": "own", "imageGenerationModel": "y/c"},
    ]
    made = read({"agents": {"defaults": {"imageGenerationModel": shared}, "list": agents}}).agents
    assert {name: (one.pictures.models, one.pictures.timeout) for name, one in made.items()} == {
        "t": (("openai/a", "x/b"), 0.005), "f": (("openai/a",), 9.0), "own": (("y/c",), 9.0),
    }  # fmt: skip

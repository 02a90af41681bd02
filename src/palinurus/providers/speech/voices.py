"""Who can speak: the voices of the config and what is here without one (a key in the environment, espeak-ng), in the
order in which they are tried. Text goes to nobody on the network whom the owner did not name, unless nobody is named.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from palinurus.config.sections.audio import LOCAL_CLI, SpeechSettings, VoiceSettings
from palinurus.config.settings import Secret
from palinurus.core.types.model import ModelFailure
from palinurus.providers.address import is_local_url
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import find_key
from palinurus.providers.speech.requests import (
    ELEVENLABS,
    ELEVENLABS_URL,
    OPENAI,
    BuildSpeech,
    build_elevenlabs_speech,
    build_openai_speech,
)

ESPEAK = "espeak-ng"
KEYS = ("ELEVENLABS_API_KEY", "XI_API_KEY")
NAMES = {"espeak": ESPEAK, "cli": LOCAL_CLI, "edge": "microsoft"}
UNNAMED = (OPENAI, ELEVENLABS, ESPEAK)  # tried where the config names nobody
LABELS = {OPENAI: "OpenAI", ELEVENLABS: "ElevenLabs", ESPEAK: "eSpeak NG", LOCAL_CLI: "Command"}
EDGE_HINT = (
    "nobody here speaks to Microsoft's service: install edge-tts and set providers.tts-local-cli to "
    "{command: 'edge-tts', args: ['--text', '{{Text}}', '--write-media', '{{OutputPath}}']}"
)

VoiceKind: TypeAlias = Literal["server", "command", "espeak"]


class SpeechVoice(msgspec.Struct, frozen=True):
    """Somebody who can speak, with all that is needed to ask."""

    id: str
    kind: VoiceKind
    voice: VoiceSettings
    base: str = ""
    key: Secret = Secret()
    build: BuildSpeech = build_openai_speech


class VoiceFinder:
    """Looks things up in the config, the catalog of model providers, the environment and the search path."""

    def __init__(self, catalog: Catalog, env: Mapping[str, str]) -> None:
        self._catalog = catalog
        self._path = env.get("PATH", "")

    def list_ids(self, speech: SpeechSettings, first: str = "") -> list[str]:
        """All that may be tried, in order; `first` goes before the one the config names."""
        named = [name for name in (first, speech.provider, *speech.voices) if name]
        wanted = (*named, ESPEAK) if speech.provider or speech.voices else (*named, *UNNAMED)
        return list(dict.fromkeys(NAMES.get(name, name) for name in wanted))

    def list_voices(self, speech: SpeechSettings, first: str = "") -> list[SpeechVoice]:
        """Those of them that can speak here."""
        found = (self.find(name, speech) for name in self.list_ids(speech, first))
        return [one for one in found if isinstance(one, SpeechVoice)]

    def find(self, name: str, speech: SpeechSettings) -> SpeechVoice | ModelFailure:
        """One of them, or what it lacks."""
        ident = NAMES.get(name, name)
        voice = speech.voices.get(name) or speech.voices.get(ident) or VoiceSettings(ident)
        if not voice.enabled:
            return ModelFailure("config", f"{ident} is switched off")
        if voice.argv:
            return self._program(SpeechVoice(ident, "command", voice), voice.argv[0])
        if ident == ESPEAK:
            return self._program(SpeechVoice(ident, "espeak", voice), ESPEAK)
        if ident == "microsoft":
            return ModelFailure("config", EDGE_HINT)
        if ident == ELEVENLABS:
            return self._elevenlabs(voice)
        return self._server(ident, voice)

    def _program(self, made: SpeechVoice, program: str) -> SpeechVoice | ModelFailure:
        if shutil.which(program, path=self._path) is None:
            return ModelFailure("config", f"{program} is not installed")
        return made

    def _elevenlabs(self, voice: VoiceSettings) -> SpeechVoice | ModelFailure:
        found = (Secret(self._catalog.environ.get(name, "").strip()) for name in KEYS)
        key = voice.key or next((one for one in found if one), Secret())
        if not key:
            return ModelFailure(
                "config", f"no API key for ElevenLabs: set {KEYS[0]} or tts.providers.elevenlabs.apiKey"
            )
        base = (voice.base_url or ELEVENLABS_URL).rstrip("/").removesuffix("/v1")
        return SpeechVoice(ELEVENLABS, "server", voice, base, key=key, build=build_elevenlabs_speech)

    def _server(self, ident: str, voice: VoiceSettings) -> SpeechVoice | ModelFailure:
        catalog = self._catalog
        settings, vendor = catalog.provider(ident), catalog.vendor(ident)
        moved = catalog.environ.get("OPENAI_TTS_BASE_URL", "") if ident == OPENAI else ""
        usual = (settings and settings.base_url) or (vendor.base_url if vendor else "")
        base = (voice.base_url or moved.strip() or usual).rstrip("/")
        if not base:
            return ModelFailure("config", f"nobody knows where {ident!r} is: set tts.providers.{ident}.baseUrl")
        key: Secret | ModelFailure = voice.key
        if not voice.key and voice.base_url and voice.base_url != usual:
            key = Secret()  # the key of one address is not sent to another
        elif not voice.key:
            profile = next(iter(catalog.profiles(ident)), None)
            key = (
                profile.secret
                if profile
                else find_key(ident, settings, vendor, catalog.environ, local=is_local_url(base))
            )
        return key if isinstance(key, ModelFailure) else SpeechVoice(ident, "server", voice, base, key=key)

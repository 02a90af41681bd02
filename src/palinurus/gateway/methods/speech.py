"""tts.* and talk.*: who speaks, what is switched, and speech itself. tts.convert leaves a file on the gateway's
machine, as OpenClaw does; tts.speak and talk.speak hand the sound over, for clients at the other end of a line.
"""

from __future__ import annotations

import asyncio
import base64
from typing import Annotated, Any

import msgspec

from palinurus.config.sections.audio import SpeechSettings
from palinurus.core.speech import SpokenText
from palinurus.core.types.model import ModelFailure
from palinurus.files import read_plain_file
from palinurus.gateway.context import find_agent, require
from palinurus.gateway.rpc import READ, WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.providers.program import OUTPUT
from palinurus.providers.speech.maker import SpokenAudio
from palinurus.providers.speech.requests import SoundUse
from palinurus.providers.speech.voices import NAMES
from palinurus.services.speech import AgentVoices

Milliseconds = Annotated[int, msgspec.Meta(ge=1, le=600_000)]
NONE = "this gateway has no voices"


class ConvertParams(MethodParams, frozen=True):
    text: NonEmpty
    channel: str | None = None
    provider: NonEmpty | None = None
    voice_id: NonEmpty | None = None
    model_id: NonEmpty | None = None
    timeout_ms: Milliseconds | None = None
    agent_id: NonEmpty | None = None


class TalkSpeakParams(MethodParams, frozen=True):
    """Those that no voice here knows are taken and change nothing."""

    text: NonEmpty
    voice_id: NonEmpty | None = None
    model_id: NonEmpty | None = None
    speed: float | None = None
    stability: float | None = None
    similarity: float | None = None
    style: float | None = None
    speaker_boost: bool | None = None
    seed: int | None = None
    normalize: str | None = None
    language: str | None = None
    output_format: str | None = None
    rate_wpm: int | None = None
    latency_tier: int | None = None
    agent_id: NonEmpty | None = None


class SetProviderParams(MethodParams, frozen=True):
    provider: NonEmpty


class TalkConfigParams(MethodParams, frozen=True):
    include_secrets: bool = False


class TalkModeParams(MethodParams, frozen=True):
    enabled: bool
    phase: str | None = None


def _voices(call: MethodCall) -> AgentVoices:
    return require(call.program.voices, NONE)


def _agent(call: MethodCall, ident: str | None = None) -> str:
    return find_agent(call, ident or call.program.settings.talk.agent or None).id


async def get_speech_status(call: MethodCall, asked: None) -> dict[str, Any]:
    """What is read aloud, and by whom."""
    return _voices(call).describe(_agent(call))


async def list_speech_providers(call: MethodCall, asked: None) -> dict[str, Any]:
    """Everybody who may be asked to speak, and what they lack."""
    voices, agent = _voices(call), _agent(call)
    rows = voices.list_providers(voices.find_settings(agent))
    return {"providers": rows, "active": voices.describe(agent)["provider"]}


async def enable_speech(call: MethodCall, asked: None) -> dict[str, Any]:
    """Every reply is read aloud from now on."""
    await _voices(call).switch(auto="always")
    return {"enabled": True}


async def disable_speech(call: MethodCall, asked: None) -> dict[str, Any]:
    """No reply is."""
    await _voices(call).switch(auto="off")
    return {"enabled": False}


async def set_speech_provider(call: MethodCall, asked: SetProviderParams) -> dict[str, Any]:
    """Who is asked first; only somebody who can speak."""
    voices, ident = _voices(call), NAMES.get(asked.provider.strip().lower(), asked.provider.strip().lower())
    found = voices.finder.find(ident, voices.find_settings(_agent(call)))
    if isinstance(found, ModelFailure):
        raise MethodError(f"Invalid provider {ident[:64]!r}: {found.message}")
    await voices.switch(provider=ident)
    return {"provider": ident}


async def convert_speech(call: MethodCall, asked: ConvertParams) -> dict[str, Any]:
    """A text as a file with speech, on the gateway's machine."""
    made = await _speak(call, asked, _voices(call).choose_use(asked.channel or "") or "file")
    return {
        "audioPath": made.path,
        "provider": made.provider,
        "outputFormat": made.format,
        "voiceCompatible": made.note,
    }


async def speak_text(call: MethodCall, asked: ConvertParams) -> dict[str, Any]:
    """A text as sound, handed over."""
    return await _hand_over(await _speak(call, asked, "play"))


async def speak_talk(call: MethodCall, asked: TalkSpeakParams) -> dict[str, Any]:
    """The same with the voices of `talk`; a client chooses what that section lets everybody choose."""
    settings = call.program.settings.talk
    voice = settings.aliases.get((asked.voice_id or "").lower()) or asked.voice_id
    told = {
        "voice": voice, "model": asked.model_id, "speed": asked.speed, "stability": asked.stability,
        "similarityBoost": asked.similarity, "style": asked.style, "useSpeakerBoost": asked.speaker_boost,
        "seed": asked.seed, "normalization": asked.normalize, "language": asked.language,
    }  # fmt: skip
    options = {name: str(value) for name, value in told.items() if value is not None}
    said = SpokenText(asked.text, options, _agent(call, asked.agent_id))
    speech = settings.speech if settings.speech.written else None
    made = await _voices(call).speak(said, "play", speech=speech)
    return {**await _hand_over(_checked(made)), "voiceCompatible": isinstance(made, SpokenAudio) and made.note}


async def get_talk_config(call: MethodCall, asked: TalkConfigParams) -> dict[str, Any]:
    """What a client that talks has to know. Secrets stay here, whoever asks."""
    settings, voices = call.program.settings, _voices(call)
    talk = settings.talk
    speech: SpeechSettings = talk.speech if talk.speech.written else voices.find_settings(_agent(call))
    ready = voices.list_voices(speech)
    shown: dict[str, Any] = {
        "interruptOnSpeech": talk.interrupt,
        "silenceTimeoutMs": max(1, round(talk.silence * 1000)),
    }
    if talk.locale:
        shown["speechLocale"] = talk.locale
    if ready:
        first = ready[0]
        config = {"voiceId": first.voice.voice, "modelId": first.voice.model}
        resolved = {"provider": first.id, "config": {name: value for name, value in config.items() if value}}
        shown |= {"provider": first.id, "resolved": resolved}
    return {"config": {"talk": shown, "session": {"mainKey": settings.session.main_key}}}


async def get_talk_catalog(call: MethodCall, asked: None) -> dict[str, Any]:
    """Who speaks and who hears, as far as talking goes here: recorded, written down, answered, read aloud."""
    voices, settings = _voices(call), call.program.settings
    speech = settings.talk.speech if settings.talk.speech.written else voices.find_settings(_agent(call))
    rows = [{**row, "label": row["name"]} for row in voices.list_providers(speech)]
    ears = [{"id": way.provider or "command", "configured": True, "models": [way.model]} for way in settings.audio.ways]
    ready = next((row["id"] for row in rows if row["configured"]), None)
    return {
        "modes": ["stt-tts"],
        "speech": {"providers": rows, "activeProvider": ready, "ready": ready is not None},
        "transcription": {"providers": ears, "ready": bool(ears)},
        "realtime": {"providers": [], "ready": False},
    }


async def set_talk_mode(call: MethodCall, asked: TalkModeParams) -> dict[str, Any]:
    """A client begins or ends to talk; the others hear of it."""
    told = {"enabled": asked.enabled, "phase": asked.phase, "ts": call.program.clock.now()}
    call.gateway.broadcast("talk.mode", told)
    return told


async def _speak(call: MethodCall, asked: ConvertParams, use: SoundUse) -> SpokenAudio:
    voices, agent = _voices(call), _agent(call, asked.agent_id)
    told = {"voice": asked.voice_id, "model": asked.model_id, "provider": asked.provider}
    options = {name: value for name, value in told.items() if value}
    speech = voices.find_settings(agent)
    overrides = msgspec.structs.replace(speech.overrides, enabled=True, provider=True)  # a person asks, not a model
    speech = msgspec.structs.replace(speech, overrides=overrides)
    seconds = asked.timeout_ms / 1000 if asked.timeout_ms else None
    return _checked(await voices.speak(SpokenText(asked.text, options, agent), use, speech=speech, timeout=seconds))


def _checked(made: SpokenAudio | ModelFailure) -> SpokenAudio:
    if isinstance(made, ModelFailure):
        raise MethodError(made.message, code="UNAVAILABLE")
    return made


async def _hand_over(made: SpokenAudio) -> dict[str, Any]:
    data = await asyncio.to_thread(read_plain_file, made.path, OUTPUT)
    return {
        "audioBase64": base64.b64encode(data).decode(),
        "provider": made.provider,
        "outputFormat": made.format,
        "mimeType": made.mime,
        "fileExtension": f".{made.format}",
    }


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("tts.status", READ, NoParams, get_speech_status),
    GatewayMethod("tts.providers", READ, NoParams, list_speech_providers),
    GatewayMethod("tts.enable", WRITE, NoParams, enable_speech),
    GatewayMethod("tts.disable", WRITE, NoParams, disable_speech),
    GatewayMethod("tts.setProvider", WRITE, SetProviderParams, set_speech_provider),
    GatewayMethod("tts.convert", WRITE, ConvertParams, convert_speech),
    GatewayMethod("tts.speak", WRITE, ConvertParams, speak_text),
    GatewayMethod("talk.speak", WRITE, TalkSpeakParams, speak_talk),
    GatewayMethod("talk.config", READ, TalkConfigParams, get_talk_config),
    GatewayMethod("talk.catalog", READ, NoParams, get_talk_catalog),
    GatewayMethod("talk.mode", WRITE, TalkModeParams, set_talk_mode),
)

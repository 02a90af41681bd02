"""What is heard and what is said. `tools.media.audio` (and the older `audio.transcription`): who turns spoken words
into text, in which order; free-form: what is not of the right kind there is a warning and counts as not written.

tts, messages.tts, agents.*.tts (one over the other, key by key and provider by provider) and talk: what is read aloud,
when, by whom. Also agents.*.imageGenerationModel: who makes pictures. Names are OpenClaw's.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from palinurus.config.declare import Section, Unfilled, fill_section, option, same_form
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import (
    BareSecret,
    Count,
    Free,
    LooseMillis,
    Lower,
    Millis,
    MillisOrNone,
    ModelChoiceSection,
    Names,
    Text,
    list_models,
    merge_deep,
    read_form,
    settle_names,
)
from palinurus.config.kinds import Written
from palinurus.config.secrets import Secret
from palinurus.config.sections.bindings import SendPolicy
from palinurus.config.sections.models import VeiledSection
from palinurus.config.sections.web import VisionSettings

# What a provider is asked for when the config names no model.
MODELS = {"openai": "gpt-4o-mini-transcribe", "groq": "whisper-large-v3-turbo", "mistral": "voxtral-mini-latest"}
MEDIA = "{{MediaPath}}"
Wait: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=3600)]  # seconds; 0: as usual


class TranscriptionMethod(Section, frozen=True):
    """One way to get the words: a provider's model, or a command of the owner's (`argv`). Seconds."""

    ABOUT: ClassVar = """
        provider The provider that writes it down.
        model Its model.
        timeoutSeconds How long it may take.
        command A program instead of a provider; it prints the text.
        args What it is called with; {{MediaPath}} is the file.
    """
    provider: Lower = ""
    model: Text = ""
    argv: tuple[str, ...] = option((), at=None)
    timeout: Annotated[float, Written(Wait, lambda seconds: float(seconds) or msgspec.UNSET)] = option(
        60.0, at="timeoutSeconds"
    )

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

    ABOUT: ClassVar = """
        maxBytes How large a voice note may be that is written down.
        maxChars How long its text may be.
        language The language that is spoken, such as de; by default it is found out.
        prompt Words that help to hear names right.
        enabled false: voice notes are not written down.
        timeoutSeconds How long that may take.
        models Who writes it down, in this order: providers, or commands.
    """
    ways: tuple[TranscriptionMethod, ...] = option((), at=None)
    size: Count = option(20 * 1024 * 1024, at="maxBytes")  # a larger file is not sent
    chars: Count = option(20_000, at="maxChars")  # of a transcript
    language: Text = ""
    prompt: Text = ""
    keep: float = option(14.0, at=None)
    together: int = option(2, at=None)  # tools.media.concurrency
    scope: SendPolicy = option(SendPolicy(), "In which chats recordings are turned into words.")

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {
        "enabled": Annotated[bool, option(closed=False)], "timeoutSeconds": Wait, "models": list[TranscriptionMethod],
    }  # fmt: skip

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
    image: VisionSettings = option(VisionSettings(), "Who looks at pictures.")
    concurrency: Count = option(2, "How many recordings of a message are listened to at the same time.")

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


AutoSpeech: TypeAlias = Literal["off", "always", "inbound", "tagged"]
# Other names that a key of a voice has, in the order in which they count.
ALIASES: dict[str, str] = {
    "speakerVoice": "speakerVoiceId voice voiceId voiceName",
    "model": "modelId",
    "outputFormat": "responseFormat format",
    "languageCode": "lang language",
    "extraBody": "extra_body",
}
OLDER = ("openai", "elevenlabs", "microsoft", "edge")  # once stood beside `provider`, not in `providers`
LOCAL_CLI = "tts-local-cli"


class VoiceSettings(VeiledSection, frozen=True):
    """tts.providers.<id>. A command of the owner's is `argv`. Seconds; None: as tts says."""

    ABOUT: ClassVar = """
        enabled false: this provider is not asked.
        baseUrl Its address, if it is another.
        model Its model.
        speakerVoice Which of its voices.
        instructions How the voice is to speak.
        outputFormat The format of the sound, such as mp3.
        languageCode The language, such as de.
        speed How fast it speaks; 1 is usual.
        seed The same number gives the same sound.
        applyTextNormalization How numbers and dates are read: auto, on or off.
        voiceSettings What else the provider takes for its voice.
        extraBody What else is sent along with the request.
        timeoutMs How long it may take.
        cwd The folder that its command runs in.
        env Variables that its command gets.
        command A program that makes the sound.
        args What it is called with.
    """
    id: str = option("", at=None)
    enabled: bool = True
    key: BareSecret = option(Secret(), at="apiKey")
    base_url: Text = ""
    model: Text = ""
    voice: Text = option("", at="speakerVoice")
    instructions: Text = ""
    format: Lower = option("", at="outputFormat")
    language: Text = option("", at="languageCode")
    speed: float | None = None
    seed: int | None = None
    normalization: Text = option("", at="applyTextNormalization")
    tuning: Free = option({}, at="voiceSettings")
    body: Free = option({}, at="extraBody")
    timeout: LooseMillis | None = option(None, at="timeoutMs")
    argv: Names = option((), at=None)
    cwd: Text = ""
    env: Free = {}

    LOOSE: ClassVar = True
    KNOWN: ClassVar = {"command": str, "args": list[str]}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        command, args = raw.get("command"), raw.get("args")
        if not isinstance(command, str) or not command.strip():
            return self
        given = [str(one) for one in args] if isinstance(args, list) else []
        return msgspec.structs.replace(self, argv=(*command.split(), *given))


class SpeechOverrides(Section, frozen=True):
    """tts.modelOverrides: what a [[tts:…]] directive of the model may change."""

    ABOUT: ClassVar = """
        allowVoice The agent may choose a voice in its answer.
        allowModelId The agent may choose a model.
        allowVoiceSettings The agent may choose how the voice sounds.
        allowNormalization The agent may choose how numbers are read.
        allowSeed The agent may choose a seed.
    """
    enabled: bool = option(True, "Whether the model's directives change anything.")
    provider: bool = option(False, "Whether they may choose the provider.", "allowProvider")
    text: bool = option(True, "Whether they may say other words than the reply shows.", "allowText")
    voice: bool = option(True, at="allowVoice")
    model: bool = option(True, at="allowModelId")
    tuning: bool = option(True, at="allowVoiceSettings")
    normalization: bool = option(True, at="allowNormalization")
    seed: bool = option(True, at="allowSeed")


class SpeechSettings(Section, frozen=True):
    """One agent's voice. Seconds and characters."""

    ABOUT: ClassVar = """
        modelOverrides What the agent may choose in its answer.
        timeoutMs How long making the sound may take.
        enabled The older spelling of auto: true is always.
        openai Settings of this provider, at their older place.
        elevenlabs Settings of this provider, at their older place.
        microsoft Settings of this provider, at their older place.
        edge Settings of this provider, at their older place.
    """
    auto: AutoSpeech = option(
        "off", "Which replies are read aloud: none, every one, answers to voice notes, tagged ones."
    )
    mode: Literal["final", "all"] = option("final", "all: what is said on the way and tool lines, too.")
    provider: Lower = option("", "Who speaks; without it the first that can.")
    summary_model: Text = option("", "Who shortens long replies; without it the agent's model.")
    overrides: SpeechOverrides = option(SpeechOverrides(), at="modelOverrides")
    voices: Annotated[dict[str, VoiceSettings], Unfilled(VoiceSettings)] = option({}, at=None)
    limit: Count = option(4096, "Characters above which nothing is spoken at all.", "maxTextLength")
    long: Count = option(1500, "Characters above which a reply is shortened before it is spoken.", "maxLength")
    summarize: bool = option(True, "Shorten by a summary; otherwise the end is cut off.")
    timeout: Millis = option(30.0, at="timeoutMs")
    written: bool = option(False, at=None)  # the config says something about speech

    KNOWN: ClassVar = {
        "enabled": bool,
        "providers": Annotated[dict[str, Free], "Settings of those who speak, by id (docs/speech.md)."],
        **same_form(Free, " ".join(OLDER)),
    }

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        place, told = here.below("providers"), raw.get("providers") or {}
        voices = {name: read_voice(name, body, place.below(name)) for name, body in told.items()}
        return msgspec.structs.replace(self, voices=voices, written=bool(raw))


class TalkSettings(Section, frozen=True):
    """talk: speech in the page and in clients. Its voices go over those of `tts`."""

    ABOUT: ClassVar = """
        providers Voices of the page and of clients, by provider.
    """
    provider: Lower = option("", "Who speaks there; without it whoever speaks elsewhere.")
    locale: Text = option("", "The language that is spoken, such as de or en-GB.", "speechLocale")
    interrupt: bool = option(True, "Speech ends as soon as the person speaks or writes.", "interruptOnSpeech")
    silence: MillisOrNone = option(0.9, "How long a pause ends what a person says.", "silenceTimeoutMs")
    agent: Lower = option("", "Whose voice it is; without it the default agent's.", "agentId")
    speech: SpeechSettings = option(SpeechSettings(), at=None)
    aliases: dict[str, str] = option({}, at=None)  # names for voices, lower case

    KNOWN: ClassVar = {"providers": dict[str, Free]}


class ImageModelSection(ModelChoiceSection, frozen=True):
    timeout_ms: Count | None = option(None, "How long one request may take.")


ImageModelSpec: TypeAlias = str | ImageModelSection


class ImageGenerationSettings(msgspec.Struct, frozen=True):
    """agents.*.imageGenerationModel: who makes pictures, in order. Seconds."""

    models: Names = ()
    timeout: float = 180.0


def read_voice(name: str, raw: Mapping[str, Any], here: ConfigPlace) -> VoiceSettings:
    """A voice; keys under one of their other names count where the first is not written."""
    return fill_section(VoiceSettings, settle_names(raw, ALIASES), here, id=name.strip().lower())


def merge_layers(*layers: Any) -> Free:
    """Objects one over the other, the first on top, also those inside them."""
    made: Free = {}
    for layer in reversed(layers):
        made = merge_deep(layer if isinstance(layer, dict) else None, made)
    return made


def merge_speech(*layers: Any) -> Free:
    """As `merge_layers`, of what stands under tts: each layer first says the older words as the newer ones."""
    return merge_layers(*(_settle_speech(layer) for layer in layers if isinstance(layer, dict)))


def _settle_speech(layer: Free) -> Free:
    made = {name: value for name, value in layer.items() if name not in (*OLDER, "providers", "enabled")}
    switch: Any = layer.get("enabled")
    if made.get("auto") is None and isinstance(switch, bool):
        made["auto"] = "always" if switch else "off"
    older = {name: layer[name] for name in OLDER if isinstance(layer.get(name), dict)}
    if voices := merge_layers(layer.get("providers"), older):
        made["providers"] = {
            name.strip().lower(): settle_names(body, ALIASES) for name, body in voices.items() if isinstance(body, dict)
        }
    return made


def resolve_speech(own: Mapping[str, Any], shared: Mapping[str, Any], root: Free, here: ConfigPlace) -> SpeechSettings:
    """An agent's: its own word over agents.defaults, messages.tts and tts."""
    messages = root.get("messages") or {}
    return fill_section(
        SpeechSettings, merge_speech(own.get("tts"), shared.get("tts"), messages.get("tts"), root.get("tts")), here
    )


def resolve_talk(root: Free, here: ConfigPlace) -> TalkSettings:
    """talk, with the voices of messages.tts and tts below its own."""
    talk, messages = root.get("talk") or {}, root.get("messages") or {}
    made = fill_section(TalkSettings, talk, here)
    over = {"providers": talk.get("providers"), **({"provider": made.provider} if made.provider else {})}
    told = merge_speech(over, messages.get("tts"), root.get("tts"))
    speech = fill_section(SpeechSettings, told if talk or messages.get("tts") or root.get("tts") else {}, here)
    bodies = [body.get("voiceAliases") for body in (talk.get("providers") or {}).values() if isinstance(body, dict)]
    named = [pair for body in bodies if isinstance(body, dict) for pair in body.items()]
    aliases = {str(alias).lower(): voice for alias, voice in named if isinstance(voice, str)}
    return msgspec.structs.replace(made, speech=speech, aliases=aliases)


def resolve_image_generation(own: Any, shared: Any, here: ConfigPlace) -> ImageGenerationSettings:
    """Who makes an agent's pictures: its own word, else what is said for all."""
    layers = [read_form(ImageModelSpec, spec, here) for spec in (own, shared)]
    times = (layer.timeout_ms for layer in layers if isinstance(layer, ImageModelSection))
    return ImageGenerationSettings(list_models(*layers), next((ms / 1000 for ms in times if ms), 180.0))

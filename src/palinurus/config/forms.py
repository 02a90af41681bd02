"""How values are written in the config: bounded numbers, words, spans of time, sizes, secrets. Names are OpenClaw's.

A type here is what the program gets; the kind in its annotation says how a file writes it.
"""

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, TypeVar

import msgspec

from palinurus.config.declare import Section, option, same_form
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.kinds import TextKind, WordKind, WrappedKind, Written, make_kind
from palinurus.config.secrets import Secret
from palinurus.core.durations import parse_duration
from palinurus.patterns import compile_late

T = TypeVar("T", bound=msgspec.Struct)

Free: TypeAlias = dict[str, Any]  # an object: anything goes
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]
Size: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Amount: TypeAlias = Annotated[float, msgspec.Meta(ge=0)]
Ratio: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=1)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Hour: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=23)]
Name: TypeAlias = Annotated[str, msgspec.Meta(min_length=1)]
Names: TypeAlias = tuple[str, ...]

Level: TypeAlias = Literal["off", "minimal", "low", "medium", "high", "xhigh", "adaptive", "max", "ultra"]
Switch: TypeAlias = Literal["on", "off"]
Typing: TypeAlias = Literal["never", "instant", "thinking", "message"]
LogLevel: TypeAlias = Literal["silent", "fatal", "error", "warn", "info", "debug", "trace"]

Text: TypeAlias = Annotated[str, Written(str, str.strip)]
Filled: TypeAlias = Annotated[str, Written(str, lambda text: text or msgspec.UNSET)]  # "" says nothing
Lower: TypeAlias = Annotated[str, Written(str, lambda text: text.strip().lower())]
LowerNames: TypeAlias = Annotated[
    Names, Written(list[str], lambda words: tuple(word.strip().lower() for word in words))
]
Seconds: TypeAlias = Annotated[float, Written(Count, float)]
Millis: TypeAlias = Annotated[float, Written(Count, lambda ms: ms / 1000)]  # in seconds
MillisOrNone: TypeAlias = Annotated[float, Written(Size, lambda ms: ms / 1000)]  # 0 is fine, too
MinutesNumber: TypeAlias = Annotated[float, Written(Amount, lambda minutes: minutes * 60.0)]  # in seconds
LooseMillis: TypeAlias = Annotated[float, Written(Amount, lambda ms: ms / 1000 if ms > 0 else msgspec.UNSET)]
DURATION = ("is not a duration", "write it as 500ms, 30s, 15m, 2h or 7d")
SIZE = ("is not a size", "write it as 500mb, 2gb or a number of bytes")
UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30,
         "t": 1 << 40, "tb": 1 << 40}  # fmt: skip
_SIZE = compile_late(r"(\d{1,15}(?:\.\d{1,6})?)\s*([kmgt]?b?)", re.ASCII)


def list_ids(written: Any) -> list[str]:
    """The texts and numbers of a list, as texts."""
    values = written if isinstance(written, list) else []
    return [str(v).strip() for v in values if isinstance(v, (str, int)) and not isinstance(v, bool) and str(v).strip()]


def parse_size(text: str | int) -> int | None:
    """Bytes, from `500mb`, `2 GB` or a bare number; None if it cannot be read."""
    found = _SIZE.fullmatch(str(text).strip().lower())
    return int(float(found[1]) * UNITS[found[2]]) if found else None


def _span(unit: str) -> Callable[[Any], Any]:
    def make(value: Any) -> Any:
        if value == "" and value is not False:
            return msgspec.UNSET
        found = None if value is True else parse_duration(value, unit)
        if found is None:
            raise ValueError
        return found

    return make


def _span_or_never(unit: str) -> Callable[[Any], Any]:
    """false, off and never are 0."""
    span = _span(unit)
    return lambda value: 0.0 if value in (False, "off", "never") else span(value)


def _retention(unit: str) -> Callable[[Any], Any]:
    """0 turns it off, as false does: it never meant "everything at once"."""
    span = _span_or_never(unit)
    return lambda value: None if (found := span(value)) == 0 else found


def _bytes(value: Any) -> Any:
    found = parse_size(value) if value != "" else 0
    if found is None:
        raise ValueError
    return found or None


# In seconds.
MinutesOrNever: TypeAlias = Annotated[float, Written(str | bool, _span_or_never("m"), *DURATION)]
Minutes: TypeAlias = Annotated[float, Written(str | int, _span("m"), *DURATION)]
Days: TypeAlias = Annotated[float | None, Written(str | int, _retention("d"), *DURATION)]
DaysOrNever: TypeAlias = Annotated[float | None, Written(str | int | bool, _retention("d"), *DURATION)]
HoursOrNever: TypeAlias = Annotated[float | None, Written(str | bool, _retention("h"), *DURATION)]
Bytes: TypeAlias = Annotated[int | None, Written(str | int, _bytes, *SIZE)]


class ToldWord(WordKind):
    """One of some words. `near`: words that count as another one, which is said."""

    def __init__(self, *words: str, **near: str) -> None:
        super().__init__((*words, *near))
        self.near = near

    def read(self, value: Any, here: ConfigPlace) -> Any:
        if value in self.near:
            here.odd("", f"{value!r} is not built; it counts as {self.near[value]!r}")
        return self.near.get(value, value)


def between(least: float, most: float = 1e9, make: Callable[[Any], Any] = float, scale: float = 1) -> Written:
    """A number that is read as `scale` times what is written."""
    return Written(Annotated[float, msgspec.Meta(ge=least, le=most)], lambda n: make(n) * scale)


class FolderKind(TextKind):
    """A path; absolute when read."""

    def read(self, value: Any, here: ConfigPlace) -> Any:
        return here.folder(value) if value.strip() else msgspec.UNSET


FolderList: TypeAlias = tuple[Annotated[str, FolderKind()], ...]


class SecretRef(Section, frozen=True):
    """A secret kept elsewhere instead of in the file."""

    ABOUT: ClassVar = """
        source Where the secret is: env, file or exec.
        id Its name there.
        provider Which of secrets.providers; by default the usual one of that source.
    """
    source: Literal["env", "file", "exec"]
    id: str
    provider: str = "default"


SecretText: TypeAlias = str | SecretRef


class SecretKind(WrappedKind):
    """A secret written out, or a reference to where it is. One that is not found is a finding, and empty."""

    def __init__(self, *, fatal: bool, reveal: bool = False) -> None:
        super().__init__(SecretText)
        self.fatal, self.reveal = fatal, reveal

    def read(self, value: Any, here: ConfigPlace) -> Any:
        found = resolve_secret(self.form.read(value, here), here, fatal=self.fatal)
        return found.reveal() if self.reveal else found


class LooseSecretKind(SecretKind):
    """The same in free-form sections: what is no secret at all is an empty one."""

    def __init__(self, *, strip: bool) -> None:
        super().__init__(fatal=False)
        self.strip = strip

    def fits(self, value: Any) -> bool:
        return True

    def read(self, value: Any, here: ConfigPlace) -> Any:
        found = resolve_loose_secret(value, here)
        return Secret(found.reveal().strip()) if self.strip else found


NeededSecret: TypeAlias = Annotated[Secret, SecretKind(fatal=True)]
OptionalSecret: TypeAlias = Annotated[Secret, SecretKind(fatal=False)]
RevealedSecret: TypeAlias = Annotated[str, SecretKind(fatal=False, reveal=True)]
LooseSecret: TypeAlias = Annotated[Secret, LooseSecretKind(strip=False)]
BareSecret: TypeAlias = Annotated[Secret, LooseSecretKind(strip=True)]  # without blanks around it


def resolve_secret(value: SecretText | None, here: ConfigPlace, *, fatal: bool = True) -> Secret:
    """A secret written out, or fetched from where its reference says. Not found = a finding and an empty Secret."""
    if value is None or isinstance(value, str):
        return Secret(value or "")
    if here.fetch is None and value.source == "env":
        return Secret(find_variable(value.id, here, fatal=fatal))
    found, why = (
        here.fetch(value.source, value.provider, value.id) if here.fetch else ("", "nobody fetches secrets here")
    )
    if why:
        here.bad("", why, suggest_nearest(value.id, here.environ) if value.source == "env" else "", fatal=fatal)
    return Secret(found)


def find_variable(name: str, here: ConfigPlace, *, fatal: bool = False) -> str:
    """The environment variable; one that is not set is a finding."""
    found = here.environ.get(name, "")
    if not found:
        hint = suggest_nearest(name, here.environ)
        here.bad("", f"the environment variable {name} is not set", hint, fatal=fatal)
    return found


def resolve_loose_secret(value: Any, here: ConfigPlace) -> Secret:
    """As `resolve_secret`, for a value that nobody has checked. What is no secret at all is an empty one."""
    if isinstance(value, dict):
        if not make_kind(SecretRef).fits(value):
            here.odd("", "is neither a text nor a reference to a secret")
            return Secret()
        value = make_kind(SecretRef).read(value, here)
    return resolve_secret(value, here, fatal=False) if isinstance(value, str | SecretRef) else Secret()


def reveal_references(value: Any, here: ConfigPlace) -> Any:
    """A value of a free-form section with references to secrets replaced by the secrets."""
    if isinstance(value, list):
        return [reveal_references(one, here.below(at)) for at, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    if {"source", "id"} <= set(value) <= {"source", "id", "provider"} and make_kind(SecretRef).fits(value):
        return resolve_loose_secret(value, here).reveal()
    return reveal_below(value, here)


def reveal_below(section: Mapping[str, Any], here: ConfigPlace) -> dict[str, Any]:
    """The same for what stands in an object that is no reference itself."""
    return {name: reveal_references(one, here.below(name)) for name, one in section.items()}


class ModelChoiceSection(Section, frozen=True):
    primary: str | None = option(None, "The model that is asked first.")
    fallbacks: list[str] | None = option(None, "Models to try, in this order, when the first one fails.")


ModelSpec: TypeAlias = str | ModelChoiceSection


def choose_model(spec: ModelSpec | None) -> ModelChoiceSection:
    """A model, however it is written."""
    return ModelChoiceSection(spec) if isinstance(spec, str) else spec or ModelChoiceSection()


def choose_models(own: ModelSpec | None, shared: ModelSpec | None) -> tuple[str, Names]:
    """Primary and fallbacks of two layers. A model of the first one's is strict: only the fallbacks beside it count."""
    first, second = choose_model(own), choose_model(shared)
    inherited = None if first.primary else second.fallbacks
    fallbacks = first.fallbacks if first.fallbacks is not None else inherited
    return (first.primary or second.primary or "").strip(), tuple(fallbacks or ())


def list_models(own: ModelSpec | None, shared: ModelSpec | None = None) -> Names:
    """A model and its fallbacks, of two layers."""
    primary, fallbacks = choose_models(own, shared)
    return tuple(text.strip() for text in (primary, *fallbacks) if text.strip())


class IdentitySection(Section, frozen=True):
    ABOUT: ClassVar = """
        name What the agent calls itself.
        theme What it is, in a few words.
        emoji Its emoji.
        avatar Its picture: a path in the workspace, or an address.
        creature What kind of being it is.
        vibe How it comes across.
    """
    KNOWN: ClassVar = same_form(str, "name theme emoji avatar creature vibe")


class GroupChatSection(Section, frozen=True):
    ABOUT: ClassVar = """
        visibleReplies message_tool: in groups only what the message tool sends is seen; automatic: replies are.
    """
    mention_patterns: list[str] | None = option(None, "Regular expressions that name the agent in groups.")
    history_limit: Count | None = option(None, "How many unmentioned messages of a group come along as context.")
    visible_replies: Literal["automatic", "message_tool"] | None = None


def lay_over(base: T, *sections: Any) -> T:
    """`base` with the fields of the same names that are set in the sections, the first one before the others."""
    for section in reversed(sections):
        told = {
            name: getattr(section, name) for name in base.__struct_fields__ if getattr(section, name, None) is not None
        }
        base = msgspec.structs.replace(base, **told)
    return base


def read_form(form: Any, value: Any, here: ConfigPlace) -> Any:
    """A value that has been checked, as the program uses it."""
    return None if value is None else make_kind(form).read(value, here)


def settle_names(layer: Mapping[str, Any] | None, names: Mapping[str, str]) -> dict[str, Any]:
    """One of several layers, each key under the first of its names: under another one a layer below would go before."""
    made = dict(layer or {})
    for first, others in names.items():
        told = (made.get(name) for name in (first, *others.split()))
        made[first] = next((value for value in told if value not in (None, "")), None)
    return made


def merge_deep(own: Mapping[str, Any] | None, shared: Mapping[str, Any] | None) -> dict[str, Any]:
    """As `merge_raw`, objects inside objects too."""
    made = merge_raw(own, shared)
    for key, below in (shared or {}).items():
        if isinstance(below, dict) and isinstance(made[key], dict):
            made[key] = merge_deep(made[key], below)
    return made


def merge_raw(*layers: Mapping[str, Any] | None) -> dict[str, Any]:
    """What several layers say, the first one before the others. null says nothing."""
    return {key: value for layer in reversed(layers) for key, value in (layer or {}).items() if value is not None}

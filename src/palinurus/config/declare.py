"""Sections of the config: a class is a section, a field is a key. The field is the only declaration a key has.

Its annotation says how it is written and what it becomes (`kinds.py`), its default what applies when it is left out;
`option` adds what else there is to say. Everything known of keys (checks, forms, explanations) is read from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property
from typing import Any, ClassVar, Self, TypeVar

import msgspec
from msgspec import NODEFAULT

from palinurus.config.findings import UNKNOWN, ConfigFinding, ConfigPlace, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.kinds import KeyNote, Kind, KindReport, Schema, Written, make_kind

S = TypeVar("S", bound="Section")
_SPANS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))  # seconds


class KeySpec(msgspec.Struct, frozen=True, eq=False):
    """What `option` said."""

    default: Any
    about: str = ""
    at: str | None = ""
    closed: Any = msgspec.UNSET


def option(default: Any = NODEFAULT, about: str = "", at: str | None = "", *, closed: Any = msgspec.UNSET) -> Any:
    """A field: its default, one sentence for people, and its place in the section (a.b.c) if that is not its own name.
    In the annotation of a key of `KNOWN` only `closed` counts.

    `closed`: as the file would write it, what counts where somebody wrote a value that cannot be read. Keys that
    guard something have one: there the default would open what the owner meant to close.

    `at` None: no key; the section fills the field in itself. `.`: no key either, but the name that the section stands
    under. `*`: a section whose keys stand among the others.
    """
    return KeySpec(default, about, at, closed)


class SectionMeta(msgspec.StructMeta):
    """Takes the words of `option` out of the class body, so that msgspec sees plain defaults."""

    def __new__(mcls, name: str, bases: tuple[type, ...], body: dict[str, Any], /, **options: Any) -> SectionMeta:
        specs = {field: spec for field, spec in body.items() if isinstance(spec, KeySpec)}
        for field, spec in specs.items():
            if spec.default is NODEFAULT:
                del body[field]
            else:
                body[field] = spec.default
        made = super().__new__(mcls, name, bases, body, **options)
        made.__specs__ = {**getattr(made, "__specs__", {}), **specs}  # type: ignore[attr-defined]
        made.__kind__ = SectionKind(made)  # type: ignore[attr-defined, arg-type]
        return made


class SectionKind(Kind):
    """An object with known keys."""

    word = "an object"
    holds = dict

    def __init__(
        self, cls: type[Section], without: frozenset[str] = frozenset(), about: Mapping[str, str] | None = None
    ) -> None:
        self.cls, self.without, self.about = cls, without, about or {}

    @property
    def tree(self) -> KeyTree:
        """Its keys, but for those that cannot stand here."""
        return list_declared(self.cls, self.without)

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        found = KindReport([], report.late) if self.cls.LOOSE else report
        self.tree.inspect(value, path, found)
        if self.cls.LOOSE:
            report.wrong.extend(
                msgspec.structs.replace(one, fatal=False)
                for one in found.wrong
                if not (self.cls.OPEN and len(one.path) == len(path) + 1 and one.path[-1] not in self.tree.keys)
            )

    def read(self, value: Any, here: ConfigPlace) -> Any:
        return fill_section(self.cls, value, here)

    def describe(self) -> Schema:
        if self.cls.LOOSE:
            return {"type": "object"}
        about = {"description": self.cls.__doc__} if self.cls.__dict__.get("__doc__") else {}
        return {"title": self.cls.__name__, **about, **self.tree.describe()}

    def step(self, part: str | int) -> Kind | None:
        return self.tree.step(part) or (Kind() if self.cls.OPEN else None)

    def list_keys(self) -> list[str]:
        return self.tree.list_keys()

    def find_note(self, part: str | int) -> KeyNote | None:
        note = self.tree.find_note(part)
        return msgspec.structs.replace(note, about=self.about[str(part)]) if note and part in self.about else note

    def close(self) -> Mapping[str, Any]:
        return self.cls.SEALED or self.tree.close()


class Unfilled(SectionKind):
    """A section that is checked here and stays as written: it is one layer of several, read when they are merged."""

    def read(self, value: Any, here: ConfigPlace) -> Any:
        return value


class Section(msgspec.Struct, frozen=True, metaclass=SectionMeta):
    """A part of the config file. A key that is absent or null has its default."""

    __specs__: ClassVar[dict[str, KeySpec]]
    ALWAYS: ClassVar[bool] = False  # `settle` has a say even if the section is not written
    LOOSE: ClassVar[bool] = False  # what does not fit counts as not written, and that is said
    OPEN: ClassVar[bool] = False  # and somebody else may know keys that it does not
    KNOWN: ClassVar[Mapping[str, Any]] = {}  # key -> how it is written; `settle` or somebody above reads it
    ABOUT: ClassVar[str] = ""  # sentences for keys whose field has none: a line each, the key first
    GROUPS: ClassVar[Mapping[str, str]] = {}  # objects that hold several of the keys -> one sentence
    SEALED: ClassVar[Mapping[str, Any] | None] = None  # what the section says when anything in it cannot be read
    RESTART: ClassVar[tuple[str, ...]] = ()  # keys that are read only when the gateway starts
    LIVE: ClassVar[tuple[str, ...]] = ()  # keys whose reader asks for them every time

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        """Itself once more, with what follows from several keys; what is wrong is noted at `here`."""
        return self


class NameKind(Kind):
    """No value of the file, but the name that a section stands under."""

    def read(self, value: Any, here: ConfigPlace) -> Any:
        return str(here.path[-1])


class DeclaredKey:
    """A key of a section: field `field`, at `at` in the file."""

    def __init__(self, field: str, form: Any, spec: KeySpec, default: Any, loose: bool) -> None:
        place = spec.at or camel_case(field)
        self.field, self.form, self.about, self.default = field, form, spec.about, default
        self.closed = spec.closed
        self.place = place
        self.at: Path = () if place in (".", "*") else tuple(place.split("."))
        self.loose = loose  # what does not fit counts as not written

    @cached_property
    def kind(self) -> Kind:
        return NameKind() if self.place == "." else make_kind(self.form)

    @cached_property
    def always(self) -> bool:
        """Is it read even if it is not written?"""
        return isinstance(self.form, SectionMeta) and bool(self.form.ALWAYS)  # type: ignore[attr-defined]


class KeyTree(Kind):
    """An object inside a section that is no section itself: its keys are fields of the section around it."""

    word = "an object"
    holds = dict

    def __init__(self) -> None:
        self.keys: dict[str, Kind] = {}
        self.required: list[str] = []
        self.notes: dict[str, KeyNote] = {}

    def put(self, at: Path, kind: Kind, note: KeyNote) -> None:
        """Have `kind` stand at `at`."""
        name = str(at[0])
        if len(at) == 1 and isinstance(kind, KeyTree):
            for key, inner in kind.keys.items():
                self.put((name, key), inner, kind.notes.get(key, KeyNote()))
            return
        if len(at) == 1:
            self.keys[name], self.notes[name] = kind, note
            return
        below = self.keys.setdefault(name, KeyTree())
        assert isinstance(below, KeyTree), f"{name} is a value, nothing can stand below it"
        below.put(at[1:], kind, note)

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        for name, below in value.items():
            kind = self.keys.get(name)
            if kind is None:
                hint = suggest_nearest(name, self.keys)
                report.wrong.append(ConfigFinding((*path, name), UNKNOWN, hint, fatal=False))
            elif below is not None or name in self.required:
                kind.check(below, (*path, name), report)
        for name in self.required:
            if name not in value:
                report.wrong.append(ConfigFinding(path, f"the key {name!r} is missing"))

    def describe(self) -> Schema:
        made = {name: kind.describe() for name, kind in self.keys.items()}
        for name, note in self.notes.items():
            if (default := show_default(self.keys[name], note)) not in (None, "", []):
                made[name]["default"] = default
        return {"type": "object", "properties": made, "required": self.required, "additionalProperties": False}

    def step(self, part: str | int) -> Kind | None:
        return self.keys.get(part) if isinstance(part, str) else None

    def list_keys(self) -> list[str]:
        return list(self.keys)

    def find_note(self, part: str | int) -> KeyNote | None:
        return self.notes.get(str(part))

    def close(self) -> Mapping[str, Any]:
        inside = {name: kind.close() for name, kind in self.keys.items()}
        own = {name: note.closed for name, note in self.notes.items() if note.closed is not msgspec.UNSET}
        return {**{name: closed for name, closed in inside.items() if closed}, **own}


def show_default(kind: Kind | None, note: KeyNote) -> Any:
    """What applies where a key is not written, in the form in which it would be written; None: cannot be said."""
    default = list(note.default) if isinstance(note.default, tuple) else note.default
    if kind is None or not isinstance(default, str | int | float | list):
        return None
    tries = list_forms(default) if isinstance(kind, Written) else [default]
    nowhere = ConfigPlace("", {}, [])
    fitting = (one for one in tries if kind.fits(one))
    return next(
        (one for one in fitting if not isinstance(kind, Written) or kind.read(one, nowhere) == note.default), None
    )


def list_forms(value: Any) -> list[Any]:
    """How a value might be written that the program uses in another form: seconds as spans of time or milliseconds,
    bytes as megabytes."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return [value]
    spans = [f"{value / size:g}{unit}" for unit, size in _SPANS if value and value % size == 0]
    sizes = (value, value * 1000, value / 60, value / 3600, value / 86_400, value / (1 << 20))
    return [*spans, *(int(one) if one == int(one) else one for one in sizes)]


@cache
def list_fields(cls: type[Section]) -> tuple[DeclaredKey, ...]:
    """The fields of a section that are keys."""
    forms = {
        name: form for base in reversed(cls.__mro__) for name, form in vars(base).get("__annotations__", {}).items()
    }
    missing = len(cls.__struct_fields__) - len(cls.__struct_defaults__)
    defaults = dict(zip(cls.__struct_fields__, (*[NODEFAULT] * missing, *cls.__struct_defaults__), strict=True))
    specs = {field: cls.__specs__.get(field, KeySpec(default)) for field, default in defaults.items()}
    return tuple(
        DeclaredKey(field, forms[field], spec, defaults[field], loose=cls.LOOSE)
        for field, spec in specs.items()
        if spec.at is not None
    )


@cache
def list_declared(cls: type[Section], without: frozenset[str] = frozenset()) -> KeyTree:
    """The keys of a section, as the file has them."""
    tree, words = KeyTree(), _read_words(cls)
    for key in list_fields(cls):
        about, fates = key.about or words.get(key.place, ""), (key.place in cls.RESTART, key.place in cls.LIVE)
        note = KeyNote(about, key.default, "", *fates, closed=key.closed)
        if not key.at:
            for below in key.kind.list_keys():
                tree.put((below,), key.kind.step(below) or Kind(), key.kind.find_note(below) or KeyNote())
        else:
            tree.put(key.at, key.kind, note)
        if key.at and key.default is NODEFAULT:
            tree.required.append(str(key.at[0]))
    for name, form in cls.KNOWN.items():
        marks = getattr(form, "__metadata__", ())
        about = next((mark for mark in marks if isinstance(mark, str)), words.get(name, ""))
        closed = next((mark.closed for mark in marks if isinstance(mark, KeySpec)), msgspec.UNSET)
        note = KeyNote(about, restart=name in cls.RESTART, closed=closed)
        tree.put(tuple(name.split(".")), make_kind(form), note)
    for name, about in cls.GROUPS.items():
        tree.notes[name] = KeyNote(about)
    for name in without:
        del tree.keys[name], tree.notes[name]
    return tree


def _read_words(cls: type[Section]) -> dict[str, str]:
    lines = (line.strip() for base in reversed(cls.__mro__) for line in vars(base).get("ABOUT", "").splitlines())
    return {key: about for key, _, about in (line.partition(" ") for line in lines if line)}


def camel_case(name: str) -> str:
    """`max_chars` as the file writes it."""
    first, *rest = name.split("_")
    return first + "".join(word.title() for word in rest)


def same_form(form: Any, names: str) -> dict[str, Any]:
    """Several keys that are written in the same form, for `KNOWN`."""
    return dict.fromkeys(names.split(), form)


def fill_section(cls: type[S], raw: Mapping[str, Any], here: ConfigPlace, **values: Any) -> S:
    """The section that `raw` says, and `values` that are no keys. It has been checked, unless the section is loose."""
    for key in list_fields(cls):
        if not raw and key.at and not key.always:  # most sections of most files are not there
            continue
        found: Any = raw
        for part in key.at:
            found = found.get(part) if isinstance(found, dict) else None
        if found is None and key.always:
            found = {}
        if found is None:
            continue
        if key.loose and not key.kind.fits(found):
            continue
        value = key.kind.read(found, here.below(*key.at))
        if value is not msgspec.UNSET:
            values[key.field] = value
    return cls(**values).settle(raw, here)

"""The kinds of values a config can hold: what fits, how it is read, how it is told to people and forms.

A kind is made once of an annotation: `int`, `Literal[…]`, `tuple[str, …]`, a section, or `Annotated[…, Written(…)]`
for values that are written in another form than they are used in. Pure.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, Union, get_args, get_origin

import msgspec

from palinurus.config.findings import ConfigFinding, ConfigPlace, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.secrets import is_secret

Schema: TypeAlias = dict[str, Any]

_GOT = {bool: "true or false", int: "a number", float: "a number", str: "a text", list: "a list", dict: "an object"}


def name_kind(value: Any) -> str:
    """What a value is, in words."""
    return next((word for kind, word in _GOT.items() if isinstance(value, kind)), "null")


class KindReport(msgspec.Struct, frozen=True):
    """`wrong` is of the wrong kind; `late` is found where kinds are right and what is said makes no sense."""

    wrong: list[ConfigFinding]
    late: list[ConfigFinding]


class KeyNote(msgspec.Struct, frozen=True):
    """What a declaration says besides the kind."""

    about: str = ""  # one sentence
    default: Any = msgspec.UNSET  # as the program uses it
    inert: str = ""  # why it is known and not acted on
    restart: bool = False  # a change takes effect only when the gateway starts again
    live: bool = False  # … at once; of all others when the gateway begins anew, which it does by itself
    closed: Any = msgspec.UNSET  # what counts in place of what cannot be read; UNSET: as if nothing was written


class Kind:
    """Anything: the base of all others."""

    word: ClassVar[str] = ""  # in "expected …"
    holds: ClassVar[type] = object  # the JSON kind of the value

    @property
    def options(self) -> tuple[Kind, ...]:
        """The kinds it is made of; one may be any of them."""
        return (self,)

    def accepts(self, value: Any) -> bool:
        """Is the value of the right JSON kind? What it holds is not looked at."""
        return isinstance(value, self.holds)

    def check(self, value: Any, path: Path, report: KindReport) -> None:
        """Report everything wrong with the value at `path`."""
        fitting = [option for option in self.options if option.accepts(value)]
        if not fitting:
            report.wrong.append(self._mismatch(value, path))
            return
        next((one for one in fitting if isinstance(one, TextKind)), fitting[0]).inspect(value, path, report)

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        """Report what is wrong inside a value that `accepts` has passed."""

    def _mismatch(self, value: Any, path: Path) -> ConfigFinding:
        wanted = " or ".join(dict.fromkeys(word for option in self.options for word in option.list_words()))
        whole = any(isinstance(option, NumberKind) and option.whole for option in self.options)
        got = "a fraction" if isinstance(value, float) and whole else name_kind(value)
        order = [kind for kind in _ADVISERS if any(isinstance(option, kind) for option in self.options)]
        hint = next((text for kind in order if (text := kind.advise(value))), "")
        return ConfigFinding(path, f"expected {wanted}, got {got}", hint)

    def list_words(self) -> list[str]:
        return [self.word] if self.word else []

    @staticmethod
    def advise(value: Any) -> str:
        """What to do about a value of another kind."""
        return ""

    def fits(self, value: Any) -> bool:
        """Can the value be read? What is wrong with a part that is left out then does not count."""
        report = KindReport([], [])
        self.check(value, (), report)
        return not report.late and not any(finding.fatal for finding in report.wrong)

    def read(self, value: Any, here: ConfigPlace) -> Any:
        """The value as the program uses it; UNSET: the default applies."""
        return value

    def describe(self) -> Schema:
        """As JSON schema."""
        return {}

    def step(self, part: str | int) -> Kind | None:
        """The kind of what stands below; None if nothing can."""
        return self

    def list_keys(self) -> list[str]:
        """The keys that are known below."""
        return []

    def find_note(self, part: str | int) -> KeyNote | None:
        """What is declared of a key below."""
        return None

    def close(self) -> Mapping[str, Any]:
        """What stands for an object where something else is written: every key that guards something, closed."""
        return next((closed for option in self.options if option is not self and (closed := option.close())), {})


class LeafKind(Kind):
    """A single value: nothing can stand below it."""

    def step(self, part: str | int) -> Kind | None:
        return None


class BoolKind(LeafKind):
    word = "true or false"
    holds = bool

    @staticmethod
    def advise(value: Any) -> str:
        return "write true or false without quotes" if isinstance(value, str) else ""

    def describe(self) -> Schema:
        return {"type": "boolean"}


class NumberKind(LeafKind):
    def __init__(self, whole: bool, low: float | None = None, high: float | None = None) -> None:
        self.whole, self.low, self.high = whole, low, high

    def accepts(self, value: Any) -> bool:
        return isinstance(value, int if self.whole else int | float) and not isinstance(value, bool)

    def list_words(self) -> list[str]:
        return ["a whole number" if self.whole else "a number"]

    @staticmethod
    def advise(value: Any) -> str:
        return "write the number without quotes" if isinstance(value, str) else ""

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        low, high = self.low, self.high
        if low is not None and high is not None and not low <= value <= high:
            report.wrong.append(ConfigFinding(path, f"must be between {low:g} and {high:g}"))
        elif low is not None and high is None and not value >= low:
            report.wrong.append(ConfigFinding(path, f"must be {low:g} or more"))

    def read(self, value: Any, here: ConfigPlace) -> Any:
        return value if self.whole else float(value)

    def describe(self) -> Schema:
        bounds = {"minimum": self.low, "maximum": self.high}
        kind = "integer" if self.whole else "number"
        return {"type": kind, **{name: bound for name, bound in bounds.items() if bound is not None}}


class TextKind(LeafKind):
    word = "a text"
    holds = str

    def __init__(self, least: int = 0) -> None:
        self.least = least

    @staticmethod
    def advise(value: Any) -> str:
        return "put it in quotes" if isinstance(value, int | float) and not isinstance(value, bool) else ""

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        if len(value) < self.least:
            report.wrong.append(ConfigFinding(path, "must not be empty"))

    def describe(self) -> Schema:
        return {"type": "string", **({"minLength": self.least} if self.least else {})}


class WordKind(LeafKind):
    holds = str

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words

    def list_words(self) -> list[str]:
        return [f"'{word}'" for word in self.words]

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        if value not in self.words:
            shown = "this" if is_secret(path) else repr(value[:40])
            text = f"{shown} is not one of {', '.join(self.words)}"
            report.wrong.append(ConfigFinding(path, text, suggest_nearest(value, self.words)))

    def describe(self) -> Schema:
        return {"enum": list(self.words)}


class ListKind(Kind):
    word = "a list"
    holds = list

    def __init__(self, item: Kind, make: Callable[[Iterator[Any]], Any] = list) -> None:
        self.item, self.make = item, make

    @staticmethod
    def advise(value: Any) -> str:
        return "put it in [ ]" if not isinstance(value, list) else ""

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        for index, below in enumerate(value):
            self.item.check(below, (*path, index), report)

    def read(self, value: Any, here: ConfigPlace) -> Any:
        found = (self.item.read(below, here.below(at)) for at, below in enumerate(value))
        return self.make(one for one in found if one is not msgspec.UNSET)

    def describe(self) -> Schema:
        inside = self.item.describe()
        return {"type": "array", **({"items": inside} if inside else {})}

    def step(self, part: str | int) -> Kind | None:
        return self.item if isinstance(part, int) else None


class MapKind(Kind):
    word = "an object"
    holds = dict

    def __init__(self, item: Kind) -> None:
        self.item = item

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        for name, below in value.items():
            self.item.check(below, (*path, name), report)

    def read(self, value: Any, here: ConfigPlace) -> Any:
        found = {name: self.item.read(below, here.below(name)) for name, below in value.items()}
        return {name: one for name, one in found.items() if one is not msgspec.UNSET}

    def describe(self) -> Schema:
        inside = self.item.describe()
        return {"type": "object", **({"additionalProperties": inside} if inside else {})}

    def step(self, part: str | int) -> Kind | None:
        return self.item if isinstance(part, str) else None


class NotedMap(MapKind):
    """An object with names that nobody checks; of some of them there is something to say."""

    def __init__(self, item: Any, **words: str) -> None:
        super().__init__(make_kind(item))
        self.words = words

    def list_keys(self) -> list[str]:
        return list(self.words)

    def find_note(self, part: str | int) -> KeyNote | None:
        return KeyNote(self.words[part]) if isinstance(part, str) and part in self.words else None


class GuardMap(MapKind):
    """An object whose values keep something closed, also where they cannot be read: any of them, or those `named`."""

    def __init__(self, item: Any, closed: Any, named: Collection[str] | None = None) -> None:
        super().__init__(make_kind(item))
        self.note, self.named = KeyNote(closed=closed), named

    def find_note(self, part: str | int) -> KeyNote | None:
        return self.note if self.named is None or part in self.named else None


class UnionKind(Kind):
    def __init__(self, kinds: tuple[Kind, ...]) -> None:
        self.kinds = kinds

    @property
    def options(self) -> tuple[Kind, ...]:
        return tuple(option for kind in self.kinds for option in kind.options)

    def accepts(self, value: Any) -> bool:
        return any(kind.accepts(value) for kind in self.kinds)

    def read(self, value: Any, here: ConfigPlace) -> Any:
        return next((kind.read(value, here) for kind in self.kinds if kind.accepts(value)), value)

    def describe(self) -> Schema:
        return {"anyOf": [kind.describe() for kind in self.kinds]}

    def step(self, part: str | int) -> Kind | None:
        below = tuple(found for kind in self.kinds if (found := kind.step(part)) is not None)
        return UnionKind(below) if len(below) > 1 else below[0] if below else None

    def list_keys(self) -> list[str]:
        return [name for kind in self.kinds for name in kind.list_keys()]

    def find_note(self, part: str | int) -> KeyNote | None:
        return next((note for kind in self.kinds if (note := kind.find_note(part))), None)


class WrappedKind(Kind):
    """A value that is written in the form of another kind, and read in its own way."""

    def __init__(self, form: Any) -> None:
        self.form = make_kind(form)

    @property
    def options(self) -> tuple[Kind, ...]:
        return self.form.options

    def accepts(self, value: Any) -> bool:
        return self.form.accepts(value)

    def describe(self) -> Schema:
        return self.form.describe()

    def step(self, part: str | int) -> Kind | None:
        return self.form.step(part)

    def list_keys(self) -> list[str]:
        return self.form.list_keys()

    def find_note(self, part: str | int) -> KeyNote | None:
        return self.form.find_note(part)


class Written(WrappedKind):
    """A value that is written as `form` (an annotation) and used as what `make` makes of it.

    UNSET from `make`: the default applies. ValueError: what `message` and `hint` say is wrong with it.
    """

    def __init__(self, form: Any, make: Callable[[Any], Any], message: str = "", hint: str = "") -> None:
        super().__init__(form)
        self.make, self.message, self.hint = make, message, hint

    def check(self, value: Any, path: Path, report: KindReport) -> None:
        before = len(report.wrong)
        super().check(value, path, report)
        if len(report.wrong) == before and self.message and self._make(value) is ValueError:
            report.late.append(ConfigFinding(path, self.message, self.hint))

    def read(self, value: Any, here: ConfigPlace) -> Any:
        made = self._make(value)
        return msgspec.UNSET if made is ValueError else made

    def _make(self, value: Any) -> Any:
        try:
            return self.make(value)
        except ValueError:
            return ValueError


_ADVISERS: tuple[type[Kind], ...] = (NumberKind, BoolKind, ListKind, TextKind)
_PLAIN = {Any: Kind(), bool: BoolKind(), int: NumberKind(True), float: NumberKind(False), str: TextKind()}


def make_kind(form: Any) -> Kind:
    """The kind an annotation stands for. `None` in a union says only that a key may be left out."""
    if form in _PLAIN:
        return _PLAIN[form]
    origin, inside = get_origin(form), get_args(form)
    if isinstance(form, Kind):
        return form
    if origin is Annotated:
        return _annotated(inside[0], inside[1:])
    if origin in (Union, types.UnionType):
        kinds = tuple(make_kind(one) for one in inside if one is not type(None))
        return kinds[0] if len(kinds) == 1 else UnionKind(kinds)
    if origin is Literal:
        return WordKind(tuple(sorted(inside)))
    if origin is list or origin is tuple:
        return ListKind(make_kind(inside[0]), origin)
    if origin is dict:
        return MapKind(make_kind(inside[1]))
    found = getattr(form, "__kind__", None)
    if isinstance(found, Kind):
        return found
    raise TypeError(f"{form!r} is no kind of value")


def _annotated(form: Any, marks: tuple[Any, ...]) -> Kind:
    for mark in marks:
        if isinstance(mark, Kind):
            return mark
        if isinstance(mark, msgspec.Meta):
            return TextKind(mark.min_length or 0) if form is str else NumberKind(form is int, mark.ge, mark.le)
    return make_kind(form)

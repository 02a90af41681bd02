"""A config with values that cannot be read, made one that can: each costs itself and nothing else.

In place of such a value stands what was certainly meant (`"8"` for 8), else what stood there in the last good config,
else what the declaration calls closed, else nothing: the default applies.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from palinurus.config.check import check_config, describe_key, find_note, guards
from palinurus.config.declare import SectionKind
from palinurus.config.findings import UNKNOWN, ConfigFinding
from palinurus.config.keypath import Path, get_at, has_at, show_path
from palinurus.config.kinds import Kind, KindReport, WordKind
from palinurus.patterns import compile_late

_NUMBER = compile_late(r"[+-]?\d{1,15}(\.\d{1,15})?", re.ASCII)
LONG = 80  # characters of a value that is told
ROUNDS = 6  # a value that was put in may be wrong beside others; what is wrong after these loses its whole section


def mend_config(value: dict[str, Any], good: Any, known: Sequence[ConfigFinding] = ()) -> KindReport:
    """What is wrong with `value`, which is changed in place until nothing is. `good` is an older one, or None; what is
    `known` to be wrong stands there as null."""
    first = report = check_config(value)
    places = {finding.path for finding in known}
    first.wrong[:] = [*known, *(finding for finding in first.wrong if finding.path not in places)]
    said = list(first.wrong)
    for number in range(ROUNDS):
        gone: list[Path] = []
        for at, finding in enumerate(report.wrong):
            place, spare, hint = finding.path, msgspec.UNSET, ""
            if not finding.fatal:  # who reads it leaves it out
                if finding.message == UNKNOWN:
                    gone.append(place)
                elif (meant := _read_meant(value, place)) is not None:
                    get_at(value, place[:-1])[place[-1]] = meant
                continue
            if has_at(value, place):
                place, spare, hint = _choose(value, place, good) if number < ROUNDS - 1 else (place[:1], spare, hint)
            if hint and not number:
                said[at] = msgspec.structs.replace(finding, hint=f"{finding.hint}; {hint}" if finding.hint else hint)
            if spare is msgspec.UNSET:
                gone.append(place)
            elif has_at(value, place):
                get_at(value, place[:-1])[place[-1]] = spare
        # The last item of a list goes first, so that the others keep their places.
        for path in sorted(set(gone), key=lambda path: [part if isinstance(part, int) else -1 for part in path])[::-1]:
            if has_at(value, path):
                del get_at(value, path[:-1])[path[-1]]
        if not any(finding.fatal for finding in report.wrong):
            break
        report = check_config(value)
    late = [*first.late, *(one for one in report.late if one not in first.late)]
    return KindReport(said, late)


def _choose(value: Any, path: Path, good: Any) -> tuple[Path, Any, str]:
    """Where something else is to stand, and what (UNSET: nothing); and what to say of it."""
    written, kind = get_at(value, path), describe_key(path)
    if (meant := _read_meant(value, path)) is not None:
        return path, meant, ""
    older = get_at(good, path, msgspec.UNSET)
    if kind is not None and older is not msgspec.UNSET and older != written and kind.fits(older):
        return path, older, "until then it stays as it was"
    for place, closed in _closed(path):
        name = "it" if place == path else show_path(place)
        shown = msgspec.json.encode(closed).decode()
        told = f"counts as {shown}" if len(shown) < LONG else "is as closed as it can be"
        return place, closed, f"until then {name} {told}"
    return path, msgspec.UNSET, ""


def _read_meant(config: Any, path: Path) -> Any:
    """What was certainly meant by the value there; None if nothing is certain, or it might open what is closed."""
    kind, value = describe_key(path), get_at(config, path)
    if kind is None or type(kind) is Kind or value is None:
        return None
    if isinstance(value, bool):
        word = "on" if value else "off"
        fits = all(isinstance(one, WordKind) for one in kind.options) and kind.fits(word) and not guards(path)
        return word if fits else None
    found = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else None
    plain = isinstance(value, int | float)
    tries: dict[type, Any] = {
        bool: {"true": True, "false": False}.get(value.strip().lower()) if isinstance(value, str) else None,
        int: (float(found[0]) if found[1] else int(found[0])) if found else None,
        str: str(value) if isinstance(value, int) else None,
        list: [value] if plain or (isinstance(value, str) and value) else None,
    }
    return next((made for made in tries.values() if made is not None and kind.fits(made)), None)


def _closed(path: Path) -> Iterator[tuple[Path, Any]]:
    """The closed forms of the key, of the list that it is an item of, of the sections around it: the nearest first."""
    own = True
    for size in range(len(path), 0, -1):
        around = path[:size]
        if own and (closed := find_note(around).closed) is not msgspec.UNSET:
            yield around, closed
        kind = describe_key(around)
        for option in kind.options if kind is not None else ():
            told = option.close() if own else option.cls.SEALED if isinstance(option, SectionKind) else None
            if told:
                yield around, copy.deepcopy(dict(told))
        own = own and isinstance(path[size - 1], int)

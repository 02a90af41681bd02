"""The keys of vi on a text with a place in it: what a key makes of both. Pure; `u` is the box's own."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from palinurus.patterns import compile_late

_WORD = compile_late(r"\w+|[^\w\s]+")


class ViState(Struct, frozen=True):
    """`at` is a place in `text`; `pending` what was pressed of a command of several keys; `kept` what was cut last."""

    text: str
    at: int = 0
    insert: bool = True
    pending: str = ""
    kept: str = ""


def press_vi(state: ViState, key: str) -> ViState | None:
    """What becomes of it; None: the key is not ours. While text is typed only Escape is."""
    if state.insert:
        return replace(state, insert=False, at=max(_line(state)[0], state.at - 1)) if key == "escape" else None
    if state.pending:
        return _second(replace(state, pending=""), state.pending, key)
    if key in ("d", "c", "y", "g"):
        return replace(state, pending=key)
    if key in _MOVES:
        return replace(state, at=_clip(state, _MOVES[key](state)))
    if key in _ACTS:
        return _ACTS[key](state)
    return state if len(key) == 1 and key.isprintable() else None  # letters are no text here


def _second(state: ViState, first: str, key: str) -> ViState:
    if first == "g":
        return replace(state, at=0) if key == "g" else state
    start, end = _line(state)
    if key == first:
        return _cut(state, start, min(len(state.text), end + (first == "d")), first)
    if key not in _MOVES:
        return state
    target = _MOVES[key](state)
    low, high = sorted((state.at, target + (key in ("e", "dollar_sign", "$"))))
    return _cut(state, low, min(high, len(state.text)), first)


def _cut(state: ViState, low: int, high: int, how: str) -> ViState:
    kept = replace(state, kept=state.text[low:high], at=low)
    if how == "y":
        return replace(kept, at=state.at)
    made = replace(kept, text=state.text[:low] + state.text[high:], insert=how == "c")
    return made if how == "c" else replace(made, at=_clip(made, low))


def _line(state: ViState) -> tuple[int, int]:
    """Where the line begins and ends."""
    end = state.text.find("\n", state.at)
    return state.text.rfind("\n", 0, state.at) + 1, len(state.text) if end < 0 else end


def _clip(state: ViState, at: int) -> int:
    """On a letter, not behind the last one of its line."""
    at = max(0, min(at, len(state.text)))
    start, end = _line(replace(state, at=at))
    return max(start, min(at, end - 1)) if end > start else start


def _word_on(state: ViState) -> int:
    return next((found.start() for found in _WORD.finditer(state.text) if found.start() > state.at), len(state.text))


def _word_back(state: ViState) -> int:
    return max((found.start() for found in _WORD.finditer(state.text, 0, state.at)), default=0)


def _word_end(state: ViState) -> int:
    ends = (found.end() - 1 for found in _WORD.finditer(state.text))
    return next((end for end in ends if end > state.at), len(state.text) - 1)


def _row(step: int) -> Callable[[ViState], int]:
    def move(state: ViState) -> int:
        start, end = _line(state)
        column = state.at - start
        there = start - 1 if step < 0 else end + 1
        if there < 0 or there > len(state.text):
            return state.at
        low, high = _line(replace(state, at=there))
        return min(low + column, max(low, high - 1))

    return move


def _first(state: ViState) -> int:
    start, end = _line(state)
    return start + len(state.text[start:end]) - len(state.text[start:end].lstrip())


_MOVES: dict[str, Callable[[ViState], int]] = {
    "h": lambda s: max(_line(s)[0], s.at - 1),
    "l": lambda s: min(_line(s)[1], s.at + 1),
    "j": _row(1),
    "k": _row(-1),
    "w": _word_on,
    "b": _word_back,
    "e": _word_end,
    "0": lambda s: _line(s)[0],
    "^": _first,
    "$": lambda s: _line(s)[1] - 1,
    "G": lambda s: len(s.text),
}


def _type_at(where: Callable[[ViState], int]) -> Callable[[ViState], ViState]:
    return lambda state: replace(state, at=where(state), insert=True)


def _open_line(below: bool) -> Callable[[ViState], ViState]:
    def act(state: ViState) -> ViState:
        at = _line(state)[1] if below else _line(state)[0]
        return replace(state, text=f"{state.text[:at]}\n{state.text[at:]}", at=at + below, insert=True)

    return act


def _put(state: ViState) -> ViState:
    at = min(len(state.text), state.at + 1)
    made = replace(state, text=state.text[:at] + state.kept + state.text[at:])
    return replace(made, at=_clip(made, at + len(state.kept) - 1))


_ACTS: dict[str, Callable[[ViState], ViState]] = {
    "i": _type_at(lambda s: s.at),
    "a": _type_at(lambda s: min(_line(s)[1], s.at + 1)),
    "I": _type_at(_first),
    "A": _type_at(lambda s: _line(s)[1]),
    "o": _open_line(True),
    "O": _open_line(False),
    "x": lambda s: _cut(s, s.at, min(_line(s)[1], s.at + 1), "d"),
    "D": lambda s: _cut(s, s.at, _line(s)[1], "d"),
    "C": lambda s: _cut(s, s.at, _line(s)[1], "c"),
    "S": lambda s: _cut(s, *_line(s), "c"),
    "s": lambda s: _cut(s, s.at, min(_line(s)[1], s.at + 1), "c"),
    "p": _put,
}

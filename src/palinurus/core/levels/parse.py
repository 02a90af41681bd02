"""Directives in a message: found, taken out, the rest left as it was written. Pure, linear, table-driven.

The rules
* A directive is `/name` at the start or after white space, followed by the end, white space or a colon; its
  argument stands on the same line. Inside code (fenced or inline) it is text.
* The longest known phrase after the name is the argument.
* A message of nothing but directives takes every form: a bare name asks, and a word nobody knows is an argument
  too, to be refused.
* In a message with other text only a directive with a known value acts. Everything else that looks like one is
  text: `/think about it` eats no word.
* Of each directive only the first that acts is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice

import msgspec

from palinurus.core.levels.spellings import CLEAR_WORDS, DIRECTIVE_BY_NAME, QUERY_WORDS, DirectiveForm, find_meaning
from palinurus.core.stream.code import CodeSpans
from palinurus.core.text import skip_pattern
from palinurus.core.types.inbound import NO_INLINE, InlineDirectives
from palinurus.patterns import compile_late

LOOKS = 500  # places of one message that are looked at; nobody means more

_NAMES = "|".join(sorted(DIRECTIVE_BY_NAME, key=len, reverse=True))
_NAME = compile_late(rf"(?<!\S)/({_NAMES})(?=\s|:|\Z)", re.IGNORECASE)
_GAP = compile_late(r"[ \t]*(?::[ \t]*)?")
_BREAK = r"(?=\s|\Z|[,.;:!?)]{1,3}(?:\s|\Z))"
_WORD = compile_late(rf"[A-Za-z0-9_+-]{{1,32}}{_BREAK}")
_SECOND = compile_late(rf"[ \t]+([A-Za-z+]{{1,16}}){_BREAK}")
_ANY = compile_late(r"\S{1,200}")
_MODEL = compile_late(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_OPTION = compile_late(rf"[ \t]*([A-Za-z]{{1,16}})[=:]([^\s=:,;]{{1,100}}?){_BREAK}")
_FLAT = compile_late(r"[_-]+")
_LINE = compile_late(r"[ \t]*(?:\r?\n|\Z)")
_BLANKS = " \t"
_SESSION_WORDS = CLEAR_WORDS | QUERY_WORDS  # of use only when it is meant for the session
_NOTHING = " \t\r\n.,;:!?"  # what may stand around a message of directives only


class Directive(msgspec.Struct, frozen=True):
    """One directive as typed. `known` False: the argument is none we understand (only in a directive-only message)."""

    name: str
    raw: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    known: bool = True


class ParsedDirectives(msgspec.Struct, frozen=True):
    """A message taken apart. `cuts` are the spans of the original that are not in `rest`, in order."""

    directives: tuple[Directive, ...]
    rest: str
    only: bool = False
    cuts: tuple[tuple[int, int], ...] = ()

    def get(self, name: str) -> Directive | None:
        """The directive of that canonical name."""
        return next((d for d in self.directives if d.name == name), None)


class _Seen(msgspec.Struct, frozen=True):
    """A place that looks like a directive. `acts`: it may stand among other text."""

    directive: Directive
    start: int
    end: int
    acts: bool


def parse_directives(text: str, model: Callable[[str], bool] | None = None) -> ParsedDirectives:
    """The directives of `text` and what is left of it.

    `model` says whether a word names a model; without it only `provider/model` counts as one in a message with
    other text.
    """
    if "/" not in text or _NAME.search(text) is None:
        return ParsedDirectives((), text)
    seen = list(_candidates(text, model or _ref))
    every = _only(text, seen)
    if every is not None:
        return ParsedDirectives(tuple(s.directive for s in every), "", True, ((0, len(text)),))
    acting: dict[str, _Seen] = {}
    for place in seen:
        if place.acts:
            acting.setdefault(place.directive.name, place)
    if not acting:
        return ParsedDirectives((), text)
    rest, cuts = _without(text, sorted(acting.values(), key=lambda s: s.start))
    return ParsedDirectives(tuple(s.directive for s in acting.values()), rest, False, cuts)


def _ref(word: str) -> bool:
    provider, slash, model = word.partition("/")
    return bool(slash and provider and model)


def _candidates(text: str, model: Callable[[str], bool]) -> Iterator[_Seen]:
    code: CodeSpans | None = None
    done: set[str] = set()
    for found in islice(_NAME.finditer(text), LOOKS):
        form = DIRECTIVE_BY_NAME.get(found[1].lower())  # None: a letter that only folds to one of ours
        if form is None or form.name in done:
            continue
        code = code or CodeSpans(text)
        if code.holds(found.start()):
            continue
        place = _place(text, found.start(), found.end(), form, model=model)
        if place.acts:
            done.add(form.name)  # the rest of this name is text
        yield place


def _place(text: str, start: int, end: int, form: DirectiveForm, model: Callable[[str], bool]) -> _Seen:
    """What stands at `start`: with a known argument, bare, or with a word nobody knows."""
    at = skip_pattern(_GAP, text, end)
    bare = end + 1 if text.startswith(":", end) else end
    if form.takes == "nothing":
        return _Seen(Directive(form.name), start, bare, False)
    if form.takes == "options":
        return _options(text, start, at, bare, form=form)
    if form.takes == "model":
        return _model(text, start, at, bare, model=model)
    word = _WORD.match(text, at)
    if word is None:
        return _Seen(Directive(form.name), start, bare, False)
    second = _SECOND.match(text, word.end()) if form.phrases else None
    if second and (word[0].lower(), second[1].lower()) in form.phrases:
        return _Seen(Directive(form.name, text[at : second.end()]), start, second.end(), True)
    low = _FLAT.sub("", word[0].lower())
    if low in form.known:
        return _Seen(Directive(form.name, word[0]), start, word.end(), True)
    if low in _SESSION_WORDS:
        return _Seen(Directive(form.name, word[0]), start, word.end(), False)
    return _Seen(Directive(form.name), start, bare, False)


def _model(text: str, start: int, at: int, bare: int, model: Callable[[str], bool]) -> _Seen:
    word = _MODEL.match(text, at)
    raw = word[0].rstrip(".:") if word else ""
    if not raw or not _ends(text, at + len(raw)):
        return _Seen(Directive("model"), start, bare, False)
    return _Seen(Directive("model", raw), start, at + len(raw), model(raw))


def _ends(text: str, at: int) -> bool:
    return at >= len(text) or text[at].isspace() or text[at] in ",.;:!?)"


def _options(text: str, start: int, at: int, bare: int, form: DirectiveForm) -> _Seen:
    """A mode (where the form has some) and key=value pairs, in any order."""
    raw: str | None = None
    pairs: dict[str, str] = {}
    end, alone = bare, False
    while True:
        pair = _OPTION.match(text, at)
        if pair and pair[1].lower() in form.options and pair[1].lower() not in pairs:
            pairs[pair[1].lower()] = pair[2]
            at = end = pair.end()
            continue
        word = _WORD.match(text, skip_pattern(_GAP, text, at))
        low = _FLAT.sub("", word[0].lower()) if word else ""
        if word is None or raw is not None or not (low in form.known or low in _SESSION_WORDS):
            break
        raw, alone = word[0], low not in form.known
        at = end = word.end()
    acts = bool(pairs or (raw and not alone))
    return _Seen(Directive(form.name, raw, tuple(pairs.items())), start, end, acts)


def _only(text: str, seen: list[_Seen]) -> list[_Seen] | None:
    """The directives of a message that holds nothing else, or None."""
    first: dict[str, _Seen] = {}
    at = 0
    for index, place in enumerate(seen):
        if text[at : place.start].strip(_NOTHING) or place.directive.name in first:
            return None
        stop = seen[index + 1].start if index + 1 < len(seen) else len(text)
        if not place.acts and place.directive.raw is None and not place.directive.options:
            place = _unknown(text, place, stop)
        first[place.directive.name] = place
        at = place.end
    return None if text[at:].strip(_NOTHING) else list(first.values())


def _unknown(text: str, place: _Seen, stop: int) -> _Seen:
    """A bare directive with the word behind it, if there is one before `stop`."""
    at = skip_pattern(_GAP, text, place.end)
    word = _ANY.match(text, at, stop)
    raw = word[0].rstrip(_NOTHING) if word else ""
    if not raw or DIRECTIVE_BY_NAME[place.directive.name].takes == "nothing":
        return place
    return _Seen(Directive(place.directive.name, raw, known=False), place.start, at + len(raw), False)


def _without(text: str, places: list[_Seen]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text minus the directives and the white space that was theirs: what set them apart on their line, and
    the line itself if nothing else is on it."""
    cuts: list[tuple[int, int]] = []
    at = 0
    for place in places:
        start, end = place.start, place.end
        left = start
        while left > at and text[left - 1] in _BLANKS:
            left -= 1
        head = (left == 0 or text[left - 1] == "\n") if left > at else _fresh(text, cuts, at)
        tail = _LINE.match(text, end)
        if head and tail:
            start, end = left, tail.end()
            if end == len(text) and left > at and not text.endswith("\n", 0, end):
                start = left - (2 if text.endswith("\r\n", 0, left) else 1)  # the last line: the break before it
        elif head:
            while end < len(text) and text[end] in _BLANKS:
                end += 1
        elif tail:
            start, end = left, end + len(tail[0].rstrip("\r\n"))
        elif start > at:
            start -= 1
        cuts.append((start, end))
        at = end
    edges = [0, *(edge for cut in cuts for edge in cut), len(text)]
    return "".join(text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)), tuple(cuts)


def _fresh(text: str, cuts: list[tuple[int, int]], at: int) -> bool:
    """Is everything before `at` on its line cut away?"""
    while cuts and cuts[-1][1] == at:
        at = cuts[-1][0]
        cuts = cuts[:-1]
    return at == 0 or text[at - 1] == "\n"


def read_prompt(text: str) -> tuple[str, InlineDirectives]:
    """A configured prompt: without its directives, and what those ask; also of one that holds nothing else."""
    parsed = parse_directives(text)
    return parsed.rest, collect_inline_options(msgspec.structs.replace(parsed, only=False))


def collect_inline_options(parsed: ParsedDirectives) -> InlineDirectives:
    """What the directives of a message with other text ask for, valid for that message only: thinking and model
    as typed, fast, verbose, trace, reasoning, elevated and queue as canonical words."""
    asked: dict[str, str | None] = {}
    for directive in () if parsed.only else parsed.directives:
        name, raw = directive.name, directive.raw
        typed = {"think": "thinking", "model": "model"}.get(name)
        asked[typed or name] = raw if typed else find_meaning(DIRECTIVE_BY_NAME[name].known, raw)
    meant = {name: value for name, value in asked.items() if value}
    return InlineDirectives(**meant) if meant else NO_INLINE

"""Text of an answer, piece by piece -> what may be shown now; at the end, the calls that were in the rest.

A machine without I/O: `feed`, `close`. From the first place where a call may begin, everything is held until the
end; the same text gives the same result however it is cut. What is no call comes out unchanged. Code in fenced
blocks, thoughts in `<think>` and marks in `back quotes` are not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TypeAlias

from palinurus.core.calls import forms
from palinurus.patterns import compile_late

MAX_HELD = 1_000_000  # characters; a longer rest is taken as text
WINDOW = 4096  # characters within which an opening must show what it is
MAX_TRIES = 64  # openings that turn out to be none, before the rest is taken as text

AnswerSegment: TypeAlias = str | forms.TextCall

_MARKS = (*forms.MARKED_FORMS, "<think>", "<thinking>")
_OPEN = compile_late(
    r"(?<!`)(?P<mark><tool_call>|<tools>|<function(?:=| name=)|<\|python_tag\|>|\[TOOL_CALLS\])"
    r"|(?<!`)(?P<think><think(?:ing)?>)"
    r"|(?<=\n)[ \t]{0,80}(?:(?P<fence>`{3,32}|~{3,32})|(?P<bare>[{\[]))"
)
_SOON = compile_late(r"[<\[\n`~{]")
_LINE = compile_late(r"[ \t]{0,80}(?:`{0,32}|~{0,32})\Z")
_END_LINE = compile_late(r"\n[ \t]*(?:(?:`+|~+)[ \t]*)?\Z")
_CLOSE_THINK = compile_late(r"</think(?:ing)?>")
_WORD = compile_late(r"[\w.-]*")
_HEADS = frozenset((*forms.NAME_KEYS, *forms.ARGUMENT_KEYS, *forms.EXTRA_KEYS))
_GLUE = " \t\r\n;,"


class TextCallScanner:
    """One answer. `feed` returns text to show; `close` returns the rest, texts and calls in order."""

    def __init__(self, tools: forms.CallableTools) -> None:
        self._tools = tools
        self._before = "\n"  # the character before `_text`
        self._text = ""  # not decided yet; short
        self._until: re.Pattern[str] | None = None  # inside a block that is not looked at: what ends it
        self._held: list[str] | None = None  # the pieces since a call may have begun

    def feed(self, piece: str) -> str:
        """What of the text so far can be shown."""
        if self._held is not None:
            self._held.append(piece)
            return ""
        if not self._text and self._until is None and self._before != "\n" and not _SOON.search(piece):
            self._before = piece[-1:] or self._before
            return piece
        self._text += piece
        out: list[str] = []
        while self._step(out):
            pass
        return "".join(out)

    def close(self) -> list[AnswerSegment]:
        """The rest of the answer. Whitespace around calls is dropped, all other text is there."""
        rest = "".join(self._held) if self._held is not None else self._text
        if self._held is None or len(rest) > MAX_HELD:
            return [rest] if rest else []
        return _settled(_segments(rest, self._before, self._tools))

    @property
    def holding(self) -> bool:
        """May a call have begun?"""
        return self._held is not None

    def held(self) -> str:
        """Everything that has not been shown, as it came; the answer ends otherwise than with `close`."""
        rest = "".join(self._held) if self._held is not None else self._text
        self._held, self._text = None, ""
        return rest

    def _step(self, out: list[str]) -> bool:
        """Decide about the next place of interest. False when more text is needed."""
        if self._until is not None:
            return self._skip(out)
        found, verdict = _opening(self._before + self._text, 1, self._tools)
        if found is None:
            self._release(out, _safe(self._before + self._text) - 1)
            return False
        at = found.start() - 1
        if verdict is None:
            self._release(out, at)
            return False
        if verdict and found.lastgroup != "think":
            self._release(out, at)
            self._held = [self._text]
            self._text = ""
            return False
        self._until = _CLOSE_THINK if found.lastgroup == "think" else _closing(found)
        self._release(out, found.end() - 1)
        return True

    def _skip(self, out: list[str]) -> bool:
        assert self._until is not None
        ended = self._until.search(self._before + self._text, 0)
        if ended is None:
            # The end mark may be cut in two.
            line = _END_LINE.search(self._before + self._text)
            thought = self._until is _CLOSE_THINK
            self._release(out, len(self._text) - 10 if thought else line.start() - 1 if line else len(self._text))
            return False
        self._until = None
        self._release(out, max(0, ended.end() - 1))
        return bool(self._text)

    def _release(self, out: list[str], count: int) -> None:
        if count > 0:
            out.append(self._text[:count])
            self._before, self._text = self._text[count - 1], self._text[count:]


def _closing(found: re.Match[str]) -> re.Pattern[str]:
    """What ends a fenced block: a line of at least as many of the same character."""
    fence = found.group("fence")
    return re.compile(rf"\n[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*(?=\n)")


def _opening(
    text: str, at: int, tools: forms.CallableTools, *, whole: bool = False
) -> tuple[re.Match[str] | None, bool | None]:
    """The next opening from `at` on, and whether a call may begin there; None: it depends on what comes.

    Bare brackets that begin nothing are passed over; a fenced block that holds no call is returned with False.
    """
    while (found := _OPEN.search(text, at)) is not None:
        kind = found.lastgroup
        if kind in ("mark", "think"):
            return found, True
        if kind == "fence":
            return found, _block(text, found, tools, whole)
        start = found.start("bare")
        verdict = may_begin_call(text[start : start + WINDOW], tools.schemas)
        if verdict is not False:
            return found, verdict if verdict or not whole else True
        # An indented [TOOL_CALLS] is found from its bracket on.
        at = start if start > found.start() else found.end()
    return None, None


def _block(text: str, found: re.Match[str], tools: forms.CallableTools, whole: bool) -> bool | None:
    """May the fenced block that opens here hold a call?"""
    line, newline, inside = text[found.end() : found.end() + WINDOW].partition("\n")
    if not newline:
        return False if whole or len(line) == WINDOW or (line.strip() and not _language(line)) else None
    if not _language(line, complete=True):
        return False
    full = len(line) + 1 + len(inside) == WINDOW
    inside = inside.lstrip()
    if not inside:
        return False if whole or full else None
    for mark in forms.MARKED_FORMS:
        if inside.startswith(mark):
            return True
        if mark.startswith(inside) and not whole and not full:
            return None
    if inside[0] not in "[{":
        return False
    verdict = may_begin_call(inside, tools.schemas)
    return False if verdict is None and full else verdict


def _language(line: str, complete: bool = False) -> bool:
    word = line.strip().lower()
    return word in forms.FENCE_LANGUAGES if complete else any(known.startswith(word) for known in forms.FENCE_LANGUAGES)


def may_begin_call(text: str, names: Collection[str]) -> bool | None:
    """Can `text`, which starts with a bracket, be the beginning of a bare call? None: too short to tell."""
    verdict = _begins(text, names)
    return False if verdict is None and len(text) >= WINDOW else verdict


def _begins(text: str, names: Collection[str]) -> bool | None:
    inner = text[1:].lstrip()
    if text[0] == "[" and inner[:1] not in ("{", ""):
        word = _WORD.match(inner).group()  # type: ignore[union-attr]
        if len(word) == len(inner):
            return None if any(name.startswith(word) for name in names) else False
        return word in names and inner[len(word)] == "("
    if text[0] == "[" or (text.startswith("{{") and not text.startswith("{{{")):
        return _begins(inner, names) if inner else None
    if not inner:
        return None
    key, rest = _word(inner)
    if rest is None:
        return None if any(head.startswith(key) for head in _HEADS) else False
    rest = rest.lstrip()
    if key not in _HEADS or (rest and rest[0] not in ":="):
        return False
    value = rest[1:].lstrip()
    if key not in forms.NAME_KEYS or value[:1] == "{":
        return True if rest else None
    if not value:
        return None
    if value[0] not in "\"'":
        return False
    name, rest = _word(value)
    return name in names if rest is not None else None if any(n.startswith(name) for n in names) else False


def _word(text: str) -> tuple[str, str | None]:
    """A quoted or bare word and what follows it; None when the text ends inside the word."""
    if text[0] in "\"'":
        end = text.find(text[0], 1)
        return (text[1:], None) if end < 0 else (text[1:end], text[end + 1 :])
    word = _WORD.match(text).group()  # type: ignore[union-attr]
    return word, text[len(word) :] or None


def _safe(text: str) -> int:
    """How much of a text without openings can go: all but what may become one."""
    line = text.rfind("\n")
    if line >= 0 and _LINE.match(text, line + 1):
        return max(1, line + 1)
    for mark in _MARKS:
        for size in range(min(len(mark) - 1, len(text) - 1), 0, -1):
            if text.endswith(mark[:size]):
                return len(text) - size
    return len(text)


# --- the rest, read whole --------------------------------------------------------------------------------------


class _Bare(str):
    """The text of bare calls: what they are again if something follows them."""

    calls: tuple[forms.TextCall, ...] = ()
    sure = False  # in a fence, with arguments that fit the tool: a call whatever follows


def _segments(text: str, before: str, tools: forms.CallableTools) -> list[str | tuple[forms.TextCall, ...]]:
    """Texts, marked calls (tuples) and bare calls (`_Bare`) in order."""
    text = before + text
    out: list[str | tuple[forms.TextCall, ...]] = []
    at = start = 1
    for _ in range(MAX_TRIES):
        found, verdict = _opening(text, at, tools, whole=True)
        if found is None:
            break
        if not verdict or found.lastgroup == "think":
            end = (_CLOSE_THINK if found.lastgroup == "think" else _closing(found)).search(text, found.end())
            if end is None:
                break
            at = end.end()
            continue
        form = _form(text, found, tools)
        if form is None:
            at = found.end()
            continue
        if found.start() > start:
            out.append(text[start : found.start()])
        if found.lastgroup == "mark":
            out.append(form.calls)
        else:
            piece = _Bare(text[found.start() : form.end])
            piece.calls = form.calls
            piece.sure = found.lastgroup == "fence" and all(map(tools.fits, form.calls))
            out.append(piece)
        at = start = form.end
    if start < len(text):
        out.append(text[start:])
    return out


def _form(text: str, found: re.Match[str], tools: forms.CallableTools) -> forms.TextCallMatch | None:
    kind = found.lastgroup
    if kind == "mark":
        return forms.parse_marked(text, found.start(), found.group("mark"), tools)
    if kind == "bare":
        return forms.parse_bare(text, found.start("bare"), tools)
    return forms.parse_fenced(text, text.find("\n", found.end()) + 1 or len(text), tools)


def _settled(parts: list[str | tuple[forms.TextCall, ...]]) -> list[AnswerSegment]:
    """Bare calls with text after them were no calls, unless they are sure to be. Text around loses empty lines."""
    last = max((i for i, p in enumerate(parts) if type(p) is str and p.strip(_GLUE)), default=-1)
    out: list[AnswerSegment] = []
    for number, part in enumerate(parts):
        if isinstance(part, _Bare) and (part.sure or number > last):
            out.extend(part.calls)
        elif isinstance(part, tuple):
            out.extend(part)
        else:
            out.append(str(part))
    if not any(isinstance(s, forms.TextCall) for s in out):
        return ["".join(s for s in out if isinstance(s, str))]
    return [s for s in out if isinstance(s, forms.TextCall) or s.strip(_GLUE)]

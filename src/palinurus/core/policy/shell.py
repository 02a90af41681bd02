"""A command line -> the argv of each simple command in it, or the reason why nobody can say. Pure.

The grammar is strict on purpose: what is understood here means the same to every POSIX shell, letter by letter.
All else is "compound": it may be run, but no rule is ever applied to it.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

from palinurus.core.hidden import escape_character, needs_escape
from palinurus.patterns import compile_late

MAX_WORDS = 512

_BARE = compile_late(r"[A-Za-z0-9_@%+=:,./-]+", re.ASCII)
_SINGLE = compile_late(r"'([^'\n\r\0]*)'")
_DOUBLE = compile_late(r'"([^"$`\\!\n\r\0]*)"')
_OPERATOR = compile_late(r"&&|\|\||;|\|")
_ASSIGNS = compile_late(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)
_WORD = compile_late(r"\w+")
_WORDS = "if then else elif fi do done case esac while until for in { } ! [[ ]] function select time coproc"
_RESERVED = frozenset(_WORDS.split())
_SAID: dict[str, str] = {
    "$": "a variable or substitution ($)",
    "`": "a command substitution (`)",
    "\\": "a backslash",
    "!": "a history mark (!)",
    "&": "a background job (&)",
    "~": "a home directory (~)",
    "#": "a comment (#)",
    **{letter: f"a redirection ({letter})" for letter in "<>"},
    **{letter: f"a file pattern ({letter})" for letter in "*?["},
    **dict.fromkeys("()", "a subshell"),
    **dict.fromkeys("{}", "braces"),
    **dict.fromkeys("\n\r", "several lines"),
    **dict.fromkeys("'\"", "an open quote"),
}


class ShellSegment(msgspec.Struct, frozen=True):
    """One simple command. `joined`: the operator before it, "" for the first."""

    argv: tuple[str, ...]
    joined: str = ""


class ParsedCommand(msgspec.Struct, frozen=True):
    """`compound` says why the command is not understood exactly; then there are no segments."""

    segments: tuple[ShellSegment, ...]
    compound: str = ""


def parse_command(command: str) -> ParsedCommand:
    """What the shell would run. Never raises."""
    found: list[ShellSegment] = []
    words: list[str] = []
    joined = ""
    at, end = 0, len(command)
    while at < end:
        letter = command[at]
        if letter in " \t":
            at += 1
            continue
        operator = _OPERATOR.match(command, at)
        if operator is not None:
            if not words:
                return _compound("an operator without a command before it")
            found.append(ShellSegment(tuple(words), joined))
            words, joined, at = [], operator[0], operator.end()
            continue
        word, at, problem = _word(command, at)
        if problem:
            return _compound(problem)
        words.append(word)
        if len(words) + len(found) > MAX_WORDS:
            return _compound(f"more than {MAX_WORDS} words")
    if not words:
        return _compound("nothing after the last operator" if found else "no command")
    found.append(ShellSegment(tuple(words), joined))
    for segment in found:
        first = segment.argv[0]
        if not first or first in _RESERVED or _ASSIGNS.match(first):
            return _compound("a variable assignment" if "=" in first else f"a word of the shell's own ({first})")
    return ParsedCommand(tuple(found))


def _word(command: str, at: int) -> tuple[str, int, str]:
    """One word made of bare and quoted parts, where it ends, and what in it is not understood."""
    parts: list[str] = []
    while at < len(command) and command[at] not in " \t;|":
        for pattern in (_BARE, _SINGLE, _DOUBLE):
            match = pattern.match(command, at)
            if match is not None:
                parts.append(match[pattern.groups])
                at = match.end()
                break
        else:
            if command[at] == "&" and command.startswith("&&", at):
                break
            letter = _culprit(command, at)
            return "", at, _SAID.get(letter, f"the character {letter!r} outside quotes")
    return "".join(parts), at, ""


def _culprit(command: str, at: int) -> str:
    """The letter to blame: in double quotes it is the first one that means something there."""
    if command[at] == '"':
        inner = re.match(r'"[^"$`\\!\n\r\0]*([$`\\!\n\r\0])', command[at:])
        return inner[1] if inner else '"'
    if command[at] == "'":
        inner = re.match(r"'[^'\n\r\0]*([\n\r\0])", command[at:])
        return inner[1] if inner else "'"
    return command[at]


def _compound(reason: str) -> ParsedCommand:
    return ParsedCommand((), reason)


def quote_segments(segments: tuple[ShellSegment, ...]) -> str:
    """The command line that means exactly these segments to any POSIX shell."""
    return " ".join(
        part
        for segment in segments
        for part in (segment.joined, *("'" + word.replace("'", "'\\''") + "'" for word in segment.argv))
        if part
    )


def find_deceptive_text(text: str) -> str:
    """What in the text a person cannot see or would mistake for something else; "" if nothing.

    Line breaks and tabs are ordinary; words that mix letters of look-alike scripts are not.
    """
    if text.isascii() and text.isprintable():
        return ""
    for letter in text:
        if letter not in "\n\t" and needs_escape(letter):
            return f"a hidden character ({escape_character(letter)})"
    for word in _WORD.findall(text) if not text.isascii() else ():
        if not word.isascii() and _mixed(word):
            return f"look-alike letters ({''.join(c if c.isascii() else escape_character(c) for c in word[:40])})"
    return ""


def _mixed(word: str) -> bool:
    """Latin letters beside Greek or Cyrillic ones, or letters that are others in disguise (fullwidth, mathematical)."""
    plain = any(c.isascii() and c.isalpha() for c in word)
    names = {unicodedata.name(c, "").split(" ", 1)[0] for c in word if not c.isascii() and c.isalpha()}
    if plain and names & {"CYRILLIC", "GREEK", "CHEROKEE", "ARMENIAN", "COPTIC", "LISU"}:
        return True
    return any(
        c.isalpha() and unicodedata.normalize("NFKC", c).isascii() for c in word if not c.isascii() and c not in "ªº"
    )

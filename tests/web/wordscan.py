"""What people read of the page, found in its source: texts of `tr`, `rich` and `plural`, and words that are none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[2] / "web" / "src"
_PLURAL = re.compile(r'plural\([^"]*?"((?:[^"\\]|\\.)*)", "((?:[^"\\]|\\.)*)"\)')
_TAG = re.compile(r"<!--.*?-->|<(/?)([a-z][\w-]*)((?:[^>\"]|\"[^\"]*\")*)>", re.S)
_SPOKEN = re.compile(r'(?:aria-label|title|placeholder|label|shown|alt|aria-valuetext)="([^"]*)"')
_SKIPPED = ("code", "kbd", "pre")


class Template(NamedTuple):
    """A template literal: its tag, and its texts with \\0 where something is put in."""

    tag: str
    text: str
    line: int


def read_templates(code: str) -> Iterator[Template]:
    """All of them, inner ones too."""
    stack: list[tuple[str, list[str], int]] = []  # templates around here
    depth: list[int] = []  # braces that are open in the expression of each
    at, before = 0, ""
    while at < len(code):
        inside = len(stack) > len(depth)  # in the text of a template, not in an expression
        char = code[at]
        if inside and char == "\\":
            stack[-1][1].append(code[at : at + 2])
            at += 2
        elif inside and char == "`":
            tag, parts, line = stack.pop()
            yield Template(tag, "".join(parts), line)
            at, before = at + 1, '"'
        elif inside and code.startswith("${", at):
            stack[-1][1].append("\0")
            depth.append(0)
            at, before = at + 2, "("
        elif inside:
            stack[-1][1].append(char)
            at += 1
        else:
            at, before = _step(code, at, before, stack, depth)


def _step(
    code: str, at: int, before: str, stack: list[tuple[str, list[str], int]], depth: list[int]
) -> tuple[int, str]:
    """One token of code."""
    char = code[at]
    if code.startswith("//", at):
        return code.find("\n", at), before
    if code.startswith("/*", at):
        return code.index("*/", at) + 2, before
    if char in "\"'":
        while code[at + 1] != char:
            at += 2 if code[at + 1] == "\\" else 1
        return at + 2, '"'
    if char == "/" and (before in "(,=:[!&|?{};+" or re.search(r"\breturn\s*$", code[max(0, at - 20) : at])):
        found = re.compile(r"/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\]|\\.)*\])+/[a-z]*").match(code, at)
        if found:
            return found.end(), '"'
    if char == "`":
        name = re.search(r"[\w$]+$", code[max(0, at - 20) : at])
        stack.append((name[0] if name else "", [], code.count("\n", 0, at) + 1))
        return at + 1, before
    if char == "{" and depth:
        depth[-1] += 1
    if char == "}" and depth:
        if not depth[-1]:
            depth.pop()
            return at + 1, '"'
        depth[-1] -= 1
    return at + 1, before if char.isspace() else char


def list_keys(code: str) -> Iterator[tuple[str, bool]]:
    """The key of each text, and whether it counts something."""
    for one in read_templates(code):
        if one.tag in ("tr", "rich"):
            text, numbers = one.text.replace("\\`", "`").replace("\\n", "\n"), iter(range(10))
            yield re.sub("\0", lambda _, numbers=numbers: f"{{{next(numbers)}}}", text), False  # type: ignore[misc]
    for found in _PLURAL.finditer(code):
        yield found[2], True


def list_unspoken(code: str) -> Iterator[tuple[int, str]]:
    """Words in templates that nobody can translate: line and text."""
    for one in read_templates(code):
        if one.tag != "html":
            continue
        for words in _SPOKEN.findall(one.text):
            if re.search(r"[A-Za-z]{2}", words) and not words.startswith("http"):
                yield one.line, words
        inside, at = list[str](), 0
        for tag in [*_TAG.finditer(one.text), None]:
            words = one.text[at : tag.start() if tag else None]
            if re.search(r"[A-Za-z]{2}", re.sub(r"&\w+;", "", words)) and not (inside and inside[-1] in _SKIPPED):
                yield one.line, words.strip()
            if tag is None or not tag[2]:
                continue
            at = tag.end()
            if tag[1]:
                inside = inside[:-1]
            elif tag[2] not in ("input", "img", "br") and not tag[3].endswith("/"):
                inside.append(tag[2])

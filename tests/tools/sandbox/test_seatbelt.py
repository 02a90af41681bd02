"""The profile for macOS: its form and what its rules say. Nobody has tried it on a Mac."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.types.sandbox import DEFAULT_PORTS, SandboxKind, SandboxSpec
from palinurus.services.containment import name_means
from palinurus.tools.sandbox.launch import prepare_launch
from palinurus.tools.sandbox.probe import SandboxSupport, list_gaps
from palinurus.tools.sandbox.seatbelt import wrap_seatbelt, write_profile

# Operations and filters of the language, by its public descriptions (Apple's own profiles in /System/Library/Sandbox).
OPERATIONS = {
    "default", "process-fork", "process-exec", "process-info*", "signal", "sysctl-read", "mach-lookup", "file-read*",
    "file-read-metadata", "file-write*", "file-ioctl", "network*", "network-outbound", "network-inbound",
    "network-bind",
}  # fmt: skip
FILTERS = {"literal": 1, "subpath": 1, "global-name": 1, "target": 1, "remote": (1, 2), "local": 2}
_TOKEN = re.compile(r'\s*(?:(\()|(\))|"((?:[^"\\]|\\.)*)"|([^\s()"]+))', re.S)
CELL = SandboxSpec(
    kind="seatbelt", read=("/usr", "/bin"), write=("/Users/me/work", "/private/tmp/cell"), connect=DEFAULT_PORTS,
    hide=("/Users/me/work/memory",),
)  # fmt: skip


def parse(text: str) -> list[Any]:
    """The expressions; strings are tuples of one. Fails where brackets or quotes do not end."""
    stack: list[list[Any]] = [[]]
    at = 0
    while text[at:].strip():
        found = _TOKEN.match(text, at)
        assert found, text[at : at + 40]
        at = found.end()
        if found[1]:
            stack.append([])
        elif found[2]:
            done = stack.pop()
            stack[-1].append(done)
        else:
            word = found[4]
            stack[-1].append(word if word is not None else (re.sub(r"\\(.)", r"\1", found[3]),))
    assert len(stack) == 1
    return stack[0]


def lint(text: str) -> list[Any]:
    """The rules. Every one is known, and its filters have what they need."""
    head, *rules = parse(text)
    assert head == ["version", "1"] and rules[0] == ["deny", "default"]
    for action, *rest in rules:
        words = [one for one in rest if isinstance(one, str)]
        assert action in ("allow", "deny") and words and set(words) <= OPERATIONS, (action, words)
        for name, *values in (one for one in rest if isinstance(one, list)):
            count = FILTERS[name]
            assert len(values) in (count if isinstance(count, tuple) else (count,)), (name, values)
            if name in ("remote", "local") and len(values) == 2:
                assert values[0] in ("tcp", "ip") and re.fullmatch(r"(?:\*|localhost):(?:\*|\d{1,5})", values[1][0])
    return rules


def judge(rules: list[Any], operation: str, path: str) -> bool:
    """What the rules say about a file: the last that fits decides."""
    verdict = False
    for action, *rest in rules:
        words = [one for one in rest if isinstance(one, str)]
        filters = [one for one in rest if isinstance(one, list)]
        meant = any(word in ("default", operation) for word in words)
        named = [(one[0], one[1][0]) for one in filters if one[0] in ("literal", "subpath")]
        fits = not filters or any(path == v or (n == "subpath" and path.startswith(f"{v}/")) for n, v in named)
        if meant and fits:
            verdict = action == "allow"
    return verdict


def test_the_form_is_sound_and_the_rules_are_those_of_the_sandbox() -> None:
    rules = lint(write_profile(CELL))
    for operation, path, allowed in (
        ("file-read*", "/usr/bin/git", True), ("file-write*", "/usr/bin/git", False),
        ("file-read*", "/Users/me/work/a.py", True), ("file-write*", "/Users/me/work/a.py", True),
        ("file-read*", "/Users/me/.ssh/id_rsa", False), ("file-write*", "/Users/me/.zshrc", False),
        ("file-read*", "/Users/me/workshop/a", False), ("process-exec", "/Users/me/evil", False),
        ("file-read*", "/Users/me/work/memory/x.md", False), ("file-write*", "/Users/me/work/memory/x.md", False),
    ):  # fmt: skip
        assert judge(rules, operation, path) is allowed, (operation, path)


def test_the_network_is_that_of_the_sandbox() -> None:
    text = write_profile(CELL)
    assert '(remote tcp "*:443")' in text and '"*:80"' not in text and "18789" not in text and '"*:*"' not in text
    assert "(deny network-outbound (remote unix-socket))" in text
    assert [r for r in lint(write_profile(SandboxSpec(kind="seatbelt", connect=()))) if "network" in str(r)] == [
        ["deny", "network*"]
    ]
    assert ["allow", "network-outbound", ["remote", "ip", ("*:*",)]] in lint(write_profile(SandboxSpec("seatbelt")))


@given(st.lists(st.text(min_size=1), max_size=4), st.lists(st.text(min_size=1), max_size=4))
def test_no_name_of_a_file_ends_a_rule(read: list[str], write: list[str]) -> None:
    """A folder called `")(allow default)` is a folder."""
    cell = SandboxSpec(kind="seatbelt", read=tuple(read), write=(*write, '/x")(allow default)("'), connect=())
    if all(path.isprintable() for path in (*read, *write)):
        rules = lint(write_profile(cell))
        assert ["allow", "default"] not in rules and judge(rules, "file-write*", '/x")(allow default)("')
    else:
        with pytest.raises(OSError, match="cannot stand"):
            write_profile(cell)


def test_it_is_for_macos_alone_chosen_by_nobody_and_said_to_be_untried() -> None:
    with pytest.raises(OSError, match="macOS"):
        prepare_launch(("true",), "/", {}, CELL)  # never a child outside it
    with pytest.raises(OSError, match="macOS"):
        wrap_seatbelt(("true",), CELL, platform="linux")
    assert SandboxSupport().best() == "none"
    kind: SandboxKind = "seatbelt"
    assert "never tried" in name_means(kind, SandboxSupport(landlock=7, seccomp=True))
    assert "without a Mac" in list_gaps(SandboxSupport(), kind)[0].what

"""The grammar against a real shell: what it claims to understand, /bin/sh understands the same way."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palinurus.core.policy.shell import ShellSegment, find_deceptive_text, parse_command, quote_segments

# Pieces of which hostile command lines are made; joined in any order they are mostly nonsense, and all must be safe.
PIECES = (
    *"abcXYZ019-_=:,./@%+^ \t'\"$`\\;&|<>(){}[]*?~#!\n\r",
    "''", '""', "' '", '" "', "$(", "${", "&&", "||", ";;", "|&", ">>", "<<", "2>", "--", "if", "a=b", "é", "\u00a0",
    "\u202e", "\u200b", "'a b'", '"a b"', "'$x'", '"$x"', "\\\n", "'\\''", '"\\""', "x y", " | ", " && ", " ; ", "%1",
)  # fmt: skip
NOISE = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n'"), max_size=8)
_WORD = st.one_of(
    st.from_regex(r"[A-Za-z0-9_@%+=:,./-]{1,8}", fullmatch=True),
    _TEXT.map(lambda text: f"'{text}'"),
    st.text("abc ;&|<>(){}[]*?~#'", max_size=8).map(lambda text: f'"{text}"'),
    st.sampled_from(("&& p", "; p", "| p", "&&p", ";p", "|p")),
)
WORDS = st.lists(st.lists(_WORD, min_size=1, max_size=2).map("".join), max_size=6).map(" ".join)
LINES = st.one_of(NOISE, WORDS)


@pytest.fixture(scope="module")
def printer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program that appends the number of its arguments and each of them to $OUT, zeros between. (A shell starts in a
    tenth of the time that Python takes, and this one starts hundreds of times.)"""
    folder = tmp_path_factory.mktemp("printer")
    script = folder / "p"
    script.write_text('#!/bin/sh\nprintf "%s\\0" "$#" "$@" >> "$OUT"\n')
    script.chmod(0o755)
    return script


def spoken(printer: Path, command: str) -> list[list[str]]:
    """What /bin/sh gives each `p` of the command as arguments."""
    out = printer.parent / "out"
    out.write_text("")
    env = {"OUT": str(out), "PATH": str(printer.parent)}
    subprocess.run(["/bin/sh", "-c", command], env=env, cwd=printer.parent, capture_output=True, timeout=90)
    told = iter(out.read_bytes().decode().split("\0")[:-1])
    return [[next(told) for _ in range(int(number))] for number in told]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=LINES)
def test_what_is_understood_means_the_same_to_a_real_shell(printer: Path, line: str) -> None:
    command = f"p {line}"
    parsed = parse_command(command)
    if parsed.compound or any(s.argv[0] != "p" for s in parsed.segments):
        return
    ran = [list(s.argv[1:]) for s in parsed.segments if s.joined != "||"]
    assert sorted(spoken(printer, command)) == sorted(ran)  # the parts of a pipe run side by side


@pytest.mark.torture
@settings(max_examples=3_000, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=LINES)
def test_three_thousand_lines(printer: Path, line: str) -> None:
    test_what_is_understood_means_the_same_to_a_real_shell.hypothesis.inner_test(printer, line)  # type: ignore[attr-defined]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0\r\n"), max_size=12), max_size=5))
def test_what_is_quoted_arrives_as_it_is(printer: Path, words: list[str]) -> None:
    line = quote_segments((ShellSegment(("p", *words)), ShellSegment(("p", "x"), "&&")))
    assert spoken(printer, line) == [words, ["x"]]


@given(st.text(max_size=60))
def test_nothing_makes_it_raise(text: str) -> None:
    parsed = parse_command(text)
    assert bool(parsed.compound) != bool(parsed.segments)
    assert isinstance(find_deceptive_text(text), str)


EXACT: list[tuple[str, list[tuple[str, ...]]]] = [
    ("ls", [("ls",)]),
    ("  ls\t-la  ", [("ls", "-la")]),
    ("echo 'a b' \"c d\" e'f'\"g\"", [("echo", "a b", "c d", "efg")]),
    ("echo '$HOME `x` * ? ~ # ! ;'", [("echo", "$HOME `x` * ? ~ # ! ;")]),
    ('git commit -m "fix; tests & more (all)"', [("git", "commit", "-m", "fix; tests & more (all)")]),
    ("echo ''", [("echo", "")]),
    ("cat a | wc -l && ls;pwd||true", [("cat", "a"), ("wc", "-l"), ("ls",), ("pwd",), ("true",)]),
    ("echo 'grüße'", [("echo", "grüße")]),
    ("x --a=b c:d,e@f%g+h", [("x", "--a=b", "c:d,e@f%g+h")]),
]


@pytest.mark.parametrize(("command", "argvs"), EXACT)
def test_simple_commands_are_taken_apart(command: str, argvs: list[tuple[str, ...]]) -> None:
    parsed = parse_command(command)
    assert [s.argv for s in parsed.segments] == argvs and not parsed.compound


COMPOUND = [
    "", "  ", "echo a\ntouch X", "echo a\rtouch X", "touch X # echo a", "echo $(touch X)", "echo `touch X`",
    "echo a >X", "echo a>X", "echo a 2>&1", "cat <x", "echo ${IFS}a", "echo $HOME", "echo *", "echo a?", "echo [a]",
    "e\\cho", "echo ~", "echo ~root", "sleep 9 &", "a & b", "a |& b", "a;;b", ";a", "a;", "a &&", "&& a", "| a",
    "(a)", "{ a; }", "! a", "if a", "then", "for x", "while a", "case a", "time a", "'if' a", "A=b", "A=b c",
    "A+=b c", "'A=b' c", "echo 'a", 'echo "a', 'echo "$a"', 'echo "`a`"', 'echo "\\$a"', 'echo "!a"', "echo 'a\nb'",
    'echo "a\nb"', "echo é", "echo\u00a0a", "echo a\\\nb", "echo {a,b}", "[[ a ]]", "echo a^b", "'' a", "function f",
    "echo $'a'", 'echo $"a"', "a\x0bb", "a\x00b",
]  # fmt: skip


@pytest.mark.parametrize("command", COMPOUND, ids=repr)
def test_all_else_is_compound_and_says_why(command: str) -> None:
    parsed = parse_command(command)
    assert parsed.segments == () and parsed.compound


ODD = {
    "bidi override": "cat a\u202etxt.sh", "isolate": "a\u2066b", "zero width": "c\u200bat x", "joiner": "a\u200db",
    "no-break space": "rm\u00a0-rf", "carriage return": "echo a\rrm b", "escape": "echo \x1b[2J", "backspace": "a\x08b",
    "line separator": "a\u2028b", "tag letter": "a\U000e0041", "variation": "a\U000e0101", "bom": "\ufeffls",
    "hangul filler": "a\u3164b", "braille blank": "a\u2800b", "soft hyphen": "a\u00adb", "private": "a\ue000",
    "unassigned": "a\u0378", "surrogate": "a\ud800", "cyrillic in cat": "c\u0430t x", "greek": "ec\u03bfh",
    "fullwidth": "\uff52\uff4d -rf", "mathematical": "\U0001d42bm x", "delete": "a\x7f", "next line": "a\x85b",
}  # fmt: skip


@pytest.mark.parametrize("text", ODD.values(), ids=ODD.keys())
def test_what_people_cannot_see_is_odd(text: str) -> None:
    assert find_deceptive_text(text)


@pytest.mark.parametrize(
    "text",
    ["ls -la", "echo 'grüße aus 東京'", "git commit -m 'Привет мир'", "echo ✔️ 🎉", "a\n\tb", "echo λ", "naïve café"],
)
def test_other_languages_are_not_odd(text: str) -> None:
    assert find_deceptive_text(text) == ""

"""Every verb of OpenClaw's command line (openclaw_verbs.txt: names only, of version 2026.9.6) is served, renamed, or
refused with a sentence that names ours. `python tests/cli/test_parity.py` writes docs/cli-parity.md."""

from __future__ import annotations

import re
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from pathlib import Path

import pytest

from palinurus.cli.gateway import daemon
from palinurus.cli.main import COMMANDS, main
from palinurus.cli.parity import find_verb_answer, read_table

VERBS = Path(__file__).with_name("openclaw_verbs.txt").read_text(encoding="utf-8").splitlines()
PAGE = Path(__file__).parents[2] / "docs" / "cli-parity.md"
HEAD = """# OpenClaw's command line, verb by verb

What becomes of `openclaw VERB` here, all {all} of version 2026.9.6: {served} are the same words, {renamed} have another
name (both work), {refused} are answered with a sentence (exit code 2). Made by `python tests/cli/test_parity.py`.

| OpenClaw | here |
|---|---|
"""


@cache
def read_help(words: tuple[str, ...]) -> str:
    """What `pal WORDS --help` prints; "" if there is no such thing."""
    told = StringIO()
    try:
        with redirect_stdout(told), redirect_stderr(StringIO()):
            main([*words, "--help"])
    except SystemExit:
        return told.getvalue()
    return ""


def is_served(words: tuple[str, ...]) -> bool:
    """Whether these are words of ours: a command, or a verb that the help of what is before it lists."""
    if len(words) == 1:
        return words[0] in COMMANDS
    return is_served(words[:-1]) and words[-1] in list_verbs(words[:-1])


@cache
def list_verbs(words: tuple[str, ...]) -> set[str]:
    if words == ("gateway",):
        return {*daemon.VERBS, "logs"}
    told = read_help(words)
    choices = {one for group in re.findall(r"\{([a-z,\s-]+)\}", told) for one in re.split(r"[,\s]+", group)}
    return choices | set(re.findall(r"^    ([a-z-]+)(?= {2,}|$)", told, re.MULTILINE))


def follow(verb: str) -> tuple[str, str]:
    """("served" | "renamed" | "refused" | "", our words or the sentence)."""
    words = tuple(verb.split())
    kind = "served"
    for _ in range(4):
        if is_served(words):
            return kind, " ".join(words)
        answer = find_verb_answer(list(words))
        if answer is None:
            return "", ""
        if not answer.ours:
            return "refused", answer.why
        kind, words = "renamed", answer.ours
    return "", "round and round"


def render_page() -> str:
    found = {verb: follow(verb) for verb in VERBS}
    counts = {kind: sum(1 for one, _ in found.values() if one == kind) for kind in ("served", "renamed", "refused")}
    rows: list[str] = []
    before = ("", "", "")
    for verb, (kind, text) in found.items():
        if kind == "refused" and verb.startswith(f"{before[0]} ") and before[1:] == (kind, text):
            continue  # the row above says the same of all below it
        if kind != "served":
            rows.append(f"| `{verb}` | {f'`pal {text}`' if kind == 'renamed' else text} |")
        before = (verb, kind, text) if not verb.startswith(f"{before[0]} ") or before[1:] != (kind, text) else before
    same = ", ".join(f"`{verb}`" for verb, (kind, _) in found.items() if kind == "served")
    return HEAD.format(all=len(VERBS), **counts) + "\n".join(rows) + f"\n\nThe same words: {same}.\n"


def test_every_verb_is_served_renamed_or_refused() -> None:
    assert [verb for verb in VERBS if not follow(verb)[0]] == []
    assert [why for kind, why in map(follow, VERBS) if kind == "refused" and not re.search(r"`pal |docs/", why)] == []


def test_every_row_is_about_a_verb_of_theirs() -> None:
    theirs = {" ".join(words[:n]) for words in map(str.split, VERBS) for n in (1, 2, 3)}
    assert {" ".join(row) for row in read_table()} - theirs == set()


@pytest.mark.parametrize("verb", [verb for verb in VERBS if " " not in verb or verb.split()[0] in COMMANDS])
def test_a_refused_verb_is_a_sentence_and_exit_code_2(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, why = follow(verb)
    if kind != "refused":
        return
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "home"))
    assert main(verb.split()) == 2
    assert capsys.readouterr().err == f"pal: {why}\n"


def test_a_renamed_verb_does_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "home"))
    assert main(["config", "file"]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "home" / "palinurus.json")
    assert main(["automations", "create", "--every", "1h", "--message", "hello"]) == 0
    assert main(["cron", "status"]) == 0 and "hello" in capsys.readouterr().out


def test_a_wrong_line_of_ours_is_what_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cron", "nonsense"]) == 64 and "there is no `pal cron nonsense`" in capsys.readouterr().err


def test_the_page_is_made_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_page(), "python tests/cli/test_parity.py writes it"


if __name__ == "__main__":
    sys.exit(0 * PAGE.write_text(render_page(), encoding="utf-8"))

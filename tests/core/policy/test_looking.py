"""Lines of `pal` that only look."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.cli.main import COMMANDS
from palinurus.core.policy.looking import FLAGS, LOOKING, VALUED, explain_refused_look, list_looks

SKILLS = Path(__file__).parents[3] / "src" / "palinurus" / "workspace" / "skills"


@pytest.mark.parametrize(
    "line",
    [
        *(line.removeprefix("pal ") for line in list_looks()),
        "status --json", "sessions --agent main", "usage --since 7d --by day",
        "config get agents.defaults.model --json",
        "usage --since=7d", "policy explain exec --agent=main",
    ],
)  # fmt: skip
def test_a_look(line: str) -> None:
    assert explain_refused_look(line.split()) == ""


@pytest.mark.parametrize(
    "line",
    [
        "", "chat", "agent -m hi", "gateway", "gateway stop", "config set a b", "config get a --reveal", "config",
        "doctor --fix", "doctor --ask", "sessions show main", "sessions export main -o x", "sessions --agent list show",
        "sessions --json show main", "models pull", "models --json pull", "cron add", "cron rm x", "memory search x",
        "devices list", "pairing list", "trace x", "status --home /x", "--home /x status",
        "skills install x", "extras add x",
        "mcp test x", "status x", "policy explain exec -o x",
    ],
)  # fmt: skip
def test_more_than_a_look(line: str) -> None:
    assert explain_refused_look(line.split())


def test_the_table_knows_only_commands_that_exist() -> None:
    assert set(LOOKING) < set(COMMANDS)
    assert explain_refused_look(["status"] * 17) and explain_refused_look(["config", "get", "x" * 2001])
    assert explain_refused_look(["config", "get", "a\x00b"])


WORDS = st.sampled_from(
    [*LOOKING, *sorted(FLAGS), *sorted(VALUED), "list", "get", "show", "set", "--fix", "--reveal", "x"]
)


@given(st.lists(WORDS, max_size=6))
def test_no_option_that_acts_gets_through_as_an_option(line: list[str]) -> None:
    if explain_refused_look(line) == "":
        values = [at for at, word in enumerate(line) if at and line[at - 1] in VALUED]
        acting = [at for at, word in enumerate(line) if word in ("--fix", "--reveal")]
        assert line[0] in LOOKING and set(acting) <= set(
            values
        )  # at most as the value of an option, where it is a word


def test_the_skills_that_come_with_it_send_the_agent_only_where_it_is_answered() -> None:
    """Three of them had it run `pal why` and its like, which end with 77; lines for the person say so."""
    asked = 0
    for file in sorted(SKILLS.glob("*/SKILL.md")):
        for row in file.read_text(encoding="utf-8").splitlines():
            for line in re.findall(r"`pal ([^`]+)`", row):
                asked += 1
                refused = "" if "--help" in line or "person" in row else explain_refused_look(line.split())
                assert not refused, f"{file.parent.name}: pal {line}: {refused}"
    assert asked > 10

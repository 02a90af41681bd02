from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.prompt.capabilities import write_skill_list
from palinurus.core.prompt.facts import PromptFacts, ToolFact
from palinurus.core.prompt.render import render_prompt
from palinurus.core.skills.offer import make_skill_commands, offer_skills
from palinurus.core.skills.skill import Skill


def made(count: int, text: str = "about it") -> list[Skill]:
    return [Skill(name=f"s{n:02}", description=text, path=f"/h/k/s{n:02}/SKILL.md") for n in range(count)]


@pytest.mark.seed(390, 391)
def test_the_prompt_lists_name_description_and_place() -> None:
    shown = offer_skills(made(1), "/h", 18_000, 150)
    read = ToolFact("read", "Read a file")
    text = render_prompt(PromptFacts(tools=(read,), skills=shown.skills, skills_left=shown.left)).text
    assert "<available_skills>" in text
    assert re.search(r"<name>s00</name>\s*<description>about it</description>\s*<location>~/k/s00/SKILL.md<", text)
    assert re.search(r"read its SKILL.md at <location> with the `read` tool", text)


@pytest.mark.seed(392)
def test_no_skill_no_section() -> None:
    hidden = Skill(name="a", description="d", model_invocable=False)
    shown = offer_skills([hidden], "/h", 18_000, 150)
    assert shown == ((), 0)
    assert "skills" not in render_prompt(PromptFacts(skills=shown.skills)).text.lower().split("## safety")[0]


@pytest.mark.seed(395)
@given(st.integers(0, 30), st.integers(0, 4000), st.integers(1, 40))
def test_the_budget_holds_whatever_it_is(count: int, chars: int, most: int) -> None:
    shown = offer_skills(made(count), "", chars, most)
    assert len(shown.skills) + shown.left == count
    assert len(shown.skills) <= most
    assert not shown.skills or len(write_skill_list(shown.skills)) <= chars
    assert [s.name for s in shown.skills] == [s.name for s in made(count)[: len(shown.skills)]]


@pytest.mark.seed(395)
def test_descriptions_go_before_skills_go() -> None:
    full = offer_skills(made(10, "x" * 200), "", 18_000, 150)
    short = offer_skills(made(10, "x" * 200), "", len(write_skill_list(full.skills)) - 1, 150)
    assert all(s.description for s in full.skills)
    assert (len(short.skills), short.left) == (10, 0)
    assert not any(s.description for s in short.skills)
    assert offer_skills(made(10), "", 300, 150).left > 0


def test_commands_have_plain_unique_names() -> None:
    names = ["Über Tool!", "a-b", "a_b", "status", "x" * 60, "x" * 61, "…"]
    skills = [Skill(name=name, description="d") for name in names] + [
        Skill(name="no", description="d", user_invocable=False)
    ]
    found = {command.skill: command.name for command in make_skill_commands(skills, ["status"])}
    assert found["a-b"] == "a_b"
    assert found["a_b"] == "a_b_2"
    assert found["status"] == "status_2"
    assert "no" not in found
    assert len(set(found.values())) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]{1,32}", name) for name in found.values())

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.prompt.kit import full, tools
from palinurus.core.prompt.capabilities import write_skill_list, write_skill_workshop, write_skills
from palinurus.core.prompt.facts import PromptFacts, SkillFact
from palinurus.core.prompt.render import render_prompt


@pytest.mark.seed(170, 202, 391)
def test_scan_read_follow() -> None:
    text = write_skills(full())
    assert "scan the descriptions" in text and "read its SKILL.md at <location> with the `read` tool" in text
    assert "follow it" in text and "most specific" in text and "read none" in text and "more than one" in text


@pytest.mark.seed(202, 392)
def test_no_skills_no_section() -> None:
    assert write_skills(PromptFacts()) == ""
    assert "## Skills" not in render_prompt(full(skills=())).text


@pytest.mark.seed(390)
def test_the_list_has_name_description_and_location() -> None:
    text = write_skill_list((SkillFact("b", "does b", "~/b/SKILL.md"), SkillFact("a", "does a", "~/a/SKILL.md")))
    assert text == (
        "<available_skills>\n  <skill>\n    <name>a</name>\n    <description>does a</description>\n"
        "    <location>~/a/SKILL.md</location>\n  </skill>\n  <skill>\n    <name>b</name>\n"
        "    <description>does b</description>\n    <location>~/b/SKILL.md</location>\n  </skill>\n</available_skills>"
    )
    assert "<description>" not in write_skill_list((SkillFact("a", "", "/a"),))


def test_what_was_left_out_is_counted() -> None:
    assert "3 more skills are installed" in write_skills(full(skills_left=3))


visible = st.text(st.characters(codec="utf-8", exclude_categories=("C",)), min_size=1, max_size=30).filter(str.strip)


@given(st.lists(st.tuples(visible, visible, visible), max_size=4))
def test_hostile_text_stays_inside_its_element(rows: list[tuple[str, str, str]]) -> None:
    tree = ET.fromstring(write_skill_list(SkillFact(*row) for row in rows))
    assert len(tree) == len(rows)
    for skill in tree:
        assert [child.tag for child in skill] == ["name", "description", "location"]


def test_the_workshop_needs_its_tool() -> None:
    assert write_skill_workshop(full()) and write_skill_workshop(PromptFacts(tools=tools("read"))) == ""

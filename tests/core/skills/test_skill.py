from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.skills.skill import BrokenSkill, Skill, SkillRequirements, parse_skill, strip_invisible

FULL = """---
name: pick
description: "Picks \\u200b things."
homepage: https://example.org
user-invocable: false
disable-model-invocation: true
command-dispatch: tool
command-tool: exec
allowed-tools: read, exec
metadata:
  {
    "openclaw":
      {
        "emoji": "x", "always": true, "os": ["linux"], "skillKey": "pk", "primaryEnv": "PICK_KEY",
        "requires": { "bins": ["a"], "anyBins": ["b", "c"], "env": ["PICK_KEY"], "config": ["x.y"] },
        "install": [{ "id": "brew", "kind": "brew", "formula": "pick" }],
      },
  }
---
Body
"""


def test_a_full_header() -> None:
    made = parse_skill(FULL, "/s/pick/SKILL.md", "pick", "workspace")
    assert made == Skill(
        name="pick",
        description="Picks things.",
        path="/s/pick/SKILL.md",
        source="workspace",
        key="pk",
        homepage="https://example.org",
        emoji="x",
        user_invocable=False,
        model_invocable=False,
        dispatch="exec",
        always=True,
        os=("linux",),
        primary_env="PICK_KEY",
        requires=SkillRequirements(("a",), ("b", "c"), ("PICK_KEY",), ("x.y",)),
        install=("brew: pick",),
        tools=("read", "exec"),
        warnings=("its name or description has hidden characters; they are left out",),
    )


def test_metadata_in_quotes_and_in_blocks_is_the_same() -> None:
    head = "---\nname: a\ndescription: d\nmetadata: "
    quoted = parse_skill(head + '\'{"openclaw":{"requires":{"bins":["x"]}}}\'\n---\n', "", "a")
    block = parse_skill(head + "\n  openclaw:\n    requires:\n      bins:\n        - x\n---\n", "", "a")
    assert isinstance(quoted, Skill)
    assert quoted == block
    assert quoted.requires.bins == ("x",)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("no header", "line 1"),
        ("---\nname: a\n---\n", "no description"),
        ("---\ndescription: a\n---\n", "no name"),
        ("---\nname: a\ndescription: d\nmetadata: [1]\n---\n", "metadata"),
        ("---\nname: a\ndescription: d\nmetadata: {openclaw: 3}\n---\n", "metadata.openclaw"),
    ],
)
def test_broken_ones_say_why(text: str, reason: str) -> None:
    found = parse_skill(text, "/p", "a", "extra")
    assert isinstance(found, BrokenSkill)
    assert reason in found.reason
    assert (found.name, found.path, found.source) == ("a", "/p", "extra")


def test_a_name_that_is_not_the_folders_is_used_and_reported() -> None:
    found = parse_skill("---\nname: Other Name\ndescription: d\n---\n", "/p", "folder")
    assert isinstance(found, Skill)
    assert any("'folder'" in warning for warning in found.warnings)


def test_hidden_characters_go_emoji_stay() -> None:
    assert strip_invisible("a\u202eb\U000e0041 👩\u200d💻\n c") == "ab 👩\u200d💻 c"


@given(st.recursive(st.none() | st.booleans() | st.text(max_size=5), lambda s: st.lists(s, max_size=3), max_leaves=5))
def test_odd_metadata_breaks_nothing(value: object) -> None:
    rendered = str(value).replace("None", "null")
    text = f"---\nname: a\ndescription: d\nmetadata: {{openclaw: {{install: {rendered}, requires: {rendered}}}}}\n---\n"
    assert isinstance(parse_skill(text, "", "a"), Skill | BrokenSkill)

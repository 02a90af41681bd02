from __future__ import annotations

import pytest

from core.prompt.kit import full
from palinurus.core.prompt.bootstrap import (
    write_bootstrap_notice,
    write_bootstrap_pending,
    write_dynamic_context,
    write_project_context,
    write_workspace_files,
)
from palinurus.core.prompt.facts import FileFact, PromptFacts, PromptOptions
from palinurus.core.prompt.render import render_prompt

NAMES = (
    "zz.md",
    "MEMORY.md",
    "BOOTSTRAP.md",
    "TOOLS.md",
    "USER.md",
    "IDENTITY.md",
    "SOUL.md",
    "AGENTS.md",
    "HEARTBEAT.md",
    "aa.md",
)


@pytest.mark.seed(185)
def test_files_stand_in_their_order_and_soul_is_embodied() -> None:
    text = write_project_context(PromptFacts(files=tuple(FileFact(name, f"text of {name}") for name in NAMES)))
    heads = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    assert heads == [
        "AGENTS.md",
        "SOUL.md",
        "IDENTITY.md",
        "USER.md",
        "TOOLS.md",
        "BOOTSTRAP.md",
        "MEMORY.md",
        "aa.md",
        "zz.md",
    ]
    assert "## SOUL.md\n\ntext of SOUL.md" in text and "embody its persona" in text
    assert "embody" not in write_project_context(PromptFacts(files=(FileFact("AGENTS.md", "x"),)))
    assert "embody" not in write_project_context(
        PromptFacts(files=(FileFact("SOUL.md", "[MISSING] Expected at: /w", missing=True),))
    )


def test_blank_files_and_no_files() -> None:
    assert write_project_context(PromptFacts(files=(FileFact("AGENTS.md", " \n"),))) == ""
    assert write_project_context(PromptFacts()) == "" and write_dynamic_context(PromptFacts()) == ""


def test_the_heartbeat_file_lies_below_the_boundary() -> None:
    prompt = render_prompt(full())
    assert "Check the mail." in prompt.volatile and "Check the mail." not in prompt.stable


@pytest.mark.seed(209)
def test_that_files_follow_is_announced() -> None:
    assert "includes them under Project Context" in write_workspace_files(full())
    assert "No workspace file" in write_workspace_files(PromptFacts())


def test_truncation_is_told_without_numbers_unless_switched_off() -> None:
    text = write_bootstrap_notice(full())
    assert "Shortened below: AGENTS.md" in text and not any(c.isdigit() for c in text)
    assert write_bootstrap_notice(full(knobs=PromptOptions(warn="off"))) == ""
    assert write_bootstrap_notice(PromptFacts(files=(FileFact("AGENTS.md", "x"),))) == ""


def test_the_first_conversation() -> None:
    assert (
        "BOOTSTRAP.md" in write_bootstrap_pending(PromptFacts(pending=True))
        and write_bootstrap_pending(PromptFacts()) == ""
    )

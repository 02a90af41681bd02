from __future__ import annotations

import pytest

from core.prompt.kit import full
from palinurus.core.prompt.facts import PromptContribution, find_family_contribution
from palinurus.core.prompt.render import render_prompt


@pytest.mark.parametrize("model", ["gpt-5", "gpt-5.5", "gpt-5-mini", "openai/gpt-5.2-codex", "GPT-5.4", "us.gpt-5"])
def test_the_family(model: str) -> None:
    assert find_family_contribution(model).prefix


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-50", "claude-opus", "mygpt-5", "", "gpt-oss-20b"])
def test_not_the_family(model: str) -> None:
    assert find_family_contribution(model) == PromptContribution()


@pytest.mark.seed(198)
def test_what_the_overlay_covers() -> None:
    text = find_family_contribution("gpt-5.5").prefix
    for tag in ("persona_latch", "execution_policy", "tool_discipline", "output_contract", "completion_contract"):
        assert f"<{tag}>" in text and f"</{tag}>" in text
    covered = {
        "persona latching": "Keep the persona",
        "concise output": "Be brief",
        "tool discipline": "Use a tool whenever",
        "parallel lookup": "make them together",
        "deliverable coverage": "every item asked for",
        "verification": "check the result against the request",
        "missing context": "If context is missing",
        "terminal hygiene": "leave no process behind",
    }
    assert [name for name, words in covered.items() if words not in text] == []
    prompt = render_prompt(full(contribution=find_family_contribution("gpt-5.5")))
    assert "<persona_latch>" in prompt.stable and "## Execution Bias" in prompt.stable


def test_friendly_unless_switched_off() -> None:
    assert "warm" in (find_family_contribution("gpt-5").interaction_style or "")
    assert find_family_contribution("gpt-5", friendly=False).interaction_style is None

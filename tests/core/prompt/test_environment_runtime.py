from __future__ import annotations

import pytest

from palinurus.core.prompt.environment import write_runtime
from palinurus.core.prompt.facts import PromptFacts


@pytest.mark.seed(188, 214)
def test_one_line_of_what_is_known() -> None:
    facts = PromptFacts(
        agent="main", host="box", repo="/r", os="Linux (x86_64)", python="3.11.7", model="p/m", default_model="p/d",
        shell="sh", channel="telegram", capabilities=(), level="low",
    )  # fmt: skip
    line = write_runtime(facts).splitlines()[1]
    assert line == (
        "Runtime: agent=main | host=box | repo=/r | os=Linux (x86_64) | python=3.11.7 | model=p/m | "
        "default_model=p/d | shell=sh | channel=telegram | capabilities=none | thinking=low"
    )
    assert write_runtime(PromptFacts()).splitlines()[1] == "Runtime: agent=main | thinking=off"


@pytest.mark.seed(215)
def test_reasoning_visibility() -> None:
    line = write_runtime(PromptFacts(reasoning="stream")).splitlines()[2]
    assert line.startswith("Reasoning: stream (hidden unless on or stream).") and "/reasoning" in line

from __future__ import annotations

import pytest

from palinurus.core.prompt.facts import Facts
from palinurus.core.prompt.runtime import runtime


@pytest.mark.seed(188, 214)
def test_one_line_of_what_is_known() -> None:
    facts = Facts(
        agent="main", host="box", repo="/r", os="Linux (x86_64)", python="3.11.7", model="p/m", default_model="p/d",
        shell="sh", channel="telegram", capabilities=(), level="low",
    )  # fmt: skip
    line = runtime(facts).splitlines()[1]
    assert line == (
        "Runtime: agent=main | host=box | repo=/r | os=Linux (x86_64) | python=3.11.7 | model=p/m | "
        "default_model=p/d | shell=sh | channel=telegram | capabilities=none | thinking=low"
    )
    assert runtime(Facts()).splitlines()[1] == "Runtime: agent=main | thinking=off"


@pytest.mark.seed(215)
def test_reasoning_visibility() -> None:
    line = runtime(Facts(reasoning="stream")).splitlines()[2]
    assert line.startswith("Reasoning: stream (hidden unless on or stream).") and "/reasoning" in line

"""A model for a tool server: which one, and what it is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flow.test_app import settings
from palinurus.core.types.sampling import SamplingRequest
from palinurus.core.types.tool import ToolFailure
from palinurus.providers.catalog import Catalog
from palinurus.providers.task import SAMPLED, SamplingModel
from palinurus.testing.model import ScriptedModel, say

CONFIG: dict[str, Any] = {
    "agents": {"defaults": {"model": {"primary": "fake/m", "fallbacks": ["fake/second-model"]}}},
    "models": {
        "providers": {"fake": {"baseUrl": "http://127.0.0.1:1/v1", "models": [{"id": "m"}, {"id": "second-model"}]}}
    },
}


def make(tmp_path: Path, *script: Any) -> tuple[SamplingModel, ScriptedModel]:
    here, model = settings(tmp_path / "h", **CONFIG), ScriptedModel(list(script))
    return SamplingModel(here, Catalog(here, {}), model), model


@pytest.mark.parametrize(
    ("hints", "chosen"),
    [((), "fake/m"), (("gpt-9-expensive", "second"), "fake/second-model"), (("claude",), "fake/m"), (("",), "fake/m")],
)
def test_hints_choose_among_what_the_owner_has(tmp_path: Path, hints: tuple[str, ...], chosen: str) -> None:
    sampler, _ = make(tmp_path)
    assert sampler.choose(SamplingRequest((("user", "hi"),), 5, hints=hints), "main") == chosen


async def test_limits_and_roles(tmp_path: Path) -> None:
    sampler, model = make(tmp_path, say("yes"))
    talk: Any = (("user", "a"), ("assistant", "b"), ("user", "c"))
    told = await sampler.sample(SamplingRequest(talk, 10**6, stop=("X",)), "main", "agent:main:main")
    (asked,) = model.requests
    assert told.text == "yes" and [one.text for one in asked.messages] == ["a", "b", "c"]  # type: ignore[union-attr]
    assert asked.max_tokens is not None and asked.max_tokens <= SAMPLED and asked.stop == ("X",)


async def test_a_failure_is_the_tools(tmp_path: Path) -> None:
    sampler, _ = make(tmp_path)
    with pytest.raises(ToolFailure):
        await sampler.sample(SamplingRequest((("user", "hi"),), 5), "main", "agent:main:main")

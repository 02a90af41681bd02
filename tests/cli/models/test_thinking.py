"""`pal models thinking`: levels, labels, default, and exactly what each level sends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.models.catalog import run_models
from palinurus.cli.models.thinking import describe_thinking, diff_bodies, format_thinking
from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.core.levels import spellings
from palinurus.errors import NotFound
from palinurus.providers import VENDORS, load_row
from palinurus.providers.catalog import Catalog
from providers.kit import settings


def told(ref: str, *providers: ProviderSettings, **changes: Any) -> dict[str, Any]:
    return describe_thinking(Catalog(settings(*providers, **changes), {}), ref)


def sends(ref: str, *providers: ProviderSettings) -> dict[str, Any]:
    return {row["label"]: row["sends"] for row in told(ref, *providers)["levels"]}


def adaptive(effort: str) -> dict[str, Any]:
    return {"thinking": {"type": "adaptive"}, "output_config": {"effort": effort}}


def test_the_models_of_the_seeds() -> None:
    assert sends("anthropic/claude-opus-4-8") == {
        "off": {"thinking": {"type": "disabled"}},
        "minimal": adaptive("low"),
        "low": adaptive("low"),
        "medium": adaptive("medium"),
        "adaptive": adaptive("high"),
        "high": adaptive("high"),
        "xhigh": adaptive("xhigh"),
        "max": adaptive("max"),
    }
    assert sends("moonshot/kimi-k2.6") == {
        "off": {"thinking": {"type": "disabled"}},
        "on": {"thinking": {"type": "enabled"}},
    }
    assert sends("moonshot/kimi-k2.7-code") == {"on": {}}
    assert sends("google/gemini-2.5-flash")["adaptive"] == {
        "generationConfig": {"thinkingConfig": {"includeThoughts": True, "thinkingBudget": -1}}
    }
    assert sends("zai/glm-5.2")["max"] == {"reasoning_effort": "max"}


def test_a_budget_shows_the_room_it_takes_and_its_header() -> None:
    rows = {row["id"]: row for row in told("anthropic/claude-sonnet-4-5")["levels"]}
    assert rows["low"]["sends"] == {"thinking": {"type": "enabled", "budget_tokens": 2048}, "max_tokens": 34_048}
    assert rows["low"]["headers"] == {"anthropic-beta": "interleaved-thinking-2025-05-14"}
    assert "headers" not in rows["off"]


def test_a_level_that_changes_nothing_says_so() -> None:
    rows = {row["id"]: row for row in told("xai/grok-4")["levels"]}
    assert "the model decides" in rows["high"]["note"] and "note" not in rows["off"]
    assert "note" not in {row["id"]: row for row in told("openai/gpt-5.5")["levels"]}["high"]


def test_what_the_config_adds_counts() -> None:
    compat = {"supportedReasoningEfforts": ["low", "xhigh"]}
    lab = ProviderSettings("lab", base_url="http://x", models=(ModelSettings("m", reasoning=True, compat=compat),))
    assert sends("lab/m", lab)["xhigh"] == {"reasoning_effort": "xhigh"}
    qwen = ProviderSettings(
        "lab", base_url="http://x", models=(ModelSettings("m", reasoning=True, compat={"thinkingFormat": "qwen"}),)
    )
    assert sends("lab/m", qwen) == {"off": {"enable_thinking": False}, "on": {"enable_thinking": True}}


def test_the_default_says_where_it_comes_from() -> None:
    got = told("anthropic/claude-opus-4-8")
    assert (got["default"], got["level"], got["reason"]) == ("off", "off", "provider default for the model")
    got = told("anthropic/claude-opus-4-8", thinking_default="think hard")
    assert (got["default"], got["level"], got["reason"]) == ("off", "low", "agents.list[].thinkingDefault")
    assert told("lab/m", ProviderSettings("lab", base_url="http://x"))["reason"].startswith("nothing says")


def test_levels_that_are_not_offered_say_what_becomes_of_them() -> None:
    others = told("openai/gpt-5.1")["others"]
    assert others["xhigh"]["becomes"] == "high" and others["adaptive"]["becomes"] == "medium"
    assert "Use one of: off, minimal, low, medium, high." in others["max"]["reason"]


def every() -> list[str]:
    refs = [f"{name}/{known.id}" for name in VENDORS for known in load_row(VENDORS, name).models]
    return refs + [f"{name}/some-model" for name in VENDORS if name not in ("builtin", "local")]


@pytest.mark.parametrize("ref", every())
def test_every_model_of_every_vendor(ref: str) -> None:
    got = told(ref)
    rows = got["levels"]
    assert rows and [row["id"] for row in rows if row["default"]] == [got["default"]]
    assert {row["id"] for row in rows} | set(got["others"]) == set(spellings.THINKING_LEVELS)
    off = next((row for row in rows if row["id"] == "off"), {"sends": {}})
    for row in rows:
        assert not {"messages", "system", "tools", "model", "tool_stream"} & set(row["sends"]), row
        silent = (row["sends"], row.get("headers")) == (off["sends"], off.get("headers"))
        assert ("note" in row) is (silent and row["id"] != "off"), row
    assert json.loads(json.dumps(got)) == got
    assert got["model"] in format_thinking(got)


def test_difference() -> None:
    before = {"a": 1, "b": {"c": 1, "d": 2}, "gone": 1}
    assert diff_bodies(before, {"a": 1, "b": {"c": 1, "d": 3}, "e": None}) == {"b": {"d": 3}, "e": None}
    assert diff_bodies(before, {"a": 1, "b": {"c": 1, "d": 2}}) == {}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    return tmp_path


def test_the_command(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_models(["thinking", "anthropic/claude-opus-4-8", "--json"]) == 0
    got = json.loads(capsys.readouterr().out)
    assert got["levels"][-1] == {"id": "max", "label": "max", "default": False, "sends": adaptive("max")}
    assert run_models(["thinking", "zai/glm-5"]) == 0
    out = capsys.readouterr().out
    assert "* off" in out and "on" in out and "provider default" in out
    with pytest.raises(NotFound, match="did you mean 'anthropic/x'"):
        run_models(["thinking", "antropic/x"])

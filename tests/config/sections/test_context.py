"""The keys about what is sent of a history, as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from configs import read_settings
from palinurus.config.sections.context import ContextSettings
from palinurus.core.history.fit import TurnLimits
from palinurus.core.history.prune import PruningRules


def resolved(**body: Any) -> ContextSettings:
    return read_settings(body)[0].context


def pruning(**body: Any) -> PruningRules:
    return resolved(agents={"defaults": {"contextPruning": body}}).pruning


def test_without_a_word_nothing_is_limited_or_pruned() -> None:
    assert resolved() == ContextSettings()
    assert resolved().pruning.mode == "off"
    assert resolved().results("main") is None


@pytest.mark.seed(325)
def test_history_limits_of_channels_and_people() -> None:
    body = {"historyLimit": 30, "dmHistoryLimit": 50, "dms": {"123": {"historyLimit": 5}, "Abc": {"historyLimit": 0}}}
    found = resolved(channels={"telegram": body, "slack": {"dmHistoryLimit": "many"}}).turns
    assert found["telegram"] == TurnLimits(30, 50, {"123": 5, "abc": 0})
    assert found["slack"] == TurnLimits()
    shared = resolved(channels={"defaults": {"dmHistoryLimit": 3}, "irc": {}, "slack": {"dmHistoryLimit": 4}}).turns
    assert (shared["irc"].direct, shared["slack"].direct) == (3, 4)


@pytest.mark.seed(327)
def test_pruning_as_the_seed_writes_it() -> None:
    seed = {"mode": "aggressive", "maxCharsPerToolResult": 3000, "toolResultHeadRatio": 0.5, "pruneAfterTurns": 4}
    found = pruning(**seed, tools={"allow": ["Read", "web_*"], "deny": ["exec"]})
    assert (found.mode, found.most, found.head_ratio, found.after_turns) == ("aggressive", 3000, 0.5, 4)
    assert (found.allow, found.deny) == (("read", "web_*"), ("exec",))
    usual = pruning(mode="aggressive")
    assert (usual.most, usual.head_ratio, usual.after_turns) == (2000, 0.6, 10)


def test_pruning_as_the_docs_write_it() -> None:
    found = pruning(
        mode="cache-ttl",
        ttl="1h",
        keepLastAssistants=0,
        softTrimRatio=0,
        hardClearRatio=0.9,
        minPrunableToolChars=0,
        softTrim={"maxChars": 100, "headChars": 10, "tailChars": 0},
        hardClear={"enabled": False, "placeholder": "[gone]"},
    )
    assert found == PruningRules(
        "cache-ttl", 3600.0, 0, 0.0, 0.9, 0, soft_most=100, head=10, tail=0, clear=False, placeholder="[gone]"
    )
    assert pruning(mode="cache-ttl", ttl="10").ttl == 600.0  # a bare number is minutes
    assert pruning(mode="cache-ttl", ttl=10).ttl == 600.0
    assert pruning(mode="cache-ttl") == PruningRules("cache-ttl")


def test_cache_ttl_trims_to_the_seeds_limit_where_one_is_set() -> None:
    found = pruning(mode="cache-ttl", maxCharsPerToolResult=2000)
    assert (found.soft_most, found.head, found.tail) == (2000, 1200, 800)


@pytest.mark.seed(326)
def test_the_size_of_results_by_agent() -> None:
    agents = {
        "defaults": {"contextLimits": {"toolResultMaxChars": 100_000}},
        "list": [{"id": "Small", "contextLimits": {"toolResultMaxChars": 4000}}, {"id": "other"}],
    }
    found = resolved(agents=agents)
    assert (found.results("small"), found.results("other"), found.results("third")) == (4000, 100_000, 100_000)

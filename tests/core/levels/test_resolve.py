"""Who wins: thinking level and fast mode."""

from __future__ import annotations

import math

import msgspec
import pytest

from palinurus.core.levels import resolve, thinking
from palinurus.core.levels.resolve import LevelRequest
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.vendor import ThinkingProfile, Vendor


def model(*, reasoning: bool = True, **params: object) -> ModelSpec:
    return ModelSpec(ModelRef("acme", "m-1"), "openai-completions", reasoning=reasoning, params=dict(params))


def vendor(*levels: str, default: str | None = None) -> Vendor:
    profile: ThinkingProfile = thinking.make_profile(levels, default)
    return Vendor("acme", "Acme", "openai-completions", "", profile=lambda m: profile)


ALL = LevelRequest(inline="high", session="low", agent="minimal", params="medium", defaults="off")


@pytest.mark.parametrize(
    ("silent", "level", "source"),
    [
        pytest.param((), "high", "inline", marks=pytest.mark.seed(50)),
        pytest.param(("inline",), "low", "session", marks=pytest.mark.seed(51)),
        pytest.param(("inline", "session"), "minimal", "agent", marks=pytest.mark.seed(52)),
        (("inline", "session", "agent"), "medium", "params"),
        pytest.param(("inline", "session", "agent", "params"), "off", "defaults", marks=pytest.mark.seed(53)),
    ],
)
def test_the_first_layer_that_says_something_decides(silent: tuple[str, ...], level: str, source: str) -> None:
    asked = msgspec.structs.replace(ALL, **dict.fromkeys(silent))
    decision = resolve.resolve_thinking(model(), asked, vendor(*thinking.BASE_LEVELS, default="high"))
    assert (decision.level, decision.source) == (level, source)
    assert decision.reason


@pytest.mark.seed(54)
def test_then_the_providers_default() -> None:
    decision = resolve.resolve_thinking(
        model(), LevelRequest(), vendor(*thinking.BASE_LEVELS, "xhigh", default="xhigh")
    )
    assert (decision.level, decision.source) == ("xhigh", "provider")


@pytest.mark.seed(55)
@pytest.mark.parametrize(
    ("levels", "level"),
    [
        ("off minimal low medium high", "medium"),
        ("off low high", "low"),
        ("off high", "high"),
        ("off low adaptive high", "adaptive"),
    ],
)
def test_then_medium_or_its_nearest_for_a_model_that_reasons(levels: str, level: str) -> None:
    decision = resolve.resolve_thinking(model(), LevelRequest(), vendor(*levels.split()))
    assert (decision.level, decision.source) == (level, "catalog")


@pytest.mark.seed(56)
def test_then_off() -> None:
    decision = resolve.resolve_thinking(
        model(reasoning=False), LevelRequest(), vendor(*thinking.BASE_LEVELS, default="high")
    )
    assert (decision.level, decision.source) == ("off", "off")
    assert resolve.resolve_thinking(model(reasoning=False), LevelRequest(session="high")).level == "off"


@pytest.mark.seed(19)
def test_a_stored_level_is_fitted_to_the_model_and_says_so() -> None:
    decision = resolve.resolve_thinking(model(), LevelRequest(session="adaptive"), vendor(*thinking.BASE_LEVELS))
    assert (decision.level, decision.asked, decision.remapped) == ("medium", "adaptive", True)
    assert "adaptive is not offered by acme/m-1" in decision.reason


def test_words_that_are_no_level_are_passed_over_and_named() -> None:
    decision = resolve.resolve_thinking(model(), LevelRequest(session="bogus", agent=7, defaults="think hard"))
    assert (decision.level, decision.source) == ("low", "defaults")
    assert [line.partition(":")[0] for line in decision.ignored] == ["session", "agent"]


def test_a_clearing_word_in_a_layer_says_nothing() -> None:
    assert resolve.resolve_thinking(model(), LevelRequest(session="default", defaults="low")).source == "defaults"


@pytest.mark.parametrize("word", [False, "disabled", "none", "off"])
def test_model_params_can_switch_thinking_off(word: object) -> None:
    decision = resolve.resolve_thinking(model(), LevelRequest(params=word, defaults="high"))
    assert (decision.level, decision.source) == ("off", "params")


# --- fast mode ------------------------------------------------------------------------------------------------


@pytest.mark.seed(74)
@pytest.mark.parametrize(
    ("asked", "params", "mode", "source"),
    [
        (LevelRequest("on", "off", False), "auto", "on", "inline"),
        (LevelRequest(None, "auto", True), False, "auto", "session"),
        (LevelRequest(None, None, False), True, "off", "agent"),
        (LevelRequest(), True, "on", "params"),
        (LevelRequest(), "auto", "auto", "params"),
        (LevelRequest(None, "bogus"), True, "on", "params"),
        (LevelRequest(), None, None, "off"),
    ],
)
def test_fast_mode_precedence(asked: LevelRequest, params: object, mode: str | None, source: str) -> None:
    fast = resolve.resolve_fast_mode(model(fastMode=params) if params is not None else model(), asked)
    assert (fast.mode, fast.source) == (mode, source)


@pytest.mark.seed(75, 76, 77)
def test_auto_is_decided_anew_for_each_call_by_the_time_it_starts() -> None:
    fast = resolve.resolve_fast_mode(model(), LevelRequest(session="auto"))
    assert [fast.at(t) for t in (0, 59.9, 60, 61, 3600)] == [True, True, False, False, False]
    assert fast.mode == "auto"


@pytest.mark.seed(78)
def test_the_model_can_move_the_cutoff() -> None:
    fast = resolve.resolve_fast_mode(model(fastAutoOnSeconds=5), LevelRequest(session="auto"))
    assert (fast.at(4.9), fast.at(5)) == (True, False)


@pytest.mark.parametrize("seconds", ["5", None, True, -1, math.nan, math.inf])
def test_a_cutoff_that_is_no_number_is_ignored(seconds: object) -> None:
    assert resolve.resolve_fast_mode(model(fastAutoOnSeconds=seconds), LevelRequest()).cutoff == 60


def test_never_set_is_neither_on_nor_off() -> None:
    assert resolve.resolve_fast_mode(model(), LevelRequest()).at(0) is None
    assert resolve.resolve_fast_mode(model(), LevelRequest(inline="off")).at(0) is False
    assert resolve.resolve_fast_mode(model(), LevelRequest(inline="on")).at(9999) is True


@pytest.mark.parametrize(("mode", "shown"), [("on", "Fast"), ("auto", "Fast:auto"), ("off", ""), (None, "")])
def test_the_word_on_the_status_line(mode: str | None, shown: str) -> None:
    assert resolve.resolve_fast_mode(model(), LevelRequest(session=mode)).status == shown

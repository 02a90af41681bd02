"""Profiles are built, asked and remapped by rank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.levels import thinking
from palinurus.core.levels.spellings import THINKING_LEVELS
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.vendor import ThinkingLevel, ThinkingProfile, Vendor


def model(*, reasoning: bool = True, **compat: object) -> ModelSpec:
    return ModelSpec(ModelRef("acme", "m-1"), "openai-completions", reasoning=reasoning, compat=dict(compat))


def vendor(profile: ThinkingProfile) -> Vendor:
    return Vendor("acme", "Acme", "openai-completions", "", profile=lambda m: profile)


def offering(text: str) -> ThinkingProfile:
    return thinking.make_profile(text.split())


def test_a_profile_is_sorted_deduplicated_and_keeps_the_last() -> None:
    built = thinking.make_profile(
        ["max", "low", ThinkingLevel("low", "on"), "off", "adaptive", "medium", "bogus"], "low"
    )
    assert thinking.list_level_ids(built) == ("off", "low", "medium", "adaptive", "max")
    assert thinking.list_level_labels(built) == ("off", "on", "medium", "adaptive", "max")
    assert built.default == "low"


def test_a_default_that_is_not_offered_is_dropped() -> None:
    assert thinking.make_profile(["off", "low"], "high").default is None


# asked, offered, got
REMAPS = [
    ("adaptive", "off minimal low medium high", "medium"),
    ("xhigh", "off minimal low medium high", "high"),
    ("max", "off minimal low medium high", "high"),
    ("max", "off low high", "high"),
    ("medium", "off low high", "low"),
    ("low", "off high", "high"),
    ("adaptive", "off low", "low"),
    ("off", "off low", "off"),
    ("medium", "off low adaptive high", "adaptive"),
    ("medium", "off low medium adaptive high", "medium"),
    # Below everything that is offered: the nearest upwards, not the highest.
    ("minimal", "off low medium high max", "low"),
    ("minimal", "off low adaptive high", "low"),
    ("off", "low", "low"),
    # "As much as there is".
    ("xhigh", "off low high max", "max"),
    ("max", "off low medium high xhigh", "xhigh"),
    ("max", "off adaptive", "adaptive"),
    *[(level, "off", "off") for level in THINKING_LEVELS],
]


@pytest.mark.seed(19, 20, 21)
@pytest.mark.parametrize(("asked", "offered", "got"), REMAPS)
def test_a_level_the_model_lacks_is_remapped_by_rank(asked: str, offered: str, got: str) -> None:
    assert thinking.remap_level(asked, offering(offered)) == got


@given(st.sampled_from(THINKING_LEVELS), st.lists(st.sampled_from(THINKING_LEVELS), min_size=1))
def test_remapping_gives_what_is_offered_and_settles(asked: str, offered: list[str]) -> None:
    profile = thinking.make_profile(offered)
    got = thinking.remap_level(asked, profile)
    assert thinking.is_offered(got, profile) or got == "off"
    assert thinking.remap_level(got, profile) == got
    if asked in offered:
        assert got == asked
    if asked != "off" and any(level != "off" for level in offered):
        assert got != "off"


@pytest.mark.seed(17)
def test_without_a_vendors_opinion_only_the_plain_levels_are_offered() -> None:
    assert thinking.list_level_ids(thinking.find_thinking_profile(model())) == (
        "off",
        "minimal",
        "low",
        "medium",
        "high",
    )


@pytest.mark.seed(36, 37, 139, 141)
def test_the_catalog_entry_can_opt_into_more() -> None:
    opted = model(supportedReasoningEfforts=["low", "high", "xhigh"])
    assert thinking.is_offered("xhigh", thinking.find_thinking_profile(opted))
    assert thinking.check_level("extra high", opted, thinking.find_thinking_profile(opted)) == ("xhigh", "")
    assert thinking.make_thinking_row(opted).thinkingOptions[-1] == "xhigh"
    assert not thinking.is_offered("xhigh", thinking.find_thinking_profile(model(supportedReasoningEfforts="xhigh")))


def test_a_model_that_does_not_reason_has_only_off_unless_the_vendor_insists() -> None:
    two = thinking.make_profile(("off", "high"))
    kept = thinking.make_profile(("off", "high"), keep=True)
    assert thinking.list_level_ids(thinking.find_thinking_profile(model(reasoning=False), vendor(two))) == ("off",)
    assert thinking.list_level_ids(thinking.find_thinking_profile(model(reasoning=False), vendor(kept))) == (
        "off",
        "high",
    )


@pytest.mark.seed(136, 138, 143)
def test_rows_show_ids_labels_and_default() -> None:
    row = thinking.make_thinking_row(model(), vendor(thinking.make_profile(("off", ThinkingLevel("low", "on")), "off")))
    assert row.thinkingLevels == ({"id": "off", "label": "off"}, {"id": "low", "label": "on"})
    assert row.thinkingOptions == ("off", "on")
    assert row.thinkingDefault == "off"


@pytest.mark.seed(16, 18, 140)
def test_a_typed_level_is_checked_against_the_model() -> None:
    binary = thinking.make_profile(("off", ThinkingLevel("low", "on")))
    assert thinking.check_level("on", model(), binary) == ("low", "")
    assert thinking.check_level("xhigh", model(), binary) == (
        None,
        'Thinking level "xhigh" is not supported for acme/m-1. Use one of: off, on.',
    )
    assert thinking.check_level("big", model(), binary) == (
        None,
        'Unrecognized thinking level "big". Valid levels: default, off, on.',
    )


def test_a_vendors_label_means_its_own_level_first() -> None:
    always = thinking.make_profile((ThinkingLevel("high", "on"),))
    assert thinking.parse_level("on", always) == "high"


def test_the_text_for_a_remapped_level() -> None:
    assert (
        thinking.explain_remapped_level("max", "high", model())
        == "Thinking level set to high (max not supported for acme/m-1)."
    )


@pytest.mark.seed(142)
def test_the_three_hooks_of_older_plugins_make_a_profile() -> None:
    binary = thinking.adapt_plugin_profile(binary=lambda m: m.ref.model == "m-1", start=lambda m: "low")
    assert thinking.list_level_labels(binary(model())) == ("off", "on")
    assert binary(model()).default == "low"
    more = thinking.adapt_plugin_profile(xhigh=lambda m: True, binary=lambda m: None, start=lambda m: None)
    assert thinking.list_level_ids(more(model())) == ("off", "minimal", "low", "medium", "high", "xhigh")
    assert more(model()).default is None
    strange = thinking.adapt_plugin_profile(xhigh=lambda m: False, start=lambda m: "max")
    assert thinking.list_level_ids(strange(model())) == ("off", "minimal", "low", "medium", "high")
    assert strange(model()).default is None  # a default that is not offered is none
    row = thinking.make_thinking_row(model(), vendor(binary(model())))
    assert (row.thinkingOptions, row.thinkingDefault) == (("off", "on"), "low")

"""Who may speak: tables, and what holds for every combination."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.policy.admission import (
    AdmissionRequest,
    AdmissionRules,
    AdmissionVerdict,
    Policy,
    decide_admission,
    parse_allowlist,
)

LISTED = frozenset({"123"})
EVERY = frozenset({"*"})
POLICIES: tuple[Policy, ...] = ("pairing", "allowlist", "open", "disabled")


def asked(*ids: str, **changes: Any) -> AdmissionRequest:
    return AdmissionRequest(ids or ("123",), **changes)


@pytest.mark.parametrize(
    ("rules", "who", "word", "allowed"),
    [
        (AdmissionRules("pairing"), "123", "pair", False),
        (AdmissionRules("pairing", LISTED), "123", "in", True),
        (AdmissionRules("pairing", paired=True), "123", "in", True),
        (AdmissionRules("pairing", EVERY), "123", "pair", False),  # everybody takes the word open as well
        (AdmissionRules("allowlist"), "123", "out", False),
        (AdmissionRules("allowlist", LISTED), "123", "in", True),
        (AdmissionRules("allowlist", EVERY), "123", "out", False),
        (AdmissionRules("allowlist", paired=True), "123", "out", False),  # taking the policy back takes codes back
        (AdmissionRules("open"), "123", "out", False),
        (AdmissionRules("open", EVERY), "123", "in", False),
        (AdmissionRules("open", EVERY | LISTED), "123", "in", True),
        (AdmissionRules("open", LISTED), "9", "out", False),
        (AdmissionRules("open", paired=True), "123", "out", False),
        (AdmissionRules("disabled", LISTED), "123", "out", False),
        (AdmissionRules("disabled", EVERY, owners=LISTED), "123", "out", False),
    ],
)
def test_direct_chats(rules: AdmissionRules, who: str, word: str, allowed: bool) -> None:
    verdict = decide_admission(asked(who), rules)
    assert (verdict.word, verdict.allowed, verdict.owner) == (word, allowed, False)


@pytest.mark.parametrize("policy", ["pairing", "allowlist", "open"])
def test_the_owner_is_let_in_and_may_everything(policy: Policy) -> None:
    assert decide_admission(asked(), AdmissionRules(policy, owners=LISTED)) == AdmissionVerdict("in", "", True, True)


# S21: whatever looks like an id is not that id
LOOKALIKES = (
    "0123",
    "123 ",
    " 123",
    "１２３",
    "9123",
    "1234",
    "",
    "123\u200b",
    "123\n",
    "+123",
    "@123",
    "*",
    "12３",
    "٣",
)


@pytest.mark.parametrize("who", LOOKALIKES)
@pytest.mark.parametrize("direct", [True, False])
def test_identity_is_exact(who: str, direct: bool) -> None:
    rules = AdmissionRules("allowlist", LISTED, owners=LISTED)
    verdict = decide_admission(asked(who, direct=direct, named=True), rules)
    assert verdict.word != "in" and not verdict.owner and not verdict.allowed


@given(st.text(max_size=12))
def test_only_the_very_id_is_the_id(who: str) -> None:
    assert (decide_admission(asked(who), AdmissionRules("allowlist", LISTED)).word == "in") == (who == "123")


def test_nobody_in_particular_is_never_let_in() -> None:
    for policy, direct in itertools.product(POLICIES, (True, False)):
        for ids in ((), ("",), ("*",)):
            rules = AdmissionRules(policy, EVERY | {""}, owners=EVERY | {""}, commands=EVERY, paired=True)
            assert decide_admission(AdmissionRequest(ids, direct=direct, named=True), rules).word == "out"


def test_a_list_with_a_channel_before_its_ids() -> None:
    written = ("telegram:1", "TG:2", "3", "discord:4", "@u:matrix.org", " 5 ", "")
    assert parse_allowlist(written, "telegram") == {"1", "2", "3", "discord:4", "@u:matrix.org", "5"}
    assert "4" in parse_allowlist(written, "discord") and "1" not in parse_allowlist(written, "discord")
    assert "@u:matrix.org" in parse_allowlist(written, "matrix")


def test_another_id_that_the_platform_vouches_for_counts() -> None:
    assert decide_admission(asked("uuid", "+49151"), AdmissionRules("allowlist", frozenset({"+49151"}))).word == "in"


@pytest.mark.parametrize(
    ("rules", "changes", "word", "allowed"),
    [
        (AdmissionRules("allowlist", LISTED), {"named": True}, "in", True),
        (AdmissionRules("allowlist", LISTED, chat=False), {"named": True}, "out", False),
        (AdmissionRules("allowlist", LISTED, mention=True), {}, "note", False),
        (AdmissionRules("allowlist", LISTED, mention=True), {"command": True, "plain": False}, "in", True),
        (AdmissionRules("open", mention=True), {"command": True, "plain": False}, "out", False),
        (AdmissionRules("allowlist"), {"named": True}, "out", False),
        (AdmissionRules("allowlist", overhear=True), {"named": True}, "note", False),
        (AdmissionRules("allowlist", overhear=True), {"named": True, "plain": False}, "out", False),
        (AdmissionRules("allowlist", EVERY), {"named": True}, "in", False),
        (AdmissionRules("open"), {"named": True}, "in", False),
        (AdmissionRules("open", LISTED), {"named": True}, "in", True),
        (AdmissionRules("disabled", EVERY), {"named": True}, "out", False),
        (AdmissionRules("allowlist", paired=True), {"named": True}, "out", False),  # pairing is for direct chats
        (AdmissionRules("allowlist", owners=LISTED), {"named": True}, "out", False),
    ],
)
def test_groups(rules: AdmissionRules, changes: dict[str, Any], word: str, allowed: bool) -> None:
    verdict = decide_admission(asked(direct=False, **changes), rules)
    assert (verdict.word, verdict.allowed) == (word, allowed)


def test_no_combination_gives_rights_to_somebody_on_no_list() -> None:
    """Every policy x kind of chat x kind of event, by brute force: S20, S22, S66."""
    flags = list(itertools.product((False, True), repeat=8))
    for policy, (direct, bot, named, command, paired, chat, mention, overhear) in itertools.product(POLICIES, flags):
        rules = AdmissionRules(policy, EVERY, frozenset({"me"}), None, False, chat, mention, overhear, "on")
        verdict = decide_admission(AdmissionRequest(("666",), direct, bot, named, command, not command), rules)
        assert not verdict.owner and not verdict.allowed
        lists = AdmissionRules(
            policy, frozenset({"me"}), frozenset({"me"}), None, paired, chat, mention, overhear, "on"
        )
        if not direct and policy != "open":
            assert decide_admission(
                AdmissionRequest(("666",), direct, bot, named, command, not command), lists
            ).word in ("note", "out")


def test_who_may_command_can_be_said_by_itself() -> None:
    some = frozenset({"7"})
    assert not decide_admission(asked(), AdmissionRules("allowlist", LISTED, commands=some)).allowed
    assert decide_admission(asked("7"), AdmissionRules("open", EVERY, commands=some)).allowed
    assert (
        decide_admission(asked("8"), AdmissionRules("allowlist", LISTED, commands=some | {"8"})).word == "out"
    )  # it opens no door


@pytest.mark.parametrize(
    ("bots", "named", "word"),
    [("off", True, "out"), ("mentions", False, "out"), ("mentions", True, "in"), ("on", False, "in")],
)
def test_bots(bots: Any, named: bool, word: str) -> None:
    rules = AdmissionRules("allowlist", LISTED, bots=bots)
    assert decide_admission(asked(bot=True, named=named), rules).word == word
    assert decide_admission(asked(bot=True, named=named, direct=False), rules).word == word
    assert (
        decide_admission(asked("9", bot=True, named=named), AdmissionRules("pairing", bots=bots)).word == "out"
    )  # no codes for bots

"""Who may speak: tables, and what holds for every combination."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.policy.gate import Asked, Policy, Rules, Verdict, entries, gate

LISTED = frozenset({"123"})
EVERY = frozenset({"*"})
POLICIES: tuple[Policy, ...] = ("pairing", "allowlist", "open", "disabled")


def asked(*ids: str, **changes: Any) -> Asked:
    return Asked(ids or ("123",), **changes)


@pytest.mark.parametrize(
    ("rules", "who", "word", "allowed"),
    [
        (Rules("pairing"), "123", "pair", False),
        (Rules("pairing", LISTED), "123", "in", True),
        (Rules("pairing", paired=True), "123", "in", True),
        (Rules("pairing", EVERY), "123", "pair", False),  # everybody takes the word open as well
        (Rules("allowlist"), "123", "out", False),
        (Rules("allowlist", LISTED), "123", "in", True),
        (Rules("allowlist", EVERY), "123", "out", False),
        (Rules("allowlist", paired=True), "123", "out", False),  # taking the policy back takes codes back
        (Rules("open"), "123", "out", False),
        (Rules("open", EVERY), "123", "in", False),
        (Rules("open", EVERY | LISTED), "123", "in", True),
        (Rules("open", LISTED), "9", "out", False),
        (Rules("open", paired=True), "123", "out", False),
        (Rules("disabled", LISTED), "123", "out", False),
        (Rules("disabled", EVERY, owners=LISTED), "123", "out", False),
    ],
)
def test_direct_chats(rules: Rules, who: str, word: str, allowed: bool) -> None:
    verdict = gate(asked(who), rules)
    assert (verdict.word, verdict.allowed, verdict.owner) == (word, allowed, False)


@pytest.mark.parametrize("policy", ["pairing", "allowlist", "open"])
def test_the_owner_is_let_in_and_may_everything(policy: Policy) -> None:
    assert gate(asked(), Rules(policy, owners=LISTED)) == Verdict("in", "", True, True)


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
    rules = Rules("allowlist", LISTED, owners=LISTED)
    verdict = gate(asked(who, direct=direct, named=True), rules)
    assert verdict.word != "in" and not verdict.owner and not verdict.allowed


@given(st.text(max_size=12))
def test_only_the_very_id_is_the_id(who: str) -> None:
    assert (gate(asked(who), Rules("allowlist", LISTED)).word == "in") == (who == "123")


def test_nobody_in_particular_is_never_let_in() -> None:
    for policy, direct in itertools.product(POLICIES, (True, False)):
        for ids in ((), ("",), ("*",)):
            rules = Rules(policy, EVERY | {""}, owners=EVERY | {""}, commands=EVERY, paired=True)
            assert gate(Asked(ids, direct=direct, named=True), rules).word == "out"


def test_a_list_with_a_channel_before_its_ids() -> None:
    written = ("telegram:1", "TG:2", "3", "discord:4", "@u:matrix.org", " 5 ", "")
    assert entries(written, "telegram") == {"1", "2", "3", "discord:4", "@u:matrix.org", "5"}
    assert "4" in entries(written, "discord") and "1" not in entries(written, "discord")
    assert "@u:matrix.org" in entries(written, "matrix")


def test_another_id_that_the_platform_vouches_for_counts() -> None:
    assert gate(asked("uuid", "+49151"), Rules("allowlist", frozenset({"+49151"}))).word == "in"


@pytest.mark.parametrize(
    ("rules", "changes", "word", "allowed"),
    [
        (Rules("allowlist", LISTED), {"named": True}, "in", True),
        (Rules("allowlist", LISTED, chat=False), {"named": True}, "out", False),
        (Rules("allowlist", LISTED, mention=True), {}, "note", False),
        (Rules("allowlist", LISTED, mention=True), {"command": True, "plain": False}, "in", True),
        (Rules("open", mention=True), {"command": True, "plain": False}, "out", False),
        (Rules("allowlist"), {"named": True}, "out", False),
        (Rules("allowlist", overhear=True), {"named": True}, "note", False),
        (Rules("allowlist", overhear=True), {"named": True, "plain": False}, "out", False),
        (Rules("allowlist", EVERY), {"named": True}, "in", False),
        (Rules("open"), {"named": True}, "in", False),
        (Rules("open", LISTED), {"named": True}, "in", True),
        (Rules("disabled", EVERY), {"named": True}, "out", False),
        (Rules("allowlist", paired=True), {"named": True}, "out", False),  # pairing is for direct chats
        (Rules("allowlist", owners=LISTED), {"named": True}, "out", False),
    ],
)
def test_groups(rules: Rules, changes: dict[str, Any], word: str, allowed: bool) -> None:
    verdict = gate(asked(direct=False, **changes), rules)
    assert (verdict.word, verdict.allowed) == (word, allowed)


def test_no_combination_gives_rights_to_somebody_on_no_list() -> None:
    """Every policy x kind of chat x kind of event, by brute force: S20, S22, S66."""
    flags = list(itertools.product((False, True), repeat=8))
    for policy, (direct, bot, named, command, paired, chat, mention, overhear) in itertools.product(POLICIES, flags):
        rules = Rules(policy, EVERY, frozenset({"me"}), None, False, chat, mention, overhear, "on")
        verdict = gate(Asked(("666",), direct, bot, named, command, not command), rules)
        assert not verdict.owner and not verdict.allowed
        lists = Rules(policy, frozenset({"me"}), frozenset({"me"}), None, paired, chat, mention, overhear, "on")
        if not direct and policy != "open":
            assert gate(Asked(("666",), direct, bot, named, command, not command), lists).word in ("note", "out")


def test_who_may_command_can_be_said_by_itself() -> None:
    some = frozenset({"7"})
    assert not gate(asked(), Rules("allowlist", LISTED, commands=some)).allowed
    assert gate(asked("7"), Rules("open", EVERY, commands=some)).allowed
    assert gate(asked("8"), Rules("allowlist", LISTED, commands=some | {"8"})).word == "out"  # it opens no door


@pytest.mark.parametrize(
    ("bots", "named", "word"),
    [("off", True, "out"), ("mentions", False, "out"), ("mentions", True, "in"), ("on", False, "in")],
)
def test_bots(bots: Any, named: bool, word: str) -> None:
    rules = Rules("allowlist", LISTED, bots=bots)
    assert gate(asked(bot=True, named=named), rules).word == word
    assert gate(asked(bot=True, named=named, direct=False), rules).word == word
    assert gate(asked("9", bot=True, named=named), Rules("pairing", bots=bots)).word == "out"  # no codes for bots

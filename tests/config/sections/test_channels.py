"""channels.<id>: one complete value per account, whatever is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from configs import read_settings
from palinurus.config.findings import ConfigFinding, ConfigPlace
from palinurus.config.sections.channels import AccountSettings, BotLoopSettings, resolve_accounts

OPEN: dict[str, Any] = {"dmPolicy": "open", "allowFrom": ["*"]}


def read(
    section: dict[str, Any], name: str = "telegram", **rest: Any
) -> tuple[dict[str, AccountSettings], list[ConfigFinding]]:
    settings, findings = read_settings({**rest, "channels": {name: section}})
    return settings.accounts[name], findings


def one(section: dict[str, Any], name: str = "telegram", **rest: Any) -> AccountSettings:
    return read(section, name, **rest)[0]["default"]


def test_nothing_written_lets_nobody_in() -> None:
    found = one({})
    assert (found.dm, found.group, found.allow_from, found.group_allow_from, found.groups) == (
        "pairing", "allowlist", (), (), {},
    )  # fmt: skip
    assert (found.bots, found.visibility, found.history, found.rate, found.loop) == (
        "off",
        "all",
        50,
        20,
        BotLoopSettings(),
    )


def test_ids_are_texts_however_they_are_written() -> None:
    assert one({"allowFrom": [123, " 4 ", "", True, None, 1.5, "telegram:5", 123]}).allow_from == (
        "123",
        "4",
        "telegram:5",
    )
    assert one({"allowFrom": "123"}).allow_from == ("123",)  # what was certainly meant


@pytest.mark.parametrize(
    ("section", "key", "dm"),
    [
        ({"dmPolicy": "open"}, "dmPolicy", "open"),
        ({"dmPolicy": "open", "allowFrom": ["5"]}, "dmPolicy", "open"),
        ({"allowFrom": ["*"]}, "allowFrom", "pairing"),
        ({"dmPolicy": "allowlist", "allowFrom": ["*"]}, "allowFrom", "allowlist"),
        ({"dmPolicy": "opne"}, "dmPolicy", "pairing"),
        ({"allowFrom": ["@durov"]}, "allowFrom", "pairing"),
    ],
)
def test_slips_are_told(section: dict[str, Any], key: str, dm: str) -> None:
    found, findings = read(section)
    assert [finding.path for finding in findings] == [("channels", "telegram", key)]
    assert found["default"].dm == dm


def test_what_is_right_is_not_told() -> None:
    assert read({"dmPolicy": "open", "allowFrom": ["*"]})[1] == []
    assert read({"allowFrom": ["@owner:example.org"], "groups": {"#room:example.org": {}}}, "matrix")[1] == []
    assert read({"groups": {"#boats": {}}}, "irc")[1] == []


def test_an_accounts_keys_go_before_its_channels_and_those_before_the_defaults() -> None:
    section = {"dmPolicy": "allowlist", "accounts": {"a": {"dmPolicy": "disabled"}, "b": {}, "c": {"enabled": False}}}
    findings: list[ConfigFinding] = []
    usual = {"groupPolicy": "disabled", "dmPolicy": "open"}
    found = resolve_accounts({"telegram": section}, usual, {}, ConfigPlace("", {}, findings))["telegram"]
    assert {name: own.dm for name, own in found.items()} == {"a": "disabled", "b": "allowlist"}
    assert all(own.group == "disabled" for own in found.values())


@pytest.mark.parametrize(
    ("usual", "section", "own", "dm", "allow"),
    [
        (OPEN, {}, {"dm": {"policy": "allowlist", "allowFrom": ["1"]}}, "allowlist", ("1",)),
        ({}, OPEN, {"dm": {"enabled": False}}, "disabled", ("*",)),
        ({}, {"dm": {"enabled": False}}, {"dmPolicy": "allowlist", "allowFrom": ["1"]}, "allowlist", ("1",)),
        ({}, {"dm": {"enabled": False}}, {"dm": {"enabled": True}}, "pairing", ()),
        ({}, {"dm": {"enabled": False, "policy": "allowlist"}}, {}, "disabled", ()),
        ({"dmPolicy": "disabled"}, {"dmPolicy": None}, {"dmPolicy": None}, "disabled", ()),
    ],
)  # fmt: skip
def test_the_nearer_word_counts_however_it_is_spelled(usual: Any, section: Any, own: Any, dm: str, allow: Any) -> None:
    """The older words under `dm` lost to the newer ones of a layer below, and null took them away."""
    made = resolve_accounts({"discord": {**section, "accounts": {"a": own}}}, usual, {}, ConfigPlace("", {}, []))
    assert (made["discord"]["a"].dm, made["discord"]["a"].allow_from) == (dm, allow)


def test_one_switch_of_an_account_leaves_the_channels_others_as_they_are() -> None:
    section = {"actions": {"reactions": False}, "execApprovals": {"enabled": False}, "groups": {"-1": {}}}
    own = {"actions": {"pins": False}, "execApprovals": {"approvers": ["1"]}, "groups": {"-2": {}}}
    found = read({**section, "accounts": {"a": own}})[0]["a"]
    assert found.actions == {"reactions": False, "pins": False}
    assert (found.approvals.enabled, found.approvals.approvers) == (False, ("1",))
    assert found.groups.keys() == {"-2"}  # chats are a list: the account's own


def test_the_default_account_is_the_one_that_is_used_where_none_is_named() -> None:
    raw: Any = {"defaultAccount": "b", "accounts": {"a": {"textChunkLimit": 7}, "b": {"textChunkLimit": 9}}}
    settings, findings = read_settings({"channels": {"telegram": raw}})
    assert list(settings.accounts["telegram"]) == ["b", "a"] and findings == []
    assert settings.account("telegram", "default").limit == 9 and settings.account("telegram", "a").limit == 7
    told = read({**raw, "defaultAccount": "bb"})[1]
    assert [(one.path, one.fatal) for one in told] == [(("channels", "telegram", "defaultAccount"), False)]


@pytest.mark.parametrize(
    "slip", [{"chunkMode": "newlines"}, {"allowBots": "mention"}, {"ackReaction": ["x"]}, {"streaming": "ful"}]
)
def test_words_that_are_none_are_told(slip: dict[str, Any]) -> None:
    assert [one.path[-1] for one in read(slip)[1]] == list(slip)


def test_what_channels_share_says_nothing_of_accounts() -> None:
    raw: Any = {"defaults": {"accounts": {"a": {}}, "enabled": True}, "telegram": {}}
    findings = read_settings({"channels": raw})[1]
    assert {one.path for one in findings} == {("channels", "defaults", word) for word in ("accounts", "enabled")}


def test_older_ways_to_write_it() -> None:
    assert one({"dm": {"policy": "allowlist", "allowFrom": ["7"]}}, "discord").allow_from == ("7",)
    assert one({"dm": {"enabled": False}}, "slack").dm == "disabled"


def test_the_shared_history_limit() -> None:
    chat: Any = {"messages": {"groupChat": {"historyLimit": 7}}}
    assert one({}, **chat).history == 7 and one({"historyLimit": 0}, **chat).history == 0


def test_loops() -> None:
    own = {"enabled": False, "maxEventsPerWindow": 5, "windowSeconds": 30, "cooldownSeconds": 90}
    assert one({"botLoopProtection": own}).loop == BotLoopSettings(False, 5, 30.0, 90.0)
    assert one({"botLoopProtection": {"maxEventsPerWindow": 0}}).loop.most == 20  # no limit cannot be written so


json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ["dmPolicy", "allowFrom", "groups", "guilds", "channels", "accounts", "dm", "botLoopProtection", "historyLimit"]


@given(st.dictionaries(st.sampled_from(KEYS), json))
def test_no_section_breaks_it_or_opens_a_door(section: dict[str, Any]) -> None:
    for own in read(section)[0].values():
        assert own.dm != "open" and own.group == "allowlist"

"""Which rule is the sender's."""

from __future__ import annotations

import pytest

from palinurus.core.policy.layers import SenderRuleKeys, ToolAsker, find_sender_rules, normalize_phone


@pytest.mark.parametrize(
    ("keys", "asker", "expected"),
    [
        (["id:42", "*"], ToolAsker("42"), SenderRuleKeys("id:42")),
        (["*", "42"], ToolAsker("42"), SenderRuleKeys("42")),
        (["ID:ABC"], ToolAsker("abc"), SenderRuleKeys("ID:ABC")),
        (["*"], ToolAsker("42"), SenderRuleKeys("*")),
        (["id:43"], ToolAsker("42"), SenderRuleKeys()),
        (["e164:+49 151 2345"], ToolAsker("491512345@s.whatsapp.net"), SenderRuleKeys("e164:+49 151 2345")),
        (["role:admins", "*"], ToolAsker("1", roles=("users", "admins")), SenderRuleKeys("role:admins")),
        (["name:Ada", "*"], ToolAsker("1", "ada"), SenderRuleKeys("*", "name:Ada")),
        (["username:@ada"], ToolAsker("1", "ada"), SenderRuleKeys(None, "username:@ada")),
        (["id:", "e164:", "name:", ""], ToolAsker(), SenderRuleKeys()),
        (["id:42", "e164:+42"], ToolAsker("42"), SenderRuleKeys("id:42")),
    ],
)
def test_found(keys: list[str], asker: ToolAsker, expected: SenderRuleKeys) -> None:
    assert find_sender_rules(dict.fromkeys(keys, 0), asker) == expected


def test_a_name_never_counts_as_an_id() -> None:
    assert find_sender_rules({"id:42": 0, "42": 0}, ToolAsker("7", "42")) == SenderRuleKeys()
    assert find_sender_rules({"id:name:x": 0}, ToolAsker("7", "x")) == SenderRuleKeys()


def test_phone_numbers() -> None:
    assert (
        normalize_phone("+49 (151) 23-45") == "+491512345"
        and normalize_phone("someone") == ""
        and normalize_phone("") == ""
    )

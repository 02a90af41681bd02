"""Which rule is the sender's."""

from __future__ import annotations

import pytest

from palinurus.core.policy.senders import Asker, Found, found, phone


@pytest.mark.parametrize(
    ("keys", "asker", "expected"),
    [
        (["id:42", "*"], Asker("42"), Found("id:42")),
        (["*", "42"], Asker("42"), Found("42")),
        (["ID:ABC"], Asker("abc"), Found("ID:ABC")),
        (["*"], Asker("42"), Found("*")),
        (["id:43"], Asker("42"), Found()),
        (["e164:+49 151 2345"], Asker("491512345@s.whatsapp.net"), Found("e164:+49 151 2345")),
        (["role:admins", "*"], Asker("1", roles=("users", "admins")), Found("role:admins")),
        (["name:Ada", "*"], Asker("1", "ada"), Found("*", "name:Ada")),
        (["username:@ada"], Asker("1", "ada"), Found(None, "username:@ada")),
        (["id:", "e164:", "name:", ""], Asker(), Found()),
        (["id:42", "e164:+42"], Asker("42"), Found("id:42")),
    ],
)
def test_found(keys: list[str], asker: Asker, expected: Found) -> None:
    assert found(dict.fromkeys(keys, 0), asker) == expected


def test_a_name_never_counts_as_an_id() -> None:
    assert found({"id:42": 0, "42": 0}, Asker("7", "42")) == Found()
    assert found({"id:name:x": 0}, Asker("7", "x")) == Found()


def test_phone_numbers() -> None:
    assert phone("+49 (151) 23-45") == "+491512345" and phone("someone") == "" and phone("") == ""

"""Showing a config without its secrets, and getting it back."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.secrets import MARKER, LostSecret, redact_config, restore_secrets

STORED: dict[str, Any] = {
    "gateway": {"auth": {"token": "t0p-secret"}, "port": 1},
    "models": {"providers": {"a": {"apiKey": "${KEY}", "baseUrl": "https://me:pw@host/v1"}}},
    "agents": {"list": [{"id": "one", "token": "s1"}, {"id": "two", "token": "s2"}]},
    "hooks": [{"name": "x", "secret": "h1"}, {"name": "y", "secret": "h2"}],
}


def test_what_was_shown_stands_for_what_is_stored() -> None:
    shown = redact_config(STORED)
    assert shown["gateway"]["auth"]["token"] == MARKER and shown["gateway"]["port"] == 1
    assert shown["models"]["providers"]["a"]["apiKey"] == "${KEY}"
    assert "pw" not in str(shown)
    assert restore_secrets(shown, STORED) == STORED


def test_items_of_lists_are_known_by_their_id_or_by_being_the_same() -> None:
    shown = redact_config(STORED)
    shown["agents"]["list"].reverse()
    shown["hooks"].reverse()
    back = restore_secrets(shown, STORED)
    assert [(a["id"], a["token"]) for a in back["agents"]["list"]] == [("two", "s2"), ("one", "s1")]
    assert [(h["name"], h["secret"]) for h in back["hooks"]] == [("y", "h2"), ("x", "h1")]


def test_a_new_secret_is_taken_and_a_marker_without_one_is_refused() -> None:
    shown = redact_config(STORED)
    shown["gateway"]["auth"]["token"] = "new"
    assert restore_secrets(shown, STORED)["gateway"]["auth"]["token"] == "new"
    shown["agents"]["list"].append({"id": "three", "token": MARKER})
    with pytest.raises(LostSecret, match=r"agents\.list\[2\]\.token"):
        restore_secrets(shown, STORED)


KEYS = st.sampled_from(["token", "name", "apiKey", "id", "env", "list", "url"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just("https://a:b@c/"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, max_size=4))
def test_reading_and_sending_back_changes_nothing(config: dict[str, Any]) -> None:
    before = copy.deepcopy(config)
    assert restore_secrets(redact_config(config), config) == before

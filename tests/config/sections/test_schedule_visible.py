"""channels.*.heartbeat."""

from __future__ import annotations

from palinurus.config.sections.schedule import HeartbeatVisibility, resolve_visibility


def test_an_accounts_word_goes_before_its_channels_and_that_before_the_defaults() -> None:
    channels = {
        "defaults": {"heartbeat": {"showOk": True, "useIndicator": "maybe"}},
        "telegram": {
            "heartbeat": {"showAlerts": False},
            "accounts": {"work": {"heartbeat": {"showOk": False}}, "a": 1},
        },
        "irc": {"heartbeat": 7},
    }
    assert resolve_visibility(channels) == {
        "": HeartbeatVisibility(ok=True),
        "telegram": HeartbeatVisibility(ok=True, alerts=False),
        "telegram/work": HeartbeatVisibility(ok=False, alerts=False),
        "telegram/a": HeartbeatVisibility(ok=True, alerts=False),
        "irc": HeartbeatVisibility(ok=True),
    }
    assert resolve_visibility({}) == {"": HeartbeatVisibility()}

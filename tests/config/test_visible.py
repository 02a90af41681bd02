"""channels.*.heartbeat."""

from __future__ import annotations

import msgspec

from palinurus.config.schema import Config
from palinurus.config.visible import Visible, visible


def test_an_accounts_word_goes_before_its_channels_and_that_before_the_defaults() -> None:
    channels = {
        "defaults": {"heartbeat": {"showOk": True, "useIndicator": "maybe"}},
        "telegram": {
            "heartbeat": {"showAlerts": False},
            "accounts": {"work": {"heartbeat": {"showOk": False}}, "a": 1},
        },
        "irc": {"heartbeat": 7},
    }
    assert visible(msgspec.convert({"channels": channels}, Config)) == {
        "": Visible(ok=True),
        "telegram": Visible(ok=True, alerts=False),
        "telegram/work": Visible(ok=False, alerts=False),
        "telegram/a": Visible(ok=True, alerts=False),
        "irc": Visible(ok=True),
    }
    assert visible(Config()) == {"": Visible()}

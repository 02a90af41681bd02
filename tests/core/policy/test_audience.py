"""Who may use the machine."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.policy.audience import is_outsider
from palinurus.core.types.inbound import Sender, Target
from support import inbound

TRUSTED = frozenset(("fake:7", "fake:group:-77", "irc:*"))
GROUP = {"kind": "group", "target": Target("fake", "-77")}


@pytest.mark.parametrize(
    ("message", "outsider"),
    [
        ({"sender": Sender("1", owner=True)}, False),
        ({"sender": Sender("phone", scopes=("operator.write",))}, False),  # a device that the owner paired
        ({"sender": Sender("9")}, True),
        ({"sender": Sender("9", allowed=True)}, True),  # may command; that is something else
        ({"sender": Sender("7")}, False),
        ({"sender": Sender("uuid", also=("7",))}, False),
        ({"sender": Sender("9", "7")}, True),  # a name is no id
        ({"sender": Sender("7"), "target": Target("other")}, True),  # somebody else's 7
        ({"sender": Sender("9"), "target": Target("irc")}, False),
        ({"sender": Sender("9"), **GROUP}, False),
        ({"sender": Sender("9"), **GROUP, "kind": "channel"}, False),
        ({"sender": Sender("9"), **GROUP, "target": Target("fake", "-78")}, True),
        ({"sender": Sender("9"), "target": Target("fake", "-77")}, True),  # a person whose id is a group's
        ({"sender": Sender("cron"), "system": True}, False),
        ({"sender": Sender("9"), "system": True, "outsider": True}, True),  # what an outsider's turn started
        ({"sender": Sender("1", owner=True), "outsider": True}, True),
    ],
)
def test_who_is_an_outsider(message: dict[str, Any], outsider: bool) -> None:
    assert is_outsider(inbound(**message), TRUSTED) is outsider

from __future__ import annotations

from palinurus.core.prompt.surfaces import surface


def test_known_unknown_and_configured() -> None:
    assert surface("telegram", {}).capabilities == ("inlineButtons", "approvals", "reactions")
    assert surface("spool", {}).capabilities == ()
    assert surface("telegram", {"reactionLevel": "off"}).reactions == ""
    assert surface("discord", {"reactionLevel": "extensive"}).reactions == "extensive"
    assert surface("discord", {"reactionLevel": ["x"], "capabilities": 3}) == surface("discord", {})
    assert not surface("telegram", {"capabilities": []}).buttons
    assert surface("signal", {"capabilities": ["inlineButtons"]}).buttons
    assert not surface("telegram", {"capabilities": {"inlineButtons": "off"}}).buttons

from __future__ import annotations

from palinurus.core.prompt.facts import find_surface


def test_known_unknown_and_configured() -> None:
    assert find_surface("telegram", {}).capabilities == ("inlineButtons", "approvals", "reactions")
    assert find_surface("spool", {}).capabilities == ()
    assert find_surface("telegram", {"reactionLevel": "off"}).reactions == ""
    assert find_surface("discord", {"reactionLevel": "extensive"}).reactions == "extensive"
    assert find_surface("discord", {"reactionLevel": ["x"], "capabilities": 3}) == find_surface("discord", {})
    assert not find_surface("telegram", {"capabilities": []}).buttons
    assert find_surface("signal", {"capabilities": ["inlineButtons"]}).buttons
    assert not find_surface("telegram", {"capabilities": {"inlineButtons": "off"}}).buttons

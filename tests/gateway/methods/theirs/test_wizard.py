"""The first setup, asked one by one: what was answered stands in the next question."""

from __future__ import annotations

from pathlib import Path

from gateway.methods.test_setup import KEY, NEW
from gateway.whole import place


async def test_a_vendor_is_chosen_and_its_key_asked_for(tmp_path: Path) -> None:
    async with place(tmp_path / "h", **NEW) as here:
        begun = await here.call("wizard.start", mode="local")
        step = begun["step"]
        assert (step["id"], step["type"], begun["done"]) == ("provider", "select", False)
        assert "anthropic" in [one["value"] for one in step["options"]]
        session = {"sessionId": begun["sessionId"]}
        wrong = await here.refused("wizard.next", **session, answer={"stepId": "provider", "value": "nobody"})
        assert "no provider" in wrong.message
        asked = await here.call("wizard.next", **session, answer={"stepId": "provider", "value": "anthropic"})
        assert asked["step"]["id"] == "key:anthropic" and asked["step"]["sensitive"]
        before = (tmp_path / "h" / "palinurus.json").read_text()
        again = await here.call("wizard.next", **session, answer={"stepId": "key:anthropic", "value": KEY})
        assert again["step"]["id"] == "key:anthropic" and "does not answer" in again["step"]["message"]
        assert KEY not in str(again) and (tmp_path / "h" / "palinurus.json").read_text() == before
        assert await here.call("wizard.status", **session) == {"status": "running"}
        assert await here.call("wizard.cancel", **session) == {"status": "cancelled"}

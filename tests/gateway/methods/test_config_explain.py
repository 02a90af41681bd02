"""Asking what a key of the config is."""

from __future__ import annotations

from pathlib import Path

from gateway.whole import place


async def test_a_key_is_explained_and_secrets_stay_secret(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        port = await here.call("config.explain", path="gateway.port")
        secret = await here.call("config.explain", path="models.providers.fake.apiKey")
        wrong = await here.refused("config.explain", path="gateway.prot")
    assert (
        port["value"]
        and port["about"]
        and port["when"] == "needs a restart of the gateway"
        and port["source"] == "default"
    )
    assert "palinurus.json:" in secret["source"] and secret["value"] != "k"
    assert "prot" in wrong.message

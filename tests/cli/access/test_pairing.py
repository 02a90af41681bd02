"""`pal pairing` beside a gateway and without one."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flow.test_app import settings
from gateway.methods.test_channels import place
from palinurus.cli.access.pairing import perform_pairing_command, run_pairing
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import Sender, Target
from palinurus.errors import BadRequest
from palinurus.inbox.pairing import ChatPairing
from palinurus.store.factory import open_store
from palinurus.testing.channel import FakeChannel
from support import inbound


def asked(home: Path, *who: str) -> list[str]:
    """Strangers, while no gateway runs; their codes."""

    async def ask() -> list[str]:
        store = await open_store(str(home), SystemClock())
        pairing = ChatPairing(store, SystemClock(), owned=False)
        made = [
            await pairing.ask(inbound(target=Target("fake", "dm"), sender=Sender(w, "\x1b]0;x\x07Eve"))) for w in who
        ]
        await store.close()
        return [one.code for one in made if one is not None]

    return asyncio.run(ask())


def test_without_a_gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "h"))
    settings(tmp_path / "h", channels={"fake": {}}, gateway={"port": 1})
    one, two = asked(tmp_path / "h", "7", "8")
    assert run_pairing([]) == 0
    shown = capsys.readouterr().out
    assert one in shown and "fake:7" in shown and "\x1b" not in shown
    assert run_pairing(["approve", "fake", one]) == 0 and "the owner" in capsys.readouterr().out
    assert run_pairing(["approve", one]) == 1 and "Nothing changed" in capsys.readouterr().out
    assert run_pairing(["reject", two]) == 0 and run_pairing(["reject", two]) == 1
    capsys.readouterr()
    assert run_pairing(["list", "fake", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["id"] for row in found["paired"]] == ["7"] and found["requests"] == []
    assert "approvedAtMs" in found["paired"][0]  # the same shape as beside a gateway
    assert run_pairing(["list", "other"]) == 0 and "Nobody waits" in capsys.readouterr().out
    assert run_pairing(["revoke", "fake:7"]) == 0 and run_pairing(["revoke", "fake", "7"]) == 1
    with pytest.raises(BadRequest):
        run_pairing(["approve"])


async def test_beside_a_gateway_it_counts_at_once(tmp_path: Path) -> None:
    channel, clock = FakeChannel(), SystemClock()
    async with place(tmp_path / "h", channel) as here:
        home = load_config(str(tmp_path / "h"), {})
        await channel.receive("hi", event="e1", sender="7")
        text, good = await perform_pairing_command(home, clock, "list", {})
        (asking,) = await here.app.admission.pairing.list_waiting()
        assert good and asking.code in text
        text, good = await perform_pairing_command(home, clock, "approve", {"code": asking.code, "notify": False})
        assert good and "fake:7" in text
        (ident,) = await channel.receive("hi", event="e2", sender="7")
        assert (await here.app.wait(ident)).outcome == "answered"
        assert await perform_pairing_command(home, clock, "approve", {"code": asking.code}) == (
            "Nothing changed: no stranger has this code now (codes are good for one hour, and once).", False,
        )  # fmt: skip
        assert (await perform_pairing_command(home, clock, "revoke", {"who": "7"}))[1]
        assert await channel.receive("hi", event="e3", sender="7") == [""]

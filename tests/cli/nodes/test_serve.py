"""Where a node goes, with which credential, and to whom it shows it."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import settings
from gateway.whole import place
from palinurus.cli.nodes.serve import NodeOptions, NodeRunner, NodeState, plan_login, read_state, write_state
from palinurus.clock import SystemClock
from palinurus.errors import BadRequest
from palinurus.gateway.client import load_identity
from palinurus.gateway.ws.device import encode_base64url
from palinurus.services.nodes.pairing import SHORT, digest_token

LOCAL = "ws://127.0.0.1:18789"


def code(**fields: Any) -> str:
    return encode_base64url(json.dumps({"url": LOCAL, "bootstrapToken": "b" * 43, **fields}).encode())


def plan(tmp_path: Path, env: dict[str, str] | None = None, **asked: str) -> tuple[NodeState, dict[str, Any]]:
    return plan_login(str(tmp_path), env or {}, NodeOptions(**asked))


def test_credentials_in_their_order(tmp_path: Path) -> None:
    _, given = plan(tmp_path, code=code())
    digest = digest_token("b" * 43)
    assert given == {"code": "b" * 43, "proof": digest, "prove_as": f"code:{digest[:SHORT]}", "fingerprint": ""}
    env = {"PALINURUS_GATEWAY_TOKEN": "t" * 43}
    assert plan(tmp_path, env, gateway=LOCAL)[1]["prove_as"] == "token"
    write_state(str(tmp_path), NodeState(LOCAL, "own", name="shed"))
    assert os.stat(tmp_path / "node.json").st_mode & 0o077 == 0
    state, given = plan(tmp_path, env)
    assert given["device_token"] == "own" and given["prove_as"] == f"node:{load_identity(str(tmp_path)).id}"
    assert state.name == "shed" and "token" not in given
    state, given = plan(tmp_path, env, gateway="ws://localhost:1")  # a token is shown to its own gateway only
    assert given["token"] == "t" * 43 and state.token == ""


def test_a_certificate_is_a_proof(tmp_path: Path) -> None:
    pin = "ab" * 32
    state, given = plan(tmp_path, code=code(url="wss://pal.example:1", tlsFingerprint=pin))
    assert given == {"code": "b" * 43, "fingerprint": pin} and state.fingerprint == pin


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({}, "which gateway"),
        ({"gateway": LOCAL}, "not paired"),
        ({"gateway": "ws://192.168.1.5:18789"}, "show the token to the network"),
        ({"gateway": "http://127.0.0.1"}, "no gateway's address"),
        ({"code": "%%%"}, "no pairing code"),
        ({"code": "e30"}, "no pairing code"),
    ],
)
def test_what_is_not_enough_says_so(tmp_path: Path, asked: dict[str, str], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        plan(tmp_path, **asked)


def test_a_damaged_file_knows_nothing(tmp_path: Path) -> None:
    (tmp_path / "node.json").write_text("{")
    assert read_state(str(tmp_path)) == NodeState()


async def test_nothing_is_shown_to_a_gateway_that_cannot_prove_itself(tmp_path: Path) -> None:
    """A gateway that does not know the token, and one that does."""
    lines: list[str] = []
    async with place(tmp_path / "h") as site:
        url = f"ws://127.0.0.1:{site.server.port}"
        foreign = code(url=url)
        home = settings(tmp_path / "n")
        runner = NodeRunner(home, {}, SystemClock(), NodeOptions(code=foreign), show=lines.append)
        task = asyncio.ensure_future(runner.run())
        async with asyncio.timeout(60):
            while not any("nothing was sent" in line for line in lines):
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        assert (await site.call("node.pair.list"))["pending"] == []
        made = (await site.call("device.pair.setupCode", url=url))["setupCode"]
        runner = NodeRunner(home, {}, SystemClock(), NodeOptions(code=made, name="shed"), show=lines.append)
        task = asyncio.ensure_future(runner.run())
        async with asyncio.timeout(60):
            while not any("connected to" in line for line in lines):
                await asyncio.sleep(0.01)
        assert (await site.call("node.describe", nodeId="shed"))["connected"] is True
        site.server.clients.disconnect(device=load_identity(home.home).id)  # comes back by itself, with its own token
        async with asyncio.timeout(60):
            while sum("connected to" in line for line in lines) < 2:
                await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})

"""`pal sessions` changes sessions while a gateway runs: through it, by the same methods."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from flow.test_app import CONFIG, running
from palinurus.cli.sessions import run_sessions
from palinurus.clock import SystemClock
from palinurus.errors import NotFound
from palinurus.gateway import token
from palinurus.gateway.server import GatewayServer
from palinurus.sessions.files import list_session_files
from palinurus.testing.model import ScriptedModel, say
from support import inbound

TOKEN = "t" * 43


async def test_rewind_label_branch_import_reset_delete_cleanup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "h"
    home.mkdir()
    secret = {"gateway": {"auth": {"mode": "token", "token": TOKEN}}}
    (home / "palinurus.json").write_text(json.dumps({**CONFIG, **secret}))
    monkeypatch.setenv("PALINURUS_HOME", str(home))

    async def pal(*words: str) -> str:
        await asyncio.to_thread(run_sessions, list(words))
        return capsys.readouterr().out

    async with running(home, ScriptedModel([say("One."), say("Two."), say("Three.")]), **secret) as app:
        server = GatewayServer(app, SystemClock(), TOKEN)
        port = await server.start("127.0.0.1", 0)
        token.announce_location(str(home), token.GatewayLocation("127.0.0.1", port, 1, proof=server.proof_key))
        for text in ("first", "second"):
            accepted = await app.submit(inbound(text, event=text, session="agent:main:talk"))
            await app.wait(accepted.id)
        nodes = json.loads(await pal("tree", "talk", "--json"))
        assert [node["who"] for node in nodes] == ["user", "assistant", "user", "assistant"]
        assert "is labelled 'start'" in await pal("label", "talk", nodes[1]["id"][:6], "start")
        assert "(2 messages)" in await pal("rewind", "talk", "start")
        accepted = await app.submit(inbound("third", event="third", session="agent:main:talk"))
        await app.wait(accepted.id)  # goes on from there
        assert len(json.loads(await pal("show", "talk", "--json"))) == 4
        assert "agent:main:other holds" in await pal("branch", "talk", "start", "--as", "other")
        file = await pal("path", "other")
        assert "imported 2 messages" in await pal("import", file.strip(), "--session", "third")
        assert "starts anew" in await pal("reset", "talk")
        assert "deleted agent:main:other" in await pal("delete", "other")
        kinds = sorted(file.name.split(".jsonl")[1].split(".2")[0] for file in list_session_files(str(home)))
        assert kinds == ["", ".deleted", ".reset"]
        assert await pal("cleanup") == "0 gone (0 bytes)\n"
        with pytest.raises(NotFound, match="no entry 'zzz'"):
            await pal("rewind", "third", "zzz")
        await server.stop()

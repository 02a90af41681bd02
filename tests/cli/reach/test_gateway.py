"""Every client with `gateway.mode: remote` talks to the gateway elsewhere, or says what to do; here nothing is done."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from cli.reach.test_http import settle
from nursery import Program
from palinurus.cli.main import main
from palinurus.testing.model import ScriptedModel, say
from support import inbound
from web.served import TOKEN, Served, served

ACP = (
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1, "clientCapabilities": {}}},
    {"jsonrpc": "2.0", "id": 2, "method": "session/list", "params": {}},
)
MCP = (
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
    },
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "sessions_list", "arguments": {}}},
)
MAIN, SAID = "agent:main:main", "agent:main:far"  # a session that only the other gateway has
# What is typed, what is sent, which words show that the other gateway answered.
CLIENTS: dict[str, tuple[Sequence[str], str, str]] = {
    "agent": (("agent", "-m", "hello"), "", "from afar"),
    "headless": (("-p", "hello"), "", "from afar"),
    "chat": (("chat", "--plain"), "hello\n", "from afar"),
    "sessions": (("sessions",), "", SAID),
    "show": (("sessions", "show", "far"), "", "from afar"),
    "search": (("sessions", "search", "afar"), "", SAID),
    "dashboard": (("dashboard", "--no-open"), "", f"/#token={TOKEN}"),
    "acp": (("acp",), "".join(json.dumps(one) + "\n" for one in ACP), SAID),
    "mcp": (("mcp", "serve"), "".join(json.dumps(one) + "\n" for one in MCP), MAIN),
}


BASIC = ("agent", "chat", "sessions", "dashboard", "acp", "mcp")  # each has a way of its own to the gateway


async def run_all(home: Path, every: Mapping[str, tuple[Sequence[str], str, str]]) -> dict[str, str]:
    """What each says. Two at a time: a busy machine makes a gateway look dead."""
    few = asyncio.Semaphore(2)

    async def one(words: Sequence[str], sent: str, until: str) -> str:
        async with few:
            return await pal(home, words, sent, until)

    return dict(zip(every, await asyncio.gather(*(one(*row) for row in every.values())), strict=True))


async def pal(home: Path, words: Sequence[str], sent: str, until: str = "") -> str:
    """What a command says, up to `until`: a bridge stays until its pipe is closed."""
    return await asyncio.to_thread(_talk, home, words, sent, until)


def _talk(home: Path, words: Sequence[str], sent: str, until: str) -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), "PALINURUS_HOME": str(home)}
    pipe, said = subprocess.PIPE, ""
    with Program(*words, env=environ, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT) as ran:
        assert ran.stdin is not None and ran.stdout is not None
        late = threading.Timer(60, ran.kill)
        late.start()
        ran.stdin.write(sent)
        ran.stdin.flush()
        while until and until not in said and (line := ran.stdout.readline()):
            said += line
        ran.stdin.close()
        said += ran.stdout.read()
        late.cancel()
    return said if ran.returncode != -signal.SIGKILL else f"{said} (it never came)"


def point(here: Path, site: Served, **changes: str) -> Path:
    """A home whose gateway is that one."""
    port, proof = site.gateway.port, site.gateway.fingerprint
    settle(here, **{"url": f"wss://127.0.0.1:{port}", "token": TOKEN, "tlsFingerprint": proof, **changes})
    return here


async def test_every_client_talks_to_the_gateway_elsewhere(tmp_path: Path) -> None:
    model = ScriptedModel([say("words from afar")], repeat=True)
    async with served(tmp_path / "there", model, gateway={"tls": {"enabled": True}}) as site:
        for session in (MAIN, SAID):
            accepted = await site.app.submit(inbound("hi", event=session, session=session))
            await site.app.wait(accepted.id)
        here = point(tmp_path / "here", site)
        said = await run_all(here, CLIENTS)
        strange = [name for name, (_, _, ok) in CLIENTS.items() if ok not in said[name]]
        assert not strange, {name: said[name][-600:] for name in strange}
        assert not (here / "state.db").exists() and not (here / "agents").exists()  # nothing was opened here
        tree = await pal(here, ("sessions", "tree", "far"), "")
        assert "files of the gateway, which is elsewhere" in tree and "do it on that machine" in tree


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"token": "wrong"}, "gateway.remote.token"),
        ({"tlsFingerprint": "ab" * 32}, "gateway.remote.url says where it is"),
    ],
)
async def test_what_cannot_be_reached_says_what_to_do(tmp_path: Path, changes: dict[str, str], words: str) -> None:
    """A wrong token, and another certificate than the one that was told: the token is not sent to that one."""
    async with served(tmp_path / "there", ScriptedModel([]), gateway={"tls": {"enabled": True}}) as site:
        here = point(tmp_path / "here", site, **changes)
        names = [name for name in BASIC if not (name == "dashboard" and "token" in changes)]  # the page says it itself
        said = await run_all(here, {name: (*CLIENTS[name][:2], "") for name in names})
        silent = {name: text[-400:] for name, text in said.items() if words not in text or "Traceback" in text}
        assert not silent, silent
        assert not (here / "state.db").exists()


# What is typed, and words that only the other gateway can have said. In one process: a start takes longer than a call.
ASKED: tuple[tuple[Sequence[str], str], ...] = (
    (("agents",), "(default)  fake/thinker"),
    (("agents", "list", "--json"), '"model": "fake/thinker"'),
    (("agents", "add", "Ada"), "workspace-ada there"),
    (("agents", "delete", "ada"), "ada is gone there"),
    (("models",), "* fake/thinker"),
    (("models", "status"), "default model  fake/thinker"),
    (("usage", "--by", "session"), SAID),
    (("usage", "--json"), "fake/thinker"),
    (("why",), "words from afar"),
    (("why", "model", "far"), "fake/thinker"),
    (("trace",), "settled"),
    (("why", "cache"), "works on files of the gateway, which is elsewhere"),
    (("models", "use", "fake/plain"), "works on files of the gateway, which is elsewhere"),
    (("agents", "bindings"), "works on files of the gateway, which is elsewhere"),
    (("backup", "create"), "works on files of the gateway, which is elsewhere"),
)


async def test_what_commands_say_is_the_other_gateways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ScriptedModel([say("words from afar")], repeat=True)
    async with served(tmp_path / "there", model, gateway={"tls": {"enabled": True}}) as site:
        accepted = await site.app.submit(inbound("say some words from afar", event="1", session=SAID))
        await site.app.wait(accepted.id)
        here = point(tmp_path / "here", site)
        monkeypatch.setenv("PALINURUS_HOME", str(here))
        monkeypatch.setenv("HOME", str(here))
        strange = {}
        for words, expected in (*ASKED, (("trace", accepted.id[:20]), accepted.id), (("why", accepted.id), "afar")):
            await asyncio.to_thread(main, list(words))
            said = "".join(capsys.readouterr())
            if expected not in said:
                strange[words] = said[-700:]
        assert not strange, strange
        assert not (here / "state.db").exists() and not (here / "agents").exists()

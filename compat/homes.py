"""Real homes of OpenClaw (two versions), hermes and nanobot, made by these programs against a mock model, and what
`pal import` makes of them: every word and file is here, twice is once, the old home is as it was."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

import back
import imported
import place
from tally import Tally

from palinurus.clock import SystemClock
from palinurus.errors import GatewayUnreachable
from palinurus.gateway.client import GatewayLink, LoginOptions, connect_gateway, make_identity
from palinurus.gateway.rpc import MethodError

HERMES, NANOBOT = "0.19.0", "0.3.5"
WORDS = ("hello from before", "and a second line")
TOOLS = 'TOOL read {"path": "notes.txt"}\nSAY it says $RESULT'
AFTER = "a new conversation"
GATE = "token-of-the-test"
SCOPES = ("operator.admin", "operator.read", "operator.write", "operator.approvals", "operator.pairing")
# What these two let nobody do from a command line, done with their own code: a job, and somebody who is let in.
OF_NANOBOT = """
from pathlib import Path
from nanobot.cron.service import CronService
from nanobot.cron.types import CronSchedule
from nanobot.pairing.store import approve_code, generate_code
bound = {"session_key": "telegram:4711", "origin_channel": "telegram", "origin_chat_id": "4711"}
jobs = CronService(Path.home() / ".nanobot" / "workspace" / "cron" / "jobs.json")
jobs.add_job("brief", CronSchedule(kind="cron", expr="0 8 * * *"), "morning brief", **bound)
approve_code(generate_code("telegram", "4711"))
"""
OF_HERMES = """
from gateway.pairing import PairingStore
store = PairingStore()
store.approve_code("telegram", store.generate_code("telegram", "4711", "Ann"))
"""
MODEL = {"id": "model", "name": "Model", "contextWindow": 200_000, "maxTokens": 8192}
PATIENCE = 600


def drive_openclaw(version: str, cache: str, tally: Tally) -> None:
    """A home of this version; of the older one also the way back."""
    package = place.install_openclaw(cache, version)
    with mock_model() as (root, url):
        home = make_openclaw(os.path.join(root, version), package, url)
        imported.check(tally, "openclaw", version, home)
        if version == place.VERSIONS[0]:
            ours = os.path.join(os.path.dirname(home), "pal")
            serve, repair = (partial(do, package=package) for do in (serve_openclaw, repair_openclaw))
            back.check(tally, ours, serve, repair)


def drive_hermes(cache: str, tally: Tally) -> None:
    wheel = f"hermes-agent=={HERMES}"
    binaries = place.install_pip(os.path.join(cache, wheel), wheel)
    with mock_model() as (root, url):
        imported.check(tally, "hermes", HERMES, make_hermes(os.path.join(root, "hermes"), binaries, url))


def drive_nanobot(cache: str, tally: Tally) -> None:
    wheel = f"nanobot-ai=={NANOBOT}"
    binaries = place.install_pip(os.path.join(cache, wheel), wheel)
    with mock_model() as (root, url):
        imported.check(tally, "nanobot", NANOBOT, make_nanobot(os.path.join(root, "nanobot"), binaries, url))


@contextmanager
def mock_model() -> Iterator[tuple[str, str]]:
    """A folder for homes, and the address of a model that echoes."""
    root, port = tempfile.mkdtemp(prefix="homes-"), place.free_port()
    print(f"compat: homes of other programs in {root}", flush=True)
    server = place.spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(port)], root, "mock")
    try:
        yield root, f"http://127.0.0.1:{port}/v1"
    finally:
        server.kill()


def make_openclaw(home: str, package: str, url: str) -> str:
    """Two agents, a binding, conversations with tools and one put away, keys, a job, a rule, a person, a skill."""
    root = os.path.join(home, ".openclaw")
    port = place.free_port()
    provider = {"baseUrl": url, "apiKey": "sk-mock", "api": "openai-completions", "models": [MODEL]}
    put(root, "openclaw.json", json.dumps({
        "gateway": {"mode": "local", "port": port, "auth": {"mode": "token", "token": GATE}},
        "models": {"providers": {"mock": provider}},
        "agents": {
            "defaults": {"model": {"primary": "mock/model"}, "workspace": "~/.openclaw/workspace"},
            "list": [{"id": "main", "default": True}, {"id": "work", "workspace": "~/.openclaw/workspace-work"}],
        },
        "bindings": [{"agentId": "work", "match": {"channel": "telegram", "accountId": "work"}}],
        "channels": {"telegram": {"enabled": False, "dmPolicy": "pairing", "accounts": {
            "default": {"botToken": "123:abc"}, "work": {"botToken": "456:def"}}}},
        "mcp": {"servers": {"files": {"command": "true", "args": ["-y"], "env": {"A": "b"}}}},
        "hooks": {"enabled": True, "token": "hook-token-of-the-test", "path": "/hooks"},
        "tools": {"exec": {"security": "full", "ask": "off"}},
    }))  # fmt: skip
    put(root, ".env", "GROQ_API_KEY=sk-of-the-environment\n")
    for space in ("workspace", "workspace-work"):
        put(root, f"{space}/notes.txt", "buy milk\n")
    put(root, "workspace/MEMORY.md", "# Memory\n\nAnn likes tea.\n")
    put(root, "skills/mine/SKILL.md", "---\nname: mine\ndescription: my own\n---\nDo it.\n")
    put(root, "credentials/telegram-allowFrom.json", json.dumps({"version": 1, "allowFrom": ["4711"]}))
    key = {"type": "api_key", "provider": "anthropic", "key": "sk-ant-of-the-test"}
    profiles = {"version": 1, "profiles": {"anthropic:default": key}}
    put(root, "agents/main/agent/auth-profiles.json", json.dumps(profiles))
    if place.VERSIONS[1] in package:
        repair_openclaw(home, package)  # it does not start before it has taken older files into its databases
    with serve_openclaw(home, package, port) as ask:
        for agent in ("main", "work"):
            for words in (*WORDS, TOOLS):
                say(ask, agent, words)
        ask("sessions.reset", {"key": "agent:main:main"})
        say(ask, "main", AFTER)
        rules = ask("exec.approvals.get", {})
        rules["file"].setdefault("agents", {})["main"] = {"allowlist": [{"pattern": "/usr/bin/git"}]}
        ask("exec.approvals.set", {"file": rules["file"], "baseHash": rules["hash"]})
        when, what = {"kind": "cron", "expr": "0 8 * * *"}, {"kind": "agentTurn", "message": "morning brief"}
        target = {"sessionTarget": "isolated", "wakeMode": "now"}
        ask("cron.add", {"name": "brief", "schedule": when, "payload": what, **target})
    return root


Ask: TypeAlias = Callable[..., Any]


def say(ask: Ask, agent: str, words: str) -> None:
    key = f"agent:{agent}:main"
    params = {"message": words, "agentId": agent, "sessionKey": key, "idempotencyKey": uuid.uuid4().hex}
    ask("agent", params, final=True)


@contextmanager
def serve_openclaw(home: str, package: str, port: int = 0) -> Iterator[Ask]:
    """Its gateway on a home; the function calls its methods. Everything it started is ended with it."""
    port = port or place.free_port()
    program, environ = find_openclaw(home, package)
    with open(os.path.join(home, "gateway.log"), "ab") as log:
        gateway = subprocess.Popen(
            [*program, "gateway", "run", "--port", str(port)],
            env=environ, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    loop = asyncio.new_event_loop()
    try:
        link = loop.run_until_complete(connect(port))

        def ask(method: str, params: dict[str, Any], *, final: bool = False) -> Any:
            return loop.run_until_complete(asyncio.wait_for(link.call(method, params, final=final), PATIENCE))

        yield ask
        loop.run_until_complete(link.close())
    finally:
        loop.close()
        os.killpg(gateway.pid, signal.SIGTERM)  # it has children, which would write on
        gateway.wait(60)
        with suppress(ProcessLookupError):
            os.killpg(gateway.pid, signal.SIGKILL)


def repair_openclaw(home: str, package: str) -> str:
    program, environ = find_openclaw(home, package)
    return run([*program, "doctor", "--fix", "--non-interactive"], environ)


def find_openclaw(home: str, package: str) -> tuple[list[str], dict[str, str]]:
    """Its command line, and the variables for it with this folder as the user's."""
    node = os.path.join(package, "node_modules", "node", "bin")
    environ = {**clean(), "HOME": home, "PATH": node + os.pathsep + os.environ["PATH"], "NO_COLOR": "1"}
    return [os.path.join(node, "node"), os.path.join(package, "node_modules", "openclaw", "openclaw.mjs")], environ


async def connect(port: int) -> GatewayLink:
    """It listens before it answers."""
    options = LoginOptions(token=GATE, identity=make_identity(), scopes=SCOPES)
    end = time.monotonic() + PATIENCE
    while True:
        try:
            return await connect_gateway(f"ws://127.0.0.1:{port}", SystemClock(), options)
        except (GatewayUnreachable, MethodError) as error:
            if time.monotonic() > end:
                raise SystemExit(f"compat: no OpenClaw on port {port}: {error}") from None
        await asyncio.sleep(1)


def make_nanobot(home: str, binaries: str, url: str) -> str:
    root = os.path.join(home, ".nanobot")
    put(root, "config.json", json.dumps({
        "agents": {"defaults": {"model": "model", "provider": "custom"}},
        "providers": {"custom": {"apiKey": "sk-mock", "apiBase": url}},
        "channels": {"telegram": {"enabled": False, "token": "123:abc", "allowFrom": ["12"]}},
        "tools": {"mcpServers": {"files": {"command": "true", "args": ["-y"]}}},
    }))  # fmt: skip
    put(root, "workspace/notes.txt", "buy milk\n")
    put(root, "workspace/skills/mine/SKILL.md", "---\nname: mine\ndescription: my own\n---\nDo it.\n")
    environ = {**clean(), "HOME": home}
    for words in (*WORDS, TOOLS.replace("TOOL read ", "TOOL read_file ")):
        run([os.path.join(binaries, "nanobot"), "agent", "-m", words], environ)
    run([os.path.join(binaries, "nanobot"), "agent", "-s", "cli:second", "-m", AFTER], environ)
    run([os.path.join(binaries, "python"), "-c", OF_NANOBOT], environ)
    return root


def make_hermes(home: str, binaries: str, url: str) -> str:
    root = os.path.join(home, ".hermes")
    model = f"model:\n  default: model\n  provider: custom\n  base_url: {url}\n  context_length: 128000\n"
    servers = "mcp_servers:\n  files:\n    command: 'true'\n    args: [-y]\n"
    put(root, "config.yaml", model + servers + "display:\n  compact: true\n")
    put(root, ".env", "OPENAI_API_KEY=sk-mock\nTELEGRAM_BOT_TOKEN=123:abc\n")
    put(root, "skills/mine/SKILL.md", "---\nname: mine\ndescription: my own\n---\nDo it.\n")
    put(root, "memories/MEMORY.md", "Ann likes tea.\n")
    put(home, "notes.txt", "buy milk\n")
    environ = {**clean(), "HOME": home}
    hermes = os.path.join(binaries, "hermes")
    for words in (*WORDS, TOOLS.replace("TOOL read ", "TOOL read_file ").replace("notes.txt", f"{home}/notes.txt")):
        run([hermes, "chat", "-q", words], environ)
    run([hermes, "chat", "-q", AFTER], environ)
    run([hermes, "cron", "create", "every 2h", "morning brief", "--name", "brief"], environ)
    run([os.path.join(binaries, "python"), "-c", OF_HERMES], environ)
    return root


def run(command: list[str], environ: dict[str, str]) -> str:
    """A command of theirs: what it prints. What it says if it fails is shown, and the checks will tell."""
    done = subprocess.run(command, env=environ, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    if done.returncode:
        print(f"compat: {command[-3:]}: exit {done.returncode}: {(done.stderr or done.stdout).decode()[-300:]}")
    return done.stdout.decode()


def clean() -> dict[str, str]:
    return {
        key: value for key, value in os.environ.items() if not key.startswith(("PALINURUS_", "OPENCLAW_", "HERMES_"))
    }


def put(root: str, name: str, text: str) -> None:
    path = os.path.join(root, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)

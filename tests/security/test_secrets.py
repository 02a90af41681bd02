"""A canary in every place where secrets live; then all that the program wrote, showed and sent is searched."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp

from cli.place import SRC
from nursery import run_program
from palinurus.testing.model import StreamGate, call_tools, fail, hold_at, say
from palinurus.testing.server import ModelServer

NAMES = ("key", "profile", "token", "channel", "search", "header", "env", "other")
CANARY = {name: f"sk-canary-{name}-{index}f93b77a0c1d2e3" for index, name in enumerate(NAMES)}
SOURCES = ("palinurus.json", "agents/main/agent/auth-profiles.json")  # where they were put; nobody else may hold one


def furnished(home: Path, url: str) -> dict[str, str]:
    """The configuration, and the environment of the gateway."""
    provider = {
        "baseUrl": url,
        "apiKey": CANARY["key"],
        "headers": {"X-Account": CANARY["header"]},
        "models": [{"id": "m"}],
    }
    config = {
        "models": {"providers": {"mock": {**provider, "api": "openai-completions"}}},
        "agents": {"defaults": {"model": {"primary": "mock/m"}}},
        "gateway": {"auth": {"mode": "token", "token": CANARY["token"]}},
        "channels": {"telegram": {"botToken": CANARY["channel"], "enabled": False}},
        "tools": {"web": {"search": {"provider": "brave", "apiKey": CANARY["search"]}}},
        "logging": {"level": "debug"},
    }
    home.mkdir(mode=0o700)
    profile = {"type": "api_key", "provider": "mock", "key": CANARY["profile"]}
    for name, body in zip(SOURCES, (config, {"version": 1, "profiles": {"mock:two": profile}}), strict=True):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps(body))
        (home / name).chmod(0o600)
    secrets = {"ANTHROPIC_API_KEY": CANARY["env"], "MY_DATABASE_PASSWORD": CANARY["other"]}
    plain = {name: os.environ[name] for name in ("PATH", "LANG", "HOME") if name in os.environ}
    return {**plain, **secrets, "PALINURUS_HOME": str(home), "PYTHONPATH": SRC}


class Gateway:
    """The program, all it prints, and what came back over HTTP."""

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env
        self._process: Process | None = None
        self.seen: list[str] = []
        self._url = ""

    async def start(self) -> None:
        command = (sys.executable, "-m", "palinurus", "gateway", "--port", "0")
        self._process = await asyncio.create_subprocess_exec(
            *command, stdout=PIPE, stderr=PIPE, env=self._env, umask=0o077
        )
        assert self._process.stdout is not None
        while not self._url:
            line = (await asyncio.wait_for(self._process.stdout.readline(), 60)).decode()
            self.seen.append(line)
            assert line, self.seen
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            self._url = found[0] if found else ""

    async def stop(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        out, err = await asyncio.wait_for(self._process.communicate(), 60)
        self.seen += [out.decode(), err.decode()]
        self._url = ""

    async def ask(self, text: str, token: str = CANARY["token"], path: str = "/v1/chat/completions") -> None:
        body = {"model": "palinurus", "messages": [{"role": "user", "content": text}], "user": "u"}
        async with aiohttp.ClientSession() as client:
            header = {"Authorization": f"Bearer {token}"}
            async with client.post(f"{self._url}{path}", json=body, headers=header) as answer:
                self.seen += [await answer.text(), str(dict(answer.headers))]

    async def say(self, *args: str) -> None:
        done = await asyncio.to_thread(run_program, *args, env=self._env, umask=0o077)
        self.seen += [done.stdout, done.stderr]


def echoing(asked: Any) -> Any:
    """A provider that repeats the key it was sent."""
    return fail("auth", f"bad key {asked.headers.get('authorization')} and {asked.headers.get('x-account')}")


async def test_nothing_but_its_source_holds_a_secret(tmp_path: Path) -> None:
    home, gate = tmp_path / "h", StreamGate()
    dig = "env; cat /proc/self/environ; cat /proc/$PPID/environ; cat ../*.json ../*.token; ls -la .."
    look = [("exec", {"command": dig}), *(("read", {"path": f"../{name}"}) for name in SOURCES)]
    look += [("grep", {"pattern": "canary", "path": ".."}), ("exec", {"command": "cat", "env": {"API_TOKEN": "x"}})]
    script: list[Callable[[Any], Any] | Any] = [
        call_tools(*look),
        say("looked"),
        *[echoing] * 8,
        hold_at(say("never"), gate),
    ]
    async with ModelServer(script, default=lambda asked: say("again")) as server:
        gateway = Gateway(furnished(home, server.url))
        await gateway.start()
        await gateway.ask("look around")
        assert "looked" in gateway.seen[-2]
        for n in range(2):
            await gateway.ask(f"fail {n}")
        await gateway.ask("who", token="wrong")
        await gateway.ask("where", path=f"/v1/nothing?token={CANARY['token']}")
        waiting = asyncio.ensure_future(gateway.ask("hang"))
        await asyncio.sleep(0.3)
        await gateway.stop(signal.SIGKILL)
        gate.open()
        await asyncio.gather(waiting, return_exceptions=True)
        await gateway.start()
        await gateway.ask("after the crash")
        shown = ("status", "doctor", "config get gateway", "models", "sessions list", "logs", "prompt")
        await asyncio.gather(*(gateway.say(*words.split()) for words in shown))
        await gateway.stop(signal.SIGTERM)
        sent = [json.dumps(asked.body) for asked in server.requests]
        keys = "".join(str(asked.headers) for asked in server.requests)
    assert CANARY["key"] in keys and CANARY["profile"] in keys and CANARY["header"] in keys  # they were in use
    told = {f"shown {n}": text for n, text in enumerate(gateway.seen)} | {
        f"sent {n}": text for n, text in enumerate(sent)
    }
    for path in home.rglob("*"):
        if path.name == "palinurus.json.last-good":
            assert path.stat().st_mode & 0o077 == 0  # a copy of the source
        elif path.is_file() and not path.is_symlink() and str(path.relative_to(home)) not in SOURCES:
            told[str(path.relative_to(home))] = path.read_bytes().decode("latin-1")
    assert any(name.endswith(".jsonl") for name in told) and any("look around" in text for text in told.values())
    leaks = {(name, where) for name, value in CANARY.items() for where, text in told.items() if value in text}
    assert leaks == set()

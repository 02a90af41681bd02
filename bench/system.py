"""A Palinurus of its own to measure: temporary home, config, gateway process, mock model, and turns through it."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import subprocess
import sys
import time
from typing import Any

import client
import procs

HERE = os.path.dirname(os.path.abspath(__file__))
TOKEN = "bench-token"
ids = itertools.count(1)


def pal() -> str:
    """The `pal` beside the interpreter that runs this, or PAL_BIN."""
    found = os.environ.get("PAL_BIN") or os.path.join(os.path.dirname(sys.executable), "pal")
    if not os.path.exists(found):
        raise SystemExit(f"no pal at {found}; install the package into this environment or set PAL_BIN")
    return found


class Mock:
    """The mock model as a process."""

    def __init__(self, root: str) -> None:
        self.log = os.path.join(root, "mock.jsonl")
        argv = [sys.executable, os.path.join(HERE, "mock.py"), "--log", self.log]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, start_new_session=True)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().decode().strip()
        self.port = int(self.url.rsplit(":", 1)[1])
        self._handle = open(self.log)  # noqa: SIM115 - read for as long as the mock lives
        self._seen: dict[str, list[dict[str, Any]]] = {}

    def calls(self, ident: str) -> list[dict[str, Any]]:
        """The answered model calls of one turn, oldest first."""
        while line := self._handle.readline():
            record = json.loads(line)
            self._seen.setdefault(record["id"], []).append(record)
        return sorted(self._seen.get(ident, []), key=lambda record: record["arrived"])

    def stop(self) -> None:
        self._handle.close()
        procs.stop(self.process)


class System:
    """One home. `up` starts the gateway and returns the seconds to ready; `turn` talks to it."""

    def __init__(self, root: str, model_url: str) -> None:
        self.root = root
        self.home, self.work = os.path.join(root, "home"), os.path.join(root, "work")
        for path in (self.home, self.work):
            os.makedirs(path, exist_ok=True)
        for n in range(64):
            with open(os.path.join(self.work, f"f{n}.txt"), "w") as handle:
                handle.write(f"file {n}\n")
        self.env = {
            "PATH": f"{os.path.dirname(pal())}:/usr/local/bin:/usr/bin:/bin",
            "HOME": root,
            "PALINURUS_HOME": self.home,
            "LANG": "C.UTF-8",
            "NO_PROXY": "*",
        }
        if "PYTHONPATH" in os.environ:
            self.env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        self.process: subprocess.Popen[bytes] | None = None
        self.command: list[str] = []  # instead of `pal`
        self.port = procs.free_port()
        self._configure(model_url)

    def _configure(self, url: str) -> None:
        model = {"id": "bench", "name": "bench", "input": ["text"], "contextWindow": 1_000_000, "maxTokens": 8192}
        provider = {"baseUrl": url + "/v1", "apiKey": "bench", "api": "openai-completions", "models": [model]}
        config = {
            "models": {"providers": {"bench": provider}},
            "agents": {
                "defaults": {
                    "workspace": self.work,
                    "model": {"primary": "bench/bench"},
                    "heartbeat": {"every": "0m"},
                    "maxConcurrent": 256,
                }
            },
            "gateway": {"mode": "local", "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}},
        }
        with open(os.path.join(self.home, "palinurus.json"), "w") as handle:
            json.dump(config, handle, indent=2)

    def contain(self, kind: str) -> None:
        """What holds commands from the next start on."""
        config = self._read_config()["agents"]
        config["defaults"]["sandbox"] = {"contain": kind}
        self.set_config("agents", config)

    def _read_config(self) -> dict[str, Any]:
        with open(os.path.join(self.home, "palinurus.json")) as handle:
            read: dict[str, Any] = json.load(handle)
        return read

    def set_config(self, section: str, value: object) -> None:
        """A section as it is from the next start on."""
        config = {**self._read_config(), section: value}
        with open(os.path.join(self.home, "palinurus.json"), "w") as handle:
            json.dump(config, handle, indent=2)

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    async def up(self, limit: float = 30.0) -> float:
        """Start the gateway. Returns the seconds until /readyz says 200; raises SystemExit if it never does."""
        self.port = procs.free_port()
        log = os.path.join(self.root, "gateway.log")
        start = time.monotonic()
        self.process = procs.spawn(
            [*(self.command or [pal()]), "gateway", "--port", str(self.port)], self.env, self.work, log
        )
        while time.monotonic() - start < limit and self.process.poll() is None:
            try:
                if (await client.http(self.port, "GET", "/readyz", timeout=2))[0] == 200:
                    return time.monotonic() - start
            except (OSError, TimeoutError):
                pass
            await asyncio.sleep(0.002)
        with open(log) as handle:
            tail = handle.read()[-2000:]
        self.down()
        raise SystemExit(f"the gateway did not get ready:\n{tail}")

    def down(self) -> None:
        if self.process is not None:
            procs.stop(self.process)
            self.process = None

    async def fetch(self, session: str, text: str) -> client.Fetched:
        headers = {"authorization": f"Bearer {TOKEN}", "x-openclaw-session-key": f"agent:main:{session}"}
        body: dict[str, object] = {"model": "openclaw", "stream": True, "messages": [{"role": "user", "content": text}]}
        return await client.fetch(self.port, headers, body)

    async def turn(self, session: str, text: str) -> client.Turn:
        return (await self.fetch(session, text)).read()

    def seed(self, session: str, count: int) -> None:
        """Give a session `count` earlier messages; the gateway must be down."""
        path = os.path.join(self.root, f"seed-{count}.jsonl")
        stamp, parent = "2026-01-01T00:00:00.000Z", None
        ident = f"00000000-0000-4000-8000-{count:012d}"
        lines: list[dict[str, Any]] = [
            {"type": "session", "version": 3, "id": ident, "timestamp": stamp, "cwd": self.work}
        ]
        for n in range(count):
            text = f"Message {n}: a short line of earlier talk, about sixty chars."
            message: dict[str, Any] = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": n}
            if n % 2:
                usage = {"input": 10, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 20}
                route = {"api": "openai-completions", "provider": "bench", "model": "bench"}
                message.update(role="assistant", stopReason="stop", usage=usage, **route)
            entry = f"{n:08x}"
            lines.append({"type": "message", "id": entry, "parentId": parent, "timestamp": stamp, "message": message})
            parent = entry
        self._import(session, path, lines)

    def seed_large(self, session: str, megabytes: int) -> None:
        """Give a session so much earlier work: tool results of 20 kB, compacted now and then as real ones are."""
        path = os.path.join(self.root, "seed-large.jsonl")
        stamp, ident = "2026-01-01T00:00:00.000Z", "00000000-0000-4000-8000-00000000ffff"
        lines: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": ident, "timestamp": stamp, "cwd": "."}]
        usage = {"input": 10, "output": 10, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 20}
        route = {"api": "openai-completions", "provider": "bench", "model": "bench", "usage": usage}

        def put(kind: str, **body: Any) -> None:
            parent = lines[-1]["id"] if len(lines) > 1 else None
            lines.append({"type": kind, "id": f"{len(lines):08x}", "parentId": parent, "timestamp": stamp, **body})

        for n in range(megabytes * 50):
            put("message", message={"role": "user", "content": f"step {n}", "timestamp": n})
            call = {"type": "toolCall", "id": f"c{n}", "name": "read", "arguments": {"path": f"f{n % 64}.txt"}}
            asked = {"role": "assistant", "content": [call], "stopReason": "toolUse", "timestamp": n, **route}
            put("message", message=asked)
            text = f"line {n} of a file that somebody wanted to see\n" * 450
            result = {"role": "toolResult", "toolCallId": f"c{n}", "toolName": "read", "isError": False, "timestamp": n}
            put("message", message={**result, "content": [{"type": "text", "text": text}]})
            said = [{"type": "text", "text": f"done with {n}"}]
            put(
                "message", message={"role": "assistant", "content": said, "stopReason": "stop", "timestamp": n, **route}
            )
            if n % 20 == 5:
                put("compaction", summary=f"work up to {n}", firstKeptEntryId=lines[-4]["id"], tokensBefore=100_000)
        self._import(session, path, lines)

    def _import(self, session: str, path: str, lines: list[dict[str, Any]]) -> None:
        with open(path, "w") as handle:
            handle.writelines(json.dumps(line) + "\n" for line in lines)
        argv = [pal(), "sessions", "import", path, "--session", f"agent:main:{session}"]
        subprocess.run(argv, env=self.env, cwd=self.work, check=True, stdout=subprocess.DEVNULL)

    def remove(self) -> None:
        self.down()
        shutil.rmtree(self.root, ignore_errors=True)


def mark(text: int = 20, chunk: int = 4, **rest: object) -> tuple[str, str]:
    """(id, message) that makes the mock answer so many tokens."""
    ident = f"t{next(ids)}"
    words = " ".join(f"{key}={value}" for key, value in {"id": ident, "text": text, "chunk": chunk, **rest}.items())
    return ident, f"BENCH {words};"


def checked(turn: client.Turn, tokens: int) -> client.Turn:
    """Raises SystemExit unless the client got the whole answer: a fast wrong answer is no figure."""
    if not turn.error and len(turn.text.strip()) < tokens * 5 - 1:
        turn.error = f"{len(turn.text)} of {tokens * 5} characters"
    if turn.error:
        raise SystemExit(f"a turn failed: {turn.error}")
    return turn

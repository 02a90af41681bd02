"""OpenClaw's commands that talk to a gateway, each run once."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from typing import Any

from place import Place
from tally import Tally

from palinurus.testing.home import TOKEN


def drive(place: Place, tally: Tally) -> None:
    """One command after the other, then the ACP bridge."""
    target = ("--url", place.url, "--token", TOKEN)
    _json(place, tally, "health", ("health", "--json"), lambda told: told["ok"] is True and told["agents"])
    _json(
        place,
        tally,
        "agent",
        ("agent", "--agent", "main", "--message", "SAY land ho", "--json"),
        lambda told: told["result"]["payloads"][0]["text"] == "land ho",
    )
    _json(
        place,
        tally,
        "gateway call sessions.list",
        ("gateway", "call", "sessions.list", "--params", '{"limit": 3}', "--json", *target),
        lambda told: told["sessions"][0]["key"] == "agent:main:main",
    )
    wanted = {"message": "SAY aye", "sessionKey": "agent:main:call", "idempotencyKey": "compat-1"}
    _json(
        place,
        tally,
        "gateway call agent, final",
        ("gateway", "call", "agent", "--params", json.dumps(wanted), "--expect-final", "--json", *target),
        lambda told: told["result"]["payloads"][0]["text"] == "aye",
    )
    _text(place, tally, "status", ("status",), r"reachable", r"Sessions")
    _text(place, tally, "status --deep", ("status", "--deep"), r"reachable")
    _json(place, tally, "gateway probe", ("gateway", "probe", "--json", *target), lambda told: not told.get("degraded"))
    _text(place, tally, "cron list", ("cron", "list", *target), r"(?i)no cron jobs|no automations|ID")
    _text(place, tally, "logs", ("logs", "--limit", "50", *target), r"joined")
    _text(place, tally, "system presence", ("system", "presence", *target), r"gateway")
    _text(place, tally, "channels status", ("channels", "status"), r"(?i)gateway")
    _text(place, tally, "devices list", ("devices", "list", *target), r"(?i)paired|No device pairing")
    _text(place, tally, "nodes list", ("nodes", "list", *target), r"(?i)pending|paired|no ")
    _text(place, tally, "approvals get", ("approvals", "get", "--gateway", *target), r"(?i)approvals|allowlist|target")
    _acp(place, tally)


def _json(place: Place, tally: Tally, name: str, args: tuple[str, ...], right: Any) -> None:
    code, out, err = place.openclaw(*args)
    try:
        good = code == 0 and bool(right(json.loads(out[out.index("{") :])))
    except (ValueError, KeyError, IndexError, TypeError):
        good = False
    tally.note(f"cli: {name}", good, f"exit {code}\n{out[-1500:]}\n{err[-800:]}")


def _text(place: Place, tally: Tally, name: str, args: tuple[str, ...], *wanted: str) -> None:
    code, out, err = place.openclaw(*args)
    with open(os.path.join(place.shots, f"cli-{name.replace(' ', '-')}.txt"), "w", encoding="utf-8") as handle:
        handle.write(out)
    if code:
        tally.note(f"cli: {name}", False, f"exit {code}\n{out[-800:]}\n{err[-800:]}")
    else:
        tally.has(f"cli: {name}", out, *wanted)


def _acp(place: Place, tally: Tally) -> None:
    """The bridge on its pipes: initialize, a session, a prompt with its updates."""
    talk = Talk([*place.program, "acp", "--url", place.url, "--token", TOKEN], place.environ("acp"))
    try:
        tally.note("acp: initialize", "protocolVersion" in talk.ask("initialize", {"protocolVersion": 1}), talk.log())
        made = talk.ask("session/new", {"cwd": place.root, "mcpServers": []})
        tally.note("acp: session/new", "sessionId" in made, talk.log())
        prompt = [{"type": "text", "text": "SAY from the editor"}]
        done = talk.ask("session/prompt", {"sessionId": made.get("sessionId", ""), "prompt": prompt})
        told = "".join(talk.said)
        tally.note(
            "acp: session/prompt", done.get("stopReason") == "end_turn" and "from the editor" in told, talk.log()
        )
    finally:
        talk.close()


class Talk:
    """JSON-RPC lines with a child process."""

    def __init__(self, command: list[str], environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            command, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._seen: list[str] = []
        self._next = 0
        self.said: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)

    def ask(self, method: str, params: dict[str, Any], seconds: float = 60) -> dict[str, Any]:
        """The result of a call, {} if none came; updates before it are kept in `said`."""
        assert self._process.stdin is not None
        self._next += 1
        line = json.dumps({"jsonrpc": "2.0", "id": self._next, "method": method, "params": params})
        try:
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
            while True:
                text = self._lines.get(timeout=seconds).decode(errors="replace")
                self._seen.append(text.strip())
                told = json.loads(text)
                if told.get("id") == self._next and "method" not in told:
                    return dict(told.get("result") or {})
                update = (told.get("params") or {}).get("update") or {}
                if update.get("sessionUpdate") == "agent_message_chunk":
                    self.said.append(update["content"]["text"])
        except (queue.Empty, OSError, ValueError):
            return {}

    def log(self) -> str:
        return "\n".join(line[:300] for line in self._seen[-15:])

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

"""A gateway that is killed between a webhook's acceptance and its turn, as a program."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path

from nursery import Program

HOOK = "hook-token-that-is-long"


def gateway(home: Path, crash: str = "") -> subprocess.Popen[str]:
    """Started, and listening when this returns."""
    (home / "gateway.json").unlink(missing_ok=True)
    env = {**os.environ, **({"PALINURUS_CRASH": crash} if crash else {})}
    process = Program("gateway", "--port", "0", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env)
    assert process.stdout is not None
    while not (home / "gateway.json").exists():
        assert process.poll() is None, process.stdout.read()
        process.stdout.readline()
    return process


def post(home: Path) -> dict[str, object] | None:
    """The answer; None if there was none."""
    port = json.loads((home / "gateway.json").read_text())["port"]
    body = json.dumps({"message": "hello", "idempotencyKey": "d1", "deliver": False}).encode()
    headers = {"Authorization": f"Bearer {HOOK}", "Content-Type": "application/json"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/hooks/agent", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=90) as answer:
            return dict(json.loads(answer.read()))
    except (urllib.error.URLError, HTTPException, ConnectionError):
        return None


def said(home: Path) -> str:
    """All transcripts."""
    folder = home / "agents" / "main" / "sessions"
    return "".join(path.read_text() for path in folder.glob("*.jsonl") if "trajectory" not in path.name)


def test_killed_after_the_acceptance_a_webhook_is_one_turn(
    demo: Path, pal: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    config = {"agents": {"defaults": {"model": "builtin/demo"}}, "hooks": {"enabled": True, "token": HOOK}}
    (demo / "palinurus.json").write_text(json.dumps(config))
    first = gateway(demo, "accept.after:1")
    assert post(demo) is None
    assert first.wait(20) in (137, -9)
    second = gateway(demo)
    try:
        told = post(demo)
        assert told is not None and told["ok"] and told["duplicate"] is True
        assert post(demo) == told
        for _ in range(30):  # until its turn is over
            listed = pal("tasks", "--json")
            assert listed.returncode == 0, listed
            if not json.loads(listed.stdout) and '"role":"assistant"' in said(demo):
                break
    finally:
        second.terminate()
        second.wait(20)
    assert pal("tasks").returncode != 0
    assert said(demo).count('"role":"user"') == said(demo).count('"role":"assistant"') == 1

"""Editors: the clients of the Agent Client Protocol's own SDKs (npm, Python), unmodified, with `pal acp` as agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile

import place
from tally import Tally

from palinurus.testing.home import make_home

SDK, VERSION = "@agentclientprotocol/sdk", "2.4.0"
PYTHON = "0.12.1"
PATIENCE = 300
HERE = os.path.dirname(os.path.abspath(__file__))


def drive(cache: str, tally: Tally) -> None:
    """The SDK of npm."""
    entry = os.path.join("node_modules", *SDK.split("/"), "dist", "v1", "stable", "acp.js")
    module = place.install_npm(os.path.join(cache, f"acp-{VERSION}"), f"{SDK}@{VERSION}", entry=entry)
    _work(["node", os.path.join(HERE, "editors.mjs"), module], tally)


def drive_python(cache: str, tally: Tally) -> None:
    """The SDK of the Python package index."""
    folder = os.path.join(cache, f"agent-client-protocol-{PYTHON}")
    tools = place.install_pip(folder, f"agent-client-protocol=={PYTHON}")
    _work([os.path.join(tools, "python"), os.path.join(HERE, "acpuser.py")], tally)


def _work(client: list[str], tally: Tally) -> None:
    """Start a gateway with the demo, let the client work in a project."""
    root = tempfile.mkdtemp(prefix="editors-")
    print(f"compat: an editor with pal acp; logs in {root}", flush=True)
    project, port = os.path.join(root, "project"), place.free_port()
    os.makedirs(project)
    with open(os.path.join(project, "open.txt"), "w", encoding="utf-8") as file:
        file.write("saved")
    home = make_home(root, {"gateway": {"port": port}}, {})
    pal = [sys.executable, "-m", "palinurus", "--home", home]
    gateway = place.spawn([*pal, "gateway", "--port", str(port)], root, "gateway")
    try:
        place.listens(port, 60)
        line = [*client, project, *pal, "acp"]
        done = subprocess.run(line, capture_output=True, text=True, timeout=PATIENCE)
    finally:
        gateway.terminate()
        gateway.wait(15)
    _judge(done, project, tally)


def _judge(done: subprocess.CompletedProcess[str], project: str, tally: Tally) -> None:
    try:
        seen = json.loads(done.stdout.strip().splitlines()[-1])
    except (ValueError, IndexError):
        tally.note("ACP: the client ran through", False, done.stdout + done.stderr)
        return
    kinds = [one["sessionUpdate"] for one in seen["updates"]]
    calls = [one for one in seen["updates"] if one["sessionUpdate"] == "tool_call"]
    name, said = seen["made"]["sessionId"], json.dumps(seen)
    told = {"agent_message_chunk", "available_commands_update"} <= set(kinds)
    names = [one["sessionId"] for one in seen["listed"]["sessions"]]
    tally.note("ACP: one question, then it works in the editor's project", len(seen["asked"]) == 1, said)
    tally.note("ACP: the file is in the project", os.path.exists(os.path.join(project, "made.txt")), said)
    tally.note("ACP: diff and location of the edit", _has_diff(calls, project), said)
    wrote = ["write", os.path.join(project, "made.txt")] in seen["hands"]
    tally.note("ACP: what it writes goes by the editor's buffer", wrote, said)
    words = "".join(one["content"]["text"] for one in seen["updates"] if one["sessionUpdate"] == "agent_message_chunk")
    tally.note("ACP: it reads what is not saved", "typed, not saved" in words, said)
    tally.note("ACP: a prompt ends", seen["done"]["stopReason"] == "end_turn", said)
    tally.note("ACP: words and commands are told", told, said)
    tally.note("ACP: list names the session as new did", names == [name], said)
    tally.note("ACP: modes last", seen["loaded"]["modes"]["currentModeId"] == "plan", said)
    tally.note("ACP: options", "model" in [one["id"] for one in seen["made"]["configOptions"]], said)
    tally.note("ACP: an unknown session is refused", "no session" in seen["refused"], said)
    tally.note("ACP: closing is quiet", seen["code"] == 0 and not done.stderr.strip(), done.stderr)


def _has_diff(calls: list[dict[str, object]], project: str) -> bool:
    text = json.dumps(calls)
    return '"type": "diff"' in text and json.dumps(os.path.join(project, "made.txt")) in text

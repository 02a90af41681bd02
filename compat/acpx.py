"""acpx, a front of the Agent Client Protocol for terminals (npm), unmodified, with `pal acp` as its agent: sessions
outlive its processes, its own policies permit, its own hands change files, another terminal cancels."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any, NamedTuple

import place
from tally import Tally

from palinurus.testing.home import make_home

VERSION = "0.19.1"
PATIENCE = 120
STAYS = "120"  # seconds that its background process waits for the next prompt; `close` ends it
RULES = {"exec": {"ask": "on-miss", "security": "allowlist"}}


class Said(NamedTuple):
    """What a command of acpx did."""

    code: int
    text: str
    frames: list[dict[str, Any]]  # of the protocol, as it shows them

    @property
    def updates(self) -> list[dict[str, Any]]:
        return [one["params"]["update"] for one in self.frames if one.get("method") == "session/update"]

    @property
    def asked(self) -> list[str]:
        """What the agent asked of the editor, and the editor of the agent."""
        return [one["method"] for one in self.frames if "method" in one and "id" in one]

    @property
    def ended(self) -> str:
        ends = [one["result"] for one in self.frames if "stopReason" in (one.get("result") or {})]
        return str(ends[-1]["stopReason"]) if ends else ""


class Front:
    """acpx in a project, with a home of its own."""

    def __init__(self, folder: str, root: str, agent: str) -> None:
        self.project = os.path.join(root, "project")
        os.makedirs(self.project)
        modules = os.path.join(folder, "node_modules")
        node = os.path.join(modules, "node", "bin")
        self._line = [os.path.join(node, "node"), os.path.join(modules, "acpx", "dist", "cli.js")]
        self._line += ["--cwd", self.project, "--agent", agent, "--ttl", STAYS, "--timeout", "60", "--format", "json"]
        path = node + os.pathsep + os.environ["PATH"]
        self._environ = {**os.environ, "HOME": os.path.join(root, "me"), "PATH": path, "NO_COLOR": "1"}
        os.makedirs(self._environ["HOME"])

    def start(self, *words: str) -> subprocess.Popen[str]:
        pipes: Any = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen([*self._line, *words], cwd=self.project, env=self._environ, text=True, **pipes)

    def run(self, *words: str) -> Said:
        return self.end(self.start(*words))

    def end(self, process: subprocess.Popen[str]) -> Said:
        told, trouble = process.communicate(timeout=PATIENCE)
        frames = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
        return Said(process.returncode, told + trouble, frames)

    def has(self, name: str) -> bool:
        return os.path.exists(os.path.join(self.project, name))


def drive(cache: str, tally: Tally) -> None:
    folder = os.path.join(cache, f"acpx-{VERSION}")
    entry = os.path.join("node_modules", "acpx", "dist", "cli.js")
    place.install_npm(folder, f"acpx@{VERSION}", f"node@{place.NODE}", entry=entry)
    root, mock, port = tempfile.mkdtemp(prefix="acpx-"), place.free_port(), place.free_port()
    print(f"compat: acpx with pal acp; logs in {root}", flush=True)
    running = [place.spawn([sys.executable, "-m", "palinurus.testing.server", "--port", str(mock)], root, "mock")]
    try:
        place.listens(mock)
        home = make_home(root, {"gateway": {"port": port}, "tools": RULES}, {}, url=f"http://127.0.0.1:{mock}/v1")
        pal = [sys.executable, "-m", "palinurus", "--home", home]
        running.append(place.spawn([*pal, "gateway", "--port", str(port)], root, "gateway"))
        place.listens(port, 60)
        work(Front(folder, root, " ".join([*pal, "acp"])), tally)
    finally:
        for process in reversed(running):
            process.terminate()
            process.wait(15)


def work(front: Front, tally: Tally) -> None:
    made = front.run("sessions", "new")
    tally.note("acpx: a session is made", made.code == 0, made.text)
    wrote = front.run("--approve-all", 'TOOL write {"path":"made.txt","content":"hello"}\nSAY done')
    tally.note("acpx: another process of it loads that session", "session/load" in wrote.asked, wrote.text)
    leave = "session/request_permission" in wrote.asked and wrote.ended == "end_turn"
    tally.note("acpx: one question, and the file is in the project", leave and front.has("made.txt"), wrote.text)
    tally.note("acpx: written by its hands", "fs/write_text_file" in wrote.asked, wrote.text)
    tally.note("acpx: the diff of a new file", find_diffs(wrote, front) == [(None, "hello")], wrote.text)
    edited = front.run("--approve-all", 'TOOL edit {"path":"made.txt","oldText":"hello","newText":"bye"}\nSAY done')
    tally.note("acpx: the diff of an edit", ("hello", "bye") in find_diffs(edited, front), edited.text)
    tally.note("acpx: leave is asked for once", "session/request_permission" not in edited.asked, edited.text)
    read = front.run("--approve-all", 'TOOL read {"path":"made.txt"}\nSAY $RESULT')
    tally.note("acpx: read by its hands", "fs/read_text_file" in read.asked and "bye" in read.text, read.text)
    denied = front.run("--deny-all", 'TOOL exec {"command":"touch denied"}\nSAY no')
    failed = [one for one in denied.updates if one.get("status") == "failed"]
    tally.note("acpx: what it denies is not run", bool(failed) and not front.has("denied"), denied.text)
    allowed = front.run("--approve-all", 'TOOL exec {"command":"touch allowed"}\nSAY yes')
    tally.note("acpx: what it allows is run", front.has("allowed") and allowed.ended == "end_turn", allowed.text)
    cancel(front, tally)
    listed = front.run("sessions", "list")
    rows = [row for one in listed.frames for row in one.get("sessions", ())]
    places = [row["cwd"] for row in rows if row.get("updatedAt")]
    tally.note("acpx: the session is listed, with its folder and day", places == [front.project], listed.text)
    done = [front.run("set-mode", "plan"), front.run("set", "thought_level", "low")]
    tally.note("acpx: mode and options", all(one.code == 0 for one in done), str(done))
    once = front.run("--approve-all", "exec", "SAY one shot")
    tally.note("acpx: one shot", once.ended == "end_turn" and "one shot" in once.text, once.text)
    closed = front.run("sessions", "close")
    tally.note("acpx: a session is closed", closed.code == 0, closed.text)


def cancel(front: Front, tally: Tally) -> None:
    """From another terminal, while it speaks."""
    speaking = front.start("--approve-all", "WORDS 2000\nSLOW 50")
    for _ in range(60):
        time.sleep(0.5)
        told = front.run("cancel")
        if any(one.get("cancelled") for one in told.frames):
            break
    ended = front.end(speaking)
    tally.note("acpx: cancelled from another terminal", ended.ended == "cancelled", told.text + ended.text[-2000:])


def find_diffs(said: Said, front: Front) -> list[tuple[str | None, str]]:
    """Of made.txt, as they were shown last."""
    path = os.path.join(front.project, "made.txt")
    shown = [piece for one in said.updates for piece in one.get("content") or () if isinstance(piece, dict)]
    found = [one for one in shown if one.get("type") == "diff" and one["path"] == path]
    return list(dict.fromkeys((one.get("oldText"), one["newText"]) for one in found))

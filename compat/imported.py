"""What `pal import` makes of a real home, beside what stands in it. Nothing here uses the importer's own readers: files
and databases of the other program are read anew, so that what both overlook is found."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

from tally import Tally

from palinurus import crashpoints
from palinurus.cli import migrate  # loaded here once, for every child that is killed
from palinurus.cli.main import main
from palinurus.store.factory import open_reader

PATIENCE = 600
SKIPPED = ("meta", "wizard", "_config_version")  # the other program's notes about its own file
# Killed by turns before and after a step is noted; the config comes last.
POINTS = (("import.placed", "config.before"), ("import.noted", "config.after"))


def check(tally: Tally, program: str, version: str, root: str) -> None:
    """Bring it, again, and once killed at every step; look at each."""
    before, home = digest(root), os.path.join(os.path.dirname(root), "pal")
    name = f"import {program} {version}"
    first, second = bring(program, root, home), bring(program, root, home)
    told = {(line["part"], line["name"]) for line in first}
    lost = [line for line in first if line["fate"] == "lost" and line["part"] not in ("rest", "config", "keys")
            and "own upkeep" not in line["why"]]  # fmt: skip
    tally.note(f"{name}: nothing a person made is lost", not lost, str(lost[:3]))
    theirs, ours = list_talks(program, root), list_our_talks(home)
    missing = [talk[:2] for talk in theirs if talk not in ours]
    tally.note(f"{name}: {len(theirs)} conversations, word for word", bool(theirs) and not missing, str(missing)[:600])
    several = [talk for talk in theirs if any("read" in str(step) for step in talk)]
    tally.note(f"{name}: with their tool calls", bool(several), str(theirs)[:600])
    gone = [path for path in list_files(program, root) if read(path) not in contents(home)]
    tally.note(f"{name}: every file of workspace, memory and skills", not gone, str(gone[:5]))
    silent = [key for key in list_keys(program, root) if not is_told(key, told)]
    tally.note(f"{name}: every key is in the report", not silent, str(silent[:8]))
    rest = [top for top in os.listdir(root) if not is_named(top, first)]
    tally.note(f"{name}: every name of the old home is in the report", not rest, str(rest))
    tally.note(f"{name}: the second time nothing is new", all(x.get("done") for x in second if x["fate"] != "lost"),
               str([x for x in second if x["fate"] != "lost" and not x.get("done")][:3]))  # fmt: skip
    people = [line for line in first if line["part"] == "people" and line["name"].endswith("4711")]
    tally.note(f"{name}: who was let in is let in", any(line["fate"] == "kept" for line in people), str(people))
    jobs = ask_pal(home, "cron", "list")
    tally.note(f"{name}: the job is here", "brief" in jobs, jobs)
    servers = ask_pal(home, "mcp", "list")
    tally.note(f"{name}: the tool server is here", "files" in servers, servers)
    tally.note(f"{name}: pal doctor reads it", "Traceback" not in ask_pal(home, "doctor", "--json"), "")
    killed = f"{home}-killed"
    times = bring_with_kills(program, root, killed)
    same = [(part, sorted(set(one) ^ set(other))[:5], [key for key in one if one[key] != other.get(key)][:5])
            for part, one, other in zip(("files", "sessions", "notes"), state(home), state(killed), strict=True)
            if one != other]  # fmt: skip
    tally.note(
        f"{name}: killed at each of {times} steps and run again, it is the same", times >= 15 and not same, str(same)
    )
    tally.note(f"{name}: the old home is as it was", digest(root) == before, "")


def bring(program: str, root: str, home: str) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "palinurus", "--home", home, "import", program, root, "--json"]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE)
    if done.returncode:
        raise SystemExit(f"compat: pal import {program} failed\n{done.stderr.decode()}")
    lines: list[dict[str, Any]] = json.loads(done.stdout)["lines"]
    return lines


def bring_with_kills(program: str, root: str, home: str) -> int:
    """SIGKILL at the first step that is new, again and again until none is: how many times it was killed."""
    assert migrate
    killed = 0
    while True:
        point = POINTS[killed % 2]
        child = os.fork()
        if not child:
            be_killed(point, ["--home", home, "import", program, root, "--json"])
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            if status:
                raise SystemExit(f"compat: pal import {program}: exit {os.waitstatus_to_exitcode(status)} at {point}")
            return killed
        killed += 1


class AnyOf(str):
    """Is each of its words, for the switch that a test arms."""

    def __eq__(self, other: object) -> bool:
        return other in self.split()

    __hash__ = str.__hash__


def be_killed(points: tuple[str, ...], argv: list[str]) -> None:
    """In a child: the command, until one of the points. Does not return."""
    leave = os._exit
    os._exit = lambda code: os.kill(os.getpid(), 9)  # type: ignore[assignment, misc, return-value]
    crashpoints._SWITCH.name, crashpoints._SWITCH.left = AnyOf(" ".join(points)), 1
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    code = 1
    try:
        code = main(argv)
    finally:
        leave(code)


def state(home: str) -> tuple[dict[str, Any], ...]:
    files = digest(home)
    own = {
        path: found
        for path, found in files.items()
        if not path.startswith(("state.db", "gateway.")) and not path.endswith((".tmp", ".last-good"))
    }
    with open_reader(home) as reader:
        notes = {row.key: row.data for row in reader.list_records("import")}
        return own, {row.key: row.data for row in reader.sessions()}, notes


def list_talks(program: str, root: str) -> list[list[Any]]:
    """Every conversation: its messages as (role, text, calls)."""
    if program == "hermes":
        rows = query(f"{root}/state.db", "SELECT session_id, role, content, tool_calls FROM messages ORDER BY id")
        talks: dict[str, list[dict[str, Any]]] = {}
        for session, role, content, calls in rows:
            made = {"role": role, "content": content, "tool_calls": json.loads(calls) if calls else None}
            talks.setdefault(session, []).append(made)
        return [list(filter(None, map(show, talk))) for talk in talks.values()]
    if program == "nanobot":
        files = glob.glob(f"{root}/sessions/**/*.jsonl", recursive=True)
        return [list(filter(None, map(show, read_lines(read(path))))) for path in files]
    made = [
        read_lines(read(path)) for path in glob.glob(f"{root}/agents/*/sessions/*.jsonl*") if "trajectory" not in path
    ]
    for base in glob.glob(f"{root}/agents/*/agent/openclaw-agent.sqlite"):
        events: dict[str, list[Any]] = {}
        for session, event in query(
            base, "SELECT session_id, event_json FROM transcript_events ORDER BY session_id, seq"
        ):
            events.setdefault(session, []).append(json.loads(event))
        made += events.values()
    return made


def list_our_talks(home: str) -> list[list[Any]]:
    """The same of ours: the lines as they are, and as (role, text, calls)."""
    made = [read_lines(read(path)) for path in glob.glob(f"{home}/agents/*/sessions/*.jsonl*")]
    return made + [[shown for line in talk if (shown := show(line.get("message") or {}))] for talk in made]


def show(message: dict[str, Any]) -> tuple[str, str, str] | None:
    """What was said and called, however it is written down."""
    role = str(message.get("role") or "").replace("toolResult", "tool")
    content = message.get("content")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content or ""}]
    text = "\n".join(str(part.get("text")) for part in parts if part.get("type") == "text")
    calls = [(part.get("name"), part.get("arguments")) for part in parts if part.get("type") == "toolCall"]
    for call in message.get("tool_calls") or ():
        about = call.get("function") or call
        given = about.get("arguments")
        calls.append((about.get("name"), json.loads(given) if isinstance(given, str) else given))
    return (role, text, str(calls)) if role in ("user", "assistant", "tool") else None


def list_files(program: str, root: str) -> Iterator[str]:
    folders = {"hermes": ("skills", "memories"), "nanobot": ("workspace",)}
    for folder in folders.get(program, ("workspace", "workspace-work", "skills")):
        for path in walk(os.path.join(root, folder)):
            if "/cron/" not in path and not path.endswith(".lock"):
                yield path


def list_keys(program: str, root: str) -> Iterator[str]:
    """Leaves of the other program's config, and of its .env."""
    if program == "hermes":
        return
    name = "config.json" if program == "nanobot" else "openclaw.json"

    def leaves(value: Any, path: str) -> Iterator[str]:
        inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        below = [leaf for key, one in inner for leaf in leaves(one, f"{path}.{key}" if path else str(key))]
        yield from below or ([path] if value not in ({}, [], None, "") else [])

    yield from (leaf for leaf in leaves(json.loads(read(os.path.join(root, name))), "") if not leaf.startswith(SKIPPED))


def is_told(key: str, told: set[tuple[str, str]]) -> bool:
    """By its own line, or by one of what it belongs to or was put together from."""
    names = {
        re.sub(r"[^A-Za-z0-9]+", ".", name).strip(".").lower() for part, name in told if part in ("config", "keys")
    }
    own = re.sub(r"[^A-Za-z0-9]+", ".", re.sub(r"(\.\d+)+$", "", key)).strip(".").lower()
    last = own.rpartition(".")[2]
    return any(own == name or own.startswith(f"{name}.") or name.startswith(f"{own}.") for name in names) or any(
        RENAMED.get(last, last) in name.split(".") for name in names
    )


RENAMED = {"apibase": "baseurl", "token": "bottoken", "provider": "primary", "model": "primary"}


def is_named(top: str, lines: list[dict[str, Any]]) -> bool:
    """What a line is about, or what many lines come from."""
    sources = {
        "openclaw.json", "exec-approvals.json", "config.json", "config.yaml",
        ".env", "agents", "state", "credentials", "state.db", "sessions",
        "cron", "memories", "pairing.json", "platforms", "pairing",
    }  # fmt: skip
    if top in sources or top.startswith(("openclaw.json.", "state.db-")) or top.endswith(".lock"):
        return True
    return any(line["name"] == top or line["name"].startswith(f"{top}/") or line["name"].endswith(f"/{top}")
               for line in lines)  # fmt: skip


def ask_pal(home: str, *words: str) -> str:
    command = [sys.executable, "-m", "palinurus", "--home", home, *words]
    done = subprocess.run(command, capture_output=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)
    return done.stdout.decode() + done.stderr.decode()


def query(file: str, question: str) -> list[Any]:
    """From a copy: the original is not opened."""
    with tempfile.TemporaryDirectory() as folder:
        for end in ("", "-wal"):
            with contextlib.suppress(FileNotFoundError):
                shutil.copyfile(f"{file}{end}", f"{folder}/copy{end}")
        with contextlib.closing(sqlite3.connect(f"{folder}/copy")) as base:
            return base.execute(question).fetchall()


def read_lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines() if line.strip()]


def contents(home: str) -> set[bytes]:
    return {read(path) for path in walk(home) if "/agents/" not in path and "state.db" not in path}


def walk(root: str) -> list[str]:
    return sorted(os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def digest(root: str) -> dict[str, str]:
    """Every plain file."""
    plain = [path for path in walk(root) if os.path.isfile(path)]
    return {os.path.relpath(path, root): hashlib.sha256(read(path)).hexdigest() for path in plain}

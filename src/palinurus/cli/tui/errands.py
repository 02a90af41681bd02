"""What the screen asks of the gateway besides talking: earlier messages, files put back, work in the background, notes.
Each is one or two calls; a refusal is shown in the conversation and comes back as None or nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from palinurus.cli.render import strip_controls
from palinurus.cli.tui.conversation import extract_words
from palinurus.cli.tui.session import ScreenSession
from palinurus.core.types.keys import parse_session_key

LOOKED = 1000  # messages that are looked through for one to go back to
MEMORY = "MEMORY.md"
ACTIVE = frozenset({"running", "queued"})


async def list_messages(remote: ScreenSession) -> list[dict[str, Any]]:
    """The newest of the session, oldest first."""
    found = await remote.ask("chat.history", {"sessionKey": remote.session, "limit": LOOKED})
    return list(found["messages"]) if found is not None else []


def read_said(message: Mapping[str, Any]) -> str:
    """What a person said in it, as typed; "" for what the program said."""
    if message.get("role") != "user" or message.get("program"):
        return ""
    return strip_controls(str(message.get("spoken") or "")) or extract_words(message.get("content"))


def get_entry(message: Mapping[str, Any]) -> str:
    """Its id in the transcript."""
    return str((message.get("__openclaw") or {}).get("id") or "")


async def rewind(remote: ScreenSession, entry: str) -> bool:
    """Go on from before this message; what was said since stays in the tree as a branch."""
    done = await remote.ask("sessions.rewind", {"key": remote.session, "entry": entry, "before": True})
    if done is not None:
        await remote.read_again()
    return done is not None


async def restore_files(remote: ScreenSession, items: list[str]) -> list[str]:
    """Put back what the runs of these messages changed, the newest first. Returns the files."""
    found = await remote.ask("changes.list", {"sessionKey": remote.session, "limit": 200})
    runs = [row["run"] for row in found["runs"] if row["run"] in items and not row.get("undone")] if found else []
    restored: list[str] = []
    for run in runs:  # as listed: the newest first
        done = await remote.ask("changes.undo", {"run": run, "sessionKey": remote.session})
        if done is None:
            break
        restored += [str(one["path"]) for one in done.get("files") or ()]
    return restored


async def list_background(remote: ScreenSession) -> list[dict[str, Any]]:
    """Commands, sub-agents and jobs that go on or have just ended; the conversation's own run is none of them."""
    found = await remote.ask("tasks.list", {"limit": 100})
    rows = found["tasks"] if found is not None else []
    return [row for row in rows if row["kind"] not in ("run", "promise") and row.get("background", True)]


async def stop_task(remote: ScreenSession, ident: str) -> str:
    """End it. Returns what to tell."""
    done = await remote.ask("tasks.cancel", {"taskId": ident})
    if done is None:
        return ""
    return "stopped" if done.get("cancelled") else str(done.get("reason") or "it is over already")


async def read_task_log(remote: ScreenSession, ident: str) -> str:
    """What it has said so far."""
    found = await remote.ask("tasks.log", {"taskId": ident})
    return strip_controls(str(found["text"])) if found is not None else ""


async def add_note(remote: ScreenSession, text: str) -> bool:
    """A line at the end of the agent's MEMORY.md."""
    key = parse_session_key(remote.session)
    place = {"agentId": key.agent if key is not None else "main", "name": MEMORY}
    found = await remote.ask("agents.files.get", place)
    if found is None:
        return False
    before = str(found["file"].get("content") or "").rstrip("\n")
    line = "- " + " ".join(text.split())
    content = f"{before}\n{line}\n" if before else f"{line}\n"
    return await remote.ask("agents.files.set", {**place, "content": content}) is not None


async def describe_sandbox(remote: ScreenSession) -> str:
    """How the agent's commands are held, in a word; "" where we may not know."""
    found = await remote.try_ask("security.audit", {})
    key = parse_session_key(remote.session)
    rows = found.get("commands") or () if found is not None else ()
    held = next((row for row in rows if key is not None and row.get("agentId") == key.agent), None)
    return "" if held is None else "contained" if held.get("contained") else "NOT contained"

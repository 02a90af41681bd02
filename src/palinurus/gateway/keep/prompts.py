"""prompts.*: texts that a person keeps to write them again. workspace.files: files by what is typed after an @.
sessions.export: a conversation as a file.

Prompts are records of the store, so every browser has them and `kill -9` takes none. Who may write one puts words into
the owner's mouth, later: that is the owner's alone.
"""

from __future__ import annotations

import asyncio
import os
import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palinurus.gateway.context import SessionKeyParams, find_agent
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.sessions.export import FORMATS
from palinurus.store.port import Store
from palinurus.store.records import Records
from palinurus.workspace.mentions import find_files, list_files

KIND = "prompt"
MOST = 500  # prompts
EXPORTED = 20 * 1024 * 1024  # characters that go through the socket
SUFFIXES = {"markdown": "md", "html": "html", "json": "json"}
MIME = {"markdown": "text/markdown", "html": "text/html", "json": "application/json"}

PromptName = Annotated[str, Meta(min_length=1, max_length=60, pattern=r"^[^\s/\x00-\x1f][^\n\r\x00-\x1f]*$")]
PromptText = Annotated[str, Meta(min_length=1, max_length=50_000)]


class KeptPrompt(msgspec.Struct, frozen=True):
    text: str
    at: int


class PromptSetParams(MethodParams, frozen=True):
    name: PromptName
    text: PromptText


class PromptRemoveParams(MethodParams, frozen=True):
    name: NonEmpty


class WorkspaceFilesParams(MethodParams, frozen=True):
    query: Annotated[str, Meta(max_length=300)] = ""
    agent_id: NonEmpty | None = None
    limit: Annotated[int, Meta(ge=1, le=50)] = 12


class SessionExportParams(SessionKeyParams, frozen=True, kw_only=True):
    format: Literal["markdown", "html", "json"] = "markdown"


def _records(store: Store) -> Records[KeptPrompt]:
    return Records(store, KIND, KeptPrompt)


async def list_prompts(call: MethodCall, asked: None) -> dict[str, Any]:
    """All of them, by name."""
    found = await _records(call.program.store).all()
    rows = [{"name": name, "text": found[name].text, "updatedAtMs": found[name].at} for name in found]
    return {"prompts": sorted(rows, key=lambda row: str(row["name"]).casefold())}


async def set_prompt(call: MethodCall, asked: PromptSetParams) -> dict[str, Any]:
    """Keep a text under a name; one of that name is replaced."""
    records = _records(call.program.store)
    known = await records.all()
    if asked.name not in known and len(known) >= MOST:
        raise MethodError(f"there are {MOST} prompts already; remove some first")
    await records.put(asked.name, KeptPrompt(asked.text, call.program.clock.now()))
    return {"ok": True, "name": asked.name}


async def remove_prompt(call: MethodCall, asked: PromptRemoveParams) -> dict[str, Any]:
    """Keep it no longer."""
    await _records(call.program.store).drop(asked.name)
    return {"ok": True, "name": asked.name}


async def list_workspace_files(call: MethodCall, asked: WorkspaceFilesParams) -> dict[str, Any]:
    """Names only. Hidden files are not named, and links are not followed."""
    agent = find_agent(call, asked.agent_id)
    files = await asyncio.to_thread(list_files, agent.workspace)
    return {"files": find_files(files, asked.query, asked.limit)}


async def export_session(call: MethodCall, asked: SessionExportParams) -> dict[str, Any]:
    """The conversation as `pal sessions export` writes it."""
    seen, transcript = await call.context.reader.open(asked.resolve(call))
    if transcript is None:
        raise MethodError("there is nothing to export yet")
    title = (seen.record.label if seen.record else None) or str(seen.key)
    text = await asyncio.to_thread(FORMATS[asked.format], transcript, title)
    if len(text) > EXPORTED:
        raise MethodError(f"it is too long for the page; run: pal sessions export {seen.key}")
    stem = re.sub(r"[^\w.-]+", "-", os.path.basename(title.replace(":", "-"))).strip("-.") or "conversation"
    return {"name": f"{stem[:80]}.{SUFFIXES[asked.format]}", "mimeType": MIME[asked.format], "text": text}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("prompts.list", READ, None, list_prompts),
    GatewayMethod("prompts.set", ADMIN, PromptSetParams, set_prompt),
    GatewayMethod("prompts.remove", ADMIN, PromptRemoveParams, remove_prompt),
    GatewayMethod("workspace.files", READ, WorkspaceFilesParams, list_workspace_files),
    GatewayMethod("sessions.export", READ, SessionExportParams, export_session),
)

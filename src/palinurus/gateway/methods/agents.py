"""agents.*: which agents there are, and their workspace files. Only the named files of a workspace can be touched."""

from __future__ import annotations

import asyncio
import os
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.config.settings import AgentSettings
from palinurus.core.levels.thinking import make_thinking_row as level_row
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.scene import get_context
from palinurus.workspace.files import FIRST, NAMES, OTHERS

FILES = (*NAMES, FIRST, *OTHERS)
LARGEST = 1_000_000  # characters of one file


class AgentFilesParams(MethodParams, frozen=True):
    agent_id: NonEmpty


class AgentFileParams(MethodParams, frozen=True):
    agent_id: NonEmpty
    name: NonEmpty


class AgentWriteParams(MethodParams, frozen=True):
    agent_id: NonEmpty
    name: NonEmpty
    content: Annotated[str, Meta(max_length=LARGEST)]


class AgentIdentityParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None
    session_key: str | None = None


async def list_agents(call: MethodCall, asked: None) -> dict[str, Any]:
    """Every agent, with the model it would use and what that offers."""
    desk = get_context(call).desk
    settings = desk.settings
    shown = []
    for ident, agent in settings.agents.items():
        model = desk.catalog.default(agent)
        levels = level_row(model, desk.catalog.vendor(model.ref.provider))
        shown.append(
            {
                "id": ident,
                "name": agent.name or ident,
                "workspace": agent.workspace,
                "identity": {n: v for n, v in agent.identity.items() if isinstance(v, str) and v},
                "agentRuntime": {"id": "palinurus", "source": "implicit"},
                "model": {"primary": str(model.ref), "fallbacks": list(agent.fallbacks)},
                **msgspec.to_builtins(levels),
            }
        )
    scope = "global" if settings.session.scope == "global" else "per-sender"
    main = settings.session.main_key
    return {"defaultId": settings.default_agent, "mainKey": main, "scope": scope, "agents": shown}


async def get_agent_identity(call: MethodCall, asked: AgentIdentityParams) -> dict[str, Any]:
    """Who the agent says it is."""
    here = get_context(call)
    ident = asked.agent_id or (here.rows.key(asked.session_key).agent if asked.session_key else "")
    agent = _agent(call, ident or here.desk.settings.default_agent)
    name = str(agent.identity.get("name") or agent.name or agent.id)
    shown = {"agentId": agent.id, "name": name, "avatarStatus": "none", "avatarReason": "missing"}
    emoji = agent.identity.get("emoji")
    return {**shown, "emoji": emoji} if isinstance(emoji, str) and emoji else shown


async def list_agent_files(call: MethodCall, asked: AgentFilesParams) -> dict[str, Any]:
    """The files that shape the agent."""
    agent = _agent(call, asked.agent_id)
    found = [_entry(agent.workspace, name) for name in FILES]
    return {"agentId": agent.id, "workspace": agent.workspace, "files": found}


async def read_agent_file(call: MethodCall, asked: AgentFileParams) -> dict[str, Any]:
    """One of them, with its text."""
    agent = _agent(call, asked.agent_id)
    entry = _entry(agent.workspace, _known(asked.name))
    if not entry["missing"]:
        entry["content"] = await asyncio.to_thread(_read, entry["path"])
    return {"agentId": agent.id, "workspace": agent.workspace, "file": entry}


async def write_agent_file(call: MethodCall, asked: AgentWriteParams) -> dict[str, Any]:
    """Replace one of them, whole or not at all."""
    agent = _agent(call, asked.agent_id)
    path = os.path.join(agent.workspace, _known(asked.name))
    await asyncio.to_thread(_write, path, asked.content)
    entry = {**_entry(agent.workspace, asked.name), "content": asked.content}
    return {"ok": True, "agentId": agent.id, "workspace": agent.workspace, "file": entry}


def _agent(call: MethodCall, ident: str) -> AgentSettings:
    found = get_context(call).desk.settings.agents.get(ident.strip().lower())
    if found is None:
        raise MethodError(f'unknown agent id "{ident[:64]}"')
    return found


def _known(name: str) -> str:
    if name not in FILES:
        raise MethodError(f'unsupported file "{name[:64]}" (one of {", ".join(FILES)})')
    return name


def _entry(workspace: str, name: str) -> dict[str, Any]:
    path = os.path.join(workspace, name)
    try:
        status = os.lstat(path)
    except OSError:
        return {"name": name, "path": path, "missing": True}
    if not os.path.isfile(path) or os.path.islink(path):
        return {"name": name, "path": path, "missing": True}
    return {
        "name": name,
        "path": path,
        "missing": False,
        "size": status.st_size,
        "updatedAtMs": int(status.st_mtime * 1000),
    }


def _read(path: str) -> str:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            return file.read(4 * LARGEST).decode("utf-8", "replace")
    except OSError as exc:
        raise MethodError(f"{os.path.basename(path)} cannot be read: {exc.strerror}") from None


def _write(path: str, content: str) -> None:
    part = f"{path}.part"
    try:
        if os.path.islink(path):
            raise MethodError(f"{os.path.basename(path)} is a link and is not written through it")
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as exc:
        raise MethodError(f"{os.path.basename(path)} cannot be written: {exc.strerror}") from None


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("agents.list", READ, None, list_agents),
    GatewayMethod("agent.identity.get", READ, AgentIdentityParams, get_agent_identity),
    GatewayMethod("agents.files.list", READ, AgentFilesParams, list_agent_files),
    GatewayMethod("agents.files.get", READ, AgentFileParams, read_agent_file),
    GatewayMethod("agents.files.set", ADMIN, AgentWriteParams, write_agent_file),
)

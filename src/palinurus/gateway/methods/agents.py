"""agents.*: which agents there are, changing them in the config, their workspace files, and looking into their memory.

Only the named files of a workspace can be touched, and no file of an agent is ever deleted here.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from palinurus.beneath import read_file_beneath, write_file_beneath
from palinurus.config import rewrite
from palinurus.core.policy.audience import MEMORY_FILES
from palinurus.core.types.keys import parse_agent_id
from palinurus.gateway.context import MainSessionParams, find_agent, refuse_in_fleet, require
from palinurus.gateway.methods.config import translate_config_errors
from palinurus.gateway.rpc import ADMIN, READ, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.patterns import compile_late
from palinurus.services.facts import find_levels
from palinurus.tools.watches import get_persona_watches
from palinurus.workspace.bootstrap import FIRST, NAMES, OTHERS


class MemorySearchParams(MainSessionParams, frozen=True, kw_only=True):
    query: Annotated[str, Meta(min_length=1, max_length=2000)]
    limit: Annotated[int, Meta(ge=1, le=50)] | None = None
    min_score: Annotated[float, Meta(ge=0, le=1)] | None = None


async def search_memory(call: MethodCall, asked: MemorySearchParams) -> dict[str, Any]:
    """Search an agent's memory as its own tool does."""
    key = asked.resolve(call)
    memory = require(call.program.recall, "there is no memory here")
    found = await memory.search(key.agent, str(key), asked.query, asked.limit, least=asked.min_score)
    made: dict[str, Any] = {"agentId": key.agent, "results": msgspec.to_builtins(found.hits)}
    if found.disabled:
        made |= {"disabled": True, "reason": found.disabled}
    return {**made, "note": found.note} if found.note else made


MAIN = "main"
_OTHER = compile_late(r"[^a-z0-9_-]+")


class AgentCreateParams(MethodParams, frozen=True):
    name: NonEmpty
    workspace: NonEmpty
    model: NonEmpty | None = None
    emoji: str | None = None
    avatar: str | None = None


class AgentUpdateParams(MethodParams, frozen=True):
    agent_id: NonEmpty  # an empty model, emoji or avatar: none of its own
    name: NonEmpty | None = None
    workspace: NonEmpty | None = None
    model: str | None = None
    emoji: str | None = None
    avatar: str | None = None


class AgentFilesParams(MethodParams, frozen=True):
    agent_id: NonEmpty


class AgentDeleteParams(AgentFilesParams, frozen=True):
    delete_files: bool | None = None


async def create_agent(call: MethodCall, asked: AgentCreateParams) -> dict[str, Any]:
    """One more agent; its id is made from its name."""
    ident = parse_agent_id(_OTHER.sub("-", asked.name.strip().lower()).strip("-")[:64])
    if ident is None:
        raise MethodError(f'"{asked.name[:64]}" cannot be made into an agent id')
    entry = _laid({"id": ident, "name": asked.name.strip(), "workspace": asked.workspace}, _facts(asked))

    def make(raw: Any) -> Any:
        agents = _agents(raw)
        if ident in _ids(agents):
            raise MethodError(f'agent "{ident}" already exists')
        # A config without a list has one agent, main; a list has only what it names.
        listed = list(agents.get("list") or ())
        first = [] if listed or agents.get("entries") else [{"id": MAIN, "default": True}]
        if ident == MAIN and first:
            raise MethodError(f'agent "{ident}" already exists')
        return {**raw, "agents": {**agents, "list": [*first, *listed, entry]}}

    await _change(call, make)
    shown = {"model": asked.model} if asked.model else {}
    return {"ok": True, "agentId": ident, "name": asked.name.strip(), "workspace": asked.workspace, **shown}


async def update_agent(call: MethodCall, asked: AgentUpdateParams) -> dict[str, Any]:
    """Change one."""
    ident = _named(asked.agent_id)
    given = {"name": asked.name, "workspace": asked.workspace}
    new = {name: value for name, value in given.items() if value is not None} | _facts(asked)

    def make(raw: Any) -> Any:
        agents = _agents(raw)
        if ident not in _ids(agents):
            if ident != MAIN or _ids(agents):
                raise MethodError(f'agent "{ident}" not found')
            return {**raw, "agents": {**agents, "list": [_laid({"id": MAIN, "default": True}, new)]}}
        return {**raw, "agents": _mapped(agents, ident, lambda entry: _laid(entry, new))}

    await _change(call, make)
    return {"ok": True, "agentId": ident}


async def delete_agent(call: MethodCall, asked: AgentDeleteParams) -> dict[str, Any]:
    """Take one out of the config, with its bindings. Its workspace and its sessions stay on disk."""
    ident = _named(asked.agent_id)
    removed: list[Any] = []

    def make(raw: Any) -> Any:
        agents = _agents(raw)
        if ident == call.program.settings.default_agent:
            raise MethodError(f'"{ident}" cannot be deleted')
        if ident not in _ids(agents):
            raise MethodError(f'agent "{ident}" not found')
        bindings = [one for one in raw.get("bindings") or () if isinstance(one, dict)]
        removed.extend(one for one in bindings if str(one.get("agentId", "")).lower() == ident)
        made = {**raw, "agents": _mapped(agents, ident, lambda entry: None)}
        return {**made, "bindings": [b for b in raw["bindings"] if b not in removed]} if removed else made

    await _change(call, make)
    return {"ok": True, "agentId": ident, "removedBindings": len(removed), "filesKept": True}


def _facts(asked: AgentCreateParams | AgentUpdateParams) -> dict[str, Any]:
    identity = {n: v for n, v in (("emoji", asked.emoji), ("avatar", asked.avatar)) if v is not None}
    return {"identity": identity} | ({"model": asked.model} if asked.model is not None else {})


def _laid(entry: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    identity = {n: v for n, v in ((entry.get("identity") or {}) | new["identity"]).items() if v != ""}
    made = entry | new | {"identity": identity}
    return {name: value for name, value in made.items() if value or name not in ("model", "identity")}


def _agents(raw: Any) -> dict[str, Any]:
    found = raw.get("agents") if isinstance(raw, dict) else None
    return found if isinstance(found, dict) else {}


def _ids(agents: dict[str, Any]) -> set[str]:
    listed = {str(one.get("id", "")).strip().lower() for one in agents.get("list") or () if isinstance(one, dict)}
    return listed | {str(name).strip().lower() for name in agents.get("entries") or {}}


def _mapped(
    agents: dict[str, Any], ident: str, change: Callable[[dict[str, Any]], dict[str, Any] | None]
) -> dict[str, Any]:
    """With one entry changed; None from `change` leaves it out."""
    made = dict(agents)
    if isinstance(agents.get("list"), list):
        pairs = [(one, str(one.get("id", "")).strip().lower() == ident) for one in agents["list"]]
        made["list"] = [new for one, own in pairs if (new := change(one) if own else one) is not None]
    if isinstance(agents.get("entries"), dict):
        entries = {key: (one, key.strip().lower() == ident) for key, one in agents["entries"].items()}
        made["entries"] = {
            key: new for key, (one, own) in entries.items() if (new := change(one) if own else one) is not None
        }
    return made


def _named(text: str) -> str:
    ident = parse_agent_id(text)
    if ident is None:
        raise MethodError(f'agent "{text[:64]}" not found')
    return ident


async def _change(call: MethodCall, make: Callable[[Any], Any]) -> None:
    program = call.program
    await refuse_in_fleet(call)
    with translate_config_errors():
        await asyncio.to_thread(rewrite.adjust_config, program.settings.home, program.environ, make)


FILES = (*NAMES, FIRST, *OTHERS)
LARGEST = 1_000_000  # characters of one file


class AgentFileParams(AgentFilesParams, frozen=True):
    name: NonEmpty


class AgentWriteParams(AgentFileParams, frozen=True):
    content: Annotated[str, Meta(max_length=LARGEST)]


class AgentIdentityParams(MethodParams, frozen=True):
    agent_id: NonEmpty | None = None
    session_key: str | None = None


async def list_agents(call: MethodCall, asked: None) -> dict[str, Any]:
    """Every agent, with the model it would use and what that offers."""
    program = call.program
    settings = program.settings
    shown = []
    for ident, agent in settings.agents.items():
        model = program.catalog.default(agent)
        shown.append(
            {
                "id": ident,
                "name": agent.name or ident,
                "workspace": agent.workspace,
                "identity": {n: v for n, v in agent.identity.items() if isinstance(v, str) and v},
                "agentRuntime": {"id": "palinurus", "source": "implicit"},
                "model": {"primary": str(model.ref), "fallbacks": list(agent.fallbacks)},
                **msgspec.to_builtins(find_levels(program, agent, model)),
            }
        )
    scope = "global" if settings.session.scope == "global" else "per-sender"
    main = settings.session.main_key
    return {"defaultId": settings.default_agent, "mainKey": main, "scope": scope, "agents": shown}


async def get_agent_identity(call: MethodCall, asked: AgentIdentityParams) -> dict[str, Any]:
    """Who the agent says it is."""
    here = call.context
    ident = asked.agent_id or (here.reader.key(asked.session_key).agent if asked.session_key else "")
    agent = find_agent(call, ident or here.program.settings.default_agent)
    name = str(agent.identity.get("name") or agent.name or agent.id)
    shown = {"agentId": agent.id, "name": name, "avatarStatus": "none", "avatarReason": "missing"}
    emoji = agent.identity.get("emoji")
    return {**shown, "emoji": emoji} if isinstance(emoji, str) and emoji else shown


async def list_agent_files(call: MethodCall, asked: AgentFilesParams) -> dict[str, Any]:
    """The files that shape the agent."""
    agent = find_agent(call, asked.agent_id)
    found = [_entry(agent.workspace, name) for name in FILES]
    return {"agentId": agent.id, "workspace": agent.workspace, "files": found}


async def read_agent_file(call: MethodCall, asked: AgentFileParams) -> dict[str, Any]:
    """One of them, with its text. What the owner noted is the owner's alone."""
    agent = find_agent(call, asked.agent_id)
    if asked.name.lower() in MEMORY_FILES and (refused := call.client.caller.explain_refusal(ADMIN)):
        raise MethodError(refused)
    entry = _entry(agent.workspace, _known(asked.name))
    if not entry["missing"]:
        entry["content"] = await asyncio.to_thread(read_workspace_text, agent.workspace, asked.name)
    return {"agentId": agent.id, "workspace": agent.workspace, "file": entry}


async def write_agent_file(call: MethodCall, asked: AgentWriteParams) -> dict[str, Any]:
    """Replace one of them, whole or not at all."""
    agent = find_agent(call, asked.agent_id)
    await asyncio.to_thread(write_workspace_text, agent.workspace, _known(asked.name), asked.content)
    entry = {**_entry(agent.workspace, asked.name), "content": asked.content}
    return {"ok": True, "agentId": agent.id, "workspace": agent.workspace, "file": entry}


def _known(name: str) -> str:
    if name not in FILES:
        raise MethodError(f'unsupported file "{name[:64]}" (one of {", ".join(FILES)})')
    return name


def _entry(workspace: str, name: str) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "path": os.path.join(workspace, name)}
    try:
        found = os.lstat(made["path"])
    except OSError:
        return {**made, "missing": True}
    if not stat.S_ISREG(found.st_mode):
        return {**made, "missing": True}
    return {**made, "missing": False, "size": found.st_size, "updatedAtMs": int(found.st_mtime * 1000)}


def read_workspace_text(workspace: str, name: str) -> str:
    """One of the files. Raises MethodError."""
    try:
        return read_file_beneath(workspace, name, 4 * LARGEST).decode("utf-8", "replace")
    except OSError as exc:
        raise MethodError(f"{name} cannot be read: {exc.strerror or exc}") from None


def write_workspace_text(workspace: str, name: str, content: str) -> None:
    """Replace one of the files. Raises MethodError."""
    if os.path.islink(os.path.join(workspace, name)):
        raise MethodError(f"{name} is a link and is not written through it")
    try:
        write_file_beneath(workspace, name, content.encode("utf-8", "replace"), sync=True)
        get_persona_watches().accept((os.path.realpath(os.path.join(workspace, name)),))
    except OSError as exc:
        raise MethodError(f"{name} cannot be written: {exc.strerror}") from None


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("agents.list", READ, None, list_agents),
    GatewayMethod("agents.create", ADMIN, AgentCreateParams, create_agent),
    GatewayMethod("agents.update", ADMIN, AgentUpdateParams, update_agent),
    GatewayMethod("agents.delete", ADMIN, AgentDeleteParams, delete_agent),
    GatewayMethod("memory.search", ADMIN, MemorySearchParams, search_memory),
    GatewayMethod("agent.identity.get", READ, AgentIdentityParams, get_agent_identity),
    GatewayMethod("agents.files.list", READ, AgentFilesParams, list_agent_files),
    GatewayMethod("agents.files.get", READ, AgentFileParams, read_agent_file),
    GatewayMethod("agents.files.set", ADMIN, AgentWriteParams, write_agent_file),
)

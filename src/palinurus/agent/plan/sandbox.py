"""Which cell the commands of a session run in, and which workspace: from the settings and what this machine has.

One `ToolSandboxes` per configuration. Makes the few folders a cell needs; starts and restricts nothing itself.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from itertools import chain
from typing import TypeAlias

import msgspec

from palinurus.config.sections.sandbox import GUARDED, remove_port
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.folders import is_inside, list_folders_above
from palinurus.core.policy.audience import MEMORY_PATHS
from palinurus.core.prompt.facts import SandboxFact
from palinurus.core.stream.marks import allow_beneath
from palinurus.core.types.approval import ExecRules
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.sandbox import EPHEMERAL_PORTS, SEPARATE, ContainerMount, PortRanges, SandboxSpec
from palinurus.core.types.tool import ToolSettings
from palinurus.tools.commands.toolchains import find_developer_tools, write_git_identity
from palinurus.tools.sandbox import landlock, system
from palinurus.tools.sandbox.layout import cover_around
from palinurus.tools.sandbox.probe import SandboxSupport, detect_support

# Files that people send: each session has a folder of its own below the state directory, which its tools may read and
# no other session's may. What lies there came from outside; reading it taints.

# (message, where its session's files lie, pixels of an image, does the model see?) -> with what its files say
AttachFiles: TypeAlias = Callable[[Inbound, str, int, bool], Awaitable[Inbound]]


def locate_inbound_folder(home: str, key: SessionKey) -> str:
    """Where files sent to a session lie. There is none before the first file."""
    return os.path.join(home, "media", "inbound", make_session_slug(str(key)))


def open_inbound_files(settings: ToolSettings, cell: ToolSandbox, path: str) -> ToolSettings:
    """With the session's files open to its tools, and to commands where the kernel holds those."""
    if not os.path.isdir(path):
        return settings
    shut = cell.cell.kind in ("none", "docker")  # nothing to open, or nothing that could be opened later
    inner = settings.cell if shut else msgspec.structs.replace(settings.cell, read=(*settings.cell.read, path))
    return msgspec.structs.replace(settings, received=(path,), cell=inner)


HOSTS = 64  # sandboxes that are kept ready: agents, and folders they work in
AGENT_MOUNT = "/agent"  # where a container sees the agent's workspace when it may only read it


class ToolSandbox(msgspec.Struct, frozen=True):
    """Where and how tools of a session run. `box` is what the prompt says about a sandboxed session."""

    workspace: str
    cell: SandboxSpec
    env: dict[str, str]  # goes over the environment of children
    box: SandboxFact | None = None
    persona: str = ""  # the agent's own workspace, where this one is a folder of the owner's

    @property
    def folder(self) -> str:
        """The owner's folder; "" in a workspace of the agent's."""
        return self.workspace if self.persona else ""


class ToolSandboxes:
    """`of` answers for every agent and session of one configuration."""

    def __init__(
        self,
        settings: Settings,
        env: Mapping[str, str],
        look: Callable[[], SandboxSupport] = detect_support,
        *,
        make: bool = True,
    ) -> None:
        """`make` False: a look without consequences, no folder is made."""
        self._settings = settings
        self._user = os.path.realpath(env.get("HOME") or "/nonexistent")
        self._tools = find_developer_tools(env.get("HOME") or "/nonexistent", env.get("PATH", ""))
        self._look = look
        self._make = make
        self._listed: tuple[str, ...] = ()  # what the system said last
        self._system: tuple[str, ...] = ()  # that, without what is guarded
        self._hosts: dict[tuple[str, str], ToolSandbox] = {}  # by agent and folder

    def of(
        self, agent: AgentSettings, key: SessionKey, *, shared: bool = False, outsider: bool = False, folder: str = ""
    ) -> ToolSandbox:
        """The session's; without the owner's memory where others see what comes of it, and apart from the agent's
        workspace, home and `folder` (where the session works instead of the workspace) for people who are not trusted
        with them. Raises OSError if a folder cannot be made."""
        apart = outsider and not is_sandboxed(agent, key)
        found = self._separate(agent, key) if apart else self._find(agent, key, "" if outsider else folder)
        return hide_paths(found, list_memory_paths(agent)) if shared else found

    def locate_workspace(self, key: SessionKey, asker: Inbound, folder: str = "") -> str:
        """Where the tools of a session work for this asker. Raises OSError if the folder cannot be made."""
        return self.of(self._settings.agents[key.agent], key, outsider=asker.outsider, folder=folder).workspace

    def _find(self, agent: AgentSettings, key: SessionKey, folder: str) -> ToolSandbox:
        if is_sandboxed(agent, key):
            return self._sandboxed(agent, key, folder)
        self._readable()  # forgets those made for another state of the system
        if (agent.id, folder) not in self._hosts:
            if len(self._hosts) >= HOSTS:
                self._hosts.clear()
            self._hosts[agent.id, folder] = self._host(agent, folder or agent.workspace, agent.id, own=True)
        return self._hosts[agent.id, folder]

    def _separate(self, agent: AgentSettings, key: SessionKey) -> ToolSandbox:
        """Held as the agent's own, with a workspace and a home that nobody else's turns see."""
        name = make_session_slug(str(key))
        workspace = os.path.join(agent.sandbox.root, name)
        found = self._host(agent, workspace, f"box-{name}")
        return msgspec.structs.replace(found, box=SandboxFact(workspace, "none"))

    def _host(self, agent: AgentSettings, workspace: str, name: str, *, own: bool = False) -> ToolSandbox:
        """`own`: the owner's. In a folder of theirs the agent's own workspace can be looked at, and the file tools may
        write what makes the agent what it is there (`ToolSettings.persona`)."""
        box, persona = agent.sandbox, agent.workspace if own and workspace != agent.workspace else ""
        kind = {"auto": self._look().best(), "off": "none"}.get(box.contain, box.contain)
        if kind == "none":
            # each command is asked about; file tools keep to the workspace and the system's files
            mine = self._open((self._made(workspace), *box.write))
            seen = (*self._readable(), *self._open((persona,) if persona else ()))
            spec = SandboxSpec(accepted=True) if box.contain == "off" else SandboxSpec("none", seen, mine)
            return ToolSandbox(workspace, spec, {}, persona=persona)
        base = SandboxSpec(kind=kind, connect=self._ports(box.connect), limits=box.limits)  # type: ignore[arg-type]
        found = self._furnished(agent, base, workspace, name, read=persona)
        if not own:  # others are not told who the owner is, nor what they have installed
            return found
        if self._make:
            write_git_identity(self._user, found.env["HOME"])
        read = (*found.cell.read, *self._open(self._tools.read))
        return msgspec.structs.replace(
            found,
            cell=msgspec.structs.replace(found.cell, read=read),
            env={**self._tools.env, **found.env},
            persona=persona,
        )

    def _furnished(
        self, agent: AgentSettings, cell: SandboxSpec, workspace: str, name: str, read: str = ""
    ) -> ToolSandbox:
        """With a home and a temporary folder of its own, and all the paths."""
        box, base = agent.sandbox, os.path.join(self._settings.home, "cells", name)
        home, temporary = (os.path.realpath(self._made(os.path.join(base, part))) for part in ("home", "tmp"))
        self._linked(home, (*box.read, *box.write))
        skills = (os.path.join(self._settings.home, "skills"), *self._settings.skills.extra)
        readable = (*box.read, *skills, *((read,) if read else ()))
        full = msgspec.structs.replace(
            cell,
            read=(*self._readable(), *self._open(readable)),
            write=(*self._open((self._made(workspace), *box.write)), home, temporary, *system.list_devices()),
            # in namespaces sockets of the file system are out of sight, and Landlock keeps the abstract ones away
            unix=box.unix or (cell.kind in SEPARATE and self._look().landlock >= landlock.SCOPE_SINCE),
            temporary=temporary,
        )
        return ToolSandbox(workspace, full, {"HOME": home, "TMPDIR": temporary})

    def _readable(self) -> tuple[str, ...]:
        found = system.list_readable()  # two hundred, and real paths but for a few
        if found is not self._listed:
            self._listed = found
            self._hosts.clear()
            self._system = self._cover(os.path.realpath(path) if path in system.KERNEL else path for path in found)
        return self._system

    def _open(self, paths: tuple[str, ...]) -> tuple[str, ...]:
        return self._cover(os.path.realpath(path) for path in paths)

    def _cover(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Real paths, without what is guarded below them."""
        guarded = (os.path.realpath(self._settings.home), *(os.path.join(self._user, name) for name in GUARDED))
        above = set().union(*map(list_folders_above, guarded))  # a few of the two hundred that are asked for
        pieces = [cover_around(path, guarded) if path.rstrip("/") in above else (path,) for path in paths]
        return tuple(dict.fromkeys(chain.from_iterable(pieces)))

    def _made(self, path: str) -> str:
        if self._make:
            os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def _linked(self, home: str, declared: tuple[str, ...]) -> None:
        """~/project means the same for commands as for the person, where it was declared."""
        for path in declared if self._make else ():
            name = os.path.relpath(path, self._user)
            if name.startswith(".") or not os.path.isdir(path):
                continue
            link = os.path.join(home, name)
            os.makedirs(os.path.dirname(link), exist_ok=True)
            with contextlib.suppress(FileExistsError):
                os.symlink(path, link)

    def _ports(self, ports: PortRanges) -> PortRanges:
        """Never the gateway's own. One that is chosen at start could be any of those."""
        own = self._settings.gateway.port
        if own:
            return remove_port(ports, own)
        return tuple(one for one in ports if not (one[0] <= EPHEMERAL_PORTS[1] and EPHEMERAL_PORTS[0] <= one[1]))

    def _sandboxed(self, agent: AgentSettings, key: SessionKey, folder: str) -> ToolSandbox:
        """`folder` takes the workspace's place, as far as the sandbox has it (`explain_boxed`)."""
        box = agent.sandbox
        agent = msgspec.structs.replace(agent, workspace=folder or agent.workspace)
        name = {"session": make_session_slug(str(key)), "agent": f"{agent.id}-agent", "shared": "shared"}[box.scope]
        shared = box.access == "rw"
        workspace = agent.workspace if shared else os.path.join(box.root, name)
        self._made(workspace)
        seen = agent.workspace if box.access == "ro" else ""
        if box.backend != "docker":
            base = SandboxSpec(kind=box.backend, connect=(), limits=box.limits)  # type: ignore[arg-type]
            found = self._furnished(agent, base, workspace, f"box-{name}", read=seen)
            return msgspec.structs.replace(found, box=SandboxFact(workspace, box.access, seen))
        mounts = (ContainerMount(os.path.realpath(workspace), box.box.workdir, True), *box.box.mounts)
        if seen:
            mounts = (*mounts, ContainerMount(os.path.realpath(seen), AGENT_MOUNT))
        made = msgspec.structs.replace(box.box, name=f"{box.box.name}{name}", mounts=mounts)
        cell = SandboxSpec(
            kind="docker",
            read=tuple(one.source for one in mounts if not one.write),
            write=tuple(one.source for one in mounts if one.write),
            connect=() if made.network == "none" else None,
            box=made,
        )
        note = SandboxFact(made.workdir, box.access, AGENT_MOUNT if seen else made.workdir if shared else "")
        return ToolSandbox(workspace, cell, {}, note)


def list_memory_paths(agent: AgentSettings) -> tuple[str, ...]:
    """Where the owner's memory is: real paths."""
    paths = (*MEMORY_PATHS, *(os.path.expanduser(path.strip()) for path in agent.memory.extra))
    return tuple(os.path.realpath(os.path.join(agent.workspace, path)) for path in paths)


def allow_files(agent: AgentSettings, shared: bool) -> Callable[[str], bool]:
    """Which files an answer may send: those of the workspace, without the owner's memory where others see it."""
    beneath, hidden = allow_beneath((agent.workspace,)), list_memory_paths(agent) if shared else ()

    def allowed(reference: str) -> bool:
        real = os.path.realpath(reference.removeprefix("file://")) if hidden else ""
        return beneath(reference) and not any(is_inside(real, path) for path in hidden)

    return allowed


def hide_paths(found: ToolSandbox, hidden: tuple[str, ...]) -> ToolSandbox:
    """The same without these paths. Where nothing holds commands, a person has to look at each."""
    cell = msgspec.structs.replace(found.cell, hide=hidden, accepted=False)
    if (box := cell.box) is not None:  # a container of its own, in which something else stands there
        seen = [
            (one.target + path[len(one.source) :], os.path.isdir(path))
            for path in hidden
            for one in box.mounts
            if is_inside(path, one.source) and os.path.exists(path)
        ]
        box = msgspec.structs.replace(
            box,
            name=f"{box.name}-shared",
            mounts=(*box.mounts, *(ContainerMount(os.devnull, target) for target, folder in seen if not folder)),
            tmpfs=(*box.tmpfs, *(target for target, folder in seen if folder)),
        )
    return msgspec.structs.replace(found, cell=msgspec.structs.replace(cell, box=box))


def apply_sandbox(settings: ToolSettings, where: ToolSandbox, declared: Mapping[str, str]) -> ToolSettings:
    """The settings of tools with the cell. What the owner declared for commands goes over what the cell sets."""
    return msgspec.structs.replace(
        settings,
        cell=where.cell,
        exec_env={**settings.exec_env, **where.env, **declared},
        persona=where.persona,
        workspace_only=settings.workspace_only or where.box is not None,
    )


def describe_box(box: SandboxFact | None, rules: ExecRules, tools: Collection[str]) -> SandboxFact | None:
    """With the word on whether commands of this turn may leave it, and on the browser."""
    browser = "the `browser` tool; it has a sandbox of its own" if "browser" in tools else ""
    return box and msgspec.structs.replace(box, elevated="exec" in tools and not rules.gates, browser=browser)


def is_sandboxed(agent: AgentSettings, key: SessionKey) -> bool:
    """Do the tools of this session run in a sandbox (agents.defaults.sandbox.mode)? Sub-agents of one do, too."""
    mode = agent.sandbox.mode
    return mode == "all" or (mode == "non-main" and key.kind != "main")


def make_session_slug(key: str) -> str:
    """A folder's or container's name for a session: readable, and no two sessions share one."""
    words = re.sub(r"[^a-z0-9]+", "-", key.lower()).strip("-")[:40]
    return f"{words}-{hashlib.sha256(key.encode()).hexdigest()[:10]}"

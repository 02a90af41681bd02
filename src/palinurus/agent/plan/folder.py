"""Where a session works: in the home workspace, or in a folder that the owner allowed. Decided here, once for every
run, from the session's row; the first message of a session may bring the folder along.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from palinurus.agent.plan.prompt import PromptOccasion
from palinurus.agent.plan.sandbox import ToolSandbox, is_sandboxed
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.prompt.facts import FileFact, SandboxFact
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelFailure
from palinurus.sessions.lifecycle import CurrentSession
from palinurus.sessions.record import SessionRecord
from palinurus.taping import ask_taped_now
from palinurus.workspace.folders import KINDS, explain_barred, explain_mismatch
from palinurus.workspace.project import ProjectFiles


def settle_folder(
    found: CurrentSession, inbound: Inbound, key: SessionKey, *, agent: AgentSettings, place: FolderPlace
) -> CurrentSession | ModelFailure:
    """The session with its folder, or why it cannot work there. Never another place than the one that was meant."""
    asked, record = inbound.options.folder, found.record
    if asked and not (inbound.sender.owner and not inbound.system):
        return ModelFailure("config", "only the owner says in which folder a session works")
    if asked and asked != record.folder:
        # a row may be there before anything was said: of a session that began with a command
        spoken = found.ended is not None or record.totalTokens is not None
        spoken = spoken or place.has_transcript(record.path(key.agent))
        if why := explain_mismatch(record.folder, asked, key, begun=spoken):
            return ModelFailure("config", why)
        found = msgspec.structs.replace(found, record=msgspec.structs.replace(record, folder=asked), stored=False)
    if folder := get_folder(found.record, key):
        why = ask_taped_now("folder", partial(place.explain_barred, folder), str) or explain_boxed(agent, key)
        if why:
            return ModelFailure("config", why)
    return found


def get_folder(session: SessionRecord, key: SessionKey) -> str:
    """Where the session works; "": in the home workspace, as all do that are shared, whatever a row says."""
    return session.folder or "" if key.kind in KINDS else ""


def explain_boxed(agent: AgentSettings, key: SessionKey) -> str:
    """Why a sandboxed session cannot work in a folder; "" if it can."""
    if not is_sandboxed(agent, key) or (agent.sandbox.access == "rw" and agent.sandbox.backend != "docker"):
        return ""
    return (
        f"sessions are sandboxed (agents.defaults.sandbox.mode: {agent.sandbox.mode}) and see no such folder; "
        "workspaceAccess: rw lets them work there, but for containers"
    )


class FolderPlace:
    """What this machine knows about folders: the owner's leaves, and what projects say in their own files."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ
        self._files = ProjectFiles()

    def explain_barred(self, folder: str) -> str:
        """Why no session may work there now; "" if one may."""
        return explain_barred(folder, self._settings, self._environ)

    def has_transcript(self, path: str) -> bool:
        """Was anything said in a session whose transcript is there, seen from the state directory?"""
        return os.path.exists(os.path.join(self._settings.home, path))

    def read_project(self, folder: str, agent: AgentSettings) -> tuple[FileFact, ...]:
        """The instructions that lie in the folder, as much as has room; of a run on tape, as they were then."""
        if not folder:
            return ()
        read = partial(self._files.read, folder, agent.bootstrap_chars, agent.bootstrap_total)
        return ask_taped_now("project", read, tuple[FileFact, ...])


def place_occasion(
    now: PromptOccasion, cell: ToolSandbox, project: tuple[FileFact, ...], box: SandboxFact | None, **more: Any
) -> PromptOccasion:
    """The occasion with where it is: the folder and what that says, the sandbox; `more`: further fields of it."""
    return msgspec.structs.replace(now, folder=cell.folder, project=project, sandbox=box, **more)


def name_paths(cell: ToolSandbox, files: tuple[FileFact, ...]) -> tuple[str, ...]:
    """Where the files of a project lie, for their taint."""
    return tuple(os.path.join(cell.folder, file.name) for file in files)

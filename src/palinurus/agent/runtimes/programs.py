"""The programs that can do a run, and what all of them need of ours: their conversations' ids, the workspace's files,
an environment. Loaded with the first run that one of them does.

A sandboxed session is never handed to a program that would run outside the sandbox.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

import msgspec

from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.plan.sandbox import is_sandboxed
from palinurus.agent.ports import RunPorts
from palinurus.agent.runtimes.acp import AcpTalk
from palinurus.agent.runtimes.brief import ProgramBrief, TalkKit, write_brief
from palinurus.agent.runtimes.choose import WorkspaceFiles
from palinurus.agent.runtimes.claude import ClaudeTalk
from palinurus.agent.runtimes.codex import CodexTalk
from palinurus.agent.runtimes.drive import ProgramGone, ProgramTalk, TalkSetting, drive_program
from palinurus.config.sections.runtimes import ACP, CLAUDE, CODEX, AcpPlace
from palinurus.config.settings import Settings
from palinurus.core.policy.audience import KEY, TRUST
from palinurus.core.prompt.bootstrap import hide_memory
from palinurus.core.types.events import RunEvent
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow, Store
from palinurus.tools.commands.environ import build_child_env

BINDINGS = "cliSessionBindings"  # field of a session's record

UNHELD = ("plan", "ask")  # modes that bind our own tools: another program's do not come to our gate


class ProgramKind(msgspec.Struct, frozen=True):
    """A sort of program: how it is spoken to, which workspace files it finds itself, which variables tell it where
    its sign-in is."""

    talk: Callable[[TalkSetting, TalkKit], ProgramTalk]
    finds: frozenset[str]
    variables: tuple[str, ...]


PROGRAM_KINDS: dict[str, ProgramKind] = {
    CODEX: ProgramKind(CodexTalk, frozenset({"agents.md"}), ("CODEX_HOME",)),
    CLAUDE: ProgramKind(ClaudeTalk, frozenset(), ("CLAUDE_CONFIG_DIR",)),
    ACP: ProgramKind(AcpTalk, frozenset(), ()),
}


class ProgramRunner:
    """One per run. `busy`: the kinds of programs that are at work, this one's included."""

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        store: Store,
        files: WorkspaceFiles,
        *,
        busy: list[str],
    ) -> None:
        self._busy = busy
        self._settings = settings
        self._environ = environ
        self._store = store
        self._files = files

    def run(self, name: str, plan: RunPlan, ports: RunPorts) -> AsyncGenerator[RunEvent, None]:
        """The run, done by the program of that name in the config."""
        return self._counted(name, drive_program(plan, ports, name, lambda setting: self._talk(name, setting)))

    async def _counted(self, name: str, events: AsyncGenerator[RunEvent, None]) -> AsyncGenerator[RunEvent, None]:
        kind = self._settings.runtimes.programs[name].kind
        self._busy.append(kind)
        try:
            async with aclosing(events):
                async for event in events:
                    yield event
        finally:
            self._busy.remove(kind)

    def _talk(self, name: str, setting: TalkSetting) -> ProgramTalk:
        """Raises Gone when there can be none."""
        plan, program = setting.plan, self._settings.runtimes.programs[name]
        sort = PROGRAM_KINDS[program.kind]
        most = self._settings.runtimes.acp.most
        if program.kind == ACP and most and self._busy.count(ACP) > most:
            raise ProgramGone(
                f"{most} programs are at work already (acp.maxConcurrentSessions)", "overloaded", final=True
            )
        if is_sandboxed(self._settings.agents[plan.route.agent], plan.route.key):
            raise ProgramGone("it would run outside this session's sandbox", "config", final=True)
        if plan.inbound.shared and any(map(os.path.exists, plan.settings.cell.hide)):
            raise ProgramGone(
                f"it could read the owner's memory for others ({KEY} names who may)", "config", final=True
            )
        if plan.inbound.outsider:
            raise ProgramGone(
                f"it would use this machine for somebody who may not ({TRUST} names who may)", "config", final=True
            )
        if plan.settings.rules.mode in UNHELD:
            raise ProgramGone(
                f"it would not keep to permission mode {plan.settings.rules.mode} (/mode reset)", "config", final=True
            )
        passed = {key: self._environ[key] for key in ("PATH", *sort.variables) if self._environ.get(key)}
        declared = {key: value.reveal() for key, value in program.env.items()}
        env = {**build_child_env(self._environ, {}), **passed, **declared}
        found = shutil.which(program.command[0], path=env["PATH"])
        if found is None:
            raise ProgramGone(f"no program {program.command[0]!r} is installed", "config", final=True)
        started = msgspec.structs.replace(program, command=(found, *program.command[1:]))
        threads = ProgramThreads(self._store, plan, name)
        mark = hashlib.sha256(f"{self._settings.home} {name} {plan.route.key}".encode()).hexdigest()[:24]
        return sort.talk(
            setting,
            TalkKit(
                started,
                env,
                self._brief(plan, sort),
                threads.known,
                keep=threads.keep,
                mark=mark,
                place=self._settings.runtimes.places.get(plan.route.agent, AcpPlace()),
                stream=self._settings.runtimes.acp.stream,
            ),
        )

    def _brief(self, plan: RunPlan, sort: ProgramKind) -> ProgramBrief:
        inbound = plan.inbound
        who = [
            "You answer inside Palinurus, a personal assistant that people reach through chat. Your last message is "
            f"delivered to them; this one came over {inbound.target.channel} ({inbound.kind} chat).",
            *([inbound.options.system] if inbound.options.system else ()),
        ]
        files = self._files(plan.route.agent, plan.route.key)
        files = hide_memory(files) if inbound.shared else files
        return write_brief(files, sort.finds, who, beat=is_heartbeat(plan))


def is_heartbeat(plan: RunPlan) -> bool:
    """Is this a heartbeat turn?"""
    return plan.inbound.triggered and plan.inbound.options.trigger == "heartbeat"


class ProgramThreads:
    """The id under which a program knows a session's conversation. A new session of ours is a new one of its."""

    def __init__(self, store: Store, plan: RunPlan, name: str) -> None:
        self._store = store
        self._plan = plan
        self._name = name

    async def known(self) -> str:
        """ "" if there is none yet."""
        row = await self._store.session(str(self._plan.route.key))
        bound = SessionRecord.decode(row.data).extra.get(BINDINGS) if row is not None else None
        own = bound.get(self._name) if isinstance(bound, dict) else None
        if not isinstance(own, dict) or own.get("of") != self._plan.session_id:
            return ""
        return str(own.get("sessionId") or "")

    async def keep(self, ident: str) -> None:
        """On disk when this returns."""
        plan = self._plan
        bound = {BINDINGS: {self._name: {"sessionId": ident, "of": plan.session_id}}}
        data = msgspec.json.encode({"sessionId": plan.session_id, **bound})
        await self._store.touch(
            SessionRow(str(plan.route.key), plan.route.agent, plan.session_id, plan.started, data=data)
        )

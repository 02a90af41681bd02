"""The frozen plan of one run. Everything is decided here; below it nothing reads config."""

from __future__ import annotations

import os
from typing import Any, Literal

import msgspec

from palinurus.config.sections.context import RetrySettings
from palinurus.config.sections.credentials import AuthSettings
from palinurus.config.sections.tools import LoopSettings
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.levels.resolve import FastMode, ThinkingDecision
from palinurus.core.types.editor import EditorPort
from palinurus.core.types.inbound import NO_INLINE, Inbound, InlineDirectives, Route
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage
from palinurus.core.types.model import ModelSpec, Prompt
from palinurus.core.types.outbound import RunVisibility
from palinurus.core.types.tool import HiddenTexts, Tool, ToolEffect, ToolSettings, ToolSpec, list_specs
from palinurus.workspace.discovery import locate_bundled_skills


class RunLimits(msgspec.Struct, frozen=True):
    """When a run stops by itself."""

    timeout: float = 172_800.0  # seconds, whole run
    max_turns: int = 200
    calls_per_turn: int = 64  # tool calls taken from one answer
    loops: LoopSettings = LoopSettings()  # the same call with the same arguments, again and again
    parallel: int = 8  # tools of one batch at the same time
    retries: RetrySettings = RetrySettings()  # calls of models for one answer
    auth: AuthSettings = AuthSettings()  # other keys among them
    evidence: Literal["warn", "ask", "off"] = "off"  # what becomes of claims that nothing bears out


class AgentBase(msgspec.Struct, frozen=True):
    """What is laid out once per agent and configuration."""

    agent: AgentSettings
    settings: ToolSettings
    limits: RunLimits


def make_agent_base(
    agent: AgentSettings,
    settings: Settings,
    env: dict[str, str],
    hidden: HiddenTexts,
    editor: EditorPort | None = None,
) -> AgentBase:
    """`env`: of the children of tools; `hidden`: what no tool may say."""
    tools, home = agent.tools, settings.home
    limits = RunLimits(timeout=agent.timeout, max_turns=agent.max_turns, loops=tools.loops, retries=agent.retries)
    used = ToolSettings(
        workspace_only=tools.workspace_only,
        patch_workspace_only=tools.exec.patch_workspace_only,
        exec_timeout=tools.exec.timeout,
        exec_env={**env, **tools.exec.env},
        protected=(home,),
        secrets=hidden,
        taint=tools.taint,
        changes=tools.changes,
        editor=editor,
        readable=(os.path.join(home, "skills"), locate_bundled_skills()),
    )
    return AgentBase(agent, used, msgspec.structs.replace(limits, auth=settings.auth, evidence=agent.evidence))


class ModelCandidate(msgspec.Struct, frozen=True):
    """A model to ask, with the thinking level fitted to it, and who decided that."""

    model: ModelSpec
    level: ThinkingDecision = ThinkingDecision("off", "off", "", "off")
    fast: FastMode = FastMode(None, "off")
    levels: tuple[str, ...] = ()  # what the model offers, in rank order; () where nobody looked
    why: str = ""  # who chose it; "": it may stand in for the first
    barred: frozenset[str] = frozenset()  # tools of the plan that policy keeps from this model


class RunPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run is made of. Whoever needs to know something about a run finds it here, decided."""

    # which run: whose message, in which session
    id: str  # run id
    item: str  # inbox id
    route: Route
    inbound: Inbound
    session_id: str
    transcript: str  # file, relative to home
    started: int  # milliseconds
    # what the model is told
    prompt: Prompt
    history: tuple[Message, ...]  # repaired and limited; ends before `opening`
    opening: tuple[UserMessage | ToolResult, ...]  # the new message; resumed: results nobody will ever know
    earlier: tuple[AssistantMessage, ...] = ()  # what this very turn said before a crash; it is part of its answer
    startup: bool = False  # the notes of the last days were put before its message
    # who is asked, and how
    choices: tuple[ModelCandidate, ...]  # the model, then its fallbacks
    sampling: dict[str, Any]  # max_tokens, temperature, tool_choice as the client asked
    profile: str = ""  # the auth profile the person chose for this session
    scale: float = 1.0  # real tokens of the model to one estimated (core/history/tokens)
    fallback: str = ""  # the model that stood in last time, of which the person has been told
    # what it may do, and where
    tools: dict[str, Tool]
    specs: tuple[ToolSpec, ...]
    hidden: dict[str, str] = {}  # tools that the run was not given, each with who keeps it away
    settings: ToolSettings
    limits: RunLimits
    workspace: str
    taint: tuple[str, ...] = ()  # untrusted content that is in the session already (core/policy/taint)
    # what people see of it
    show: RunVisibility
    quiet: RunVisibility = RunVisibility()  # the agent's defaults for `show`
    inline: InlineDirectives = NO_INLINE  # directives of this message

    @property
    def model(self) -> ModelSpec:
        return self.choices[0].model

    def restrict_to(self, choice: ModelCandidate) -> RunPlan:
        """The plan as it is for this model: a stand-in may be allowed less than the model it stands in for."""
        if not choice.barred:
            return self
        tools = {name: tool for name, tool in self.tools.items() if name not in choice.barred}
        return msgspec.structs.replace(self, tools=tools, specs=list_specs(tools.values()))

    def effect(self, name: str) -> ToolEffect:
        """What may be repeated; a tool that does not exist changes nothing."""
        tool = self.tools.get(name)
        return tool.effect if tool else "pure"

"""tools: who may use what, and the limits of each. Names are OpenClaw's."""

from typing import Literal, TypeAlias

from palinurus.config.schema.words import Count, Free, ModelSpec, Section, Size

Profile: TypeAlias = Literal["minimal", "coding", "messaging", "full"]


class ToolPolicy(Section, frozen=True):
    allow: list[str] | None = None
    also_allow: list[str] | None = None
    deny: list[str] | None = None


class ProfiledPolicy(ToolPolicy, frozen=True):
    profile: Profile | None = None


class PolicyHolder(Section, frozen=True):
    tools: ToolPolicy | None = None


class ApplyPatch(Section, frozen=True):
    enabled: bool | None = None
    workspace_only: bool | None = None
    allow_models: list[str] | None = None


class Reviewer(Section, frozen=True):
    model: ModelSpec | None = None
    timeout_ms: Count | None = None


class Exec(Section, frozen=True):
    host: Literal["auto", "sandbox", "gateway", "node"] | None = None
    mode: Literal["deny", "allowlist", "ask", "auto", "full"] | None = None
    security: Literal["deny", "allowlist", "full"] | None = None
    ask: Literal["off", "on-miss", "always"] | None = None
    node: str | None = None
    env: dict[str, str] | None = None
    path_prepend: list[str] | None = None
    safe_bins: list[str] | None = None
    safe_bin_trusted_dirs: list[str] | None = None
    safe_bin_profiles: Free | None = None
    strict_inline_eval: bool | None = None
    command_highlighting: bool | None = None
    reviewer: Reviewer | None = None
    background_ms: Count | None = None
    timeout_sec: Size | None = None
    timeout_seconds: Size | None = None  # the newer spelling of timeoutSec
    approval_running_notice_ms: Size | None = None
    cleanup_ms: Count | None = None
    notify_on_exit: bool | None = None
    notify_on_exit_empty_success: bool | None = None
    apply_patch: ApplyPatch | None = None


class Fs(Section, frozen=True):
    workspace_only: bool | None = None


class Taint(Section, frozen=True):
    enabled: bool | None = None
    allow: list[str] | None = None
    hosts: list[str] | None = None


class Detectors(Section, frozen=True):
    generic_repeat: bool | None = None
    known_poll_no_progress: bool | None = None
    ping_pong: bool | None = None


class LoopDetection(Section, frozen=True):
    enabled: bool | None = None
    history_size: Count | None = None
    warning_threshold: Count | None = None
    critical_threshold: Count | None = None
    unknown_tool_threshold: Count | None = None
    global_circuit_breaker_threshold: Count | None = None
    detectors: Detectors | None = None
    post_compaction_guard: Free | None = None


class Elevated(Section, frozen=True):
    enabled: bool | None = None
    allow_from: dict[str, list[str | int]] | None = None


class ToolsShared(ProfiledPolicy, frozen=True):
    """What both `tools` and one agent's `tools` can say."""

    by_provider: dict[str, ProfiledPolicy] | None = None
    tools_by_sender: dict[str, ToolPolicy] | None = None
    elevated: Elevated | None = None
    exec: Exec | None = None
    fs: Fs | None = None
    loop_detection: LoopDetection | None = None
    message: Free | None = None
    sandbox: PolicyHolder | None = None
    code_mode: bool | Free | None = None
    swarm: bool | Free | None = None


class AgentTools(ToolsShared, frozen=True):
    """agents.list[].tools"""


class SessionTools(Section, frozen=True):
    visibility: Literal["self", "tree", "agent", "all"] | None = None


class AgentToAgent(Section, frozen=True):
    enabled: bool | None = None
    allow: list[str] | None = None


# A table of names takes the place of the camel case that fields get otherwise.
_NAMES = {"agent_to_agent": "agentToAgent", "tool_search": "toolSearch"}


class Tools(ToolsShared, frozen=True, rename=_NAMES):
    """tools"""

    web: Free | None = None
    media: Free | None = None
    links: Free | None = None
    sessions: SessionTools | None = None
    agent_to_agent: AgentToAgent | None = None
    subagents: PolicyHolder | None = None
    tool_search: bool | Free | None = None
    sessions_spawn: Free | None = None
    experimental: Free | None = None
    browser: Free | None = None
    taint: Taint | None = None

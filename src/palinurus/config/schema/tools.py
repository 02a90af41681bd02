"""tools: who may use what, and the limits of each. Names are OpenClaw's."""

from typing import Literal, TypeAlias

from palinurus.config.declare import option
from palinurus.config.forms import ConfigSection, Count, Free, ModelSpec, Size

Profile: TypeAlias = Literal["minimal", "coding", "messaging", "full"]


class ToolPolicySection(ConfigSection, frozen=True):
    allow: list[str] | None = None
    also_allow: list[str] | None = None
    deny: list[str] | None = None


class ToolProfileSection(ToolPolicySection, frozen=True):
    profile: Profile | None = None


class PolicyHolderSection(ConfigSection, frozen=True):
    tools: ToolPolicySection | None = None


class ApplyPatchSection(ConfigSection, frozen=True):
    enabled: bool | None = None
    workspace_only: bool | None = None
    allow_models: list[str] | None = None


class ReviewerSection(ConfigSection, frozen=True):
    model: ModelSpec | None = None
    timeout_ms: Count | None = None


class ExecSection(ConfigSection, frozen=True):
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
    reviewer: ReviewerSection | None = None
    background_ms: Count | None = None
    timeout_sec: Size | None = None
    timeout_seconds: Size | None = None  # the newer spelling of timeoutSec
    approval_running_notice_ms: Size | None = None
    cleanup_ms: Count | None = None
    notify_on_exit: bool | None = None
    notify_on_exit_empty_success: bool | None = None
    apply_patch: ApplyPatchSection | None = None


class FsSection(ConfigSection, frozen=True):
    workspace_only: bool | None = None


class TaintSection(ConfigSection, frozen=True):
    enabled: bool | None = None
    allow: list[str] | None = None
    hosts: list[str] | None = None


class DetectorsSection(ConfigSection, frozen=True):
    generic_repeat: bool | None = None
    known_poll_no_progress: bool | None = None
    ping_pong: bool | None = None


class LoopDetectionSection(ConfigSection, frozen=True):
    enabled: bool | None = None
    history_size: Count | None = None
    warning_threshold: Count | None = None
    critical_threshold: Count | None = None
    unknown_tool_threshold: Count | None = None
    global_circuit_breaker_threshold: Count | None = None
    detectors: DetectorsSection | None = None
    post_compaction_guard: Free | None = None


class ElevatedSection(ConfigSection, frozen=True):
    enabled: bool | None = None
    allow_from: dict[str, list[str | int]] | None = None


class SharedToolsSection(ToolProfileSection, frozen=True):
    """What both `tools` and one agent's `tools` can say."""

    by_provider: dict[str, ToolProfileSection] | None = None
    tools_by_sender: dict[str, ToolPolicySection] | None = None
    elevated: ElevatedSection | None = None
    exec: ExecSection | None = None
    fs: FsSection | None = None
    loop_detection: LoopDetectionSection | None = None
    message: Free | None = None
    sandbox: PolicyHolderSection | None = None
    code_mode: bool | Free | None = None
    swarm: bool | Free | None = None


class AgentToolsSection(SharedToolsSection, frozen=True):
    """agents.list[].tools"""


class SessionToolsSection(ConfigSection, frozen=True):
    visibility: Literal["self", "tree", "agent", "all"] | None = None


class AgentToAgentSection(ConfigSection, frozen=True):
    enabled: bool | None = None
    allow: list[str] | None = None


class ToolsSection(SharedToolsSection, frozen=True):
    """tools"""

    web: Free | None = None
    media: Free | None = None
    links: Free | None = None
    sessions: SessionToolsSection | None = None
    agent_to_agent: AgentToAgentSection | None = None
    subagents: PolicyHolderSection | None = None
    tool_search: bool | Free | None = None
    sessions_spawn: Free | None = option(None, at="sessions_spawn")
    experimental: Free | None = None
    browser: Free | None = None
    taint: TaintSection | None = None

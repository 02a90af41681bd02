"""agents.defaults, agents.list[] (and its newer spelling agents.entries). Names are OpenClaw's."""

from typing import Annotated, Literal

import msgspec

from palinurus.config.declare import Unfilled
from palinurus.config.forms import (
    Amount,
    ConfigSection,
    Count,
    Free,
    GroupChatSection,
    IdentitySection,
    Level,
    ModelSpec,
    Size,
    Switch,
    Typing,
)
from palinurus.config.schema.sandbox import SandboxSection
from palinurus.config.schema.tools import AgentToolsSection
from palinurus.config.sections.context import CompactionSettings, PruningSection
from palinurus.config.sections.schedule import HeartbeatSettings


class AgentModelSection(ConfigSection, frozen=True):
    """agents.defaults.models["provider/model"]"""

    alias: str | None = None
    params: Free | None = None
    streaming: bool | None = None
    agent_runtime: Free | None = None
    code_mode: bool | None = None


class SubagentsSection(ConfigSection, frozen=True):
    max_concurrent: Count | None = None
    max_spawn_depth: Annotated[int, msgspec.Meta(ge=1, le=5)] | None = None
    max_children_per_agent: Annotated[int, msgspec.Meta(ge=1, le=20)] | None = None
    archive_after_minutes: Size | None = None
    model: ModelSpec | None = None
    thinking: str | None = None
    run_timeout_seconds: Size | None = None
    announce_timeout_ms: Count | None = None
    allow_agents: list[str] | None = None
    require_agent_id: bool | None = None
    delegation_mode: Literal["suggest", "prefer"] | None = None


class SharedAgentSection(ConfigSection, frozen=True):
    """What both the defaults and one agent can say."""

    workspace: str | None = None
    cwd: str | None = None
    model: ModelSpec | None = None
    utility_model: str | None = None
    models: dict[str, AgentModelSection] | None = None
    model_policy: Free | None = None
    params: Free | None = None
    thinking_default: Level | None = None
    reasoning_default: Literal["on", "off", "stream"] | None = None
    fast_mode_default: bool | Literal["auto"] | None = None
    verbose_default: Literal["off", "on", "full"] | None = None
    trace_default: Literal["off", "on", "raw"] | None = None
    tool_progress_detail: Literal["explain", "raw"] | None = None
    context_injection: Literal["always", "continuation-skip", "never"] | None = None
    bootstrap_max_chars: Count | None = None
    bootstrap_total_max_chars: Count | None = None
    context_tokens: Count | None = None
    context_limits: Free | None = None
    skills: list[str] | None = None
    skills_limits: Free | None = None
    memory_search: Free | None = None
    memory: Free | None = None
    human_delay: Free | None = None
    typing_mode: Typing | None = None
    typing_interval_seconds: Count | None = None
    heartbeat: Annotated[Free | None, Unfilled(HeartbeatSettings)] = None
    subagents: SubagentsSection | None = None
    sandbox: SandboxSection | None = None
    runtime: Free | None = None
    agent_runtime: Free | None = None
    experimental: Free | None = None
    embedded_pi: Free | None = None
    embedded_agent: Free | None = None
    system_prompt_override: str | None = None
    tts: Free | None = None


class AgentDefaults(SharedAgentSection, frozen=True):
    """agents.defaults"""

    image_model: ModelSpec | None = None
    image_generation_model: ModelSpec | None = None
    video_generation_model: ModelSpec | None = None
    music_generation_model: ModelSpec | None = None
    pdf_model: ModelSpec | None = None
    pdf_max_bytes_mb: Amount | None = None
    pdf_max_pages: Count | None = None
    repo_root: str | None = None
    skip_bootstrap: bool | None = None
    skip_optional_bootstrap_files: list[str] | None = None
    bootstrap_prompt_truncation_warning: Literal["off", "once", "always"] | None = None
    startup_context: Free | None = None
    user_timezone: str | None = None
    time_format: Literal["auto", "12", "24"] | None = None
    envelope_timezone: str | None = None
    envelope_timestamp: Switch | None = None
    envelope_elapsed: Switch | None = None
    cli_backends: Free | None = None
    context_pruning: PruningSection = PruningSection()
    compaction: CompactionSettings = CompactionSettings()
    elevated_default: Literal["off", "on", "ask", "full"] | None = None
    block_streaming_default: Switch | None = None
    block_streaming_break: Literal["text_end", "message_end"] | None = None
    block_streaming_chunk: Free | None = None
    block_streaming_coalesce: Free | None = None
    timeout_seconds: Size | None = None
    media_max_mb: Amount | None = None
    image_max_dimension_px: Count | None = None
    image_quality: str | None = None
    max_concurrent: Count | None = None
    additional_system_prompt: str | None = None
    prompt_overlays: Free | None = None
    silent_reply: Free | None = None
    silent_reply_rewrite: Free | None = None
    llm: Free | None = None
    system_agent: Free | None = None


class AgentEntry(SharedAgentSection, frozen=True):
    """agents.list[] and agents.entries.<id>"""

    id: str | None = None
    default: bool | None = None
    name: str | None = None
    description: str | None = None
    agent_dir: str | None = None
    identity: IdentitySection | None = None
    group_chat: GroupChatSection | None = None
    plugins: Free | None = None
    tools: AgentToolsSection | None = None


class AgentsSection(ConfigSection, frozen=True):
    defaults: AgentDefaults | None = None
    listed: list[AgentEntry] | None = msgspec.field(default=None, name="list")
    entries: dict[str, AgentEntry] | None = None
    ownership: str | None = None

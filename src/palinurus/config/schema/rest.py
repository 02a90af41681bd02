"""session, messages, cron, hooks, logging, env and the other smaller sections. Names are OpenClaw's."""

from typing import Literal, TypeAlias

from palinurus.config.forms import (
    ConfigSection,
    Count,
    Free,
    GroupChatSection,
    Hour,
    LogLevel,
    Size,
    Typing,
)
from palinurus.config.sections.schedule import UpkeepSettings

QueueMode: TypeAlias = Literal["steer", "followup", "collect", "steer-backlog", "steer+backlog", "queue", "interrupt"]


class ResetSection(ConfigSection, frozen=True):
    mode: Literal["daily", "idle"] | None = None
    at_hour: Hour | None = None
    idle_minutes: Size | None = None


class ResetByTypeSection(ConfigSection, frozen=True):
    direct: ResetSection | None = None
    dm: ResetSection | None = None
    group: ResetSection | None = None
    thread: ResetSection | None = None


class AgentTurnsSection(ConfigSection, frozen=True):
    max_ping_pong_turns: Size | None = None


class SessionSection(ConfigSection, frozen=True):
    scope: Literal["per-sender", "global"] | None = None
    dm_scope: Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"] | None = None
    group_scope: str | None = None
    identity_links: dict[str, list[str]] | None = None
    reset_triggers: list[str] | None = None
    idle_minutes: Count | None = None
    reset: ResetSection | None = None
    reset_by_type: ResetByTypeSection | None = None
    reset_by_channel: dict[str, ResetSection] | None = None
    store: str | None = None
    main_key: str | None = None
    typing_mode: Typing | None = None
    typing_interval_seconds: Count | None = None
    transcript_retention_days: Count | None = None
    max_recent_turns: Count | None = None
    parent_fork_max_tokens: Size | None = None
    send_policy: Free | None = None
    agent_to_agent: AgentTurnsSection | None = None
    thread_bindings: Free | None = None
    write_lock: Free | None = None
    maintenance: UpkeepSettings = UpkeepSettings()


class QueueSection(ConfigSection, frozen=True):
    mode: QueueMode | None = None
    by_channel: dict[str, QueueMode] | None = None
    debounce_ms: Size | None = None
    debounce_ms_by_channel: dict[str, Size] | None = None
    cap: Count | None = None
    drop: Literal["old", "new", "summarize"] | None = None


class InboundDebounceSection(ConfigSection, frozen=True):
    debounce_ms: Size | None = None
    by_channel: dict[str, Size] | None = None


class MessagesSection(ConfigSection, frozen=True):
    message_prefix: str | None = None
    response_prefix: str | None = None
    visible_replies: str | None = None
    group_chat: GroupChatSection | None = None
    queue: QueueSection | None = None
    inbound: InboundDebounceSection | None = None
    ack_reaction: str | None = None
    ack_reaction_scope: Literal["group-mentions", "group-all", "direct", "all", "off", "none"] | None = None
    remove_ack_after_reply: bool | None = None
    status_reactions: Free | None = None
    suppress_tool_errors: bool | None = None
    usage_template: Free | str | None = None
    response_usage: Free | str | None = None
    tts: Free | None = None


class LoggingSection(ConfigSection, frozen=True):
    level: LogLevel | None = None
    file: str | None = None
    max_file_bytes: Count | None = None
    console_level: LogLevel | None = None
    console_style: Literal["pretty", "compact", "json"] | None = None
    redact_sensitive: Literal["off", "tools"] | None = None
    redact_patterns: list[str] | None = None


class MetaSection(ConfigSection, frozen=True):
    last_touched_version: str | None = None
    last_touched_at: str | int | None = None


class UiAssistantSection(ConfigSection, frozen=True):
    name: str | None = None
    avatar: str | None = None


class UiSection(ConfigSection, frozen=True):
    seam_color: str | None = None
    assistant: UiAssistantSection | None = None
    prefs: Free | None = None


class UpdateSection(ConfigSection, frozen=True):
    channel: Literal["stable", "beta", "dev", "extended-stable"] | None = None
    check_on_start: bool | None = None
    auto: Free | None = None


class SkillsSection(ConfigSection, frozen=True):
    allow_bundled: list[str] | None = None
    load: Free | None = None
    install: Free | None = None
    limits: Free | None = None
    entries: dict[str, Free] | None = None
    workshop: Free | None = None

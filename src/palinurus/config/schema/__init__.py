"""The config file as types: `Config` is the whole of it. Names are OpenClaw's.

Sections that nothing reads yet are known but free-form, so that a person's file gives no false alarms.
"""

from typing import Any

import msgspec

from palinurus.config.declare import fill_section
from palinurus.config.findings import ConfigPlace
from palinurus.config.schema.agents import AgentsSection
from palinurus.config.schema.credentials import AuthSection, BudgetsSection
from palinurus.config.schema.gateway import GatewaySection
from palinurus.config.schema.models import ModelsSection
from palinurus.config.schema.rest import (
    CronSection,
    HooksSection,
    LoggingSection,
    MessagesSection,
    MetaSection,
    PluginsSection,
    SessionSection,
    SkillsSection,
    UiSection,
    UpdateSection,
)
from palinurus.config.schema.tools import ToolsSection
from palinurus.config.schema.words import ConfigSection, Free


class Config(ConfigSection, frozen=True):
    """palinurus.json"""

    agents: AgentsSection | None = None
    models: ModelsSection | None = None
    gateway: GatewaySection | None = None
    tools: ToolsSection | None = None
    session: SessionSection | None = None
    messages: MessagesSection | None = None
    channels: dict[str, Free] | None = None
    cron: CronSection | None = None
    hooks: HooksSection | None = None
    skills: SkillsSection | None = None
    plugins: PluginsSection | None = None
    logging: LoggingSection | None = None
    env: Free | None = None
    meta: MetaSection | None = None
    ui: UiSection | None = None
    update: UpdateSection | None = None
    discovery: Free | None = None
    bindings: list[Free] | None = None
    schema: str | None = msgspec.field(default=None, name="$schema")
    accessGroups: Free | None = None
    acp: Free | None = None
    approvals: Free | None = None
    audio: Free | None = None
    auth: AuthSection | None = None
    budgets: BudgetsSection | None = None
    broadcast: Free | None = None
    browser: Free | None = None
    canvasHost: Free | None = None
    cli: Free | None = None
    commands: Free | None = None
    commitments: Free | None = None
    crestodian: Free | None = None
    diagnostics: Free | None = None
    mcp: Free | None = None
    media: Free | None = None
    memory: Free | None = None
    nodeHost: Free | None = None
    proxy: Free | None = None
    secrets: Free | None = None
    surfaces: Free | None = None
    talk: Free | None = None
    transcripts: Free | None = None
    tts: Free | None = None
    web: Free | None = None
    wizard: Free | None = None


def convert_config(raw: dict[str, Any], here: ConfigPlace | None = None) -> Config:
    """`raw`, which `check_config` has passed, as a `Config`."""
    return fill_section(Config, raw, here or ConfigPlace("", {}, []))

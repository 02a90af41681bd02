"""The config file as types: `Config` is the whole of it. Names are OpenClaw's.

Sections that nothing reads yet are known but free-form, so that a person's file gives no false alarms.
"""

from typing import Any

import msgspec

from palinurus.config.declare import fill_section
from palinurus.config.findings import ConfigPlace
from palinurus.config.forms import ConfigSection, Free
from palinurus.config.schema.agents import AgentsSection
from palinurus.config.schema.rest import (
    LoggingSection,
    MessagesSection,
    MetaSection,
    SessionSection,
    SkillsSection,
    UiSection,
    UpdateSection,
)
from palinurus.config.schema.tools import ToolsSection
from palinurus.config.sections.credentials import AuthSettings, BudgetSettings
from palinurus.config.sections.gateway import GatewaySettings
from palinurus.config.sections.mcp import McpSettings
from palinurus.config.sections.models import ModelsSection
from palinurus.config.sections.plugins import PluginSettings
from palinurus.config.sections.schedule import CronSettings
from palinurus.config.sections.webhooks import WebhookSettings


class Config(ConfigSection, frozen=True):
    """palinurus.json"""

    agents: AgentsSection | None = None
    models: ModelsSection = ModelsSection()
    gateway: GatewaySettings = GatewaySettings()
    tools: ToolsSection | None = None
    session: SessionSection | None = None
    messages: MessagesSection | None = None
    channels: dict[str, Free] | None = None
    cron: CronSettings = CronSettings()
    hooks: WebhookSettings = WebhookSettings()
    skills: SkillsSection | None = None
    plugins: PluginSettings = PluginSettings()
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
    auth: AuthSettings = AuthSettings()
    budgets: BudgetSettings = BudgetSettings()
    broadcast: Free | None = None
    browser: Free | None = None
    canvasHost: Free | None = None
    cli: Free | None = None
    commands: Free | None = None
    commitments: Free | None = None
    crestodian: Free | None = None
    diagnostics: Free | None = None
    mcp: McpSettings = McpSettings()
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

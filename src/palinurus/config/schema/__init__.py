"""The config file as types: `Config` is the whole of it. Names are OpenClaw's.

Sections that nothing reads yet are known but free-form, so that a person's file gives no false alarms.
"""

from typing import Any

import msgspec

from palinurus.config.schema.agents import Agents
from palinurus.config.schema.auth import Auth
from palinurus.config.schema.budgets import Budgets
from palinurus.config.schema.gateway import Gateway
from palinurus.config.schema.models import Models
from palinurus.config.schema.rest import Cron, Hooks, Logging, Messages, Meta, Plugins, Session, Skills, Ui, Update
from palinurus.config.schema.tools import Tools
from palinurus.config.schema.words import Free, Section


class Config(Section, frozen=True):
    """palinurus.json"""

    agents: Agents | None = None
    models: Models | None = None
    gateway: Gateway | None = None
    tools: Tools | None = None
    session: Session | None = None
    messages: Messages | None = None
    channels: dict[str, Free] | None = None
    cron: Cron | None = None
    hooks: Hooks | None = None
    skills: Skills | None = None
    plugins: Plugins | None = None
    logging: Logging | None = None
    env: Free | None = None
    meta: Meta | None = None
    ui: Ui | None = None
    update: Update | None = None
    discovery: Free | None = None
    bindings: list[Free] | None = None
    schema: str | None = msgspec.field(default=None, name="$schema")
    accessGroups: Free | None = None
    acp: Free | None = None
    approvals: Free | None = None
    audio: Free | None = None
    auth: Auth | None = None
    budgets: Budgets | None = None
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


def convert(raw: dict[str, Any]) -> Config:
    """`raw` as a `Config`. Raises msgspec.ValidationError for the first key that does not fit."""
    return msgspec.convert(raw, Config)

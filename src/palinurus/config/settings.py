"""What the rest of the program reads: frozen, complete, every default applied. Made once by `resolve`.

No other layer sees the raw config. Secrets are `Secret`: they print as ***.
"""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.config.secrets import Secret as Secret
from palinurus.config.sections.agents import AgentSettings as AgentSettings
from palinurus.config.sections.approvals import AgentExecRules
from palinurus.config.sections.audio import AudioSettings, TalkSettings
from palinurus.config.sections.bindings import AgentBinding
from palinurus.config.sections.browser import BrowserSettings, CanvasSettings
from palinurus.config.sections.channels import AccountSettings
from palinurus.config.sections.context import CompactionSettings, ContextSettings, SubagentSettings
from palinurus.config.sections.credentials import AuthSettings, BudgetSettings
from palinurus.config.sections.delivery import DeliverySettings
from palinurus.config.sections.gateway import GatewaySettings, NodeHostSettings
from palinurus.config.sections.mcp import McpSettings
from palinurus.config.sections.models import ProviderSettings
from palinurus.config.sections.people import PeopleSettings
from palinurus.config.sections.plugins import HookScriptSettings, PluginSettings
from palinurus.config.sections.runtimes import RuntimeSettings
from palinurus.config.sections.schedule import CronSettings, HeartbeatSettings
from palinurus.config.sections.session import (
    CommandSettings,
    DiagnosticsSettings,
    LoggingSettings,
    QueueSettings,
    RecordSettings,
    SessionSettings,
    SkillSettings,
    StoreSettings,
)
from palinurus.config.sections.tools import MessageToolRules, ToolsSettings, Visibility
from palinurus.config.sections.web import PdfSettings, VisionSettings, WebSettings
from palinurus.config.sections.webhooks import WebhookSettings
from palinurus.core.policy.layers import ToolRules


class LaneSettings(msgspec.Struct, frozen=True):
    main: int = 4
    subagent: int = 8
    cron: int = 8
    queue_cap: int = 200  # messages waiting in one session


class ReachSettings(msgspec.Struct, frozen=True):
    """Which sessions and agents a session may see and write to; who is who is decided in `services/sessions.py`."""

    visibility: Visibility = "tree"
    across: bool = False  # tools.agentToAgent.enabled
    allow: tuple[str, ...] = ()  # tools.agentToAgent.allow: agents, `*` is all
    spawn: dict[str, tuple[str, ...]] = {}  # agent -> the agents it may start sub-agents of, besides itself
    boxed: dict[str, str] = {}  # agent -> how far its sandboxed sessions see: spawned | all

    def joins(self, one: str, other: str) -> bool:
        """May these two agents write to each other?"""
        both = self.across and all("*" in self.allow or agent in self.allow for agent in (one, other))
        return one == other or both


class Settings(msgspec.Struct, frozen=True):
    """The whole program's. `sources` maps key paths to file:line for `explain`."""

    home: str
    agents: dict[str, AgentSettings]
    default_agent: str
    providers: dict[str, ProviderSettings] = {}
    pricing: bool = True  # models.pricing.enabled
    only_listed: bool = False  # models.mode replace: no provider and no model but those of the config
    tools: ToolsSettings = ToolsSettings()
    gateway: GatewaySettings = GatewaySettings()
    lanes: LaneSettings = LaneSettings()
    queue: QueueSettings = QueueSettings()
    session: SessionSettings = SessionSettings()
    bindings: tuple[AgentBinding, ...] = ()
    auth: AuthSettings = AuthSettings()
    budgets: BudgetSettings = BudgetSettings()
    skills: SkillSettings = SkillSettings()
    web: WebSettings = WebSettings()
    browser: BrowserSettings = BrowserSettings()
    canvas: CanvasSettings = CanvasSettings()
    node_host: NodeHostSettings = NodeHostSettings()
    audio: AudioSettings = AudioSettings()  # tools.media.audio
    talk: TalkSettings = TalkSettings()
    image_models: tuple[str, ...] = ()  # agents.defaults.imageModel and its fallbacks
    vision: VisionSettings = VisionSettings()  # tools.media.image
    pdf: PdfSettings = PdfSettings()
    context: ContextSettings = ContextSettings()
    policy: ToolRules = ToolRules()
    reach: ReachSettings = ReachSettings()
    messaging: MessageToolRules = MessageToolRules()  # tools.message
    subagents: dict[str, SubagentSettings] = {}  # by agent
    compaction: CompactionSettings = CompactionSettings()
    heartbeats: dict[str, HeartbeatSettings] = {}  # by agent; only those that beat
    cron: CronSettings = CronSettings()
    webhooks: WebhookSettings = WebhookSettings()  # hooks
    mcp: McpSettings = McpSettings()
    store: StoreSettings = StoreSettings()
    diagnostics: DiagnosticsSettings = DiagnosticsSettings()
    runtimes: RuntimeSettings = RuntimeSettings()  # programs that do runs in our loop's place
    plugins: PluginSettings = PluginSettings()
    scripts: HookScriptSettings = HookScriptSettings()  # hooks.internal
    channels: dict[str, dict[str, Any]] = {}  # enabled channels by id, as configured; secret texts are `Secret`
    accounts: dict[str, dict[str, AccountSettings]] = {}  # of the same channels, complete
    people: PeopleSettings = PeopleSettings()
    commands: CommandSettings = CommandSettings()
    delivery: DeliverySettings = DeliverySettings()
    approvals: dict[str, AgentExecRules] = {}  # by agent: how commands are judged
    logging: LoggingSettings = LoggingSettings()
    record: RecordSettings = RecordSettings()
    env: dict[str, Secret] = {}  # variables the config declares; the process environment goes before them
    version: str = ""  # digest of the file: changes when it does

    def account(self, channel: str, name: str) -> AccountSettings:
        """What is configured for an account; the usual where nothing is."""
        found = self.accounts.get(channel, {})
        first = next(iter(found.values()), None) if name == "default" else None  # where none is named
        return found.get(name) or first or AccountSettings(channel, name)

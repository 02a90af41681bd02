"""What the rest of the program reads: frozen, complete, every default applied. Made once by `resolve`.

No other layer sees the raw config. Secrets are `Secret`: they print as ***.
"""

from typing import Any, Literal

import msgspec

from palinurus.config.secrets import Secret as Secret
from palinurus.config.sections.approvals import AgentExecRules
from palinurus.config.sections.audio import AudioSettings
from palinurus.config.sections.channels import AccountSettings
from palinurus.config.sections.context import CompactionSettings, ContextSettings
from palinurus.config.sections.credentials import AuthSettings, BudgetSettings
from palinurus.config.sections.delivery import DeliverySettings
from palinurus.config.sections.gateway import GatewaySettings
from palinurus.config.sections.mcp import McpSettings
from palinurus.config.sections.models import ProviderSettings, VeiledSection
from palinurus.config.sections.people import PeopleSettings
from palinurus.config.sections.plugins import HookScriptSettings, PluginSettings
from palinurus.config.sections.runtimes import RuntimeSettings
from palinurus.config.sections.schedule import CronSettings, HeartbeatSettings, UpkeepSettings
from palinurus.config.sections.subagents import ReachSettings, SubagentSettings
from palinurus.config.sections.tools import MessageToolRules, ProcessSettings
from palinurus.config.sections.web import WebSettings
from palinurus.config.sections.webhooks import WebhookSettings
from palinurus.core.memory.results import MemoryOptions
from palinurus.core.policy.layers import ToolRules
from palinurus.core.types.approval import TaintRules
from palinurus.core.types.sandbox import SandboxSettings


class PromptSettings(msgspec.Struct, frozen=True):
    """What the config says about an agent's system prompt; `agent/facts` makes the prompt's knobs of it."""

    owners: tuple[str, ...] = ()  # commands.ownerAllowFrom
    owner_display: str = "raw"  # raw | hash
    owner_secret: Secret = Secret()
    citations: str = "auto"  # auto | on | off
    delegation: str = "suggest"  # suggest | prefer
    voice: str = "off"  # off | always | inbound | tagged
    voice_limit: int = 0  # characters; 0 = none
    heartbeat: str = ""  # the heartbeat's prompt; "" = ours
    heartbeat_every: float = 1800.0  # seconds; 0 = no heartbeats
    heartbeat_section: bool = True
    silent_group: str = "allow"  # allow | disallow
    truncation_warning: str = "always"  # off | once | always
    friendly: bool = True
    repo_root: str = ""
    tool_only: tuple[str, ...] = ()  # kinds of chat where only the message tool's messages are seen


class AgentSettings(VeiledSection, frozen=True):
    """One agent: agents.defaults overlaid by its agents.list[] entry."""

    id: str
    name: str
    workspace: str  # absolute
    model: str = ""  # as written; "" = none configured
    fallbacks: tuple[str, ...] = ()
    aliases: dict[str, str] = {}  # alias -> provider/model
    model_params: dict[str, dict[str, Any]] = {}  # provider/model -> params
    thinking_default: str | None = None  # its own
    thinking_shared: str | None = None  # agents.defaults.thinkingDefault; model params stand between the two
    fast_default: bool | str | None = None
    verbose_default: Literal["off", "on", "full"] = "off"
    reasoning_default: Literal["off", "on", "stream"] = "off"
    progress_detail: Literal["explain", "raw"] = "explain"
    timeout: float = 172_800.0
    max_turns: int = 200
    context_tokens: int | None = None
    user_timezone: str = ""
    identity: dict[str, Any] = {}
    skip_bootstrap: bool = False
    params: dict[str, Any] = {}  # for every model; model_params goes over it
    prompt: PromptSettings = PromptSettings()
    memory: MemoryOptions = MemoryOptions()
    image_side: int = 1200  # pixels an image in a message is made smaller to
    time_format: str = "auto"  # auto | 12 | 24
    bootstrap_chars: int = 12_000  # of one workspace file in the prompt
    bootstrap_total: int = 60_000  # of all of them
    skills: tuple[str, ...] | None = None  # which it may use; None = all
    skills_chars: int | None = None  # room for the list of skills; None = skills.limits
    sandbox: SandboxSettings = SandboxSettings()


class ExecSettings(VeiledSection, frozen=True):
    timeout: float = 1800.0
    env: dict[str, str] = {}  # declared extra variables for children
    process: ProcessSettings = ProcessSettings()
    patch_workspace_only: bool = True


class ToolsSettings(msgspec.Struct, frozen=True):
    """tools, but for who may use which: that is `Settings.policy`."""

    workspace_only: bool = False
    exec: ExecSettings = ExecSettings()
    loop_warn: int = 3
    loop_stop: int = 6
    taint: TaintRules = TaintRules()


class LaneSettings(msgspec.Struct, frozen=True):
    main: int = 4
    subagent: int = 8
    cron: int = 8
    queue_cap: int = 200  # messages waiting in one session


class QueueSettings(msgspec.Struct, frozen=True):
    """messages.queue. Mode words as configured; `inbox/policy.py` knows what they mean. Times in seconds."""

    mode: str = "steer"
    debounce: float = 0.5
    cap: int = 20
    drop: Literal["old", "new", "summarize"] = "summarize"
    by_channel: dict[str, str] = {}
    debounce_by_channel: dict[str, float] = {}


class AgentBinding(msgspec.Struct, frozen=True):
    """bindings[]: messages that have all of this go to `agent`. Empty means: not asked for."""

    agent: str
    channel: str
    account: str = "default"  # "*" = every account of the channel
    kind: str = ""  # of the peer: direct, group, channel
    peer: str = ""
    guild: str = ""
    team: str = ""
    roles: tuple[str, ...] = ()  # one of them is enough


class SessionSettings(msgspec.Struct, frozen=True):
    scope: str = "per-sender"
    dm_scope: str = ""  # "" (not said): main for the owner, everybody else by themselves (inbox/access.py)
    main_key: str = "main"
    reset: dict[str, Any] = {}  # {mode, atHour, idleMinutes}
    reset_by_type: dict[str, dict[str, Any]] = {}
    reset_by_channel: dict[str, dict[str, Any]] = {}
    identity_links: dict[str, str] = {}  # "channel:peer" (lower case) -> the one name of that person
    upkeep: UpkeepSettings = UpkeepSettings()


class SkillEntry(msgspec.Struct, frozen=True):
    """skills.entries.<key>"""

    enabled: bool = True
    key: Secret = Secret()  # apiKey; becomes the skill's primaryEnv
    env: dict[str, Secret] = {}


class SkillSettings(msgspec.Struct, frozen=True):
    """skills. Paths are absolute."""

    entries: dict[str, SkillEntry] = {}
    bundled: tuple[str, ...] | None = None  # allowBundled; None = all
    extra: tuple[str, ...] = ()  # load.extraDirs
    targets: tuple[str, ...] = ()  # load.allowSymlinkTargets: where links may lead besides their root
    candidates: int = 300  # folders looked at in one root
    loaded: int = 200  # skills taken from one root
    listed: int = 150  # in the prompt
    chars: int = 18_000  # of the list in the prompt
    file_bytes: int = 256_000  # of a SKILL.md


class Settings(msgspec.Struct, frozen=True):
    """The whole program's. `sources` maps key paths to file:line for `explain`."""

    home: str
    agents: dict[str, AgentSettings]
    default_agent: str
    providers: dict[str, ProviderSettings] = {}
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
    audio: AudioSettings = AudioSettings()  # tools.media.audio
    image_models: tuple[str, ...] = ()  # agents.defaults.imageModel and its fallbacks
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
    runtimes: RuntimeSettings = RuntimeSettings()  # programs that do runs in our loop's place
    plugins: PluginSettings = PluginSettings()
    scripts: HookScriptSettings = HookScriptSettings()  # hooks.internal
    channels: dict[str, dict[str, Any]] = {}  # enabled channels by id, as configured; secret texts are `Secret`
    accounts: dict[str, dict[str, AccountSettings]] = {}  # of the same channels, complete
    people: PeopleSettings = PeopleSettings()
    delivery: DeliverySettings = DeliverySettings()
    approvals: dict[str, AgentExecRules] = {}  # by agent: how commands are judged
    logging: dict[str, Any] = {}
    env: dict[str, Secret] = {}  # variables the config declares; the process environment goes before them
    version: str = ""  # digest of the file: changes when it does

    def account(self, channel: str, name: str) -> AccountSettings:
        """What is configured for an account; the usual where nothing is."""
        return self.accounts.get(channel, {}).get(name) or AccountSettings(channel, name)

"""What the rest of the program reads: frozen, complete, every default applied. Made once by `resolve`.

No other layer sees the raw config. Secrets are `Secret`: they print as ***.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.config.secrets import Secret as Secret
from palinurus.config.sections.approvals import AgentExecRules
from palinurus.config.sections.audio import AudioSettings
from palinurus.config.sections.channels import AccountSettings
from palinurus.config.sections.context import CompactionSettings, ContextSettings
from palinurus.config.sections.delivery import DeliverySettings
from palinurus.config.sections.mcp import McpSettings
from palinurus.config.sections.people import PeopleSettings
from palinurus.config.sections.plugins import HookScriptSettings, PluginSettings
from palinurus.config.sections.runtimes import RuntimeSettings
from palinurus.config.sections.schedule import CronSettings, HeartbeatSettings
from palinurus.config.sections.subagents import ReachSettings, SubagentSettings
from palinurus.config.sections.tools import MessageToolRules, ProcessSettings
from palinurus.config.sections.webhooks import WebhookSettings
from palinurus.core.memory.results import MemoryOptions
from palinurus.core.policy.address import OpenHosts
from palinurus.core.policy.layers import ToolRules
from palinurus.core.types.approval import TaintRules
from palinurus.core.types.sandbox import SandboxSettings


class _Veiled(msgspec.Struct, frozen=True):
    """Prints without what may hold secrets in plain text: headers, child environments, request parameters."""

    def __repr__(self) -> str:
        shown = ((name, getattr(self, name)) for name in self.__struct_fields__)
        inside = ", ".join(f"{name}={_count(value) if name in _VEILED else repr(value)}" for name, value in shown)
        return f"{type(self).__name__}({inside})"

    __str__ = __repr__


_VEILED = frozenset({"headers", "env", "params", "model_params", "compat"})


def _count(value: Any) -> str:
    return f"<{len(value)} hidden>" if value else "{}"


class ModelSettings(_Veiled, frozen=True):
    """models.providers.<id>.models[] — None means: take the vendor's word."""

    id: str
    name: str = ""
    api: str = ""
    reasoning: bool | None = None
    input: tuple[str, ...] | None = None
    cost: dict[str, float] | None = None
    context_window: int | None = None
    max_tokens: int | None = None
    headers: dict[str, str] = {}
    compat: dict[str, Any] = {}
    params: dict[str, Any] = {}


class ProviderSettings(_Veiled, frozen=True):
    """models.providers.<id>"""

    id: str
    base_url: str = ""
    api: str = ""
    api_key: Secret = Secret()
    headers: dict[str, str] = {}
    models: tuple[ModelSettings, ...] = ()
    timeout: float | None = None
    auth_header: bool | None = None  # send the key as `Authorization: Bearer` whatever the wire's habit
    params: dict[str, Any] = {}


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


class AgentSettings(_Veiled, frozen=True):
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


class ExecSettings(_Veiled, frozen=True):
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


AuthMode: TypeAlias = Literal["token", "password", "none", "trusted-proxy"]


class TrustedProxySettings(msgspec.Struct, frozen=True):
    """gateway.auth.trustedProxy and gateway.trustedProxies: who may name the user, and in which header."""

    peers: tuple[str, ...]  # addresses or networks
    user_header: str
    required_headers: tuple[str, ...] = ()
    users: tuple[str, ...] | None = None  # None = whoever the proxy names
    loopback: bool = False  # may a proxy on this machine do it


class GatewaySettings(msgspec.Struct, frozen=True):
    port: int = 18789
    bind: str = "127.0.0.1"  # address, resolved from loopback|lan|auto|custom
    auth_mode: AuthMode = "token"
    token: Secret = Secret()  # from config; "" = the one made at first start (home/gateway.token)
    password: Secret = Secret()
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # names besides loopback and the bind address
    chat_completions: bool = True
    responses: bool = True
    reload: Literal["off", "restart", "hot", "hybrid"] = "hybrid"  # what a changed config file leads to
    json_logs: bool = False
    spans: bool = False  # OpenTelemetry (diagnostics.otel)
    drain: float = 30.0  # seconds running turns get on SIGTERM
    handshake: float = 15.0  # seconds a WebSocket client has to log in
    proxy: TrustedProxySettings | None = None  # auth_mode trusted-proxy


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


class UpkeepSettings(msgspec.Struct, frozen=True):
    """session.maintenance. Times in seconds, None = never; sizes in bytes, None = no limit."""

    enforce: bool = True  # False: only say what would go
    prune_after: float | None = 30 * 86_400.0
    max_entries: int = 500
    archive_after: float | None = 30 * 86_400.0
    max_disk: int | None = None
    high_water: int | None = None
    cron_after: float | None = 86_400.0  # cron.sessionRetention


class SessionSettings(msgspec.Struct, frozen=True):
    scope: str = "per-sender"
    dm_scope: str = ""  # "" (not said): main for the owner, everybody else by themselves (inbox/access.py)
    main_key: str = "main"
    reset: dict[str, Any] = {}  # {mode, atHour, idleMinutes}
    reset_by_type: dict[str, dict[str, Any]] = {}
    reset_by_channel: dict[str, dict[str, Any]] = {}
    identity_links: dict[str, str] = {}  # "channel:peer" (lower case) -> the one name of that person
    upkeep: UpkeepSettings = UpkeepSettings()


class AuthProfileSettings(msgspec.Struct, frozen=True):
    """auth.profiles.<id>. Without a key it stands for an entry of auth-profiles.json."""

    id: str
    provider: str
    mode: str = "api_key"  # api_key, oauth, token, aws-sdk
    key: Secret = Secret()


class AuthSettings(msgspec.Struct, frozen=True):
    """auth: the keys of each provider, which comes first, and how long one rests."""

    profiles: dict[str, AuthProfileSettings] = {}
    order: dict[str, tuple[str, ...]] = {}  # provider -> profile ids
    billing_hours: float = 5.0
    billing_by_provider: dict[str, float] = {}
    billing_most_hours: float = 24.0
    window_hours: float = 24.0


class BudgetLimitSettings(msgspec.Struct, frozen=True):
    """None: no limit. Dollars, and tokens of every sort together."""

    soft_usd: float | None = None
    hard_usd: float | None = None
    soft_tokens: int | None = None
    hard_tokens: int | None = None


class BudgetSettings(msgspec.Struct, frozen=True):
    """budgets: day is everything, agent is each agent (agents by id goes before it), both per calendar day."""

    day: BudgetLimitSettings = BudgetLimitSettings()
    session: BudgetLimitSettings = BudgetLimitSettings()
    agent: BudgetLimitSettings = BudgetLimitSettings()
    agents: dict[str, BudgetLimitSettings] = {}


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


class WebFetchSettings(msgspec.Struct, frozen=True):
    """tools.web.fetch"""

    enabled: bool = True
    chars: int = 20_000  # maxChars: when the model names no number
    chars_cap: int = 50_000  # maxCharsCap: whatever it names
    size: int = 750_000  # maxResponseBytes
    timeout: float = 30.0
    redirects: int = 3
    cache: float = 900.0  # seconds; cacheTtlMinutes
    agent: str = ""  # userAgent; "" = ours
    rules: OpenHosts = OpenHosts()  # allowedHosts, allowPrivate, ssrfPolicy


class WebSearchSettings(msgspec.Struct, frozen=True):
    """tools.web.search"""

    enabled: bool = True
    engine: str = "duckduckgo"
    key: Secret = Secret()
    base_url: str = ""  # "" = the engine's own
    model: str = ""
    results: int = 5
    timeout: float = 30.0
    cache: float = 900.0


class WebSettings(msgspec.Struct, frozen=True):
    """tools.web"""

    fetch: WebFetchSettings = WebFetchSettings()
    search: WebSearchSettings = WebSearchSettings()


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

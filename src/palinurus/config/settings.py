"""What the rest of the program reads: frozen, complete, every default applied. Made once by `resolve`.

No other layer sees the raw config. Secrets are `Secret`: they print as ***.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec


class Secret(msgspec.Struct, frozen=True):
    """A value that must not be shown. `reveal()` is the only way to it."""

    _value: str = ""

    def reveal(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return "Secret(***)" if self._value else "Secret()"

    __str__ = __repr__


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
    timeout: float = 172_800.0
    max_turns: int = 200
    context_tokens: int | None = None
    user_timezone: str = ""
    identity: dict[str, Any] = {}
    skip_bootstrap: bool = False
    params: dict[str, Any] = {}  # for every model; model_params goes over it


class ExecSettings(_Veiled, frozen=True):
    timeout: float = 1800.0
    env: dict[str, str] = {}  # declared extra variables for children


class ToolsSettings(msgspec.Struct, frozen=True):
    allow: tuple[str, ...] | None = None  # () = none at all
    deny: tuple[str, ...] = ()
    also_allow: tuple[str, ...] = ()
    profile: str | None = None  # minimal | coding | messaging | full
    workspace_only: bool = False
    exec: ExecSettings = ExecSettings()
    loop_warn: int = 3
    loop_stop: int = 6


AuthMode: TypeAlias = Literal["token", "password", "none", "trusted-proxy"]


class GatewaySettings(msgspec.Struct, frozen=True):
    port: int = 18789
    bind: str = "127.0.0.1"  # address, resolved from loopback|lan|auto|custom
    auth_mode: AuthMode = "token"
    token: Secret = Secret()  # from config; "" = the one made at first start (home/gateway.token)
    password: Secret = Secret()
    allowed_origins: tuple[str, ...] = ()
    allowed_hosts: tuple[str, ...] = ()  # names besides loopback and the bind address
    chat_completions: bool = True
    drain: float = 30.0  # seconds running turns get on SIGTERM


class LaneSettings(msgspec.Struct, frozen=True):
    main: int = 4
    subagent: int = 8
    cron: int = 8
    queue_cap: int = 200  # messages waiting in one session


class SessionSettings(msgspec.Struct, frozen=True):
    scope: str = "per-sender"
    dm_scope: str = "main"
    main_key: str = "main"
    reset: dict[str, Any] = {}  # {mode, atHour, idleMinutes}
    reset_by_type: dict[str, dict[str, Any]] = {}
    reset_by_channel: dict[str, dict[str, Any]] = {}


class Settings(msgspec.Struct, frozen=True):
    """The whole program's. `sources` maps key paths to file:line for `explain`."""

    home: str
    agents: dict[str, AgentSettings]
    default_agent: str
    providers: dict[str, ProviderSettings] = {}
    tools: ToolsSettings = ToolsSettings()
    gateway: GatewaySettings = GatewaySettings()
    lanes: LaneSettings = LaneSettings()
    session: SessionSettings = SessionSettings()
    channels: dict[str, dict[str, Any]] = {}  # enabled channels by id, as configured; secret texts are `Secret`
    logging: dict[str, Any] = {}
    env: dict[str, Secret] = {}  # variables the config declares; the process environment goes before them
    version: str = ""  # digest of the file: changes when it does

"""gateway: address, access, HTTP endpoints. Names are OpenClaw's."""

from typing import Literal

from palinurus.config.schema.words import ConfigSection, Count, Free, Port, SecretText, Size


class RateLimitSection(ConfigSection, frozen=True):
    max_attempts: Count | None = None
    window_ms: Count | None = None
    lockout_ms: Count | None = None
    exempt_loopback: bool | None = None


class TrustedProxySection(ConfigSection, frozen=True):
    user_header: str
    required_headers: list[str] | None = None
    allow_users: list[str] | None = None
    allow_loopback: bool | None = None
    device_auth: Free | None = None


class GatewayAuthSection(ConfigSection, frozen=True):
    mode: Literal["none", "token", "password", "trusted-proxy"] | None = None
    token: SecretText | None = None
    password: SecretText | None = None
    allow_tailscale: bool | None = None
    rate_limit: RateLimitSection | None = None
    trusted_proxy: TrustedProxySection | None = None


class ControlUiSection(ConfigSection, frozen=True):
    enabled: bool | None = None
    base_path: str | None = None
    root: str | None = None
    embed_sandbox: Literal["strict", "scripts", "trusted"] | None = None
    allow_external_embed_urls: bool | None = None
    allowed_origins: list[str] | None = None
    allow_insecure_auth: bool | None = None
    dangerously_allow_host_header_origin_fallback: bool | None = None
    dangerously_disable_device_auth: bool | None = None
    chat_message_max_width: str | None = None


class ChatCompletionsSection(ConfigSection, frozen=True):
    enabled: bool | None = None
    max_body_bytes: Count | None = None
    max_image_parts: Size | None = None
    max_total_image_bytes: Count | None = None
    images: Free | None = None


class EndpointsSection(ConfigSection, frozen=True):
    chat_completions: ChatCompletionsSection | None = None
    responses: Free | None = None


class GatewayHttpSection(ConfigSection, frozen=True):
    endpoints: EndpointsSection | None = None
    security_headers: Free | None = None


class ReloadSection(ConfigSection, frozen=True):
    mode: Literal["off", "restart", "hot", "hybrid"] | None = None
    debounce_ms: Size | None = None
    deferral_timeout_ms: Size | None = None


class GatewaySection(ConfigSection, frozen=True):
    port: Port | None = None
    mode: Literal["local", "remote"] | None = None
    bind: str | None = None  # a word or an address: `resolve` judges
    custom_bind_host: str | None = None
    auth: GatewayAuthSection | None = None
    control_ui: ControlUiSection | None = None
    http: GatewayHttpSection | None = None
    trusted_proxies: list[str] | None = None
    allow_real_ip_fallback: bool | None = None
    tools: Free | None = None
    webchat: Free | None = None
    channel_health_check_minutes: Size | None = None
    channel_stale_event_threshold_minutes: Count | None = None
    channel_max_restarts_per_hour: Count | None = None
    handshake_timeout_ms: Count | None = None
    tailscale: Free | None = None
    remote: Free | None = None
    reload: ReloadSection | None = None
    tls: Free | None = None
    push: Free | None = None
    nodes: Free | None = None

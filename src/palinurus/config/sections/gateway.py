"""The `gateway` section: who can reach it and how they prove who they are.

Refuses what would leave the door open: no authentication on an address that others can reach.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping

from palinurus.config.expand import resolve_secret
from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.gateway import ControlUiSection, GatewayAuthSection, GatewaySection
from palinurus.config.settings import AuthMode, GatewaySettings, Secret, TrustedProxySettings

BINDS: dict[str, str] = {"loopback": "127.0.0.1", "lan": "0.0.0.0", "auto": "127.0.0.1"}
WORDS: tuple[str, ...] = ("loopback", "lan", "auto", "custom")

_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}|[0-9a-fA-F:]*:[0-9a-fA-F:.]*|localhost")
_HOST = re.compile(r"[0-9A-Za-z](?:[0-9A-Za-z.-]*[0-9A-Za-z])?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")
_ORIGIN = re.compile(r"([a-z][a-z0-9+.-]*)://(\[[0-9a-f:.]+\]|[^/\s:@]+)(:\d{1,5})?/?", re.IGNORECASE)


def resolve_gateway(config: Config, environ: Mapping[str, str], findings: list[ConfigFinding]) -> GatewaySettings:
    """The gateway's settings; what is wrong is added to `findings`."""
    section = config.gateway or GatewaySection()
    base = GatewaySettings()
    bind = _bind(section, findings)
    mode, token, password = _auth(section.auth or GatewayAuthSection(), environ, findings)
    if mode == "none" and not is_loopback(bind):
        findings.append(
            ConfigFinding(
                ("gateway", "auth", "mode"),
                f"'none' would let everyone who can reach {bind} in",
                "use 'token', or set gateway.bind to 'loopback'",
            )
        )
    origins, hosts = _origins(section.control_ui or ControlUiSection(), findings)
    endpoints = section.http.endpoints if section.http else None
    completions = endpoints.chat_completions if endpoints else None
    enabled = completions.enabled if completions else None
    answers = endpoints.responses if endpoints else None
    return GatewaySettings(
        port=section.port or base.port,
        bind=bind,
        auth_mode=mode,
        token=token,
        password=password,
        allowed_origins=origins,
        allowed_hosts=hosts,
        chat_completions=base.chat_completions if enabled is None else enabled,
        reload=(section.reload.mode if section.reload else None) or base.reload,
        json_logs=config.logging is not None and config.logging.console_style == "json",
        spans=_traced(config),
        responses=(answers or {}).get("enabled") is not False,
        handshake=(section.handshake_timeout_ms or base.handshake * 1000) / 1000,
        proxy=_proxy(section, findings) if mode == "trusted-proxy" else None,
    )


def _traced(config: Config) -> bool:
    """diagnostics.enabled and diagnostics.otel.enabled; traces are not switched off there."""
    told = config.diagnostics or {}
    otel = told.get("otel")
    wanted = isinstance(otel, dict) and otel.get("enabled") is True and otel.get("traces") is not False
    return wanted and told.get("enabled") is not False


def is_loopback(address: str) -> bool:
    """Can only this machine reach `address`?"""
    return address in ("localhost", "::1") or address.startswith("127.")


def _bind(section: GatewaySection, findings: list[ConfigFinding]) -> str:
    path: Path = ("gateway", "bind")
    word = (section.bind or "loopback").strip()
    if word in BINDS:
        return BINDS[word]
    if word == "custom":
        host = (section.custom_bind_host or "").strip()
        if not host:
            findings.append(
                ConfigFinding(path, "'custom' needs gateway.customBindHost", "name the address to listen on")
            )
        elif not _HOST.fullmatch(host):
            findings.append(ConfigFinding(("gateway", "customBindHost"), "is not a host name or address"))
        return host or "127.0.0.1"
    if word == "tailnet":
        findings.append(ConfigFinding(path, "'tailnet' is not supported", "use 'custom' and gateway.customBindHost"))
    elif _ADDRESS.fullmatch(word):
        return word
    else:
        shown = ", ".join(WORDS)
        findings.append(
            ConfigFinding(path, f"{word[:40]!r} is neither an address nor one of {shown}", suggest_nearest(word, WORDS))
        )
    return "127.0.0.1"


def _auth(
    section: GatewayAuthSection, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> tuple[AuthMode, Secret, Secret]:
    path: Path = ("gateway", "auth")
    token = resolve_secret(section.token, (*path, "token"), environ, findings)
    password = resolve_secret(section.password, (*path, "password"), environ, findings)
    token = token or Secret(environ.get("PALINURUS_GATEWAY_TOKEN", ""))
    password = password or Secret(environ.get("PALINURUS_GATEWAY_PASSWORD", ""))
    mode = section.mode
    if mode is None:
        if section.token and section.password:
            findings.append(
                ConfigFinding(path, "both a token and a password are set", "say which with gateway.auth.mode")
            )
        mode = "password" if password and not token else "token"
    if mode == "password" and not password:
        findings.append(
            ConfigFinding((*path, "mode"), "'password' needs gateway.auth.password", "set it, or use 'token'")
        )
    if mode == "trusted-proxy" and section.trusted_proxy is None:
        findings.append(ConfigFinding((*path, "mode"), "'trusted-proxy' needs gateway.auth.trustedProxy.userHeader"))
    return mode, token, password


def _proxy(section: GatewaySection, findings: list[ConfigFinding]) -> TrustedProxySettings | None:
    """Who may name the user. No proxy listed = nobody may."""
    rules = section.auth.trusted_proxy if section.auth else None
    if rules is None:
        return None
    peers: list[str] = []
    for index, written in enumerate(section.trusted_proxies or ()):
        try:
            peers.append(str(ipaddress.ip_network(written.strip(), strict=False)))
        except ValueError:
            findings.append(ConfigFinding(("gateway", "trustedProxies", index), "is neither an address nor a network"))
    if not peers:
        path: Path = ("gateway", "trustedProxies")
        findings.append(ConfigFinding(path, "auth mode 'trusted-proxy' needs the proxy's address here"))
    users = None if rules.allow_users is None else tuple(rules.allow_users)
    return TrustedProxySettings(
        tuple(peers), rules.user_header, tuple(rules.required_headers or ()), users, bool(rules.allow_loopback)
    )


def _origins(section: ControlUiSection, findings: list[ConfigFinding]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Allowed origins, and the host names they imply."""
    origins: list[str] = []
    hosts: list[str] = []
    for index, written in enumerate(section.allowed_origins or ()):
        origin = written.strip().lower()
        found = _ORIGIN.fullmatch(origin)
        if found:
            origins.append(origin.rstrip("/"))
            hosts.append(found[2].strip("[]"))
        elif origin == "*":
            origins.append(origin)
        else:
            path: Path = ("gateway", "controlUi", "allowedOrigins", index)
            findings.append(
                ConfigFinding(path, "is not an origin", "write scheme and host, such as https://pal.example.org")
            )
    return tuple(origins), tuple(dict.fromkeys(hosts))

"""`hooks` with every default applied: the webhooks, what opens each, and what becomes of what they bring. Pure.

A hook whose own credential is missing or blank is closed, not open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from palinurus.config.expand import resolve_loose_secret
from palinurus.config.findings import ConfigFinding, suggest_nearest
from palinurus.config.keypath import Path
from palinurus.config.schema import Config
from palinurus.config.schema.rest import HooksSection
from palinurus.config.secrets import Secret
from palinurus.core.webhooks import SIGNATURE_SCHEMES

WebhookAction: TypeAlias = Literal["wake", "agent"]
SIZE = 256 * 1024
RATE = 300  # of one hook, a minute


class MappedHookSettings(msgspec.Struct, frozen=True):
    """One mapped hook. `path` "" fits every name; `source` must be the payload's own word, if set."""

    id: str
    path: str = ""
    source: str = ""
    action: WebhookAction = "agent"
    name: str = ""
    template: str = ""  # the owner's words, with {{paths}} into the payload
    session: str = ""  # a template too; values are escaped
    agent: str = ""
    now: bool = True  # wake now, not with the next heartbeat
    deliver: bool = True
    channel: str = "last"
    to: str = ""
    options: dict[str, Any] = {}  # model, thinking, timeoutSeconds
    token: Secret = Secret()
    secret: Secret = Secret()
    scheme: str = ""  # of the signature
    closed: bool = False  # it was to have a credential of its own, and has none
    delivery: str = ""  # template of what makes a delivery the same one
    rate: int = RATE
    inline: bool = False  # allowUnsafeExternalContent: values stand in the owner's words

    @property
    def own(self) -> bool:
        """Is it opened by a credential of its own? Then by no other."""
        return bool(self.token) or bool(self.scheme) or self.closed


class WebhookSettings(msgspec.Struct, frozen=True):
    enabled: bool = False
    path: str = "/hooks"
    token: Secret = Secret()
    session: str = ""  # for agent turns that name none; "" = one of their own
    choose: bool = False  # may a request name its session?
    prefixes: tuple[str, ...] = ()  # of session keys that hooks may use; () = any
    agents: tuple[str, ...] | None = None  # that a request may name; None = any
    size: int = SIZE
    hooks: tuple[MappedHookSettings, ...] = ()


# Mappings that need no writing: hooks.presets names them. A mapping of the same id in the config goes before it.
PRESETS: dict[str, dict[str, Any]] = {
    "gmail": {
        "match": {"path": "gmail"},
        "name": "Gmail",
        "sessionKey": "hook:gmail:{{messages[0].id}}",
        "deliveryId": "{{messages[0].id}}",
        "messageTemplate": "A mail has come from {{messages[0].from}}, about {{messages[0].subject}}. Say in one or "
        "two sentences what it is about and whether something has to be done.\n{{messages[0].snippet}}\n"
        "{{messages[0].body}}",
    },
    "github": {
        "match": {"path": "github"},
        "name": "GitHub",
        "signature": "github",
        "secret": {"source": "env", "id": "GITHUB_WEBHOOK_SECRET"},
        "sessionKey": "hook:github:{{repository.full_name}}",
        "messageTemplate": "GitHub tells of {{headers.x-github-event}} ({{action}}) in {{repository.full_name}} by "
        "{{sender.login}}. Say briefly what happened, and what the owner should look at.\n{{pull_request.title}}\n"
        "{{pull_request.html_url}}\n{{issue.title}}\n{{issue.html_url}}\n{{comment.body}}\n{{head_commit.message}}",
    },
}


def resolve_webhooks(config: Config, environ: Mapping[str, str], findings: list[ConfigFinding]) -> WebhookSettings:
    """The settings; what cannot work is found here, not at the first delivery."""
    section = config.hooks or HooksSection()
    if section.enabled is not True:
        return WebhookSettings()
    path: Path = ("hooks",)
    token = _secret(msgspec.to_builtins(section.token), (*path, "token"), environ, findings)
    if (gateway := config.gateway) and gateway.auth and token and gateway.auth.token == token.reveal():
        findings.append(ConfigFinding((*path, "token"), "is the gateway's own token", "webhooks need another one"))
    made: list[MappedHookSettings] = []
    for at, body in enumerate(section.mappings or []):
        made.append(_hook(body, (*path, "mappings", at), environ, findings))
    for at, name in enumerate(section.presets or []):
        if name not in PRESETS:
            findings.append(
                ConfigFinding((*path, "presets", at), f"there is no preset {name!r}", suggest_nearest(name, PRESETS))
            )
        elif all(hook.id != name for hook in made):
            made.append(_hook({"id": name, **PRESETS[name]}, (*path, "presets", at), environ, findings))
    if not token and not any(hook.own for hook in made):
        findings.append(
            ConfigFinding((*path, "token"), "is not set, so no webhook can be used", "set it to a long random text")
        )
    base = "/" + (section.path or "hooks").strip("/ ")
    if base == "/":
        findings.append(ConfigFinding((*path, "path"), "must not be /", "write it as /hooks"))
    return WebhookSettings(
        enabled=True,
        path=base,
        token=token,
        session=(section.default_session_key or "").strip(),
        choose=section.allow_request_session_key is True,
        prefixes=tuple(section.allowed_session_key_prefixes or ()),
        agents=_agents(section.allowed_agent_ids),
        size=section.max_body_bytes or SIZE,
        hooks=tuple(made),
    )


def _agents(named: list[str] | None) -> tuple[str, ...] | None:
    return None if named is None or "*" in named else tuple(name.strip().lower() for name in named)


def _hook(
    body: dict[str, Any], path: Path, environ: Mapping[str, str], findings: list[ConfigFinding]
) -> MappedHookSettings:
    match = body.get("match") if isinstance(body.get("match"), dict) else {}
    assert isinstance(match, dict)
    where = _word(match, "path").strip("/")
    scheme = _word(body, "signature")
    if scheme and scheme not in SIGNATURE_SCHEMES:
        known = ", ".join(SIGNATURE_SCHEMES)
        findings.append(
            ConfigFinding((*path, "signature"), f"is not one of {known}", suggest_nearest(scheme, SIGNATURE_SCHEMES))
        )
    if "transform" in body:
        hint = "use messageTemplate, or a plugin with a `webhook` hook"
        findings.append(
            ConfigFinding((*path, "transform"), "is not run: code does not come from the config", hint, False)
        )
    for name in ("channel", "to", "model", "agentId"):
        if "{{" in _word(body, name):
            findings.append(ConfigFinding((*path, name), "cannot come from the sender", "write it out"))
    token = _secret(body.get("token"), (*path, "token"), environ, findings)
    secret = _secret(body.get("secret"), (*path, "secret"), environ, findings)
    if "secret" in body and not scheme:
        scheme = "generic"
    rate = body.get("ratePerMinute")
    options = {name: body[name] for name in ("model", "thinking", "timeoutSeconds") if body.get(name)}
    return MappedHookSettings(
        id=_word(body, "id") or where or f"mapping{path[-1]}",
        path=where,
        source=_word(match, "source"),
        action="wake" if body.get("action") == "wake" else "agent",
        name=_word(body, "name"),
        template=_word(body, "messageTemplate") or _word(body, "textTemplate"),
        session=_word(body, "sessionKey"),
        agent=_word(body, "agentId").lower(),
        now=body.get("wakeMode") != "next-heartbeat",
        deliver=body.get("deliver") is not False,
        channel=_word(body, "channel") or "last",
        to=_word(body, "to"),
        options=options,
        token=token,
        secret=secret,
        scheme=scheme,
        closed=("token" in body and not token) or (bool(scheme) and not secret),
        delivery=_word(body, "deliveryId"),
        rate=rate if isinstance(rate, int) and rate > 0 else RATE,
        inline=body.get("allowUnsafeExternalContent") is True,
    )


def _word(body: Mapping[str, Any], name: str) -> str:
    found = body.get(name)
    return found.strip() if isinstance(found, str) else ""


def _secret(value: Any, path: Path, environ: Mapping[str, str], findings: list[ConfigFinding]) -> Secret:
    """A secret written out, or from where its reference says. Blank is none."""
    return Secret(resolve_loose_secret(value, path, environ, findings).reveal().strip())

"""What a webhook's body asks for, as one value: /hooks/wake, /hooks/agent, and mapped hooks with templates. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from palinurus.config.webhooks import MappedHookSettings, WebhookAction, WebhookSettings
from palinurus.core.hooks import template
from palinurus.core.types.keys import escape_key_part
from palinurus.core.untrusted import make_inert

# Headers in which senders say which delivery this is; the first that is there counts.
DELIVERY = ("idempotency-key", "x-idempotency-key", "x-github-delivery", "x-delivery-id", "webhook-id")
NAME = 40
_SIGNS = re.compile(r"[^\w .@-]+")
NOTHING: Mapping[str, Any] = {}
LONG = 80  # characters of a foreign id in a session key
_AGENT = (
    "A program that the owner let in sent what stands below. Do what your instructions say about such messages; if "
    "they say nothing, tell the owner in a few words what it is."
)
_MAPPED = "The owner set up this webhook. What it sent stands below; tell the owner in a few words what it is."
_WAKE = "A program that the owner let in tells you:"


class WebhookRequest(NamedTuple):
    """`words` are the owner's or ours, `facts` the sender's. `delivery` "": every request is a new one."""

    hook: str  # id
    name: str  # for people
    action: WebhookAction
    words: str
    facts: str
    delivery: str = ""
    session: str = ""
    agent: str = ""
    now: bool = True
    deliver: bool = True
    channel: str = "last"
    to: str = ""
    options: Mapping[str, Any] = NOTHING


def read_webhook_request(
    hook: MappedHookSettings, path: str, payload: dict[str, Any], headers: Mapping[str, str], settings: WebhookSettings
) -> WebhookRequest | str:
    """What is asked, or what is wrong."""
    if hook.id == "wake" and path == "wake":
        return _wake(payload, _delivery(headers))
    if hook.id == "agent" and path == "agent":
        return _agent(payload, headers, settings)
    scope = {"payload": payload, "headers": headers, "path": path}
    if not hook.template:
        words, facts = _MAPPED, template.read_slot("payload", scope)
    elif hook.inline:
        words, facts = template.fill_template(hook.template, scope, make_inert)[: template.MAX_VALUES], ""
    else:
        words, facts = template.separate_values(hook.template, scope)
    # Under a signature only what was signed says which delivery it is: a header can be changed by whoever replays it.
    given = template.fill_template(hook.delivery, scope, str) or ("" if hook.scheme else _delivery(headers))
    session = "" if hook.action == "wake" else settings.session
    return WebhookRequest(
        hook.id, hook.name or hook.id, hook.action, words, facts, given[:1000],
        template.fill_template(hook.session, scope, make_key_segment) or session,
        hook.agent, hook.now, hook.deliver, hook.channel, hook.to, hook.options,
    )  # fmt: skip


def make_key_segment(value: str) -> str:
    """A foreign value as one part of a session key: it cannot reach into another session."""
    return (
        escape_key_part(value) if len(value) <= LONG else hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()
    )


def _wake(payload: Mapping[str, Any], delivery: str) -> WebhookRequest | str:
    text = _word(payload, "text")
    if not text:
        return "text required"
    return WebhookRequest("wake", "wake", "wake", _WAKE, text, delivery, now=payload.get("mode") != "next-heartbeat")


def _agent(payload: Mapping[str, Any], headers: Mapping[str, str], settings: WebhookSettings) -> WebhookRequest | str:
    text = _word(payload, "message")
    if not text:
        return "message required"
    agent, session = _word(payload, "agentId").lower(), _word(payload, "sessionKey")
    if session and not settings.choose:
        return "sessionKey is not taken from requests (hooks.allowRequestSessionKey)"
    if agent and settings.agents is not None and agent not in settings.agents:
        return "agentId is not allowed (hooks.allowedAgentIds)"
    named = session.lower().split(":")[1] if session.lower().startswith("agent:") else ""
    if named and settings.agents is not None and named not in settings.agents:
        return "sessionKey names an agent that is not allowed (hooks.allowedAgentIds)"
    options: dict[str, Any] = {name: found for name in ("model", "thinking") if (found := _word(payload, name))}
    limit = payload.get("timeoutSeconds")
    if isinstance(limit, int | float) and not isinstance(limit, bool) and limit > 0:
        options["timeoutSeconds"] = limit
    return WebhookRequest(
        "agent", _name(_word(payload, "name")) or "agent", "agent", _AGENT, text,
        (_word(payload, "idempotencyKey") or _delivery(headers))[:1000], session or settings.session, agent,
        deliver=payload.get("deliver") is not False, channel=_word(payload, "channel") or "last",
        to=_word(payload, "to"), options=options,
    )  # fmt: skip


def _name(given: str) -> str:
    """A sender's name for itself: it stands beside our own words, so it is short and has no signs in it."""
    return " ".join(_SIGNS.sub(" ", given).split())[:NAME].strip()


def _delivery(headers: Mapping[str, str]) -> str:
    return next((headers[name].strip() for name in DELIVERY if headers.get(name, "").strip()), "")


def _word(payload: Mapping[str, Any], name: str) -> str:
    found = payload.get(name)
    return found.strip() if isinstance(found, str) else ""

"""Webhooks: what a program outside sends becomes one message, or one thing to tell a session.

Knows what opens which hook and what its body means; reads no socket. What came is content: it is wrapped, it taints the
turn, and the turn has no owner's rights. A delivery with an id (or a signature) is one message however often it comes:
where it goes is on disk before it is handed in, so that a repeat after kill -9 meets the inbox row of the first.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.config.sections.webhooks import MappedHookSettings, WebhookAction, WebhookSettings
from palinurus.core import webhooks
from palinurus.core.policy.spoken import AGREED
from palinurus.core.policy.taint import write_sources
from palinurus.core.types.caller import Caller
from palinurus.core.types.inbound import NO_OPTIONS, Inbound, Target, TurnOptions, make_sender, read_options
from palinurus.core.types.keys import SessionKey, escape_key_part, parse_session_key
from palinurus.core.untrusted import clean_label, make_inert, wrap_untrusted
from palinurus.core.webhooks import WebhookAnswer, WebhookHead
from palinurus.core.window import SlidingWindow
from palinurus.patterns import compile_late
from palinurus.plugins.hooks import Hooks
from palinurus.store.records import Records
from palinurus.triggers.events import SystemEvent, SystemEvents
from palinurus.triggers.message import ReplyDestination, find_last_destination, make_main_key
from palinurus.triggers.ports import TriggerPort

# Headers in which senders say which delivery this is; the first that is there counts.
DELIVERY = ("idempotency-key", "x-idempotency-key", "x-github-delivery", "x-delivery-id", "webhook-id")
NAME = 40
_SIGNS = compile_late(r"[^\w .@-]+")
NOTHING: Mapping[str, Any] = {}
LONG = 80  # characters of a foreign id in a session key
_AGENT = (
    "A program that the owner let in sent what stands below. Do what your instructions say about such messages; if "
    "they say nothing, tell the owner in a few words what it is."
)
_MAPPED = "The owner set up this webhook. What it sent stands below; tell the owner in a few words what it is."
_WAKE = "A program that the owner let in tells you:"


class WebhookRequest(msgspec.Struct, frozen=True):
    """`words` are the owner's or ours, `facts` the sender's. `delivery` "": every request is a new one."""

    hook: str  # id
    name: str  # for people
    action: WebhookAction
    words: str
    facts: str
    delivery: str = ""
    agreed: bool = False  # the words are the owner's alone: what they name was agreed to when the hook was made
    session: str = ""
    agent: str = ""
    now: bool = True
    deliver: bool = True
    channel: str = "last"
    to: str = ""
    options: TurnOptions = NO_OPTIONS


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
        words, facts = _MAPPED, webhooks.read_slot("payload", scope)
    elif hook.inline:
        words, facts = webhooks.fill_template(hook.template, scope, make_inert)[: webhooks.MAX_VALUES], ""
    else:
        words, facts = webhooks.separate_values(hook.template, scope)
    # Under a signature only what was signed says which delivery it is: a header can be changed by whoever replays it.
    given = webhooks.fill_template(hook.delivery, scope, str) or ("" if hook.scheme else _delivery(headers))
    session = "" if hook.action == "wake" else settings.session
    return WebhookRequest(
        hook.id, hook.name or hook.id, hook.action, words, facts=facts, delivery=given[:1000],
        session=webhooks.fill_template(hook.session, scope, make_key_segment) or session,
        agreed=bool(hook.template) and not hook.inline and not hook.preset,
        agent=hook.agent, now=hook.now, deliver=hook.deliver, channel=hook.channel, to=hook.to,
        options=read_options(hook.options),
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
    return WebhookRequest(
        "wake", "wake", "wake", _WAKE, facts=text, delivery=delivery, now=payload.get("mode") != "next-heartbeat"
    )


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
    limit = payload.get("timeoutSeconds")
    timed = isinstance(limit, int | float) and not isinstance(limit, bool) and limit > 0
    options = TurnOptions(
        model=_word(payload, "model"), thinking=_word(payload, "thinking"), timeout_seconds=limit if timed else None
    )
    return WebhookRequest(
        "agent", _name(_word(payload, "name")) or "agent", "agent", _AGENT, facts=text,
        delivery=(_word(payload, "idempotencyKey") or _delivery(headers))[:1000],
        session=session or settings.session, agent=agent,
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


KIND = "webhook"
KEPT = 7 * 86_400_000  # milliseconds a delivery is remembered beside its inbox row
SWEEP = 3_600_000
EVENT = 3000  # characters that wait for the next heartbeat
_SPACE = uuid.UUID("6f0a4e3e-58a3-4a53-a3c4-0d8f4c0f7b52")
_TOKENS = ("x-openclaw-token", "x-palinurus-token")
_SECRET = frozenset(("authorization", "cookie", "proxy-authorization", *_TOKENS))
_OWN = {name: MappedHookSettings(name, name) for name in ("wake", "agent")}  # what they do stands in their bodies


class WebhookDelivery(msgspec.Struct, frozen=True, omit_defaults=True):
    """A delivery that was seen: where its turn's replies go. `done`: it was told without a turn of its own."""

    target: Target
    push: bool
    done: bool = False


class Webhooks:
    """All of them. `judge_head` judges a request by its head, `take` does what its body says."""

    def __init__(self, port: TriggerPort, events: SystemEvents, hooks: Hooks) -> None:
        self._port = port
        self._events = events
        self._hooks = hooks
        self._rate = SlidingWindow(1, 60.0)
        self._swept = 0
        self._kept = Records(port.store, KIND, WebhookDelivery)
        self._passes: dict[str, str] = {}  # by hook: what opens it besides, as long as this process lives

    def make_pass(self, hook: str) -> str:
        """A credential for a program of ours, for this hook alone; it ends with this process."""
        return self._passes.setdefault(hook, secrets.token_urlsafe(32))

    def judge_head(self, head: WebhookHead) -> int | WebhookAnswer:
        """How many bytes of body may be read? A signature is only looked for here; it is checked over the body."""
        settings = self._port.settings.webhooks
        if not settings.enabled:
            return webhooks.WEBHOOK_NOT_FOUND
        named = self._named(head.name)
        if any(self._proof(hook, head, None) is not None for hook in named):
            return settings.size
        known = not named and _same(_token(head.headers), settings.token.reveal())
        return webhooks.WEBHOOK_NOT_FOUND if known else webhooks.WEBHOOK_UNAUTHORIZED

    async def take(self, head: WebhookHead, body: bytes) -> WebhookAnswer:
        """Raises PalinurusError kinds of the inbox: stopping, full queue, full disk, unknown agent."""
        found = [
            (hook, proof) for hook in self._named(head.name) if (proof := self._proof(hook, head, body)) is not None
        ]
        if not found:
            return webhooks.WEBHOOK_UNAUTHORIZED
        first = found[0][0]
        wait = self._rate.count(first.id, self._port.clock.monotonic(), first.rate)
        if wait > 0:
            return WebhookAnswer(429, {"ok": False, "error": "too many requests"}, retry=int(wait) + 1)
        try:
            payload = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError, ValueError):
            return webhooks.refuse_webhook(400, "the body is not JSON")
        if not isinstance(payload, dict):
            return webhooks.refuse_webhook(400, "the body is not a JSON object")
        hook, proof = next(
            ((hook, proof) for hook, proof in found if hook.source in ("", payload.get("source"))), (None, "")
        )
        if hook is None:
            return webhooks.WEBHOOK_NOT_FOUND
        headers = {name: value for name, value in head.headers.items() if name not in _SECRET}
        asked = read_webhook_request(hook, head.name, payload, headers, settings=self._port.settings.webhooks)
        if isinstance(asked, str):
            return webhooks.refuse_webhook(400, asked)
        return await self._go(await self._changed(asked, payload, headers), proof)

    def _named(self, name: str) -> list[MappedHookSettings]:
        if name in _OWN:
            return [_OWN[name]]
        return [hook for hook in self._port.settings.webhooks.hooks if hook.path in ("", name)]

    def _proof(self, hook: MappedHookSettings, head: WebhookHead, body: bytes | None) -> str | None:
        """None: not opened. "": by a token. Else the signature; without a body only its presence counts."""
        if hook.closed:
            return None
        if _same(_token(head.headers), self._passes.get(hook.id, "")):
            return ""
        wanted = hook.token if hook.own else self._port.settings.webhooks.token
        if (wanted or not hook.scheme) and not _same(_token(head.headers), wanted.reveal()):
            return None
        if not hook.scheme:
            return ""
        if body is None:
            return "?" if head.headers.get(webhooks.SIGNATURE_SCHEMES[hook.scheme].header) else None
        now = self._port.clock.now()
        return webhooks.verify_signature(hook.scheme, hook.secret.reveal(), head.headers, body, now=now) or None

    async def _changed(
        self, asked: WebhookRequest, payload: dict[str, Any], headers: dict[str, str]
    ) -> WebhookRequest | None:
        """As plugins want it; None: they want nothing done."""
        if not self._hooks.has("webhook"):
            return asked
        told = {"name": asked.name, "payload": payload, "headers": headers, "message": asked.facts}
        changes = await self._hooks.modify("webhook", told)
        if changes.get("skip"):
            return None
        message = changes.get("message")
        return msgspec.structs.replace(asked, facts=message) if isinstance(message, str) and message.strip() else asked

    async def _go(self, asked: WebhookRequest | None, proof: str) -> WebhookAnswer:
        if asked is None:
            return WebhookAnswer(200, {"ok": True, "skipped": True})
        settings, clock = self._port.settings, self._port.clock
        await self._sweep(clock.now())
        ident = asked.delivery or proof
        digest = hashlib.sha256(f"{asked.hook}\n{ident}".encode("utf-8", "replace")).hexdigest()[:40] if ident else ""
        key = self._key(asked, digest)
        if key is None or key.agent not in settings.agents:
            return webhooks.refuse_webhook(400, "not a session of a known agent")
        if settings.webhooks.agents is not None and key.agent not in settings.webhooks.agents:
            # the agent that would run, whoever named it: leaving the name out must not reach the default one
            return webhooks.refuse_webhook(400, f"agent {key.agent} is not allowed (hooks.allowedAgentIds)")
        if settings.webhooks.prefixes and asked.session and not key.rest.startswith(settings.webhooks.prefixes):
            return webhooks.refuse_webhook(400, "hooks may not use that session (hooks.allowedSessionKeyPrefixes)")
        held = await self._held(asked, key, digest)
        if held.done:
            return WebhookAnswer(200, {"ok": True, "mode": "next-heartbeat", "duplicate": True})
        if asked.action == "wake" and not asked.now:
            await self._later(asked, key, held, digest)
            return WebhookAnswer(200, {"ok": True, "mode": "next-heartbeat"})
        message = self._message(asked, key, held, digest or uuid.uuid4().hex)
        # the answer of a turn goes where the request says; a wake is told to its session, and answered there
        message = msgspec.structs.replace(message, shared=asked.action != "wake")
        made = await self._port.inbox.submit(message)
        told = {"ok": True, "mode": "now"} if asked.action == "wake" else {"ok": True}
        return WebhookAnswer(200, {**told, "runId": made.id, **({"duplicate": True} if made.duplicate else {})})

    def _key(self, asked: WebhookRequest, digest: str) -> SessionKey | None:
        settings = self._port.settings
        agent = asked.agent or settings.default_agent
        if asked.session:
            return parse_session_key(asked.session, agent)
        if asked.action == "wake":
            return make_main_key(settings, agent)
        return SessionKey(agent, f"hook:{uuid.uuid5(_SPACE, digest) if digest else uuid.uuid4()}")

    async def _held(self, asked: WebhookRequest, key: SessionKey, digest: str) -> WebhookDelivery:
        """Where replies go: decided once for a delivery, whatever has changed when it comes again."""
        record = f"{asked.hook} {digest}"
        if digest and (kept := await self._kept.get(record)) is not None:
            return kept
        destination = await self._way(asked, key)
        made = WebhookDelivery(destination.target if destination.push else Target("hook", str(key)), destination.push)
        if digest and not await self._kept.swap(record, None, made):  # another request was faster
            return await self._kept.get(record) or made
        return made

    async def _way(self, asked: WebhookRequest, key: SessionKey) -> ReplyDestination:
        if not asked.deliver:
            return ReplyDestination(Target("hook"), False)
        if asked.channel != "last":
            return ReplyDestination(Target(asked.channel, asked.to), asked.channel in self._port.channels)
        own = key if asked.action == "wake" else make_main_key(self._port.settings, key.agent)
        return await find_last_destination(self._port, own)

    async def _later(self, asked: WebhookRequest, key: SessionKey, held: WebhookDelivery, digest: str) -> None:
        """Told with the session's next turn; remembered as told only when it is on disk."""
        now = self._port.clock.now()
        text = _words(msgspec.structs.replace(asked, facts=asked.facts[:EVENT]))
        await self._events.add(SystemEvent(digest or uuid.uuid4().hex, str(key), text, now, source=_source(asked)))
        if digest:
            await self._kept.put(f"{asked.hook} {digest}", msgspec.structs.replace(held, done=True))

    def _message(self, asked: WebhookRequest, key: SessionKey, held: WebhookDelivery, ident: str) -> Inbound:
        text = _words(asked)
        if asked.action == "wake":
            text = f"System: {text}"
        else:
            text += "\n\nNobody waits for questions."
            if held.push:
                text += " Your final answer is sent to the person as it is; NO_REPLY sends nothing."
        caller = Caller(f"hook:{asked.hook}"[:200], how="hook")  # its key starts turns; it opens nothing else
        sender = make_sender(caller, clean_label(asked.name, 80))
        options = msgspec.structs.replace(asked.options, trigger="hook", queue="followup")
        return Inbound(
            held.target, sender, f"hook:{ident}", text, at=self._port.clock.now(), session=str(key), agent=key.agent,
            options=options, system=True, push=held.push,
            source=write_sources((_source(asked), AGREED if asked.agreed else "")),
        )  # fmt: skip

    async def _sweep(self, now: int) -> None:
        """Forget old deliveries, now and then."""
        if now - self._swept < SWEEP:
            return
        self._swept = now
        for kept in await self._port.store.list_records(KIND):
            if now - kept.at > KEPT:
                await self._port.store.put_record(KIND, kept.key, None)


def _words(asked: WebhookRequest) -> str:
    head = f"[webhook {clean_label(asked.name, 80)}] {asked.words}".strip()
    return (
        f"{head}\n\n{wrap_untrusted(asked.facts, _source(asked), secrets.token_hex(16))}"
        if asked.facts.strip()
        else head
    )


def _source(asked: WebhookRequest) -> str:
    return f"webhook {clean_label(asked.name, 60)}"


def _token(headers: Mapping[str, str]) -> str:
    scheme, _, given = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return given.strip()
    return next((headers[name].strip() for name in _TOKENS if name in headers), "")


def _same(given: str, right: str) -> bool:
    """In constant time; never where there is none."""
    one, two = (hashlib.sha256(text.encode("utf-8", "surrogateescape")).digest() for text in (given, right))
    return hmac.compare_digest(one, two) and bool(right.strip())

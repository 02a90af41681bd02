"""Session + settings + message -> RunPlan. Reads disk once; after this nothing reads config.

What depends only on the configuration (tool set, schemas, prompt text) is made once per configuration and
kept in `Bench`; per message only the session, the history and the message itself are looked at.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from palinurus.agent.facts import Gatherer, occasion
from palinurus.agent.plan import Choice, Limits, RunPlan
from palinurus.agent.show import defaults, show
from palinurus.agent.startup import due, notes
from palinurus.clock import Clock
from palinurus.config.settings import AgentSettings, Settings
from palinurus.config.zones import zone
from palinurus.core.history.images import fade
from palinurus.core.history.repair import repair
from palinurus.core.levels.parse import inline as inline_directives
from palinurus.core.levels.parse import parse
from palinurus.core.levels.resolve import Asked, fast, level
from palinurus.core.levels.thinking import ids, policy
from palinurus.core.policy.offer import offered
from palinurus.core.prompt.render import around, changed
from palinurus.core.types.inbound import Inbound, Route, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import Assistant, Image, Message, Text, ToolResult, User
from palinurus.core.types.model import Failure, ModelInfo, Prompt
from palinurus.core.types.tool import Tool, ToolSettings, ToolSpec
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.sessions.entries import Entry, Said
from palinurus.sessions.fresh import Current, Moment, current, end_payload, start_payload
from palinurus.sessions.record import Record as SessionRecord
from palinurus.sessions.transcript import Transcript, Transcripts
from palinurus.store.ids import new_id
from palinurus.store.port import Claim, Store
from palinurus.workspace.images import ImageLimits, found
from palinurus.workspace.shelf import Shelf


class Bench(NamedTuple):
    """What is laid out once per agent and configuration."""

    agent: AgentSettings
    tools: dict[str, Tool]
    specs: tuple[ToolSpec, ...]
    settings: ToolSettings
    limits: Limits


class Prepared(NamedTuple):
    """The plan, with the session it belongs to. `finished` is set when the answer is already on file."""

    plan: RunPlan
    transcript: Transcript
    session: SessionRecord
    stored: bool  # the session row is on disk
    finished: Assistant | None = None


class Unprepared(NamedTuple):
    """The run cannot start; `failure` says why, in words for the person who asked."""

    failure: Failure


class Parts(NamedTuple):
    """What plans are made of."""

    settings: Settings
    catalog: Catalog
    tools: Mapping[str, Tool]
    store: Store
    transcripts: Transcripts
    clock: Clock
    env: dict[str, str]  # of the children of tools
    hooks: Hooks
    gatherer: Gatherer
    shelf: Shelf  # workspace files and skills


class Preparer:
    """Makes plans. One per configuration."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        settings = parts.settings
        self._benches = {ident: _bench(a, settings, parts.tools, parts.env) for ident, a in settings.agents.items()}
        self._zones = {ident: zone(a.user_timezone) for ident, a in settings.agents.items()}

    async def prepare(self, claim: Claim, inbound: Inbound, route: Route) -> Prepared | Unprepared:
        """The plan for one claimed message, or why there is none."""
        bench = self._benches.get(route.agent)
        if bench is None:
            return Unprepared(Failure("config", f"unknown agent '{route.agent}'"))
        inbound, inline = _directed(inbound)
        found = await self._session(claim, inbound, route)
        session = found.record
        model = self._model(inline, inbound, session, bench.agent)
        if isinstance(model, Failure):
            return Unprepared(model)
        choices = self._choices(model, {**inbound.options, **inline}, session, bench.agent)
        if model.vision:
            inbound = await self._pictured(inbound, bench.agent)
        transcript = await self._parts.transcripts.load(session.path(route.agent), bench.agent.workspace)
        now = self._parts.clock.now()
        resumed = bool(transcript.entries_of(claim.id))
        history = _context(inbound) + transcript.messages()
        opening, history, finished = _opening(inbound, history, resumed=resumed, now=now)
        remembered = due(session) and not resumed
        if remembered:
            opening = _reminded(opening, notes(bench.agent.workspace, now, self._zones[route.agent]))
        base = defaults(bench.agent)
        levels = show(inline, session, base)
        await self._parts.shelf.ready(bench.agent, route.key)
        now_seen = occasion(inbound, route.key, choices[0], session)._replace(reasoning=levels.reasoning)
        tools, specs = _narrowed(bench, choices[0].model, session)
        plan = RunPlan(
            id=new_id(now),
            item=claim.id,
            route=route,
            inbound=inbound,
            session_id=session.sessionId,
            transcript=session.path(route.agent),
            choices=choices,
            sampling=_sampling(inbound.options),
            prompt=self._parts.gatherer.prompt(route.agent, tools.values(), now_seen),
            history=fade(history) if model.vision else history,
            opening=opening,
            tools=tools,
            specs=specs,
            settings=self._settings(bench),
            limits=bench.limits,
            workspace=bench.agent.workspace,
            show=levels,
            started=now,
            earlier=_earlier(transcript.entries_of(claim.id)),
            startup=remembered,
            inline=inline,
            quiet=base,
            profile=session.authProfileOverride or "",
        )
        return Prepared(await self._hooked(plan), transcript, session, found.stored, finished)

    async def preview(self, key: SessionKey) -> Prompt:
        """The prompt the session's next run would get, hooks aside."""
        bench = self._benches[key.agent]
        row = await self._parts.store.session(str(key))
        session = SessionRecord.decode(row.data) if row else SessionRecord.fresh(key, 0, "preview")
        nobody = Inbound(Target(session.lastChannel or "terminal"), Sender(""), "", "", 0)
        model = self._model({}, nobody, session, bench.agent)
        if isinstance(model, Failure):
            model = self._parts.catalog.default(bench.agent)
        choice = self._choice(model, {}, session, bench.agent)
        tools, _ = _narrowed(bench, model, session)
        return self._parts.gatherer.prompt(key.agent, tools.values(), occasion(nobody, key, choice, session))

    async def _hooked(self, plan: RunPlan) -> RunPlan:
        """What plugins add to or change of the prompt and the message. The legacy point first, then its successor."""
        hooks = self._parts.hooks
        for point in ("before_agent_start", "before_prompt_build"):
            if not hooks.has(point) or not plan.opening:
                continue
            text = plan.opening[-1].text
            payload = {"prompt": text, "runId": plan.id, "sessionKey": str(plan.route.key), "agentId": plan.route.agent}
            changes = await hooks.modify(point, payload)
            opening = plan.opening
            if isinstance(opening[-1], User) and (told := around(text, changes)) != text:
                images = tuple(b for b in opening[-1].blocks if isinstance(b, Image))
                message = User((Text(told), *images) if images else told, opening[-1].timestamp)
                opening = (*opening[:-1], message)
            plan = msgspec.structs.replace(plan, prompt=changed(plan.prompt, changes), opening=opening)
        return plan

    async def _pictured(self, inbound: Inbound, agent: AgentSettings) -> Inbound:
        """With the images its text names, for models that see."""
        seen = await found(inbound.text, agent.workspace, ImageLimits())
        if not seen.images and not seen.notes:
            return inbound
        text = "\n".join([seen.text, *seen.notes])
        return msgspec.structs.replace(inbound, text=text, images=(*inbound.images, *seen.images))

    def _settings(self, bench: Bench) -> ToolSettings:
        """With the variables that skills of the agent declare; what the program sets itself goes before them."""
        given = {name: value.reveal() for name, value in self._parts.shelf.env(bench.agent).items()}
        if not given:
            return bench.settings
        return msgspec.structs.replace(bench.settings, exec_env={**given, **bench.settings.exec_env})

    async def _session(self, claim: Claim, inbound: Inbound, route: Route) -> Current:
        """The session as it stands, or the one that begins because the last one's time is over.

        A turn that goes on after a crash stays in its session, however late it is.
        """
        parts = self._parts
        row = await parts.store.session(str(route.key))
        person = claim.attempts <= 1 and route.lane == "main"
        moment = Moment(claim.at, self._zones[route.agent], inbound.target.channel, person)
        found = await current(row, route.key, parts.settings.session, moment, str(uuid.uuid4()), parts.settings.home)
        if found.ended is not None:
            parts.hooks.observe("session_end", end_payload(route.key, found.ended, found.record.sessionId))
        if found.began:
            parts.hooks.observe("session_start", start_payload(route.key, found))
        return found

    def _model(
        self, inline: Mapping[str, str], inbound: Inbound, session: SessionRecord, agent: AgentSettings
    ) -> ModelInfo | Failure:
        """This message's, then the session's, then the agent's."""
        chosen = session.modelOverride or ""
        if chosen and session.providerOverride:
            chosen = f"{session.providerOverride}/{chosen}"
        asked = inline.get("model") or str(inbound.options.get("model") or "") or chosen
        return self._parts.catalog.find(asked, agent) if asked else self._parts.catalog.default(agent)

    def _choices(
        self, model: ModelInfo, asked: Mapping[str, Any], session: SessionRecord, agent: AgentSettings
    ) -> tuple[Choice, ...]:
        found = (self._parts.catalog.find(text, agent) for text in agent.fallbacks)
        # A model the person chose is strict: nobody stands in for it.
        strict = bool(asked.get("model")) or (bool(session.modelOverride) and session.modelOverrideSource != "auto")
        others = [] if strict else [m for m in found if isinstance(m, ModelInfo) and m.ref != model.ref]
        return tuple(self._choice(m, asked, session, agent) for m in (model, *others))

    def _choice(
        self, model: ModelInfo, asked: Mapping[str, Any], session: SessionRecord, agent: AgentSettings
    ) -> Choice:
        """The level each layer asks for, fitted to what this model offers."""
        wanted = Asked(
            asked.get("thinking"),
            session.thinkingLevel,
            agent.thinking_default,
            model.params.get("thinking"),
            agent.thinking_shared,
        )
        hurry = Asked(asked.get("fast"), session.fastMode, agent.fast_default)
        vendor = self._parts.catalog.vendor(model.ref.provider)
        return Choice(model, level(model, wanted, vendor), fast(model, hurry), ids(policy(model, vendor)))


def _directed(inbound: Inbound) -> tuple[Inbound, dict[str, str]]:
    """The message without its directives, and what they ask for. Only those of trusted senders act."""
    if "/" not in inbound.text or not inbound.typed:
        return inbound, {}
    parsed = parse(inbound.text)
    asked = inline_directives(parsed)
    return (msgspec.structs.replace(inbound, text=parsed.rest), asked) if parsed.directives else (inbound, {})


def _reminded(opening: tuple[User | ToolResult, ...], text: str) -> tuple[User | ToolResult, ...]:
    """The opening message with the notes before it."""
    last = opening[-1] if opening else None
    if not text or not isinstance(last, User):
        return opening
    return (*opening[:-1], User((Text(text + "\n\n"), *last.blocks), last.timestamp))


def _earlier(entries: list[Entry]) -> tuple[Assistant, ...]:
    said = (entry.message for entry in entries if isinstance(entry, Said))
    return tuple(m for m in said if isinstance(m, Assistant) and not m.failed)


def _narrowed(bench: Bench, model: ModelInfo, session: SessionRecord) -> tuple[dict[str, Tool], tuple[ToolSpec, ...]]:
    """The tools of the run. A small model reads slowly: it may be given only some (compat.toolNames). In a session
    whose owner said `/exec security=deny` there is no exec."""
    names = model.compat.get("toolNames")
    denied = session.extra.get("execSecurity") == "deny"
    if not isinstance(names, list) and not denied:
        return bench.tools, bench.specs
    chosen = names if isinstance(names, list) else list(bench.tools)
    tools = {n: tool for n, tool in bench.tools.items() if n in chosen and not (denied and n == "exec")}
    return tools, tuple(tool.spec for tool in tools.values())


def _bench(agent: AgentSettings, settings: Settings, tools: Mapping[str, Tool], env: dict[str, str]) -> Bench:
    names = offered(tools, settings.tools.allow, settings.tools.deny)
    chosen = {name: tools[name] for name in names}
    used = ToolSettings(
        workspace_only=settings.tools.workspace_only,
        exec_timeout=settings.tools.exec.timeout,
        exec_env={**env, **settings.tools.exec.env},
        protected=(settings.home,),
        readable=(os.path.join(settings.home, "skills"),),
    )
    limits = Limits(
        timeout=agent.timeout,
        max_turns=agent.max_turns,
        loop_warn=settings.tools.loop_warn,
        loop_stop=settings.tools.loop_stop,
    )
    return Bench(agent, chosen, tuple(t.spec for t in chosen.values()), used, limits)


def _sampling(options: Mapping[str, Any]) -> dict[str, Any]:
    known = {"max_tokens": "maxTokens", "temperature": "temperature", "tool_choice": "toolChoice"}
    return {ours: options[theirs] for ours, theirs in known.items() if options.get(theirs) is not None}


def _context(inbound: Inbound) -> tuple[Message, ...]:
    """Earlier messages that a stateless client sends along."""
    made: list[Message] = []
    for entry in inbound.options.get("context") or ():
        text = str(entry.get("content") or "")
        if entry.get("role") == "assistant":
            made.append(Assistant((Text(text),)))
        elif text:
            made.append(User(text))
    return tuple(made)


def _opening(
    inbound: Inbound, history: tuple[Message, ...], *, resumed: bool, now: int
) -> tuple[tuple[User | ToolResult, ...], tuple[Message, ...], Assistant | None]:
    """What is new in this run, the history before it, and the answer if the turn had one already.

    A turn that was cut off goes on where it was: its user message is in the history, and calls whose results
    are missing get "outcome unknown" results, which are written down like any other.
    """
    mended = repair(history)
    if not resumed:
        return (inbound.message(now),), mended, None
    last = history[-1] if history else None
    if isinstance(last, Assistant) and not last.calls and not last.failed:
        return (), mended, last
    tail = len(mended)
    known = {id(m) for m in history}
    while tail and id(mended[tail - 1]) not in known:
        tail -= 1
    unknown = tuple(m for m in mended[tail:] if isinstance(m, ToolResult))
    return unknown, mended[: len(mended) - len(unknown)], None

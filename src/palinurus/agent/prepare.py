"""Session + settings + message -> RunPlan. Reads disk once; after this nothing reads config.

What depends only on the configuration (tool set, schemas, prompt text) is made once per configuration and
kept in `Bench`; per message only the session, the history and the message itself are looked at.
"""

from __future__ import annotations

import platform
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from palinurus.agent.plan import Choice, Limits, RunPlan
from palinurus.clock import Clock
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.history.repair import repair
from palinurus.core.levels.resolve import Asked, fast, level
from palinurus.core.policy.offer import offered
from palinurus.core.prompt.facts import Facts, ToolFact
from palinurus.core.prompt.render import render
from palinurus.core.types.inbound import Inbound, Route
from palinurus.core.types.messages import Assistant, Message, Text, ToolResult, User
from palinurus.core.types.model import Failure, ModelInfo, Prompt
from palinurus.core.types.outbound import Show
from palinurus.core.types.tool import Tool, ToolSettings, ToolSpec
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import Record as SessionRecord
from palinurus.sessions.transcript import Transcript, Transcripts
from palinurus.store.ids import new_id
from palinurus.store.port import Claim, Store


class Bench(NamedTuple):
    """What is laid out once per agent and configuration."""

    agent: AgentSettings
    tools: dict[str, Tool]
    specs: tuple[ToolSpec, ...]
    facts: Facts
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


class Preparer:
    """Makes plans. One per configuration; `reload` makes another."""

    def __init__(
        self,
        settings: Settings,
        catalog: Catalog,
        tools: Mapping[str, Tool],
        store: Store,
        transcripts: Transcripts,
        clock: Clock,
        env: dict[str, str],
    ) -> None:
        self._settings = settings
        self._catalog = catalog
        self._store = store
        self._transcripts = transcripts
        self._clock = clock
        self._benches = {ident: _bench(a, settings, tools, env) for ident, a in settings.agents.items()}

    async def prepare(self, claim: Claim, inbound: Inbound, route: Route) -> Prepared | Unprepared:
        """The plan for one claimed message, or why there is none."""
        bench = self._benches.get(route.agent)
        if bench is None:
            return Unprepared(Failure("config", f"unknown agent '{route.agent}'"))
        model = self._model(inbound, bench.agent)
        if isinstance(model, Failure):
            return Unprepared(model)
        now = self._clock.now()
        row = await self._store.session(str(route.key))
        session = SessionRecord.decode(row.data) if row else SessionRecord.fresh(route.key, now, str(uuid.uuid4()))
        choices = tuple(
            self._choice(m, inbound, session, bench.agent) for m in (model, *self._fallbacks(bench.agent, model))
        )
        transcript = await self._transcripts.load(session.path(route.agent), bench.agent.workspace)
        mine = transcript.entries_of(claim.id)
        history = _context(inbound) + transcript.messages()
        opening, history, finished = _opening(inbound, history, resumed=bool(mine), now=now)
        plan = RunPlan(
            id=new_id(now),
            item=claim.id,
            route=route,
            inbound=inbound,
            session_id=session.sessionId,
            transcript=session.path(route.agent),
            choices=choices,
            sampling=_sampling(inbound.options),
            prompt=_prompt(bench.facts, choices[0], inbound),
            history=history,
            opening=opening,
            tools=bench.tools,
            specs=bench.specs,
            settings=bench.settings,
            limits=bench.limits,
            workspace=bench.agent.workspace,
            show=Show(),
            started=now,
        )
        return Prepared(plan, transcript, session, row is not None, finished)

    def _model(self, inbound: Inbound, agent: AgentSettings) -> ModelInfo | Failure:
        asked = str(inbound.options.get("model") or agent.model)
        return self._catalog.find(asked, agent) if asked else self._catalog.default(agent)

    def _choice(self, model: ModelInfo, inbound: Inbound, session: SessionRecord, agent: AgentSettings) -> Choice:
        """The level each layer asks for, fitted to what this model offers."""
        asked = Asked(
            inbound.options.get("thinking"),
            session.thinkingLevel,
            agent.thinking_default,
            model.params.get("thinking"),
            agent.thinking_shared,
        )
        hurry = Asked(inbound.options.get("fast"), session.fastMode, agent.fast_default)
        return Choice(model, level(model, asked, self._catalog.vendor(model.ref.provider)), fast(model, hurry))

    def _fallbacks(self, agent: AgentSettings, model: ModelInfo) -> tuple[ModelInfo, ...]:
        found = (self._catalog.find(text, agent) for text in agent.fallbacks)
        return tuple(m for m in found if isinstance(m, ModelInfo) and m.ref != model.ref)


def _bench(agent: AgentSettings, settings: Settings, tools: Mapping[str, Tool], env: dict[str, str]) -> Bench:
    names = offered(tools, settings.tools.allow, settings.tools.deny)
    chosen = {name: tools[name] for name in names}
    facts = Facts(
        tools=tuple(ToolFact(t.name, t.description.split(". ")[0].rstrip(".")) for t in chosen.values()),
        workspace=agent.workspace,
        timezone=agent.user_timezone,
        agent=agent.id,
        host=platform.node(),
        os=f"{platform.system()} {platform.machine()}",
    )
    used = ToolSettings(
        workspace_only=settings.tools.workspace_only,
        exec_timeout=settings.tools.exec.timeout,
        exec_env={**env, **settings.tools.exec.env},
        protected=(settings.home,),
    )
    limits = Limits(
        timeout=agent.timeout,
        max_turns=agent.max_turns,
        loop_warn=settings.tools.loop_warn,
        loop_stop=settings.tools.loop_stop,
    )
    return Bench(agent, chosen, tuple(t.spec for t in chosen.values()), facts, used, limits)


def _prompt(facts: Facts, choice: Choice, inbound: Inbound) -> Prompt:
    return render(
        msgspec.structs.replace(
            facts,
            model=str(choice.model.ref),
            level=choice.level.level,
            channel=inbound.target.channel,
            extra=str(inbound.options.get("system") or ""),
        )
    )


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

"""Session + settings + message -> RunPlan. Reads disk once; after this nothing reads config.

What depends only on the configuration (tool set, schemas, prompt text) is made once per configuration and
kept in `AgentBase`; per message only the session, the history and the message itself are looked at.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import msgspec
from msgspec.structs import replace

from palinurus.agent import hookcalls
from palinurus.agent.editors import EditorDesk
from palinurus.agent.marks import TaintMarks, find_said_sources
from palinurus.agent.plan.folder import FolderPlace, get_folder, name_paths, place_occasion, settle_folder
from palinurus.agent.plan.levels import (
    apply_exec_rules,
    apply_options,
    ask_level,
    check_options,
    find_asked_model,
    name_model_chooser,
    read_sampling,
    read_show,
    resolve_exec_rules,
    resolve_show,
    set_posting,
)
from palinurus.agent.plan.offer import ToolOffers
from palinurus.agent.plan.opening import (
    Opening,
    Tell,
    add_pictures,
    collect_context,
    count_pinned,
    find_open_calls,
    is_continuation,
    limit_timeout,
    list_earlier_answers,
    list_own_entries,
    needs_startup_notes,
    prepend_preface,
    read_startup_notes,
    split_opening,
    view_history,
)
from palinurus.agent.plan.prompt import PromptBuilder, make_occasion
from palinurus.agent.plan.runplan import AgentBase, ModelCandidate, RunPlan, make_agent_base
from palinurus.agent.plan.sandbox import (
    AttachFiles,
    ToolSandbox,
    ToolSandboxes,
    apply_sandbox,
    describe_box,
    locate_inbound_folder,
    open_inbound_files,
)
from palinurus.agent.plan.window import TokenCalibration, limit_tool_results, resolve_history_rules
from palinurus.clock import Clock
from palinurus.config.secrets import list_known_secrets
from palinurus.config.settings import AgentSettings, Settings
from palinurus.config.zones import find_zone
from palinurus.core.history.fit import fit_history
from palinurus.core.levels.resolve import LevelRequest, resolve_fast_mode, resolve_thinking
from palinurus.core.levels.thinking import find_thinking_profile, list_level_ids
from palinurus.core.policy.audience import is_outsider, is_shared
from palinurus.core.policy.modes import LINES
from palinurus.core.policy.taint import collect_taint
from palinurus.core.prompt.facts import FileFact
from palinurus.core.types.approval import ExecRules
from palinurus.core.types.inbound import NO_INLINE, Inbound, InlineDirectives, Route, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, Message
from palinurus.core.types.model import ModelFailure, ModelSpec, Prompt
from palinurus.core.types.tool import HiddenTexts, Tool, ToolSettings
from palinurus.errors import StateError
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.providers.wire.history import list_missing_controls
from palinurus.sessions.lifecycle import (
    CurrentSession,
    MessageMoment,
    find_current_session,
    make_end_payload,
    make_start_payload,
)
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcript, Transcripts
from palinurus.store.port import RunClaim, SessionRow, Store, make_id
from palinurus.taping import ask_taped, read_taped
from palinurus.tools.watches import get_persona_watches
from palinurus.tools.web.shrink import shrink_image
from palinurus.workspace.images import FetchImage, ImageLimits
from palinurus.workspace.sources import PromptSources


class PreparedRun(msgspec.Struct, frozen=True):
    """The plan, with the session it belongs to. `finished` is set when the answer is already on file."""

    plan: RunPlan
    transcript: Transcript
    session: SessionRecord
    unsaved: CurrentSession | None  # whose row must be on disk before the turn writes anything
    finished: AssistantMessage | None = None
    view: Callable[[], tuple[Message, ...]] = tuple  # what a request carries of the transcript as it is then


class RunRefusal(msgspec.Struct, frozen=True):
    """The run cannot start; `failure` says why, in words for the person who asked."""

    failure: ModelFailure


class PreparerParts(msgspec.Struct, frozen=True):
    """What plans are made of."""

    settings: Settings
    catalog: Catalog
    tools: Mapping[str, Tool]
    store: Store
    transcripts: Transcripts
    clock: Clock
    env: dict[str, str]  # of the children of tools
    hooks: Hooks
    prompts: PromptBuilder
    sources: PromptSources  # workspace files and skills
    calibration: TokenCalibration | None = None  # learns how tokens are estimated; None: a look without consequences
    tell: Tell | None = None  # what a session is told before the message itself
    ready: Callable[[], Awaitable[None]] | None = None  # awaited before tools are chosen: those of servers elsewhere
    attach: AttachFiles | None = None  # what files of a message say
    fetch: FetchImage | None = None  # images whose addresses a person writes


class RunPreparer:
    """Makes plans. One per configuration."""

    def __init__(self, parts: PreparerParts) -> None:
        self._parts, settings = parts, parts.settings
        hidden = HiddenTexts(list_known_secrets(settings, parts.catalog.environ), parts.catalog.vault.list_secrets)
        self.editors = EditorDesk()
        make = partial(make_agent_base, settings=settings, env=parts.env, hidden=hidden, editor=self.editors)
        self._bases = {ident: make(agent) for ident, agent in settings.agents.items()}
        self.offers = ToolOffers(settings, parts.catalog, parts.tools)
        self.sandboxes = ToolSandboxes(settings, parts.env, make=parts.calibration is not None)
        self.marks = TaintMarks(parts.store)
        self._place = FolderPlace(settings, parts.catalog.environ)
        self._zones = {ident: find_zone(a.user_timezone) for ident, a in settings.agents.items()}

    async def prepare(
        self, claim: RunClaim, inbound: Inbound, route: Route, inline: InlineDirectives = NO_INLINE
    ) -> PreparedRun | RunRefusal:
        """The plan for one claimed message, or why there is none. `inline`: what the directives asked that it held."""
        if (base := self._bases.get(route.agent)) is None:
            return RunRefusal(ModelFailure("config", f"unknown agent '{route.agent}'"))
        if isinstance(found := await self._session(claim, inbound, route), ModelFailure):
            return RunRefusal(found)
        session, sampling = found.record, read_sampling(inbound.options)
        choices = await self._choices(inbound, inline, session, route.key)
        if isinstance(choices, ModelFailure):
            return RunRefusal(choices)
        model = choices[0].model
        transcript, inbound = await self._open(session, route, inbound)
        rules = resolve_history_rules(self._parts.settings, base.agent, model, inbound, route=route)
        now, own = self._parts.clock.now(), list_own_entries(transcript, claim.id)
        resumed = bool(own)
        cell, project = await self._lay_out(base.agent, route, inbound, get_folder(session, route.key))
        inbound = inbound if resumed else await self._attached(inbound, route, cell, model.vision)
        opening, history, finished = split_opening(inbound, transcript, resumed=resumed, now=now)
        notes = needs_startup_notes(session) and not resumed and not inbound.shared
        opening = opening if resumed else await self._noted(opening, claim, route, inbound, now=now if notes else None)
        levels = resolve_show(inline, session, read_show(base.agent))
        occasion = make_occasion(inbound, route.key, choices[0], session, cell=cell.cell.kind)
        offer, choices = self.offers.fit_choices(choices, route.key, inbound, session)
        judged = resolve_exec_rules(self._parts.settings, route.agent, session, inbound, inline=inline)
        more = {"reasoning": levels.reasoning, "continued": is_continuation(history, inbound)}
        occasion = place_occasion(occasion, cell, project, describe_box(cell.box, judged, offer.tools), **more)
        used = self._settings(base, cell, offer.tools, inbound, key=route.key, judged=judged)
        plan = RunPlan(
            id=make_id(now),
            item=claim.id,
            route=route,
            inbound=inbound,
            session_id=session.sessionId,
            transcript=session.path(route.agent),
            choices=choices,
            sampling=sampling,
            prompt=self._parts.prompts.prompt(route.agent, offer.tools.values(), occasion),
            history=fit_history(history, rules, count_pinned(inbound, transcript), None if resumed else now),
            opening=prepend_preface(opening, LINES.get(judged.mode, "")),
            tools=offer.tools,
            specs=offer.specs,
            hidden=offer.hidden,
            settings=limit_tool_results(used, rules, self._parts.settings.home, transcript.path),
            limits=limit_timeout(base.limits, inbound.options),
            workspace=cell.workspace,
            show=set_posting(levels, base.agent, inbound, offer.tools),
            started=now,
            earlier=list_earlier_answers(own),
            startup=notes,
            inline=inline,
            quiet=set_posting(read_show(base.agent), base.agent, inbound, offer.tools),
            profile=session.authProfileOverride or "",
            scale=await self._parts.calibration.learn(transcript, model.ref) if self._parts.calibration else 1.0,
            taint=await self._taint(transcript, cell, project, notes=notes, inbound=inbound),
        )
        plan = await hookcalls.change_prompt(self._parts.hooks, plan)
        view = partial(view_history, inbound, transcript, rules)
        return PreparedRun(plan, transcript, session, None if found.stored else found, finished=finished, view=view)

    async def write_unknown_results(self, route: Route, item: str, *, idle: bool) -> None:
        """Answer the calls of a message that gets no run any more (`idle`: nor its session). Raises StateError."""
        row, base = await self._parts.store.session(str(route.key)), self._bases.get(route.agent)
        if row is None or base is None:
            return
        transcript = await self._load(SessionRecord.decode(row.data), route, base.agent)
        now, mark = self._parts.clock.now(), transcript.mark()
        lines = [line for result in find_open_calls(transcript, item) for line in transcript.add(result, item, now)]
        try:
            await self._parts.store.write(lines, idle=str(route.key) if idle else "")
        except StateError:
            transcript.rollback(mark, lines)
            raise

    def forget(self, transcript: Transcript) -> None:
        """What it holds may never have reached the disk: the next turn reads it again."""
        self._parts.transcripts.forget(transcript.path)

    async def _open(self, session: SessionRecord, route: Route, inbound: Inbound) -> tuple[Transcript, Inbound]:
        transcript = await self._load(session, route, self._bases[route.agent].agent)
        return transcript, self._shared(inbound, route.key, session, transcript)

    async def _load(self, session: SessionRecord, route: Route, agent: AgentSettings) -> Transcript:
        return await self._parts.transcripts.load(session.path(route.agent), agent.workspace, str(route.key))

    async def _lay_out(
        self, agent: AgentSettings, route: Route, inbound: Inbound, folder: str
    ) -> tuple[ToolSandbox, tuple[FileFact, ...]]:
        """Where its tools work, and what a project there says; everything that a run finds is where it belongs."""
        cell = self.sandboxes.of(agent, route.key, shared=inbound.shared, outsider=inbound.outsider, folder=folder)
        get_persona_watches().put_back(cell.workspace)
        await self._parts.sources.ready(agent, route.key)
        if self._parts.ready is not None:
            await self._parts.ready()
        return cell, self._place.read_project(cell.folder, agent)

    async def _noted(
        self, opening: Opening, claim: RunClaim, route: Route, inbound: Inbound, *, now: int | None
    ) -> Opening:
        """With what goes before the message: what the session is told, and (from `now`) the notes of the last days."""
        return await ask_taped("opening", lambda: self._note(opening, claim, route, inbound, now=now), Opening)

    async def _note(
        self, opening: Opening, claim: RunClaim, route: Route, inbound: Inbound, *, now: int | None
    ) -> Opening:
        if not (inbound.text or inbound.images):
            return opening  # a tool called from outside is told nothing
        if now is not None:
            agent = self._bases[route.agent].agent
            read = partial(read_startup_notes, agent.workspace, now, self._zones[route.agent], agent.startup)
            opening = prepend_preface(opening, get_persona_watches().read_settled(agent.workspace, read) or "")
        told = await self._parts.tell(str(route.key), claim.id) if self._parts.tell else None
        return opening if told is None else prepend_preface(opening, told.text, told.source)

    async def preview(self, key: SessionKey, inbound: Inbound | None = None) -> Prompt:
        """The prompt that such a message (None: the owner's, from where he wrote last) would get as the next of the
        session, hooks aside."""
        base = self._bases[key.agent]
        row = await self._parts.store.session(str(key))
        session = SessionRecord.decode(row.data) if row else SessionRecord.fresh(key, 0, "preview")
        sender, channel = Sender("", owner=key.kind != "group"), session.lastChannel or "terminal"
        asked = inbound or Inbound(Target(channel), sender, "", "", at=0, session=str(key))
        transcript = await self._parts.transcripts.load(session.path(key.agent), base.agent.workspace)
        asked = self._shared(asked, key, session, transcript)
        model = find_asked_model(self._parts.catalog, base.agent, "", session)
        if isinstance(model, ModelFailure):
            model = self._parts.catalog.default(base.agent)
        choice = self._choice(model, NO_INLINE, session, base.agent)
        tools = self.offers.fit_choices((choice,), key, asked, session)[0].tools
        judged = resolve_exec_rules(self._parts.settings, key.agent, session, asked, inline=NO_INLINE)
        folder = get_folder(session, key)
        cell = self.sandboxes.of(base.agent, key, shared=asked.shared, outsider=asked.outsider, folder=folder)
        levels = resolve_show(NO_INLINE, session, read_show(base.agent))
        occasion = make_occasion(asked, key, choice, session, cell=cell.cell.kind)
        project = self._place.read_project(cell.folder, base.agent)
        more = {"reasoning": levels.reasoning, "continued": is_continuation(transcript.messages(), asked)}
        occasion = place_occasion(occasion, cell, project, describe_box(cell.box, judged, tools), **more)
        return self._parts.prompts.prompt(key.agent, tools.values(), occasion)

    async def _taint(
        self, transcript: Transcript, cell: ToolSandbox, project: tuple[FileFact, ...], *, notes: bool, inbound: Inbound
    ) -> tuple[str, ...]:
        own, paths = cell.persona or cell.workspace, name_paths(cell, project)
        kept = await self.marks.taint(transcript, own, notes=notes, project=paths)
        return collect_taint(collect_context(inbound), kept)

    def _shared(self, inbound: Inbound, key: SessionKey, session: SessionRecord, transcript: Transcript) -> Inbound:
        """With the word on whether others than the owner see what comes of it, and on who may use the machine."""
        words = find_said_sources(transcript)
        shared = is_shared(inbound, key, session.extra, words, insiders=self.offers.insiders)
        return replace(inbound, shared=shared, outsider=is_outsider(inbound, self.offers.trusted))

    async def _attached(self, inbound: Inbound, route: Route, cell: ToolSandbox, vision: bool) -> Inbound:
        """With what its images show and its files say."""
        return await ask_taped("attached", lambda: self._attach(inbound, route, cell, vision), Inbound)

    async def _attach(self, inbound: Inbound, route: Route, cell: ToolSandbox, vision: bool) -> Inbound:
        side = self._bases[route.agent].agent.image_side
        if vision:
            # only a person's own words make us fetch: an address that a model wrote could carry away what it knows
            person = route.lane == "main" and not inbound.system and not inbound.source
            limits = ImageLimits(side=side, fetch=self._parts.fetch if person else None, shrink=shrink_image)
            inbound = await add_pictures(inbound, cell.workspace, limits)
        attach = self._parts.attach if inbound.files else None
        folder = locate_inbound_folder(self._parts.settings.home, route.key)
        if attach is None:
            return inbound
        done = await attach(replace(inbound, session=str(route.key)), folder, side, vision)
        return replace(done, session=inbound.session)

    def _settings(
        self,
        base: AgentBase,
        cell: ToolSandbox,
        tools: Mapping[str, Tool],
        inbound: Inbound,
        key: SessionKey,
        judged: ExecRules,
    ) -> ToolSettings:
        """With what the config gives to skills of the agent, and what no tool may say of it."""
        rules = base.settings.taint.narrow(key.agent, inbound.target.channel)
        skills = () if inbound.outsider else self._parts.sources.list_variables(base.agent)
        used = replace(base.settings, background="process" in tools, taint=rules, skills=skills)
        used = apply_sandbox(used, cell, base.agent.tools.exec.env)
        used = open_inbound_files(used, cell, locate_inbound_folder(self._parts.settings.home, key))
        return apply_exec_rules(used, judged, base.settings.exec_env)

    async def _session(self, claim: RunClaim, inbound: Inbound, route: Route) -> CurrentSession | ModelFailure:
        """The session as it stands, or one that begins because the last one's time is over: never in a resumed turn.
        A failure where it cannot work in its folder."""
        parts = self._parts
        row = await ask_taped("session", partial(parts.store.session, str(route.key)), SessionRow | None)
        person = claim.attempts <= 1 and route.lane == "main" and not inbound.system
        ident = read_taped("id", lambda: str(uuid.uuid4()))
        moment = MessageMoment(claim.at, self._zones[route.agent], inbound.target.channel, person)
        found = await find_current_session(
            row,
            route.key,
            parts.settings.session,
            moment,
            ident=ident,
            home=parts.settings.home,
        )
        if found.ended is not None:
            parts.hooks.observe("session_end", make_end_payload(route.key, found.ended, found.record.sessionId))
        if found.is_new:
            parts.hooks.observe("session_start", make_start_payload(route.key, found))
        return settle_folder(found, inbound, route.key, agent=self._bases[route.agent].agent, place=self._place)

    async def _wanted(self, inbound: Inbound, key: SessionKey) -> str:
        agent = self._bases[key.agent].agent
        return await hookcalls.choose_model(
            self._parts.hooks, inbound, key, lambda name: self._parts.catalog.find(name, agent)
        )

    async def _choices(
        self, inbound: Inbound, inline: InlineDirectives, session: SessionRecord, key: SessionKey
    ) -> tuple[ModelCandidate, ...] | ModelFailure:
        """The model and those that may stand in for it, which must be able to do what the message asks."""
        catalog, agent, asked = self._parts.catalog, self._bases[key.agent].agent, apply_options(inbound, inline)
        hooked = await self._wanted(inbound, key)  # the one a plugin asks for
        model = find_asked_model(catalog, agent, asked.model or hooked, session)
        model = check_options(model, inbound, inline, catalog)
        if isinstance(model, ModelFailure):
            return model
        found = (catalog.find(text, agent) for text in agent.fallbacks)
        # A model the person chose is strict: nobody stands in for it.
        strict = bool(asked.model) or (bool(session.modelOverride) and session.modelOverrideSource != "auto")
        others = [] if strict else [m for m in found if isinstance(m, ModelSpec) and m.ref != model.ref]
        others = [m for m in others if not list_missing_controls(m, read_sampling(inbound.options))]
        first = replace(
            self._choice(model, asked, session, agent), why=name_model_chooser(asked.model, hooked, session, agent)
        )
        return first, *(self._choice(m, asked, session, agent) for m in others)

    def _choice(
        self, model: ModelSpec, asked: InlineDirectives, session: SessionRecord, agent: AgentSettings
    ) -> ModelCandidate:
        """The level each layer asks for, fitted to what this model offers."""
        hurry = LevelRequest(asked.fast, session.fastMode, agent.fast_default)
        vendor = self._parts.catalog.rules(model.ref.provider)
        return ModelCandidate(
            model,
            resolve_thinking(model, ask_level(agent, model, session.thinkingLevel, asked.thinking), vendor),
            resolve_fast_mode(model, hurry),
            list_level_ids(find_thinking_profile(model, vendor)),
        )

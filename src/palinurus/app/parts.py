"""Larger parts of the program, each put together of smaller ones: the model port as a run sees it (providers,
cassette, budgets, the watch over the prompt cache, one around the other), who makes room in long conversations, and
what the tools see (`toolbox.py` makes them, with the first run).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Literal, Protocol, cast

import msgspec

from palinurus.agent.compaction.coordinator import CompactionCoordinator, CompactionServices, Mark, Standing
from palinurus.agent.plan.prompt import PromptBuilder, PromptSupplier, PromptSupply
from palinurus.agent.ports import CacheLook
from palinurus.agent.promptcache import CacheWatch, WatchedModel
from palinurus.agent.tapes.deck import TapeDeck, TapedModel
from palinurus.clock import Clock
from palinurus.config.secrets import list_known_secrets
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.channel import Channel
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import Model, ModelFailure
from palinurus.core.types.tool import Tool
from palinurus.late import load_part
from palinurus.plugins.hooks import Hooks
from palinurus.providers.budget import Budgets
from palinurus.providers.cassette import wrap_model
from palinurus.providers.catalog import Catalog
from palinurus.providers.credentials import KeyProfile
from palinurus.providers.meter import MeteredModel
from palinurus.providers.rotation import KeyRotation
from palinurus.providers.speech.maker import SpeechMaker
from palinurus.providers.speech.voices import VoiceFinder
from palinurus.providers.stream import ProviderModels
from palinurus.services.speech import AgentVoices
from palinurus.store.port import Store
from palinurus.taping import ask_taped_now
from palinurus.workspace.sources import PromptSources

if TYPE_CHECKING:  # what tools see is looked at by `toolbox.py`, which is loaded with the first run
    from palinurus.services.inbox import InboxPort
    from palinurus.services.nodes.part import NodesPart
    from palinurus.services.signins import SignInTable
    from palinurus.services.subagents.control import SubagentControl
    from palinurus.sessions.transcript import Transcripts
    from palinurus.tools.canvas.offer import CanvasOffer
    from palinurus.tools.commands.table import CommandTable
    from palinurus.tools.mcp.servers import McpServers
    from palinurus.tools.program.cron import SchedulerPort
    from palinurus.tools.program.recipient import MessagePort
    from palinurus.tools.web.egress import EgressGuard
    from palinurus.tools.web.toolset import WebToolset
    from palinurus.workspace.memory.memories import Memories


class CompactionCallbacks(msgspec.Struct, frozen=True):
    """`standing` says what a session has open besides its messages; `mark` notes what is written under taint."""

    standing: Standing = lambda session: ()
    mark: Mark | None = None


def make_compactions(
    settings: Settings,
    model: Model,
    providers: ProviderModels | None,
    catalog: Catalog,
    hooks: Hooks,
    clock: Clock,
    family: CompactionCallbacks,
) -> CompactionCoordinator:
    """Who makes room in long conversations: the summarising model, the pinned keys, what still stands."""

    def forget(session: str) -> None:
        if providers is not None:
            providers.forget(session)

    shared = (settings.compaction, settings.agents, model, catalog, hooks, clock)
    return CompactionCoordinator(CompactionServices(*shared, family.standing, forget, family.mark))


Defer = Callable[[Callable[[], None]], None]


def make_provider_models(catalog: Catalog, clock: Clock, find_guard: Callable[[], EgressGuard]) -> ProviderModels:
    """Every model there is, with the keys it takes turns with. To be closed by who made it."""

    async def renew(profile: KeyProfile) -> KeyProfile | ModelFailure:
        got: KeyProfile | ModelFailure = await load_part("token-keeper")(catalog, find_guard(), clock).renew(profile)
        return got

    return ProviderModels(catalog, clock, keys=KeyRotation(clock, catalog.settings.home, renew))


class LateSignIns:
    """Sign-ins to vendors and to tool servers, loaded when somebody asks for them."""

    def __init__(self, catalog: Catalog, guard: EgressGuard, clock: Clock, servers: McpServers | None) -> None:
        self._known = (catalog, guard, clock)
        self._servers = servers
        self._vendors: SignInTable | None = None

    def __call__(self, kind: Literal["models", "mcp"]) -> SignInTable | None:
        """None: there are no tool servers."""
        if kind == "models":
            self._vendors = self._vendors or load_part("model-signins")(*self._known)
            return self._vendors
        # who is signed in to servers is asked by their connections, too: the same object, with more to it
        return cast("SignInTable | None", self._servers.tokens) if self._servers is not None else None

    async def close(self) -> None:
        """End those that go on."""
        for table in (self._vendors, self("mcp")):
            if table is not None:
                await table.close()


def wrap_with_cassette(model: Model, environ: Mapping[str, str]) -> Model:
    """With a cassette in between, if PALINURUS_CASSETTE asks for one."""
    return wrap_model(model, environ.get("PALINURUS_CASSETTE", ""))


def make_budgets(settings: Settings, store: Store, clock: Clock) -> Budgets:
    """What may be spent, by whoever asks a model for something."""
    zone = settings.agents[settings.default_agent].user_timezone
    return Budgets(settings.budgets, store, clock, zone, shared=store)


def add_budgets_and_watch(
    model: Model, settings: Settings, budgets: Budgets, store: Store, *, clock: Clock, defer: Defer
) -> tuple[Model, CacheWatch]:
    """Within budgets, and with each request's prefix remembered; the watch is to be flushed at the end."""
    metered = MeteredModel(model, budgets, store.confirm)
    watch = CacheWatch(settings.home, defer=defer)
    return WatchedModel(TapedModel(metered), watch, clock), watch


def make_tapes(
    catalog: Catalog, store: Store, hooks: Hooks, chats: Mapping[str, Channel], *, look: CacheLook
) -> TapeDeck:
    """Which runs are recorded, and without which words."""
    settings = catalog.settings
    secrets = list_known_secrets(settings, catalog.environ)
    deck = TapeDeck(settings.home, settings.record, store, hooks, channels=chats, look=look, secrets=secrets)
    deck.ollama, deck.windows = lambda: catalog.ollama, lambda: catalog.windows
    deck.tokens = catalog.vault.list_secrets
    return deck


def make_supplier(sources: PromptSources) -> PromptSupplier:
    """What a workspace gives to a prompt; of a run on tape, as it was then."""

    def supply(agent: AgentSettings, key: SessionKey) -> PromptSupply:
        return ask_taped_now("supply", lambda: PromptSupply(*sources(agent, key)), PromptSupply)

    return supply


def make_prompts(settings: Settings, catalog: Catalog, sources: PromptSources, voices: AgentVoices) -> PromptBuilder:
    """Who writes system prompts."""
    return PromptBuilder(settings, catalog, make_supplier(sources), speech=voices.find_mode)


class PicturesPart(Protocol):
    """`app/pictures.py: PictureMaker`, which is loaded where an agent has a model that makes pictures."""

    def make_tools(self, egress: EgressGuard) -> dict[str, Tool]: ...

    async def close(self) -> None: ...


class ToolboxViews(msgspec.Struct, frozen=True):
    """What tools may see of the program."""

    settings: Settings
    store: Store
    catalog: Catalog
    clock: Clock
    environ: Mapping[str, str]
    memory: Memories
    inbox: InboxPort
    processes: CommandTable  # commands that run in the background
    web: WebToolset  # the one network door and what goes through it
    canvas: CanvasOffer  # what is shown, and the browser that takes pictures of it
    nodes: NodesPart
    model: Model  # for the image tool
    transcripts: Transcripts
    subagents: SubagentControl  # who keeps sub-agents
    schedules: SchedulerPort  # who keeps jobs
    voices: AgentVoices  # who speaks
    pictures: PicturesPart | None = None  # who makes pictures
    post: MessagePort | None = None  # who writes to chats
    restart: Callable[[float], None] | None = None  # begin again in so many seconds, where there is a gateway


class ToolTable(MutableMapping[str, Tool]):
    """Every tool by its name. They are made when somebody first looks: a gateway that waits has no use for them."""

    def __init__(self, make: Callable[[], dict[str, Tool]]) -> None:
        self._make = make
        self._made: dict[str, Tool] | None = None

    @property
    def _all(self) -> dict[str, Tool]:
        if self._made is None:
            self._made = self._make()
        return self._made

    def __getitem__(self, name: str) -> Tool:
        return self._all[name]

    def __setitem__(self, name: str, tool: Tool) -> None:
        self._all[name] = tool

    def __delitem__(self, name: str) -> None:
        del self._all[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)


def make_voices(
    settings: Settings, catalog: Catalog, store: Store, env: Mapping[str, str], channels: Mapping[str, Channel]
) -> AgentVoices:
    """Who speaks for the agents. `env` is the environment of commands."""
    finder = VoiceFinder(catalog, env)
    maker = SpeechMaker(finder, env, settings.home)
    return AgentVoices(settings, catalog, store, maker, finder=finder, channels=channels)


def make_pictures(settings: Settings, catalog: Catalog, budgets: Budgets) -> PicturesPart | None:
    """Who makes pictures; None where no agent has a model for that. To be closed by who asked."""
    if not any(agent.pictures.models for agent in settings.agents.values()):
        return None
    made: PicturesPart = load_part("pictures")(settings, catalog, budgets)
    return made

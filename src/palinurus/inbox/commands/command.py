"""What commands see of the program, and the values they are called with and answer with.

A command is `async def run(call: Call) -> Answer`; it changes nothing itself but what its file says. The change
of the session's record goes to disk together with the outcome, so a command cut off by a crash is just run again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

import msgspec

from palinurus.agent.compaction.coordinator import CompactionCoordinator
from palinurus.agent.editors import EditorDesk
from palinurus.agent.invoke import DirectToolCaller
from palinurus.agent.plan.offer import list_insiders
from palinurus.agent.promptcache import CacheSnapshot
from palinurus.agent.tapes.deck import TapeDeck
from palinurus.clock import Clock
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.policy.audience import is_shared
from palinurus.core.prompt.bootstrap import BootstrapWeight
from palinurus.core.skills.skill import Skill
from palinurus.core.speech import SpokenText
from palinurus.core.types.caller import ADMIN
from palinurus.core.types.inbound import Attachment, Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import Model, Prompt
from palinurus.core.types.outbound import Reply
from palinurus.core.types.tool import Tool
from palinurus.inbox.attachments import TranscriberPort
from palinurus.inbox.receivers import ChatChannels
from palinurus.plugins.hooks import Hooks
from palinurus.plugins.peer import PluginPrompt, PluginResource
from palinurus.providers.catalog import Catalog
from palinurus.services.approvals import ApprovalBoard
from palinurus.services.inbox import InboxPort
from palinurus.services.nodes.part import NodesPart
from palinurus.services.speech import AgentVoices
from palinurus.services.subagents.control import SubagentControl
from palinurus.sessions.record import SessionRecord
from palinurus.sessions.transcript import Transcripts
from palinurus.store.port import RunClaim, SessionRow, Store, UsageRow
from palinurus.tools.canvas.offer import CanvasOffer
from palinurus.tools.commands.table import CommandTable
from palinurus.tools.program.cron import SchedulerPort
from palinurus.tools.program.memory import MemoryPort
from palinurus.workspace.sources import SkillStock

if TYPE_CHECKING:
    from palinurus.services.signins import SignInTable
    from palinurus.store.fleet import FleetPort
    from palinurus.tools.mcp.servers import McpServers

Scope: TypeAlias = Literal["any", "owner"]
# Texts to vectors, or why there are none.
Embed: TypeAlias = Callable[[Sequence[str]], Awaitable[list[list[float]] | str]]
# (name, kind, bytes) of a file: where it is now, or why it is not.
KeepFile: TypeAlias = Callable[[str, str, bytes], Awaitable[Attachment | str]]
# Replies as messages that the channel takes.
FitReplies: TypeAlias = Callable[[Inbound, tuple[Reply, ...]], tuple[Reply, ...]]
# (path, whose words it holds)
MarkFile: TypeAlias = Callable[[str, tuple[str, ...]], Awaitable[None]]
INTERNAL: frozenset[str] = frozenset(("http", "terminal", "webchat", "gateway"))


class ForeignHomesPort(Protocol):
    """Homes of other agent programs on this machine."""

    async def look(self) -> list[dict[str, Any]]:
        """Every one, with counts of what is in it, how much has come over, and the last report."""
        ...

    async def bring(self, program: str) -> dict[str, Any]:
        """All of one; the report. Raises PalinurusError."""
        ...


class SignInsByKind(Protocol):
    """Who signs in where; loaded when somebody asks."""

    def __call__(self, kind: Literal["models", "mcp"]) -> SignInTable | None:
        """None: there is nothing of that kind."""
        ...


class CommandContext(msgspec.Struct, frozen=True):
    """What commands may use."""

    settings: Settings
    environ: Mapping[str, str]
    catalog: Catalog
    store: Store
    hooks: Hooks
    clock: Clock
    transcripts: Transcripts
    inbox: InboxPort
    tools: Mapping[str, Tool] = {}
    # the prompt that such a message would get as the next
    prompt_report: Callable[[SessionKey, Inbound | None], Awaitable[Prompt]] | None = None
    skills: Callable[[SessionKey], Sequence[Skill]] = lambda key: ()  # those the agent can use
    files: Callable[[SessionKey], tuple[BootstrapWeight, ...]] | None = (
        None  # workspace files, on disk and in that prompt
    )
    approvals: ApprovalBoard | None = None  # open approvals
    changed: Callable[[str, SessionRecord], None] = lambda key, record: None  # told of a session's new record
    fitted: FitReplies = lambda inbound, replies: replies
    commands: Mapping[str, ChatCommand] = {}  # of plugins, besides the table
    resources: Mapping[str, PluginResource] = {}  # of plugins, for other agents
    prompts: Mapping[str, PluginPrompt] = {}
    compactions: CompactionCoordinator | None = None  # who makes room in long conversations
    subagents: SubagentControl | None = None  # who keeps sub-agents
    stock: Callable[[str], SkillStock] | None = None  # an agent's skills as they stand, those that cannot be used too
    processes: CommandTable | None = None  # commands that run or ran a short while ago
    recall: MemoryPort | None = None  # where memory is
    embed: Embed | None = None  # texts as vectors
    schedules: SchedulerPort | None = None  # who keeps jobs and heartbeats
    keep: KeepFile | None = None  # puts a file that a client sent on disk
    chats: ChatChannels | None = None  # the chat channels: who is let in, which run
    voices: AgentVoices | None = None  # who reads aloud
    canvas: CanvasOffer | None = None  # pages that agents show
    nodes: NodesPart | None = None  # other machines that do something for the agent
    editors: EditorDesk | None = None  # editors that lend their hands to sessions
    fleet: FleetPort | None = None  # the nodes that share our state
    ears: TranscriberPort | None = None  # who writes down what is spoken
    invoke: DirectToolCaller | None = None  # one tool, without a run
    toolservers: McpServers | None = None  # MCP servers, where some are configured
    logins: SignInsByKind | None = None  # signing in to vendors and to tool servers
    homes: Callable[[], ForeignHomesPort] | None = None  # homes of other programs, loaded when somebody asks
    tapes: TapeDeck | None = None  # which runs are recorded
    learn: tuple[Model, MarkFile] | None = None  # who is asked what to remember, and who marks files as tainted
    restart: Callable[[float], None] | None = None  # begin again in so many seconds, where there is a gateway
    look: Callable[[str], CacheSnapshot | None] = lambda session: None  # a session's last request (by its id)


class CommandCall(msgspec.Struct, frozen=True):
    """One command, as given."""

    program: CommandContext
    claim: RunClaim
    inbound: Inbound
    key: SessionKey
    record: SessionRecord
    stored: bool  # the record is on disk
    name: str = ""  # canonical
    args: str = ""  # what stands behind the name, as written
    table: Mapping[str, ChatCommand] = {}

    @property
    def agent(self) -> AgentSettings:
        return self.program.settings.agents[self.key.agent]

    @property
    def admin(self) -> bool:
        return is_admin(self.inbound)

    @property
    def behind(self) -> str:
        """Itself, if a kill cut it off: what was accepted since is none of what it stops."""
        return self.claim.id if self.claim.attempts > 1 else ""

    @property
    def shared(self) -> bool:
        """Would others than the owner see what comes of the session's next turn?"""
        insiders = list_insiders(self.program.settings)
        return is_shared(self.inbound, self.key, self.record.extra, (), insiders=insiders)


class CommandAnswer(msgspec.Struct, frozen=True):
    """What to say. `record` is the session's new record; `follow` a message to run after it."""

    text: str
    record: SessionRecord | None = None
    follow: Inbound | None = None
    relay: bool = True  # a client that waits gets the answer to `follow` (else only `text`)
    spent: tuple[UsageRow, ...] = ()  # model calls the command made
    speak: SpokenText | None = None  # to be said aloud, behind the text
    patch: SessionRow | None = None  # how `record` differs from what the command saw (JSON merge patch)


class ChatCommand(msgspec.Struct, frozen=True):
    """One row of the table. `run` None: a directive, which the level parser understands."""

    name: str
    help: str
    run: Callable[[CommandCall], Awaitable[CommandAnswer]] | None = None
    usage: str = ""
    aliases: tuple[str, ...] = ()
    scope: Scope = "any"
    group: str = "session"


def is_admin(inbound: Inbound) -> bool:
    """May this sender change what outlives a reply everywhere: the owner, or a client with operator.admin?"""
    return inbound.sender.may(ADMIN)


def is_internal(inbound: Inbound) -> bool:
    """Did it come through one of our own clients, not a chat channel?"""
    return not inbound.push or inbound.target.channel in INTERNAL

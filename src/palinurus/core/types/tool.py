"""Tools: what the model is told, what the program may do with them, and the port they are called through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from palinurus.core.text import blank_values
from palinurus.core.types.approval import ApprovalAnswer, ApprovalRequest, CallJudgement, ExecRules, TaintRules
from palinurus.core.types.changes import ChangeRules
from palinurus.core.types.editor import EditorPort
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.sandbox import SandboxSpec

# What may be repeated after a crash: pure (reads only), idempotent (same effect again), effect (never by itself).
ToolEffect: TypeAlias = Literal["pure", "idempotent", "effect"]


class ToolReach(msgspec.Struct, frozen=True):
    """What a tool says of itself for the gate (docs/security.md). A tool without one is taken at its worst: it reaches
    out, every argument decides, and its results may hold anybody's words."""

    extent: Literal["mine", "out", "asks"] = "out"  # mine: stays with the owner; asks: whom it asks learns `to`
    to: tuple[str, ...] | None = None  # the arguments that say where it goes or what it is done to; None: all
    own: bool = False  # no outsider can write into its results: they do not taint, and what they name is given
    upto: tuple[str, ...] = ()  # amounts: "always" holds up to the one that was seen
    undo: bool = False  # mine, and easily undone: it passes when it was asked for, whoever gave the values
    books: tuple[
        str, ...
    ] = ()  # tools that list what passed between the owner and others: amounts no outsider makes up


class ToolSpec(msgspec.Struct, frozen=True):
    """The model's view: name, description, JSON schema of the arguments."""

    name: str
    description: str
    parameters: dict[str, Any]


class ToolOutput(msgspec.Struct, frozen=True):
    """What a tool returns. `terminate` ends the run after the batch if every result in it says so."""

    content: tuple[TextBlock | ImageBlock, ...]
    details: Any = None
    is_error: bool = False
    terminate: bool = False
    source: str = ""  # where untrusted content in it came from ("web", "file", "memory", …); "" = our own words
    chars: int = 0  # how much text of it the model is shown at most; 0 = as much as of any other


def make_output(text: str, details: Any = None, *, error: bool = False) -> ToolOutput:
    """One text block."""
    return ToolOutput((TextBlock(text),), details, error)


def make_json_output(body: Any, *, error: bool = False, source: str = "") -> ToolOutput:
    """A JSON value: as text for the model, as details for programs."""
    return ToolOutput((TextBlock(msgspec.json.encode(body).decode()),), body, error, source=source)


class ToolFailure(Exception):
    """A tool's own way to fail: the text goes to the model as an error result. Nothing else may escape a tool."""


class ToolContext(Protocol):
    """All a tool sees of the system. Cancelling the task it runs in is the abort signal."""

    @property
    def workspace(self) -> str:
        """Absolute path of the working directory."""
        ...

    @property
    def agent(self) -> str: ...

    @property
    def session(self) -> str:
        """The session key in its stored form."""
        ...

    @property
    def run(self) -> str: ...

    @property
    def item(self) -> str:
        """The inbox id of the message this turn answers: the same when a run is taken up again after a crash."""
        ...

    @property
    def call(self) -> str:
        """The tool call's id."""
        ...

    @property
    def trusted(self) -> bool:
        """Was the turn asked for by somebody whose directives act?"""
        ...

    @property
    def inbound(self) -> Inbound:
        """The message this turn answers: who sent it, and where."""
        ...

    @property
    def deferred(self) -> Mapping[str, Tool]:
        """Tools that this run has and the model is not told of."""
        ...

    @property
    def taint(self) -> tuple[str, ...]:
        """Where untrusted content that the model has seen came from; () = none so far."""
        ...

    def may_leak(self, url: str) -> bool:
        """Could fetching this address tell its host something of the conversation?"""
        ...

    def file_taint(self, path: str) -> tuple[str, ...]:
        """Where content of a remembered file came from, if it was written under taint. A real path."""
        ...

    @property
    def has_marks(self) -> bool:
        """Does any file have such a mark? If not, none has to be found by its name."""
        ...

    def mark(self, path: str) -> Awaitable[None]:
        """Remember that this file, or all of a folder, was written under the present taint."""
        ...

    def marked_below(self, folder: str) -> tuple[str, ...]:
        """Files and folders there that were written after content from outside was read, and nobody has seen since."""
        ...

    def unmark(self, paths: tuple[str, ...]) -> Awaitable[None]:
        """The owner has seen them."""
        ...

    def confirm(self) -> Awaitable[None]:
        """Return when the run is certainly still this program's. Raises StateBroken."""
        ...

    def judge(self, tool: Tool, args: dict[str, Any]) -> CallJudgement:
        """Who gave the values that decide about this call, and whether the owner asked for such a thing."""
        ...

    def is_asked_for(self, tool: Tool) -> Awaitable[bool]:
        """Do the owner's words ask for what it does, by the judgement of a model that sees nothing else? False where
        that is not wished for (`tools.taint.intent`)."""
        ...

    def has_called(self, tool: str, action: str) -> bool:
        """Has this conversation done so already, with success?"""
        ...

    def has_read(self, path: str) -> bool:
        """Has the `read` tool shown this file in this conversation? A real path."""
        ...

    @property
    def tainted_at(self) -> int:
        """When untrusted content came into this conversation, as far back as it is still known (milliseconds)."""
        ...

    @property
    def settings(self) -> ToolSettings: ...

    def ask(self, ask: ApprovalRequest) -> Awaitable[ApprovalAnswer]:
        """Put a question to a person and wait. Where nobody can be asked, the answer says so at once."""
        ...

    def now(self) -> int:
        """Wall clock, milliseconds since the epoch: the time stamp of the result."""
        ...

    def update(self, partial: str) -> None:
        """Show progress; may be called often, is throttled by the receiver."""
        ...


class SkillVariables(msgspec.Struct, frozen=True):
    """What the config gives to commands of one skill. `path` is its SKILL.md, a real path."""

    path: str
    env: dict[str, str]

    def __repr__(self) -> str:
        return f"SkillVariables({self.path!r}, {sorted(self.env)})"


class HiddenTexts(msgspec.Struct, frozen=True):
    """Texts that nobody is to see: `blank` takes them out of what a tool says."""

    values: tuple[str, ...] = ()
    more: Callable[[], tuple[str, ...]] = tuple  # those that change while we run: tokens of sign-ins

    def blank(self, told: Any) -> Any:
        """A text, or a JSON value, without them."""
        hidden = (*self.more(), *self.values)
        return blank_values(told, hidden) if hidden else told

    def __repr__(self) -> str:
        return f"HiddenTexts({len(self.values)})"


class ToolSettings(msgspec.Struct, frozen=True):
    """The part of the config tools need, resolved once per run."""

    workspace_only: bool = False
    patch_workspace_only: bool = True  # the same for apply_patch alone
    exec_timeout: float = 1800.0
    exec_env: dict[str, str] = {}  # the whole environment of children: built from an allowlist, never inherited
    skills: tuple[SkillVariables, ...] = ()  # goes below `exec_env`, once the skill has been read
    secrets: HiddenTexts = HiddenTexts()  # are blanked in all that tools say
    shell: str = "/bin/sh"
    background: bool = True  # commands may go on in the background: the process tool is there to follow them
    result_chars: int = 16_000
    results: str = ""  # where whole results are kept: begin of the file names; "" = nowhere
    readable: tuple[str, ...] = ()  # folders of the protected ones that may be read: installed skills
    received: tuple[str, ...] = ()  # folders of the protected ones with what people sent: may be read, and taints
    persona: str = ""  # the agent's own workspace, where the session works in another folder; "": it is the same
    protected: tuple[str, ...] = ()  # absolute paths tools may not touch (the state directory)
    rules: ExecRules = ExecRules()  # how commands are judged before they run
    cell: SandboxSpec = SandboxSpec()  # what children of tools may do; handed to tools/sandbox/launch
    taint: TaintRules = TaintRules()  # what untrusted content in the turn is a reason to ask about
    changes: ChangeRules = ChangeRules()  # what is kept of files that calls change
    editor: EditorPort | None = None  # where people look at the same files


class Tool(msgspec.Struct, frozen=True):
    """A tool: `await run(ctx, **arguments)`, arguments already coerced and checked against `parameters`.

    `run` returns ToolOutput or raises ToolFailure; other exceptions become an error result in `tools/call`
    and a line in the log.
    """

    name: str
    description: str
    parameters: dict[str, Any]
    run: Callable[..., Awaitable[ToolOutput]]
    effect: ToolEffect = "effect"
    sequential: bool = False  # True makes the whole batch sequential
    summary: Callable[[dict[str, Any]], str] | None = None  # arguments -> short text for progress lines
    aliases: dict[str, str] = {}  # other argument names models tend to use -> ours
    origin: str = ""  # "" = ours, else the id of the plugin it comes from; `bundle-mcp…` for MCP servers
    owner: bool = False  # for the owner only
    reach: ToolReach | None = None  # how far its effect goes, and what decides about it
    idle: str = ""  # why it can do nothing here yet; the prompt does not speak of such a tool
    deferred: bool = False  # not told to the model, which finds it with tool_search and calls it with tool_call
    missing: str = ""  # what it needs and this machine does not have: nobody is offered it

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(self.name, self.description, self.parameters)


TOOL_CALL = "tool_call"  # the tool that calls those which are not told


def list_specs(tools: Iterable[Tool]) -> tuple[ToolSpec, ...]:
    """What the model is told of them."""
    return tuple(tool.spec for tool in tools if not tool.deferred)


class LateTool(Tool, frozen=True):
    """A tool whose parameters are made when they are first asked for: `schema` says them, the same each time."""

    schema: Callable[[], dict[str, Any]] = dict

    @property  # type: ignore[misc]
    def parameters(self) -> dict[str, Any]:
        return self.schema()

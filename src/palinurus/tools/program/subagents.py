"""agents_list, sessions_spawn, subagents, sessions_yield: starting sub-agents, looking after them, waiting for them.

Made for ports, which know what may be started and keep it alive. Nothing here waits for a sub-agent.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from palinurus.core.signature import pick_one
from palinurus.core.types.inbound import Inbound, Sender
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_json_output, make_output
from palinurus.tools.define import bind_tools, define_tool
from palinurus.tools.files.paths import shorten_path

RECENT = 30  # minutes
FILES = 50
_ELSEWHERE = ("target", "channel", "to", "threadId", "replyTo", "deliver")


class AgentListing(NamedTuple):
    """An agent, as another one is told of it."""

    id: str
    name: str
    configured: bool


class AgentsPort(Protocol):
    """Who knows the agents."""

    def agents(self, caller: str) -> tuple[bool, list[AgentListing]]:
        """For the agent `caller`: may it start any agent, and which there are for it, itself first."""


class SubagentAttachment(msgspec.Struct, frozen=True):
    """A file put into a sub-agent's workspace."""

    name: Annotated[str, Meta(description="File name, without folders")]
    content: Annotated[str, Meta(description="What is in it")]
    encoding: Annotated[str, pick_one("How content is written (utf8)", "utf8", "base64")] = "utf8"
    mimeType: Annotated[str, Meta(description="Its type, for the sub-agent to know")] = ""


class SpawnOrder(msgspec.Struct, frozen=True):
    """What is wanted. `caller` is the key of the session that asks, `asker` the message its turn answers."""

    caller: str
    call: str
    asker: Inbound
    task: str
    label: str = ""
    agent: str = ""
    model: str = ""
    thinking: str = ""
    timeout: float | None = None
    delete: bool = False
    fork: bool = False
    boxed: bool = False  # only in a sandbox
    attachments: tuple[SubagentAttachment, ...] = ()
    taint: tuple[str, ...] = ()  # where untrusted content came from that the caller has seen


class SteeringWords(msgspec.Struct, frozen=True):
    """What one is to do instead; who says so, and where; and where untrusted content came from that they have seen."""

    target: str
    message: str
    sender: Sender
    channel: str
    taint: tuple[str, ...] = ()


class SubagentsPort(Protocol):
    """Who keeps the sub-agents. `caller` is the key of the session that asks; it reaches only its own."""

    async def spawn(self, order: SpawnOrder) -> dict[str, Any]:
        """status accepted (childSessionKey, runId, mode), forbidden or error (error)."""

    def count_waiting(self, caller: str) -> int:
        """Sub-agents of the session whose results it has not been told yet."""

    async def list_subagents(self, caller: str, minutes: int) -> dict[str, Any]:
        """Those at work, and those that ended in the last minutes."""

    async def kill(self, caller: str, target: str) -> dict[str, Any]: ...

    async def steer(self, caller: str, words: SteeringWords) -> dict[str, Any]: ...


@define_tool("agents_list", effect="pure")
async def _agents(agents: AgentsPort, /, ctx: ToolContext) -> ToolOutput:
    """List the agents that sub-agents may be started of from here (agentId of sessions_spawn)."""
    anyone, found = agents.agents(ctx.agent)
    body = {"requester": ctx.agent, "allowAny": anyone, "agents": [agent._asdict() for agent in found]}
    return make_output(msgspec.json.format(msgspec.json.encode(body), indent=2).decode(), body)


class SpawnArguments(msgspec.Struct, frozen=True):
    """The arguments of sessions_spawn."""

    task: Annotated[str, "What it is to do, with all it needs to know"]
    label: Annotated[str, "A short name, for lists"] = ""
    agentId: Annotated[str, "Which agent it is to be (this one); agents_list shows the others"] = ""
    model: Annotated[str, "Another model than the agent's"] = ""
    thinking: Annotated[str, "Another thinking level than the agent's"] = ""
    runTimeoutSeconds: Annotated[float, Meta(ge=0, description="Stop it after this; 0 = no limit")] | None = None
    cleanup: Annotated[str, pick_one("What becomes of its session afterwards (keep)", "keep", "delete")] = ""
    context: Annotated[
        str, pick_one("fork: it knows this conversation; isolated: only its task", "isolated", "fork")
    ] = ""
    sandbox: Annotated[str, pick_one("require: only if it runs in a sandbox", "inherit", "require")] = ""
    mode: Annotated[str, pick_one("run: one task, then it ends", "run", "session")] = ""
    attachments: Annotated[
        tuple[SubagentAttachment, ...], Meta(max_length=FILES, description="Files put into its workspace")
    ] = ()


@define_tool(
    "sessions_spawn",
    effect="idempotent",
    summary=("label", "task"),
    aliases={
        "agentId": "agent agent_id",
        "task": "prompt",
        "label": "taskName",
        "runTimeoutSeconds": "timeoutSeconds timeout",
    },
)
async def _spawn(subagents: SubagentsPort, /, ctx: ToolContext, args: SpawnArguments, **other: Any) -> ToolOutput:
    """Start a sub-agent for one task, in a session of its own. Returns at once; its result is pushed to you when it has
    ended. The task must be understandable without this conversation, unless context is fork."""
    if not args.task.strip():
        raise ToolFailure("task is empty")
    elsewhere = [name for name in _ELSEWHERE if other.get(name) not in (None, "")]
    if elsewhere:
        raise ToolFailure(
            f"{', '.join(elsewhere)}: a sub-agent writes to nobody; its result comes back here, and you pass it on"
        )
    if args.mode == "session" or other.get("thread"):
        raise ToolFailure("a sub-agent does one task and ends (mode run); threads of its own are not available here")
    order = SpawnOrder(
        ctx.session,
        ctx.call,
        ctx.inbound,
        args.task,
        label=args.label.strip(),
        agent=args.agentId.strip().lower(),
        model=args.model.strip(),
        thinking=args.thinking.strip(),
        timeout=args.runTimeoutSeconds,
        delete=args.cleanup == "delete",
        fork=args.context == "fork",
        boxed=args.sandbox == "require",
        attachments=args.attachments,
        taint=ctx.taint,
    )
    return _told(await subagents.spawn(order))


@define_tool(
    "subagents",
    summary=lambda args: shorten_path(f"{args.get('action') or 'list'} {args.get('target') or ''}".strip()),
    aliases={"target": "id runId sessionKey", "message": "text"},
)
async def _subagents(
    subagents: SubagentsPort,
    /,
    ctx: ToolContext,
    action: Annotated[str, pick_one("What to do (list)", "list", "kill", "steer")] = "list",
    target: Annotated[str, "Which: its number in the list, label, run id or session key; kill also takes all"] = "",
    message: Annotated[str, "With steer: what it should do"] = "",
    recentMinutes: Annotated[
        int, Meta(ge=1, le=1440, description=f"With list: how long ago they may have ended ({RECENT})")
    ] = RECENT,
) -> ToolOutput:
    """Look after the sub-agents of this session: list them, kill one (and those it started), or steer one: it is
    interrupted and goes on with your message."""
    target, message = target.strip(), message.strip()
    if action == "list":
        return _told(await subagents.list_subagents(ctx.session, recentMinutes))
    if not target:
        raise ToolFailure(f"say which one: target (number, label, run id or session key; `all` for {action} of all)")
    if action == "kill":
        return _told(await subagents.kill(ctx.session, target))
    if not message:
        raise ToolFailure("say what it should do instead: message")
    words = SteeringWords(target, message, ctx.inbound.sender, ctx.inbound.target.channel, taint=ctx.taint)
    return _told(await subagents.steer(ctx.session, words))


@define_tool("sessions_yield", effect="pure")
async def _yield(
    subagents: SubagentsPort,
    /,
    ctx: ToolContext,
    message: Annotated[str, "A note to yourself on what you wait for"] = "",
) -> ToolOutput:
    """End this turn now and wait: the results of your sub-agents come as messages. Use it when there is nothing to do
    before they have ended."""
    waiting = subagents.count_waiting(ctx.session)
    if not waiting:
        raise ToolFailure("no sub-agent of this session is at work: there is nothing to wait for")
    body = {"status": "yielded", "waitingFor": waiting, **({"message": message} if message else {})}
    return msgspec.structs.replace(_told(body), terminate=True)


def _told(body: dict[str, Any]) -> ToolOutput:
    return make_json_output(body, error=body.get("status") in ("error", "forbidden"))


def make_agents_tool(agents: AgentsPort) -> dict[str, Tool]:
    """The tool, by its name."""
    return bind_tools((_agents,), agents)


def make_subagent_tools(subagents: SubagentsPort) -> dict[str, Tool]:
    """The three tools, by name."""
    return bind_tools((_spawn, _subagents, _yield), subagents)

"""sessions_spawn, subagents, sessions_yield: starting sub-agents, looking after them, waiting for them.

Made for a `Nest`, which knows what may be started and keeps it alive. Nothing here waits for a sub-agent.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import msgspec

from palinurus.core.types.inbound import Inbound
from palinurus.core.types.messages import TextBlock
from palinurus.core.types.tool import Tool, ToolContext, ToolFailure, ToolOutput, make_output
from palinurus.tools.files.paths import shorten_path

# agents_list: which agents a session may start sub-agents of. Made for an `Agents`; knows no config.


class AgentListing(NamedTuple):
    id: str
    name: str
    configured: bool


class AgentsPort(Protocol):
    """Who knows the agents."""

    def agents(self, caller: str) -> tuple[bool, list[AgentListing]]:
        """For the agent `caller`: may it start any agent, and which there are for it, itself first."""
        ...


def make_agents_tool(agents: AgentsPort) -> dict[str, Tool]:
    """The tool, by its name."""
    tool = msgspec.structs.replace(_TOOL, run=partial(_list, agents))
    return {tool.name: tool}


async def _list(agents: AgentsPort, ctx: ToolContext) -> ToolOutput:
    anyone, found = agents.agents(ctx.agent)
    body = {"requester": ctx.agent, "allowAny": anyone, "agents": [agent._asdict() for agent in found]}
    return make_output(msgspec.json.format(msgspec.json.encode(body), indent=2).decode(), body)


async def _agents_nobody(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("nobody knows about agents here")


_TOOL = Tool(
    name="agents_list",
    description="List the agents that sub-agents may be started of from here (agentId of sessions_spawn).",
    parameters={"type": "object", "properties": {}},
    run=_agents_nobody,
    effect="pure",
)


RECENT = 30  # minutes
FILES = 50
_ELSEWHERE = ("target", "channel", "to", "threadId", "replyTo", "deliver")


class SubagentAttachment(msgspec.Struct, frozen=True):
    name: str
    content: str
    encoding: str = "utf8"
    mimeType: str = ""


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


class SubagentsPort(Protocol):
    """Who keeps the sub-agents. `caller` is the key of the session that asks; it reaches only its own."""

    async def spawn(self, order: SpawnOrder) -> dict[str, Any]:
        """status accepted (childSessionKey, runId, mode), forbidden or error (error)."""
        ...

    def count_waiting(self, caller: str) -> int:
        """Sub-agents of the session whose results it has not been told yet."""
        ...

    async def list_subagents(self, caller: str, minutes: int) -> dict[str, Any]:
        """Those at work, and those that ended in the last minutes."""
        ...

    async def kill(self, caller: str, target: str) -> dict[str, Any]: ...

    async def steer(self, caller: str, target: str, message: str) -> dict[str, Any]: ...


def make_subagent_tools(nest: SubagentsPort) -> dict[str, Tool]:
    """The three tools, by name."""
    runs: dict[str, Callable[..., Awaitable[ToolOutput]]] = {
        "sessions_spawn": _spawn,
        "subagents": _subagents,
        "sessions_yield": _yield,
    }
    return {tool.name: msgspec.structs.replace(tool, run=partial(runs[tool.name], nest)) for tool in _TOOLS}


async def _spawn(nest: SubagentsPort, ctx: ToolContext, task: str, **args: Any) -> ToolOutput:
    """Raises ToolFailure."""
    if not task.strip():
        raise ToolFailure("task is empty")
    elsewhere = [name for name in _ELSEWHERE if args.get(name) not in (None, "")]
    if elsewhere:
        raise ToolFailure(
            f"{', '.join(elsewhere)}: a sub-agent writes to nobody; its result comes back here, and you pass it on"
        )
    if args.get("mode") == "session" or args.get("thread"):
        raise ToolFailure("a sub-agent does one task and ends (mode run); threads of its own are not available here")
    order = SpawnOrder(
        ctx.session,
        ctx.call,
        ctx.inbound,
        task,
        str(args.get("label") or args.get("taskName") or "").strip(),
        str(args.get("agentId") or "").strip().lower(),
        str(args.get("model") or "").strip(),
        str(args.get("thinking") or "").strip(),
        args.get("runTimeoutSeconds"),
        args.get("cleanup") == "delete",
        args.get("context") == "fork",
        args.get("sandbox") == "require",
        tuple(msgspec.convert(one, SubagentAttachment) for one in args.get("attachments") or ()),
        ctx.taint,
    )
    return _said(await nest.spawn(order))


async def _subagents(nest: SubagentsPort, ctx: ToolContext, action: str = "list", **args: Any) -> ToolOutput:
    """Raises ToolFailure."""
    target, message = str(args.get("target") or "").strip(), str(args.get("message") or "").strip()
    if action == "list":
        return _said(await nest.list_subagents(ctx.session, args.get("recentMinutes") or RECENT))
    if not target:
        raise ToolFailure(f"say which one: target (number, label, run id or session key; `all` for {action} of all)")
    if action == "kill":
        return _said(await nest.kill(ctx.session, target))
    if not message:
        raise ToolFailure("say what it should do instead: message")
    return _said(await nest.steer(ctx.session, target, message))


async def _yield(nest: SubagentsPort, ctx: ToolContext, message: str = "") -> ToolOutput:
    """Raises ToolFailure."""
    open_ = nest.count_waiting(ctx.session)
    if not open_:
        raise ToolFailure("no sub-agent of this session is at work: there is nothing to wait for")
    body = {"status": "yielded", "waitingFor": open_, **({"message": message} if message else {})}
    return msgspec.structs.replace(_said(body), terminate=True)


def _said(body: dict[str, Any]) -> ToolOutput:
    return ToolOutput(
        (TextBlock(msgspec.json.encode(body).decode()),), body, body.get("status") in ("error", "forbidden")
    )


async def _nobody(ctx: ToolContext, **_: Any) -> ToolOutput:
    raise ToolFailure("nobody keeps sub-agents here")


def _text(words: str) -> dict[str, Any]:
    return {"type": "string", "description": words}


def _one_of(words: str, *choices: str) -> dict[str, Any]:
    return {"type": "string", "enum": list(choices), "description": words}


_ATTACHMENT = {
    "type": "object",
    "properties": {
        "name": _text("File name, without folders"),
        "content": _text("What is in it"),
        "encoding": _one_of("How content is written (utf8)", "utf8", "base64"),
        "mimeType": _text("Its type, for the sub-agent to know"),
    },
    "required": ["name", "content"],
}
_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="sessions_spawn",
        description=(
            "Start a sub-agent for one task, in a session of its own. Returns at once; its result is pushed to you "
            "when it has ended. The task must be understandable without this conversation, unless context is fork."
        ),
        parameters={
            "type": "object",
            "properties": {
                "task": _text("What it is to do, with all it needs to know"),
                "label": _text("A short name, for lists"),
                "agentId": _text("Which agent it is to be (this one); agents_list shows the others"),
                "model": _text("Another model than the agent's"),
                "thinking": _text("Another thinking level than the agent's"),
                "runTimeoutSeconds": {
                    "type": "number",
                    "minimum": 0,
                    "description": "Stop it after this; 0 = no limit",
                },
                "cleanup": _one_of("What becomes of its session afterwards (keep)", "keep", "delete"),
                "context": _one_of("fork: it knows this conversation; isolated: only its task", "isolated", "fork"),
                "sandbox": _one_of("require: only if it runs in a sandbox", "inherit", "require"),
                "mode": _one_of("run: one task, then it ends", "run", "session"),
                "attachments": {
                    "type": "array",
                    "maxItems": FILES,
                    "items": _ATTACHMENT,
                    "description": "Files put into its workspace",
                },
            },
            "required": ["task"],
            "additionalProperties": True,  # so that what is not for it can be refused with a reason
        },
        run=_nobody,
        effect="idempotent",
        summary=lambda args: shorten_path(str(args.get("label") or args.get("task") or "")),
        aliases={
            "agent": "agentId",
            "agent_id": "agentId",
            "prompt": "task",
            "taskName": "label",
            "timeoutSeconds": "runTimeoutSeconds",
            "timeout": "runTimeoutSeconds",
        },
    ),
    Tool(
        name="subagents",
        description=(
            "Look after the sub-agents of this session: list them, kill one (and those it started), or steer one: it "
            "is interrupted and goes on with your message."
        ),
        parameters={
            "type": "object",
            "properties": {
                "action": _one_of("What to do (list)", "list", "kill", "steer"),
                "target": _text("Which: its number in the list, label, run id or session key; kill also takes all"),
                "message": _text("With steer: what it should do"),
                "recentMinutes": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 1440,
                    "description": f"With list: how long ago they may have ended ({RECENT})",
                },
            },
        },
        run=_nobody,
        effect="effect",
        summary=lambda args: shorten_path(f"{args.get('action') or 'list'} {args.get('target') or ''}".strip()),
        aliases={"id": "target", "runId": "target", "sessionKey": "target", "text": "message"},
    ),
    Tool(
        name="sessions_yield",
        description=(
            "End this turn now and wait: the results of your sub-agents come as messages. Use it when there is "
            "nothing to do before they have ended."
        ),
        parameters={
            "type": "object",
            "properties": {"message": _text("A note to yourself on what you wait for")},
        },
        run=_nobody,
        effect="pure",
    ),
)

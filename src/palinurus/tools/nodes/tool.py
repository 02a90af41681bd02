"""What the `nodes` tool does: a table of actions. Commands go the way of `exec host=node`; whatever a device hands over
is content from outside, pictures are kept in the workspace and sent along."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.node import NOTIFY, RUN, NodeAnswer, NodeOrder, NodesPort, NodeView
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_json_output, make_output
from palinurus.core.untrusted import wrap_untrusted
from palinurus.errors import BadRequest, NotFound
from palinurus.patterns import compile_late
from palinurus.tasks import finish_in_thread
from palinurus.tools.commands.exec import ExecArguments
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path
from palinurus.tools.files.read import detect_image_type
from palinurus.tools.nodes.command import run_on_node
from palinurus.tools.taint import require_approval

FOLDER = "nodes"  # of the workspace
PREVIEW = 2 << 20  # bytes of a picture that the model is shown
MOST = 24 << 20  # bytes of what a device hands over
SHOWN = 16_000  # characters of an answer
_UNSAFE = compile_late(r"[^a-z0-9]+")
Action = Literal[
    "status", "describe", "pending", "approve", "reject", "notify", "run", "camera_snap", "screen_snap",
    "screen_record", "location_get", "invoke",
]  # fmt: skip


class NodesArguments(msgspec.Struct, frozen=True):
    """The arguments of a call."""

    action: Annotated[Action, "What to do"]
    node: Annotated[str, "Id or name of the node; may be left out where there is only one"] = ""
    requestId: Annotated[str, "approve, reject: which request (pending lists them)"] = ""
    command: Annotated[str, "run: a shell command line; invoke: the command's name, such as device.info"] = ""
    cwd: Annotated[str, "run: the folder there"] = ""
    params: Annotated[dict[str, Any], "invoke: the parameters"] = {}
    title: Annotated[str, "notify: the headline"] = ""
    body: Annotated[str, "notify: the text"] = ""
    facing: Annotated[Literal["", "front", "back"], "camera_snap: which camera"] = ""
    durationMs: Annotated[int, Meta(ge=0, le=60_000, description="screen_record: how long")] = 0
    timeoutMs: Annotated[int, Meta(ge=0, le=600_000, description="How long to wait for the node")] = 0


class _Case(msgspec.Struct, frozen=True):
    nodes: NodesPort
    ctx: ToolContext
    args: NodesArguments

    @property
    def node(self) -> NodeView:
        """The one that is meant. Raises ToolFailure."""
        views = [view for view in self.nodes.views() if view.paired]
        if not self.args.node and len(views) == 1:
            return views[0]
        if not self.args.node:
            raise ToolFailure(f"name a node: {', '.join(view.label for view in views) or 'none is paired'}")
        try:
            return self.nodes.find(self.args.node)
        except (NotFound, BadRequest) as error:
            raise ToolFailure(str(error)) from None

    async def invoke(self, node: NodeView, command: str, params: dict[str, Any], usual: float = 30.0) -> NodeAnswer:
        """Raises ToolFailure for all but an answer that is ok."""
        key = f"{self.ctx.session}:{self.ctx.item}:{self.ctx.call}"
        order = NodeOrder(node.id, command, params, key, timeout=self.args.timeoutMs / 1000 or usual)
        answer = await self.nodes.invoke(order)
        if not answer.ok:
            raise ToolFailure(f"node {node.label}: {answer.message or answer.code or 'it failed'}")
        return answer


@define_tool("nodes", owner=True)
async def use_nodes(nodes: NodesPort, /, ctx: ToolContext, args: NodesArguments) -> ToolOutput:
    """Paired machines and devices."""
    return await ACTIONS[args.action](_Case(nodes, ctx, args))


async def _status(case: _Case) -> ToolOutput:
    rows = [
        {"id": v.id, "name": v.name, "platform": v.platform, "connected": v.connected, "paired": v.paired}
        for v in case.nodes.views()
    ]
    return make_json_output({"nodes": rows, "pending": len(case.nodes.waiting())}, source="own")


async def _describe(case: _Case) -> ToolOutput:
    return make_json_output(msgspec.to_builtins(case.node), source="own")


async def _pending(case: _Case) -> ToolOutput:
    return make_json_output({"pending": case.nodes.waiting()}, source="own")


async def _decide(case: _Case) -> ToolOutput:
    """A person has the last word, whoever asked: it decides what may reach this agent from now on."""
    yes = case.args.action == "approve"
    row = next((r for r in case.nodes.waiting() if r["requestId"].startswith(case.args.requestId or "?")), None)
    if row is None:
        raise ToolFailure("there is no such request; action=pending lists them")
    who = f"{row.get('displayName') or row['nodeId'][:12]} ({row.get('platform') or 'unknown'})"
    if yes:
        shown = f"{who} may then be asked for: {', '.join(row['commands']) or 'nothing'}"
        bound = {"request": row["requestId"]}
        why = "pairing a node is for a person to decide"
        await require_approval(case.ctx, "nodes", f"pair node {who}", shown, binding=bound, why=why)
    try:
        ident = await case.nodes.decide(row["requestId"], yes)
    except NotFound as error:
        raise ToolFailure(error.message) from None
    return make_output(f"{'paired' if yes else 'rejected'}: {who} ({ident[:12]})")


async def _notify(case: _Case) -> ToolOutput:
    node, args = case.node, case.args
    if not (args.title or args.body):
        raise ToolFailure("notify needs a title or a body")
    await case.invoke(node, NOTIFY, {"title": args.title, "body": args.body})
    return make_output(f"shown on {node.label}")


async def _run(case: _Case) -> ToolOutput:
    args = case.args
    limit = args.timeoutMs / 1000 or None
    asked = ExecArguments(args.command, args.cwd, timeout=limit, host="node", node=args.node)
    if not args.command.strip():
        raise ToolFailure("command is empty")
    return await run_on_node(case.nodes, case.ctx, asked)


async def _snap(case: _Case) -> ToolOutput:
    camera = case.args.action == "camera_snap"
    params = {"facing": case.args.facing} if camera and case.args.facing else {}
    return await _fetch(case, "camera.snap" if camera else "screen.snapshot", params)


async def _record(case: _Case) -> ToolOutput:
    return await _fetch(case, "screen.record", {"durationMs": case.args.durationMs or 5000})


async def _fetch(case: _Case, command: str, params: dict[str, Any]) -> ToolOutput:
    """Something that a device of the node makes: kept as a file and sent along; a picture is shown to the model."""
    node = case.node
    answer = await case.invoke(node, command, params, 90.0)
    told = answer.payload if isinstance(answer.payload, dict) else {}
    try:
        data = base64.b64decode(str(told.get("base64") or ""), validate=True)
    except binascii.Error:
        data = b""
    if not data or len(data) > MOST:
        raise ToolFailure(f"node {node.label} handed over nothing that could be kept")
    kind = detect_image_type(data[:32])
    if not kind and command != "screen.record":
        raise ToolFailure(f"node {node.label} handed over something that is no picture")
    path = await _keep(case.ctx, f"{node.label}-{command}", data, kind[6:].replace("jpeg", "jpg") if kind else "mp4")
    shown = (ImageBlock(base64.b64encode(data).decode(), kind),) if kind and len(data) <= PREVIEW else ()
    text = f"{command} of {node.label}: {os.path.relpath(path, case.ctx.workspace)}. Sent to the person."
    return ToolOutput((TextBlock(text), *shown), {"media": [path], "node": node.id}, source=f"node {node.label}")


async def _locate(case: _Case) -> ToolOutput:
    node = case.node
    return _tell(node, await case.invoke(node, "location.get", {}))


async def _invoke(case: _Case) -> ToolOutput:
    if case.args.command in ("", RUN, "system.run.prepare"):
        raise ToolFailure("invoke is for other commands: use action=run, or exec with host=node")
    node = case.node
    return _tell(node, await case.invoke(node, case.args.command, case.args.params))


def _tell(node: NodeView, answer: NodeAnswer) -> ToolOutput:
    """What a node says, framed: nobody of ours wrote it."""
    text = msgspec.json.encode(answer.payload).decode()[:SHOWN]
    framed = wrap_untrusted(text, "node", secrets.token_hex(16))
    return ToolOutput((TextBlock(framed),), {"node": node.id}, source=f"node {node.label}")


async def _keep(ctx: ToolContext, words: str, data: bytes, ending: str) -> str:
    name = _UNSAFE.sub("-", words.lower()).strip("-")[:60] or "node"
    mark = hashlib.blake2s(f"{ctx.item}\0{ctx.call}".encode(), digest_size=4).hexdigest()
    place = resolve_path(f"{FOLDER}/{name}-{mark}.{ending}", ctx)
    async with handles.lock_path(place):
        await finish_in_thread(handles.replace_file, place, data)
    return place.real


ACTIONS: dict[str, Callable[[_Case], Awaitable[ToolOutput]]] = {
    "status": _status,
    "describe": _describe,
    "pending": _pending,
    "approve": _decide,
    "reject": _decide,
    "notify": _notify,
    "run": _run,
    "camera_snap": _snap,
    "screen_snap": _snap,
    "screen_record": _record,
    "location_get": _locate,
    "invoke": _invoke,
}

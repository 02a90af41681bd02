"""exec.approval.*, plugin.approval.* and exec.approvals.*: questions to people, over the board that runs ask at.

Questions about commands are `exec`, all others `plugin`; the ids of the latter begin with `plugin:` on the wire.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal

from msgspec import Meta

from palinurus.config.rewrite import digest_config
from palinurus.config.sections import approvals
from palinurus.core.policy.card import list_fact_lines, to_request_payload, write_variables
from palinurus.core.types.approval import ApprovalDecision, ApprovalRequest
from palinurus.gateway import rpc
from palinurus.gateway.clients import GatewayClients
from palinurus.gateway.context import require
from palinurus.gateway.rpc import GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty, NoParams
from palinurus.services.approvals import ApprovalBoard, ApprovalRow

PREFIX = "plugin:"
EXEC_MS, PLUGIN_MS = 1_800_000, 120_000
NOT_FOUND = {
    "reason": "APPROVAL_NOT_FOUND",
    "remediation": "Ask for the action again; questions end when their time is over or their run is stopped.",
}


class ApprovalIdParams(MethodParams, frozen=True):
    id: NonEmpty


class ApprovalResolveParams(ApprovalIdParams, frozen=True):
    decision: NonEmpty


class ApprovalAskParams(MethodParams, frozen=True):
    """What every question may say of where it comes from."""

    agent_id: str | None = None
    session_key: str | None = None
    turn_source_channel: str | None = None
    turn_source_to: str | None = None
    turn_source_account_id: str | None = None
    turn_source_thread_id: str | int | None = None
    two_phase: bool = False


class ExecApprovalParams(ApprovalAskParams, frozen=True):
    id: NonEmpty | None = None
    command: NonEmpty | None = None
    command_argv: tuple[str, ...] = ()
    system_run_plan: dict[str, Any] | None = None
    env: dict[str, str] | None = None
    cwd: str | None = None
    node_id: NonEmpty | None = None
    host: str | None = None
    security: str | None = None
    ask: str | None = None
    warning_text: str | None = None
    command_spans: list[Any] | None = None
    resolved_path: str | None = None
    require_delivery_route: bool | None = None
    suppress_delivery: bool | None = None
    timeout_ms: Annotated[int, Meta(ge=1)] = EXEC_MS


class PluginApprovalParams(ApprovalAskParams, frozen=True, kw_only=True):
    title: Annotated[str, Meta(min_length=1, max_length=80)]
    description: Annotated[str, Meta(min_length=1, max_length=256)]
    plugin_id: NonEmpty | None = None
    severity: Literal["info", "warning", "critical"] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None
    allowed_decisions: tuple[ApprovalDecision, ...] = ("allow-once", "deny")
    timeout_ms: Annotated[int, Meta(ge=1, le=600_000)] = PLUGIN_MS


class ApprovalRulesParams(MethodParams, frozen=True):
    file: dict[str, Any]
    base_hash: NonEmpty | None = None


# events


def attach_approvals(gateway: GatewayClients, board: ApprovalBoard) -> Callable[[], None]:
    """Tell clients of every question and every end of one. Returns the function that ends it."""

    def told(what: str, row: ApprovalRow) -> None:
        payload = describe_approval(row) if what == "requested" else {**row.resolved_payload(), **_named(row)}
        gateway.broadcast(f"{classify_approval(row)}.approval.{what}", payload)

    return board.listen(told)


def classify_approval(row: ApprovalRow) -> str:
    """`exec` or `plugin`: which methods and events a question belongs to."""
    return "exec" if row.ask.kind == "exec" else "plugin"


def describe_approval(row: ApprovalRow) -> dict[str, Any]:
    """A question as clients read it."""
    return {**row.requested_payload(), **_named(row)}


def _named(row: ApprovalRow) -> dict[str, Any]:
    """What is different for questions that are not about a command."""
    if classify_approval(row) == "exec":
        return {}
    ask = row.ask
    request = {
        "pluginId": ask.binding.get("pluginId"),
        "title": ask.title,
        "description": ask.command or ask.why or ask.title,
        "severity": ask.binding.get("severity"),
        "facts": list_fact_lines(ask),  # what decides: faces show it first
        "commandAnalysis": to_request_payload(ask)["commandAnalysis"],  # the same lines as on every other card
        "toolName": ask.tool or None,
        "toolCallId": ask.call or None,
        "allowedDecisions": list(ask.allowed),
        "agentId": ask.agent or None,
        "sessionKey": ask.session or None,
    }
    return {"id": PREFIX + row.id, "request": request}


# looking and answering


async def list_exec_approvals(call: MethodCall, asked: NoParams) -> list[dict[str, Any]]:
    """Open questions about commands, oldest first."""
    return await _pending(call, "exec")


async def list_plugin_approvals(call: MethodCall, asked: NoParams) -> list[dict[str, Any]]:
    """Open questions about anything else."""
    return await _pending(call, "plugin")


async def _pending(call: MethodCall, kind: str) -> list[dict[str, Any]]:
    return [describe_approval(row) for row in await _board(call).pending() if classify_approval(row) == kind]


async def get_approval(call: MethodCall, asked: ApprovalIdParams) -> dict[str, Any]:
    """One open question."""
    row = await _open(call, asked.id)
    return {
        "id": asked.id,
        "commandText": row.ask.command or row.ask.title,
        "commandPreview": None,
        "allowedDecisions": list(row.ask.allowed),
        "host": row.ask.host,
        "nodeId": None,
        "agentId": row.ask.agent,
        "expiresAtMs": row.expires,
    }


async def resolve_approval(call: MethodCall, asked: ApprovalResolveParams) -> dict[str, Any]:
    """Answer one. The same answer again is no mistake."""
    by = call.client.label
    board = _board(call)
    row = await _known(board, asked.id)
    if asked.decision not in ("allow-once", "allow-always", "deny"):
        raise MethodError("invalid decision")
    if row.decision is not None:
        if row.decision == asked.decision:
            return {"ok": True}
        raise MethodError("approval already resolved", details={"reason": "APPROVAL_ALREADY_RESOLVED"})
    if asked.decision not in row.ask.allowed:
        raise MethodError(
            "allow-always is unavailable because the effective policy requires approval every time"
            if asked.decision == "allow-always"
            else f"{asked.decision} is not possible here",
            details={"reason": "APPROVAL_ALLOW_ALWAYS_UNAVAILABLE"},
        )
    answered = await board.answer(row.id, asked.decision, by)
    if answered.problem:
        raise MethodError("unknown or expired approval id", details=NOT_FOUND)
    return {"ok": True, **({"note": answered.note} if answered.note else {})}


async def wait_for_decision(call: MethodCall, asked: ApprovalIdParams) -> dict[str, Any]:
    """When it is decided, or over: the decision, or null."""
    board, decided = _board(call), asyncio.Event()
    ident = asked.id.removeprefix(PREFIX)
    forget = board.listen(lambda what, row: decided.set() if what == "resolved" and row.id == ident else None)
    try:
        row = await _known(board, asked.id)
        left = (row.expires - call.program.clock.now()) / 1000
        if row.state == "pending" and left > 0:
            try:
                await asyncio.wait_for(decided.wait(), left)
            except TimeoutError:
                pass
            row = await board.row(ident) or row
    finally:
        forget()
    return {"id": asked.id, "decision": row.decision, "createdAtMs": row.created, "expiresAtMs": row.expires}


# asking


async def request_exec_approval(call: MethodCall, asked: ExecApprovalParams) -> dict[str, Any]:
    """Put a question about a command to people."""
    text = asked.command or " ".join(asked.command_argv) or str((asked.system_run_plan or {}).get("commandText") or "")
    if not text:
        raise MethodError("command is required")
    ask = ApprovalRequest(
        "exec",
        asked.agent_id or "",
        asked.session_key or "",
        run="",
        call=asked.id or call.id,
        tool="exec",
        title="run a command",
        command=text,
        argv=asked.command_argv,
        cwd=asked.cwd or "",
        host=asked.host or "gateway",
        security=asked.security or "",
        ask=asked.ask or "",
        binary=asked.resolved_path or "",
        env=write_variables(asked.env or {}),
        warning=asked.warning_text or "",
        # What allow-always would store is known only to whoever judged the command.
        allowed=("allow-once", "deny"),
        timeout=asked.timeout_ms / 1000,
        asker=call.client.label,
    )
    return await _asked(call, ask, "", two_phase=asked.two_phase)


async def request_plugin_approval(call: MethodCall, asked: PluginApprovalParams) -> dict[str, Any]:
    """Put any other question to people."""
    marks = {"pluginId": asked.plugin_id, "severity": asked.severity}
    ask = ApprovalRequest(
        "tool",
        asked.agent_id or "",
        asked.session_key or "",
        "",
        call=asked.tool_call_id or "",
        tool=asked.tool_name or "",
        title=asked.title,
        command=asked.description,
        binding={name: value for name, value in marks.items() if value},
        allowed=asked.allowed_decisions,
        timeout=asked.timeout_ms / 1000,
        asker=call.client.label,
    )
    return await _asked(call, ask, PREFIX, two_phase=asked.two_phase)


async def _asked(call: MethodCall, ask: ApprovalRequest, prefix: str, *, two_phase: bool) -> dict[str, Any]:
    now = call.program.clock.now()
    times = {"createdAtMs": now, "expiresAtMs": now + round(ask.timeout * 1000)}

    def accepted(ident: str, card: str) -> None:
        if two_phase:
            call.ack({"status": "accepted", "id": prefix + ident, **times})

    told = await _board(call).ask(ask, accepted)
    return {"id": prefix + told.id, "decision": told.decision, **times}


# what runs unasked


async def get_approval_rules(call: MethodCall, asked: NoParams) -> dict[str, Any]:
    """The file of commands that are allowed, asked for or refused."""
    return await asyncio.to_thread(_file, _path(call))


async def set_approval_rules(call: MethodCall, asked: ApprovalRulesParams) -> dict[str, Any]:
    """Write it, if it is still the version the client has read."""
    path = _path(call)

    def edit(raw: dict[str, Any]) -> bool:
        if asked.base_hash is not None and asked.base_hash != _hash(path):
            raise MethodError("exec approvals changed since last load; re-run exec.approvals.get and retry")
        kept = {"socket": raw["socket"]} if "socket" in raw else {}
        raw.clear()
        raw.update({**asked.file, **kept})
        return True

    if asked.file.get("version") != approvals.VERSION:
        raise MethodError(f"invalid exec.approvals.set params: at /file/version: must be {approvals.VERSION}")
    if asked.base_hash is None and (await asyncio.to_thread(_file, path))["exists"]:
        raise MethodError("exec approvals base hash required; re-run exec.approvals.get and retry")
    await asyncio.to_thread(approvals.change_approvals, path, edit)
    return await asyncio.to_thread(_file, path)


def _file(path: str) -> dict[str, Any]:
    host = approvals.read_approvals(path)
    if host.problem:
        raise MethodError(host.problem, code="UNAVAILABLE")
    content: dict[str, Any] = {"version": approvals.VERSION, "defaults": {}, "agents": {}, **host.raw}
    if isinstance(content.get("socket"), dict):
        content["socket"] = {name: value for name, value in content["socket"].items() if name != "token"}
    return {"path": path, "exists": _hash(path) != digest_config(None), "hash": _hash(path), "file": content}


def _hash(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return digest_config(file.read())
    except OSError:
        return digest_config(None)


def _path(call: MethodCall) -> str:
    return f"{call.program.settings.home}/{approvals.APPROVALS_FILE}"


def _board(call: MethodCall) -> ApprovalBoard:
    return require(call.program.approvals, "nobody can be asked here")


async def _known(board: ApprovalBoard, ident: str) -> ApprovalRow:
    row = await board.row(ident.removeprefix(PREFIX))
    if row is None or row.state in ("expired", "cancelled"):
        raise MethodError("unknown or expired approval id", details=NOT_FOUND)
    return row


async def _open(call: MethodCall, ident: str) -> ApprovalRow:
    row = await _known(_board(call), ident)
    if row.state != "pending" or row.expires <= call.program.clock.now():
        raise MethodError("unknown or expired approval id", details=NOT_FOUND)
    return row


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("exec.approval.list", rpc.APPROVALS, NoParams, list_exec_approvals),
    GatewayMethod("exec.approval.get", rpc.APPROVALS, ApprovalIdParams, get_approval),
    GatewayMethod("exec.approval.resolve", rpc.APPROVALS, ApprovalResolveParams, resolve_approval),
    GatewayMethod("exec.approval.request", rpc.APPROVALS, ExecApprovalParams, request_exec_approval),
    GatewayMethod("exec.approval.waitDecision", rpc.APPROVALS, ApprovalIdParams, wait_for_decision),
    GatewayMethod("plugin.approval.list", rpc.APPROVALS, NoParams, list_plugin_approvals),
    GatewayMethod("plugin.approval.resolve", rpc.APPROVALS, ApprovalResolveParams, resolve_approval),
    GatewayMethod("plugin.approval.request", rpc.APPROVALS, PluginApprovalParams, request_plugin_approval),
    GatewayMethod("plugin.approval.waitDecision", rpc.APPROVALS, ApprovalIdParams, wait_for_decision),
    GatewayMethod("exec.approvals.get", rpc.ADMIN, NoParams, get_approval_rules),
    GatewayMethod("exec.approvals.set", rpc.ADMIN, ApprovalRulesParams, set_approval_rules),
)

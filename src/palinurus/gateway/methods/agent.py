"""agent and agent.wait: one message, answered twice: accepted at once, and the reply when the run is over."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from msgspec import Meta

from palinurus.core.types.inbound import TurnOptions
from palinurus.gateway.context import MethodContext
from palinurus.gateway.methods import chat
from palinurus.gateway.rpc import WRITE, GatewayMethod, MethodCall, MethodError, MethodParams, NonEmpty
from palinurus.gateway.runs import EndedRun
from palinurus.store.port import InboxRow

WAIT = 30_000  # ms agent.wait waits if nobody says


class AgentRunParams(MethodParams, frozen=True):
    message: str
    idempotency_key: NonEmpty
    agent_id: NonEmpty | None = None
    provider: str | None = None
    model: str | None = None
    to: str | None = None
    reply_to: str | None = None
    session_id: str | None = None
    session_key: str | None = None
    thinking: str | None = None
    deliver: bool | None = None
    attachments: list[Any] | None = None
    channel: str | None = None
    reply_channel: str | None = None
    account_id: str | None = None
    reply_account_id: str | None = None
    thread_id: str | None = None
    group_id: str | None = None
    group_channel: str | None = None
    group_space: str | None = None
    timeout: Annotated[int, Meta(ge=0)] | None = None
    best_effort_deliver: bool | None = None
    lane: str | None = None
    extra_system_prompt: str | None = None
    label: Annotated[str, Meta(min_length=1, max_length=512)] | None = None
    input_provenance: dict[str, Any] | None = None
    bootstrap_context_mode: str | None = None
    bootstrap_context_run_kind: str | None = None
    prompt_mode: str | None = None
    model_run: bool | None = None
    cleanup_bundle_mcp_on_run_end: bool | None = None
    source_reply_delivery_mode: str | None = None
    session_effects: str | None = None
    disable_message_tool: bool | None = None
    voice_wake_trigger: str | None = None
    acp_turn_source: str | None = None
    suppress_prompt_persistence: bool | None = None


class AgentResultParams(MethodParams, frozen=True):
    run_id: NonEmpty


class AgentWaitParams(MethodParams, frozen=True):
    run_id: NonEmpty
    timeout_ms: Annotated[int, Meta(ge=0)] | None = None


async def run_agent(call: MethodCall, asked: AgentRunParams) -> dict[str, Any]:
    """Run one message and answer with what the agent said."""
    here = call.context
    key = await _key(here, asked)
    if not asked.message.strip() and not asked.attachments:
        raise MethodError("message or attachment required")
    model = f"{asked.provider}/{asked.model}" if asked.provider and asked.model else asked.model or ""
    options = TurnOptions(model, asked.thinking or "", strict=bool(asked.thinking))
    inbound = await chat.make_inbound(
        call, key, options, event=asked.idempotency_key, text=asked.message, attached=asked.attachments
    )
    began = here.program.clock.now()
    accepted = await chat.submit_inbound(call, inbound)
    run = asked.idempotency_key
    call.ack({"runId": run, "sessionKey": str(key), "status": "accepted", "acceptedAt": began})
    row = await call.gateway.host.wait(accepted.id)
    await here.broadcaster.wait_settled(run)
    return _answer(here, run, row, began)


async def _key(here: MethodContext, asked: AgentRunParams) -> Any:
    if asked.session_id and not asked.session_key:
        for seen in await here.reader.load_all(asked.agent_id):
            if seen.record is not None and seen.record.sessionId == asked.session_id:
                return seen.key
        return here.reader.key(f"explicit:{asked.session_id}", asked.agent_id)
    return here.reader.key(asked.session_key or here.program.settings.session.main_key, asked.agent_id)


def _answer(here: MethodContext, run: str, row: InboxRow, began: int) -> dict[str, Any]:
    ended = here.broadcaster.end(run)
    failed = row.outcome not in ("answered", "silent")
    text = row.note if ended is None or failed else ended.text or row.note
    meta: dict[str, Any] = {"durationMs": here.program.clock.now() - began, "aborted": row.outcome == "aborted"}
    if ended is not None:
        meta["agentMeta"] = _spent(ended)
    payloads = [{"text": text, "mediaUrl": None}] if text and row.outcome != "silent" else []
    if failed:
        raise MethodError(row.note or f"the run ended: {row.outcome}", code="UNAVAILABLE", details={"runId": run})
    return {"runId": run, "status": "ok", "summary": "completed", "result": {"payloads": payloads, "meta": meta}}


def _spent(ended: EndedRun) -> dict[str, Any]:
    used, (provider, model) = ended.usage, ended.model
    usage = {"input": used.input, "output": used.output, "cacheRead": used.cacheRead, "cacheWrite": used.cacheWrite}
    return {"provider": provider, "model": model, "usage": {**usage, "total": used.totalTokens}}


async def wait_for_agent(call: MethodCall, asked: AgentWaitParams) -> dict[str, Any]:
    """How a run ended, or that it has not yet."""
    here = call.context
    ended = here.broadcaster.end(asked.run_id)
    run = here.broadcaster.run(asked.run_id)
    limit = (WAIT if asked.timeout_ms is None else asked.timeout_ms) / 1000
    if ended is None and run is None:
        return await _wait_stored(call, asked.run_id, limit)
    if ended is None and run is not None:
        try:
            await asyncio.wait_for(call.gateway.host.wait(run.item), limit)
        except TimeoutError:
            return {"runId": asked.run_id, "status": "timeout", "timeoutPhase": "wait"}
        await here.broadcaster.wait_settled(run.id)
        ended = here.broadcaster.end(asked.run_id) or here.broadcaster.end(run.id)
    if ended is None:
        return {"runId": asked.run_id, "status": "ok"}
    return _how(asked.run_id, ended)


async def _wait_stored(call: MethodCall, ident: str, limit: float) -> dict[str, Any]:
    """A run that this process has not seen, or has forgotten: the store knows it, by its key or by its id."""
    row = await chat.find_run(call, ident)
    if row is None:
        return {"runId": ident, "status": "timeout", "timeoutPhase": "unknown-run"}
    try:
        row = await asyncio.wait_for(call.gateway.host.wait(row.id), limit)
    except TimeoutError:
        return {"runId": ident, "status": "timeout", "timeoutPhase": "wait"}
    known = {"runId": ident, "startedAt": row.claimed, "endedAt": row.settled}
    if row.outcome in ("answered", "silent"):
        return {**known, "status": "ok", "stopReason": "stop"}
    if row.outcome == "aborted":
        return {**known, "status": "error", "stopReason": "aborted", "error": row.note or "aborted"}
    return {**known, "status": "error", "stopReason": "error", "error": row.note}


async def read_agent_result(call: MethodCall, asked: AgentResultParams) -> dict[str, Any]:
    """What became of a message of the caller's own, whatever has been restarted meanwhile. Ours."""
    row = await chat.find_run(call, asked.run_id)
    if row is None or row.id == asked.run_id:
        raise MethodError("no message of yours has that key", code="NOT_FOUND")
    if row.state == "absorbed":  # another's turn answered both
        row = await call.program.store.item(row.absorbed_by) or row
    over = row.state == "done"
    return {
        "status": ("aborted" if row.outcome == "aborted" else "done") if over else "open",
        "failed": row.outcome not in ("answered", "silent"),
        "text": row.note if over and row.outcome != "silent" else "",
        "sessionKey": row.session,
        "acceptedAt": row.at,
        "endedAt": row.settled if over else 0,
    }


def _how(ident: str, ended: EndedRun) -> dict[str, Any]:
    known = {"runId": ident, "startedAt": ended.started, "endedAt": ended.ended, "stopReason": ended.why}
    if ended.error is not None:
        return {**known, "status": "error", "error": ended.error}
    return {**known, "status": "ok"}


METHODS: tuple[GatewayMethod, ...] = (
    GatewayMethod("agent", WRITE, AgentRunParams, run_agent),
    GatewayMethod("agent.result", WRITE, AgentResultParams, read_agent_result),
    GatewayMethod("agent.wait", WRITE, AgentWaitParams, wait_for_agent),
)

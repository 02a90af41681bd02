"""Where plugins have a say in a run: which model, what prompt, whether at all, what is written down. Each does
nothing, and costs nothing, if no handler is there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import Any

import msgspec

from palinurus.agent.plan.runplan import RunPlan
from palinurus.agent.ports import RunPorts
from palinurus.core.prompt.render import apply_prompt_changes, surround_message
from palinurus.core.types.events import AgentEnd, AgentStart, MessageEnd, MessageStart, MessageUpdate, RunEvent
from palinurus.core.types.inbound import Inbound
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import AssistantMessage, ImageBlock, Message, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelFailure, ModelRequest, ModelSpec
from palinurus.core.types.usage import TokenUsage
from palinurus.plugins.hooks import Hooks

log = logging.getLogger(__name__)

BLOCKED = "the message was stopped by a plugin"


async def choose_model(
    hooks: Hooks, inbound: Inbound, key: SessionKey, find: Callable[[str], ModelSpec | ModelFailure]
) -> str:
    """before_model_resolve: the model plugins want for this turn; "" if none, or one that does not exist."""
    if not hooks.has("before_model_resolve"):
        return ""
    attached = [{"kind": "image", "mimeType": image.mimeType} for image in inbound.images]
    told = {"prompt": inbound.text, "attachments": attached, "sessionKey": str(key), "agentId": key.agent}
    changes = await hooks.modify("before_model_resolve", told)
    name, provider = str(changes.get("modelOverride") or ""), str(changes.get("providerOverride") or "")
    if not name:
        return ""
    name = f"{provider}/{name}" if provider else name
    found = find(name)
    if isinstance(found, ModelFailure):
        log.warning("before_model_resolve: %s", found.message)
        return ""
    return name


async def change_prompt(hooks: Hooks, plan: RunPlan) -> RunPlan:
    """What plugins add to or change of the prompt and the message. The older point first, then its successor."""
    for point in ("before_agent_start", "before_prompt_build"):
        if not hooks.has(point) or not plan.opening:
            continue
        last = plan.opening[-1]
        history = [msgspec.to_builtins(m) for m in plan.history]
        changes = await hooks.modify(point, {"prompt": last.text, "messages": history, **_run(plan)})
        opening = plan.opening
        if isinstance(last, UserMessage):
            opening = (*opening[:-1], surround_message(last, changes))
        plan = msgspec.structs.replace(plan, prompt=apply_prompt_changes(plan.prompt, changes), opening=opening)
    return plan


async def gate_run(hooks: Hooks, plan: RunPlan) -> ModelFailure | None:
    """before_agent_run: why the run may not begin, in words for the person; None if it may."""
    if not hooks.has("before_agent_run"):
        return None
    sender = plan.inbound.sender
    told = {
        "prompt": plan.inbound.text,
        "systemPrompt": plan.prompt.text,
        "channelId": plan.inbound.target.channel,
        "accountId": plan.inbound.target.account,
        "senderId": sender.id,
        "senderIsOwner": sender.owner,
    }
    changes = await hooks.modify("before_agent_run", {**told, **_run(plan)})
    if not changes.get("block"):
        return None
    return ModelFailure("refused", str(changes.get("message") or changes.get("blockReason") or BLOCKED))


async def claim_inbound(hooks: Hooks, inbound: Inbound, typed: str, key: SessionKey) -> str | None:
    """inbound_claim: the answer of the plugin that took the message ("" = silence); None if nobody did."""
    if not hooks.has("inbound_claim") or inbound.system:
        return None
    told = {
        "content": typed,
        "channel": inbound.target.channel,
        "senderId": inbound.sender.id,
        "isGroup": inbound.kind != "direct",
        "commandAuthorized": inbound.sender.trusted,
        "sessionKey": str(key),
        "agentId": key.agent,
    }
    return _taken(await hooks.modify("inbound_claim", told))


async def ask_plugin_reply(hooks: Hooks, plan: RunPlan) -> str | None:
    """before_agent_reply: the answer that a plugin gives in the model's place; None if the model is to answer."""
    if not hooks.has("before_agent_reply") or not plan.opening or not isinstance(plan.opening[-1], UserMessage):
        return None
    return _taken(await hooks.modify("before_agent_reply", {"cleanedBody": plan.inbound.text, **_run(plan)}))


async def speak_plugin_reply(plan: RunPlan, ports: RunPorts, text: str) -> AsyncGenerator[RunEvent, None]:
    """A run whose answer is known: the events of `loop`, without a model."""
    yield AgentStart(plan.id, str(plan.route.key), str(plan.model.ref), plan.started, reasoning=plan.show.reasoning)
    for message in plan.opening:
        ports.record.add(message)
        if isinstance(message, UserMessage):
            yield MessageStart(message)
        yield MessageEnd(message)
    answer = AssistantMessage((TextBlock(text),) if text else (), provider="plugin", timestamp=ports.clock.now())
    made: tuple[Message, ...] = (*plan.opening, answer) if text else plan.opening
    if text:
        yield MessageStart()
        yield MessageUpdate(text)
        ports.record.add(answer)
        yield MessageEnd(answer)
    ports.steering.close()
    yield AgentEnd(made, "stop", TokenUsage(), ended=ports.clock.now())


def report_request(hooks: Hooks, plan: RunPlan, request: ModelRequest) -> None:
    """llm_input."""
    if not hooks.has("llm_input"):
        return
    *history, last = request.messages or (UserMessage(""),)
    images = sum(isinstance(b, ImageBlock) for m in request.messages if isinstance(m, UserMessage) for b in m.blocks)
    told = {
        "provider": request.model.ref.provider,
        "model": request.model.ref.model,
        "systemPrompt": request.prompt.text,
        "prompt": last.text,
        "historyMessages": [msgspec.to_builtins(m) for m in history],
        "imagesCount": images,
        "tools": [spec.name for spec in request.tools],
        "toolDefinitions": [msgspec.to_builtins(spec) for spec in request.tools],
    }
    hooks.observe("llm_input", {**told, "sessionId": plan.session_id, **_run(plan)})


def report_answer(
    hooks: Hooks, plan: RunPlan, request: ModelRequest, reply: AssistantMessage, failure: ModelFailure | None
) -> None:
    """llm_output."""
    if not hooks.has("llm_output"):
        return
    told = {
        "provider": request.model.ref.provider,
        "model": request.model.ref.model,
        "assistantTexts": [b.text for b in reply.content if isinstance(b, TextBlock)],
        "lastAssistant": msgspec.to_builtins(reply),
        "usage": msgspec.to_builtins(reply.usage),
        "error": failure.message if failure else None,
    }
    hooks.observe("llm_output", {**told, "sessionId": plan.session_id, **_run(plan)})


def filter_results(hooks: Hooks, plan: RunPlan, results: Sequence[ToolResult]) -> list[ToolResult]:
    """tool_result_persist: the results as they are written down, which is also how the model sees them."""
    if not hooks.has("tool_result_persist"):
        return list(results)
    return [_persisted(hooks, plan, result) for result in results]


def _persisted(hooks: Hooks, plan: RunPlan, result: ToolResult) -> ToolResult:
    told = {"toolName": result.toolName, "toolCallId": result.toolCallId, "message": msgspec.to_builtins(result)}
    changes = hooks.modify_sync("tool_result_persist", {**told, **_run(plan)})
    if "message" not in changes:
        return result
    try:
        made = msgspec.convert(changes["message"], ToolResult)
    except msgspec.ValidationError as exc:
        log.warning("tool_result_persist: what the hook returned is no tool result: %s", exc)
        return result
    # Whose result it is cannot be changed, the call would be left without one; nor that it came from outside.
    return msgspec.structs.replace(
        made, toolCallId=result.toolCallId, toolName=result.toolName, source=made.source or result.source
    )


def report_end(hooks: Hooks, plan: RunPlan, end: AgentEnd, took: int) -> None:
    """agent_end."""
    if not hooks.has("agent_end"):
        return
    told = {
        "messages": [msgspec.to_builtins(m) for m in end.messages],
        "success": end.failure is None,
        "error": end.failure.message if end.failure else None,
        "durationMs": took,
    }
    hooks.observe("agent_end", {**told, **_run(plan)})


def _taken(changes: dict[str, Any]) -> str | None:
    """What a claim says; a reply may be a text or an object with one."""
    if not changes.get("handled"):
        return None
    reply = changes.get("reply")
    return str(reply.get("text") or "") if isinstance(reply, dict) else str(reply or "")


def _run(plan: RunPlan) -> dict[str, Any]:
    return {"runId": plan.id, "sessionKey": str(plan.route.key), "agentId": plan.route.agent}

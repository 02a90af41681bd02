"""/context [list|detail|json]: what the next model call is made of, and how large each part is."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.agent.bounds import resolve_history_rules
from palinurus.agent.gauge import read_calibration
from palinurus.core.history.fit import fit_history
from palinurus.core.history.repair import repair_history
from palinurus.core.history.tokens import CHARS_PER_TOKEN, ModelCalibration, estimate_context_tokens
from palinurus.core.types.inbound import Route
from palinurus.inbox.commands.desk import CommandAnswer, CommandCall
from palinurus.inbox.commands.facts import find_session_model, format_tokens
from palinurus.inbox.commands.tools import offer_tools

FORMS = ("list", "detail", "json")


async def run_context(call: CommandCall) -> CommandAnswer:
    """Parts with their size in characters and (estimated) tokens; `detail` adds every tool, `json` is for programs."""
    form = call.args.strip().lower() or "list"
    if form not in FORMS:
        return CommandAnswer(f'"{form[:40]}" is no form of /context. Use one of: {", ".join(FORMS)}.')
    report = await _report(call)
    if form == "json":
        return CommandAnswer(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    used = format_tokens(report["used"])
    lines = [
        f"Context of {call.key}: {used} of {format_tokens(report['window'])} tokens ({report['model']})",
        f"  history: {report['messages']} messages, {used} tokens{_sent(report)}",
        f"  estimate: {_estimate(report['estimate'])}",
    ]
    lines += [f"  {part['name']}: {_size(part)}" for part in report["prompt"]]
    if not report["prompt"]:
        lines.append("  system prompt: measured with the next run")
    lines += [f"  file {file['name']}: {_weight(file)}" for file in report["files"]]
    total = {"chars": sum(t["chars"] for t in report["tools"])}
    lines.append(f"  tools: {len(report['tools'])}, {_size(total)}")
    if form == "detail":
        lines += [f"    {tool['name']}: {_size(tool)}" for tool in report["tools"]]
    return CommandAnswer("\n".join(lines))


async def _report(call: CommandCall) -> dict[str, Any]:
    desk = call.desk
    model = find_session_model(desk.catalog, call.agent, call.record)
    transcript = await desk.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    messages = transcript.messages()
    prompt = await desk.prompt_report(call.key) if desk.prompt_report is not None else None
    rules = resolve_history_rules(desk.settings, call.agent, model, call.inbound, Route(call.key.agent, call.key, ""))
    sent = fit_history(repair_history(messages), rules, int(transcript.older_count > 0), desk.clock.now())
    same = {id(message) for message in messages}
    known = await read_calibration(desk.store)
    learned = known.models.get(str(model.ref), ModelCalibration())
    return {
        "session": str(call.key),
        "sessionId": call.record.sessionId,
        "model": str(model.ref),
        "window": rules.window,
        "used": estimate_context_tokens(messages, transcript.older_count, learned.scale),
        "messages": len(messages),
        "sent": len(sent),
        "shortened": sum(id(message) not in same for message in sent),
        "estimate": {"scale": round(learned.scale, 3), "error": learned.error, "measures": learned.count},
        "prompt": [{"name": p.name, "chars": p.chars, "stable": p.stable} for p in prompt.parts] if prompt else [],
        "files": [
            {"name": f.name, "raw": f.raw, "injected": f.injected, "state": f.state}
            for f in (desk.files(call.key) if desk.files is not None else ())
        ],
        "tools": [
            {"name": t.name, "chars": len(msgspec.json.encode(t.spec))} for t in offer_tools(call).tools.values()
        ],
    }


def _sent(report: dict[str, Any]) -> str:
    """What limits and pruning leave of it."""
    words = [f"{report['sent']} of them sent"] if report["sent"] != report["messages"] else []
    words += [f"{report['shortened']} shortened"] if report["shortened"] else []
    return f" ({', '.join(words)})" if words else ""


def _estimate(found: dict[str, Any]) -> str:
    """How tokens are guessed where no provider has counted, and how far off that was."""
    if not found["measures"]:
        return f"{CHARS_PER_TOKEN} characters to a token; not yet measured with this model"
    error = f"{found['error'] * 100:.0f}% off on average"
    return f"{CHARS_PER_TOKEN / found['scale']:.1f} characters to a token, {error} over {found['measures']} measures"


def _weight(file: dict[str, Any]) -> str:
    """Characters on disk and in the prompt; the prompt itself does not say them."""
    if file["state"] == "whole":
        return f"{file['raw']} characters"
    return f"{file['raw']} characters on disk, {file['injected']} in the prompt ({file['state']})"


def _size(part: dict[str, Any]) -> str:
    return f"{part['chars']} characters, ~{format_tokens(part['chars'] // CHARS_PER_TOKEN)} tokens"

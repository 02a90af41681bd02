"""/context [list|detail|json]: what the next model call is made of, and how large each part is."""

from __future__ import annotations

from typing import Any

import msgspec

from palinurus.core.history.tokens import CHARS, context
from palinurus.inbox.commands.desk import Answer, Call
from palinurus.inbox.commands.facts import chosen, tokens

FORMS = ("list", "detail", "json")


async def run(call: Call) -> Answer:
    """Parts with their size in characters and (estimated) tokens; `detail` adds every tool, `json` is for programs."""
    form = call.args.strip().lower() or "list"
    if form not in FORMS:
        return Answer(f'"{form[:40]}" is no form of /context. Use one of: {", ".join(FORMS)}.')
    report = await _report(call)
    if form == "json":
        return Answer(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    lines = [
        f"Context of {call.key}: {tokens(report['used'])} of {tokens(report['window'])} tokens ({report['model']})",
        f"  history: {report['messages']} messages, {tokens(report['used'])} tokens",
    ]
    lines += [f"  {part['name']}: {_size(part)}" for part in report["prompt"]]
    if not report["prompt"]:
        lines.append("  system prompt: measured with the next run")
    lines += [f"  file {file['name']}: {_weight(file)}" for file in report["files"]]
    total = {"chars": sum(t["chars"] for t in report["tools"])}
    lines.append(f"  tools: {len(report['tools'])}, {_size(total)}")
    if form == "detail":
        lines += [f"    {tool['name']}: {_size(tool)}" for tool in report["tools"]]
    return Answer("\n".join(lines))


async def _report(call: Call) -> dict[str, Any]:
    desk = call.desk
    model = chosen(desk.catalog, call.agent, call.record)
    transcript = await desk.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    messages = transcript.messages()
    prompt = await desk.prompt_report(call.key) if desk.prompt_report is not None else None
    return {
        "session": str(call.key),
        "sessionId": call.record.sessionId,
        "model": str(model.ref),
        "window": call.agent.context_tokens or model.context_window,
        "used": context(messages, transcript.kept),
        "messages": len(messages),
        "prompt": [{"name": p.name, "chars": p.chars, "stable": p.stable} for p in prompt.parts] if prompt else [],
        "files": [
            {"name": f.name, "raw": f.raw, "injected": f.injected, "state": f.state}
            for f in (desk.files(call.key) if desk.files is not None else ())
        ],
        "tools": [{"name": t.name, "chars": len(msgspec.json.encode(t.spec))} for t in desk.tools.values()],
    }


def _weight(file: dict[str, Any]) -> str:
    """Characters on disk and in the prompt; the prompt itself does not say them."""
    if file["state"] == "whole":
        return f"{file['raw']} characters"
    return f"{file['raw']} characters on disk, {file['injected']} in the prompt ({file['state']})"


def _size(part: dict[str, Any]) -> str:
    return f"{part['chars']} characters, ~{tokens(part['chars'] // CHARS)} tokens"

"""/help and /commands: what can be typed, from the table."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from palinurus import __version__
from palinurus.agent.plan.offer import ToolOffers
from palinurus.agent.plan.window import read_calibration, resolve_history_rules
from palinurus.config.sections.policy import find_key_source
from palinurus.core.history.fit import fit_history
from palinurus.core.history.repair import repair_history
from palinurus.core.history.tokens import CHARS_PER_TOKEN, ModelCalibration, estimate_context_tokens
from palinurus.core.policy.decide import ToolVerdict, explain_tool_verdict
from palinurus.core.prompt.bootstrap import BootstrapWeight, hide_memory
from palinurus.core.text import format_count
from palinurus.core.types.inbound import Route
from palinurus.inbox.commands.command import ChatCommand, CommandAnswer, CommandCall
from palinurus.inbox.commands.levels import get_effective_level
from palinurus.inbox.commands.options import format_queue
from palinurus.services.facts import find_session_model, format_tokens, gather_facts, list_models
from palinurus.services.why import TOPICS, describe_run, format_why, load_run_facts
from palinurus.store.port import UsageRow

# /context [list|detail|json]: what the next model call is made of, and how large each part is.

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
        f"  history: {format_count(report['messages'], 'message')}, {used} tokens{_sent(report)}",
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
    program = call.program
    model = find_session_model(program.catalog, call.agent, call.record)
    transcript = await program.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    messages = transcript.messages()
    prompt = await program.prompt_report(call.key, call.inbound) if program.prompt_report is not None else None
    rules = resolve_history_rules(
        program.settings, call.agent, model, call.inbound, route=Route(call.key.agent, call.key, "")
    )
    sent = fit_history(repair_history(messages), rules, int(transcript.older_count > 0), program.clock.now())
    same = {id(message) for message in messages}
    known = await read_calibration(program.store)
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
        "files": [{"name": f.name, "raw": f.raw, "injected": f.injected, "state": f.state} for f in _files(call)],
        "tools": [
            {"name": name, "chars": len(msgspec.json.encode(call.program.tools[name].spec))}
            for name in judge_tools(call).offered
        ],
    }


def _files(call: CommandCall) -> tuple[BootstrapWeight, ...]:
    files = call.program.files(call.key) if call.program.files is not None else ()
    return hide_memory(files) if call.shared else files


def _sent(report: dict[str, Any]) -> str:
    """What limits and pruning leave of it."""
    words = [f"{report['sent']} of them sent"] if report["sent"] != report["messages"] else []
    words += [f"{report['shortened']} shortened"] if report["shortened"] else []
    return f" ({', '.join(words)})" if words else ""


def _estimate(found: dict[str, Any]) -> str:
    """How tokens are guessed where no provider has counted, and how far off that was."""
    if not found["measures"]:
        return f"{CHARS_PER_TOKEN} characters to a token; not yet measured with this model"
    error = f"{found['error'] * 100:.0f}% off on average over {format_count(found['measures'], 'measure')}"
    return f"{CHARS_PER_TOKEN / found['scale']:.1f} characters to a token, {error}"


def _weight(file: dict[str, Any]) -> str:
    """Characters on disk and in the prompt; the prompt itself does not say them."""
    if file["state"] == "whole":
        return f"{file['raw']} characters"
    return f"{file['raw']} characters on disk, {file['injected']} in the prompt ({file['state']})"


def _size(part: dict[str, Any]) -> str:
    return f"{part['chars']} characters, ~{format_tokens(part['chars'] // CHARS_PER_TOKEN)} tokens"


# /tools [why NAME]: which tools the next run of this session is offered, and what keeps one away.


async def run_tools(call: CommandCall) -> CommandAnswer:
    """The list, or the reason for one tool, as it is for whoever asks."""
    word, _, name = call.args.strip().partition(" ")
    if word and word.lower() != "why":
        return CommandAnswer("Use /tools, or /tools why NAME.")
    if word and not name.strip():
        return CommandAnswer("Say which: /tools why NAME.")
    judged = judge_tools(call)
    if word:
        # Only the owner is told where the files of this machine are.
        where = partial(find_key_source, call.program.settings) if call.admin else lambda key: ""
        return CommandAnswer("\n".join(explain_tool_verdict(name, judged, where)))
    hidden = judged.hidden
    if not judged.offered:
        return CommandAnswer(f"No tools are offered ({len(hidden)} kept away; /tools why NAME).")
    known = call.program.tools
    lines = [f"  {n}: {known[n].description.split('. ')[0].rstrip('.')}" for n in judged.offered]
    lines += [f"  - {name}: {why}" for name, why in hidden.items()]
    return CommandAnswer("\n".join([f"Tools ({len(judged.offered)} offered, {len(hidden)} kept away):", *lines]))


def judge_tools(call: CommandCall) -> ToolVerdict:
    """What the next run of the session would get if whoever calls asked for it."""
    program = call.program
    offers = ToolOffers(program.settings, program.catalog, program.tools)
    model = find_session_model(program.catalog, call.agent, call.record)
    return offers.judge(offers.question(call.key, call.inbound, model, call.record))


# /agents: which agents there are.


async def run_agents(call: CommandCall) -> CommandAnswer:
    """Id, name, model and workspace of each; the session's own is marked."""
    settings = call.program.settings
    lines = ["Agents (* this session's):"]
    for ident, agent in settings.agents.items():
        name = f" ({agent.name})" if agent.name and agent.name != ident else ""
        default = ", default" if ident == settings.default_agent else ""
        model = call.program.catalog.default(agent).ref
        lines.append(f"{'*' if ident == call.key.agent else ' '} {ident}{name}: {model}{default}")
    return CommandAnswer("\n".join(lines))


# /whoami: who the program takes the sender for.


async def run_whoami(call: CommandCall) -> CommandAnswer:
    """Id, role, channel, session."""
    sender, target = call.inbound.sender, call.inbound.target
    role = "owner" if sender.owner else "allowed" if sender.allowed else "not authorised"
    name = f" ({sender.name})" if sender.name else ""
    where = "/".join(part for part in (target.channel, target.to, target.thread) if part)
    lines = [f"You are {sender.id or 'unknown'}{name}: {role}.", f"Channel: {where}", f"Session: {call.key}"]
    if sender.scopes:
        lines.append(f"Scopes: {', '.join(sender.scopes)}")
    return CommandAnswer("\n".join(lines))


# /usage: what this session and the last day used, from the ledger.

DAY = 86_400_000


async def run_usage(call: CommandCall) -> CommandAnswer:
    """Tokens, calls and cost; a call without a known price is said to be unpriced, not free."""
    store = call.program.store
    now = call.program.clock.now()
    begun = call.record.sessionStartedAt or 0
    here = await store.list_usage(begun if call.stored else now, str(call.key))
    day = await store.list_usage(now - DAY)
    return CommandAnswer(
        "\n".join([f"This session: {format_spending(here)}", f"Last 24 hours, everything: {format_spending(day)}"])
    )


def format_spending(rows: Iterable[UsageRow]) -> str:
    """One line for some calls."""
    rows = list(rows)
    if not rows:
        return "nothing yet."
    priced = [r.cost for r in rows if r.cost is not None]
    cost = f"${sum(priced):.4f}" if priced else "no price known"
    left = len(rows) - len(priced) if priced else 0
    missing = f" ({format_count(left, 'call')} unpriced)" if left else ""
    read = sum(r.input + r.cache_read + r.cache_write for r in rows)
    cached = sum(r.cache_read for r in rows)
    return (
        f"{len(rows)} model call{'s' if len(rows) != 1 else ''}, {format_tokens(read)} tokens in"
        f" ({format_tokens(cached)} from cache), {format_tokens(sum(r.output for r in rows))} out, {cost}{missing}."
    )


# /status: one card about the session.


async def run_status(call: CommandCall) -> CommandAnswer:
    """The card; changes nothing."""
    return CommandAnswer(format_status_card(call))


def format_status_card(call: CommandCall) -> str:
    """Model, levels with their reason, context in use, session, queue, version."""
    record = call.record
    now = gather_facts(call.program, call.key, record)
    model = now.model
    chosen = " (chosen for this session)" if record.modelOverride else ""
    words = [f"Think: {now.level.level} ({now.level.reason})", now.fast.status]
    words += [f"{name.capitalize()}: {level}" for name in _LEVELS if (level := get_effective_level(name, now)) != "off"]
    window = call.agent.context_tokens or model.context_window
    used = record.totalTokens
    part = f" ({used * 100 // window}%)" if used and window else ""
    state = "running" if call.program.inbox.running(str(call.key)) else "idle"
    queue = format_queue(record, call.program.settings.queue, call.inbound.target.channel)
    lines = [
        f"Palinurus {__version__}",
        f"Model: {model.ref}{chosen}",
        " · ".join(word for word in words if word),
        f"Context: {format_tokens(used or 0)}/{format_tokens(window)} tokens{part}",
        f"Tokens: {format_tokens(record.inputTokens or 0)} in / {format_tokens(record.outputTokens or 0)} out",
        f"Session: {call.key} · {record.sessionId if call.stored else 'not begun'} · {state}",
        f"Queue: {queue}",
    ]
    cut = [f"{f.name} {_weight(msgspec.to_builtins(f))}" for f in _files(call) if f.cut]
    lines += [f"Files: {'; '.join(cut)}"] if cut else []
    if get_effective_level("trace", now) == "on":
        lines += [f"Trace: {line}" for line in call.program.hooks.list_trace(str(call.key))]
    return "\n".join(lines)


_LEVELS = ("verbose", "reasoning", "trace", "elevated")


FEW = ("status", "new", "stop", "think", "model", "models", "context", "usage", "tools", "whoami")


async def run_help(call: CommandCall) -> CommandAnswer:
    """/help [NAME]: the few people use most, or all about one. /commands is everything."""
    asked = call.args.strip().lstrip("/").lower()
    if asked:
        found = next((c for c in call.table.values() if asked in (c.name, *c.aliases)), None)
        return CommandAnswer(_about(found) if found else f"There is no command /{asked[:40]}. /commands lists all.")
    shown = [call.table[name] for name in FEW if name in call.table]
    return CommandAnswer("\n".join(["Commands:", *_lines(shown), "/commands lists all, /help NAME tells about one."]))


async def run_commands(call: CommandCall) -> CommandAnswer:
    """/commands: all this sender may use."""
    rows: list[str] = []
    for group in dict.fromkeys(c.group for c in call.table.values()):
        mine = [c for c in call.table.values() if c.group == group and (c.scope == "any" or call.admin)]
        if mine:
            rows += [f"{group.capitalize()}:", *_lines(mine)]
    return CommandAnswer("\n".join(rows))


def _lines(commands: Iterable[ChatCommand]) -> list[str]:
    return [f"  /{c.name}{' ' + c.usage if c.usage else ''} - {c.help}" for c in commands]


def _about(command: ChatCommand) -> str:
    also = f"\nAlso: {', '.join('/' + a for a in command.aliases)}" if command.aliases else ""
    owner = "\nFor the owner only." if command.scope == "owner" else ""
    return f"/{command.name}{' ' + command.usage if command.usage else ''}\n{command.help}{also}{owner}"


# /models: what can be chosen with /model, numbered.


async def run_models(call: CommandCall) -> CommandAnswer:
    """/models [TEXT]: all, or those whose name holds the text."""
    now = find_session_model(call.program.catalog, call.agent, call.record)
    return CommandAnswer(list_models(call.program.catalog, call.agent, str(now.ref), call.args.strip().lower()))


# /why [TOPIC] [NAME]: why the last answer here was as it was (`services/why.py` has the words).


async def run_why(call: CommandCall) -> CommandAnswer:
    """The short form; a topic tells more, `run` everything."""
    words = call.args.split()
    topic = words.pop(0).lower() if words else "short"
    if topic not in TOPICS:
        known = ", ".join(name for name in TOPICS if name != "short")
        return CommandAnswer(f'"{topic[:40]}" is nothing to ask about. Ask about one of: {known}.')
    store = call.program.store
    transcript = await call.program.transcripts.load(call.record.path(call.key.agent), call.agent.workspace)
    path = reversed(transcript.path_to_leaf())
    ident = next((entry.item for entry in path if entry.item and entry.item != call.claim.id), "")
    row = await store.item(ident) if ident else None
    if row is None:
        return CommandAnswer("There is no answer in this session to explain yet.")
    told = describe_run(await load_run_facts(store, transcript, row))
    return CommandAnswer(format_why(told, topic, words[0] if words else ""))

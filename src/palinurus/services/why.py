"""Why a run was as it was: one explanation, made of what it left on file, for `pal why`, /why and the page alike.

`collect_run_facts` is all that is on file, `describe_run` makes plain data of it, `TOPICS` says parts of that in words;
these are pure, and make nothing up. Figures are the ledger's; cards (core/types/card.py) tell what each call was made
of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

import msgspec

from palinurus.core.policy import taint
from palinurus.core.spoken import read_spoken
from palinurus.core.text import format_count
from palinurus.core.types.card import CARD, EVIDENCE, CallCard, EvidenceFinding, read_cards, read_findings
from palinurus.core.types.messages import AssistantMessage, Message, ToolResult, UserMessage
from palinurus.patterns import compile_late
from palinurus.sessions.entries import MessageEntry
from palinurus.sessions.transcript import Transcript
from palinurus.store.port import InboxRow, Store, TraceStep, UsageRow

SHOWN = 80  # characters of a text that is quoted
_TOOK = compile_late(r"(?<!\d)(\d+) ms$")
_MEMORY = frozenset({"memory_search", "memory_get"})
_SKILL = "/SKILL.md"
_SUMS = {"input": "input", "output": "output", "cacheRead": "cache_read", "cacheWrite": "cache_write"}


class RunFacts(msgspec.Struct, frozen=True):
    """All that is on file about one message."""

    row: InboxRow
    steps: Sequence[TraceStep] = ()
    calls: Sequence[UsageRow] = ()  # of the ledger
    said: Sequence[Message] = ()  # its lines of the transcript
    cards: Sequence[CallCard] = ()  # of its steps
    aside: Sequence[CallCard] = ()  # of what else it asked a model for


def collect_run_facts(
    row: InboxRow, steps: Sequence[TraceStep], ledger: Iterable[UsageRow], transcript: Transcript | None
) -> RunFacts:
    """Of one message: its steps, what of the ledger and of its session's transcript is its own."""
    entries = transcript.entries_of(row.id) if transcript is not None else ()
    cards = read_cards(step.detail for step in steps if step.what == CARD)
    return RunFacts(
        row,
        steps,
        [call for call in ledger if call.item == row.id],
        [entry.message for entry in entries if isinstance(entry, MessageEntry)],
        cards=[card for card in cards if not card.purpose],
        aside=[card for card in cards if card.purpose],
    )


async def load_run_facts(store: Store, transcript: Transcript, row: InboxRow) -> RunFacts:
    """The same in the running program."""
    return collect_run_facts(row, await store.trace(row.id), await store.list_usage(row.at, row.session), transcript)


def describe_run(facts: RunFacts) -> dict[str, Any]:
    """The whole as plain data. Without cards (a run of an older version) what only they know
    is None."""
    row, cards = facts.row, facts.cards
    answers = [m for m in facts.said if isinstance(m, AssistantMessage)]
    results = [m for m in facts.said if isinstance(m, ToolResult)]
    last = cards[-1] if cards else None
    used = [card.model for card in cards if not card.failure] or [f"{m.provider}/{m.model}" for m in answers]
    return {
        "item": row.id,
        "sessionKey": row.session,
        "asked": next((_read_asked(m) for m in facts.said if isinstance(m, UserMessage)), "")[:SHOWN],
        "state": row.state,
        "outcome": row.outcome,
        "note": row.note,
        "model": {
            "used": list(dict.fromkeys(used)),
            "why": last.model_why if last else None,
            "stopReason": answers[-1].stopReason if answers else None,
            "failures": [f"{card.model}: {card.failure}" for card in cards if card.failure],
        },
        "thinking": _describe_level(last),
        "prompt": _describe_prompt(last),
        "cache": _describe_cache(facts, last),
        "tools": {
            "offered": list(last.tools or ()) if last else None,
            "hidden": dict(last.hidden or {}) if last else None,
            "called": _list_called(answers, results),
        },
        "memories": [found for result in results if result.toolName in _MEMORY for found in _list_memories(result)],
        "skills": _list_skills(answers),
        "evidence": [msgspec.to_builtins(one) for one in _read_findings(facts)],
        "taint": list(last.taint if last else taint.collect_taint(facts.said)),
        "cost": {**sum_spent(facts.calls), "calls": len(facts.calls)},
        "time": _describe_time(facts),
        "calls": [msgspec.to_builtins(card) for card in (*cards, *facts.aside)],
    }


def _read_asked(message: UserMessage) -> str:
    spoken = read_spoken(message)
    return spoken.words or spoken.program


def _read_findings(facts: RunFacts) -> list[EvidenceFinding]:
    """Claims of its answers that nothing bore out."""
    return read_findings(step.detail for step in facts.steps if step.what == EVIDENCE)


def sum_spent(calls: Sequence[UsageRow]) -> dict[str, Any]:
    """The ledger's sums. A call without a price counts in `missingCostEntries`; it is not free."""
    made: dict[str, Any] = {name: sum(getattr(call, own) for call in calls) for name, own in _SUMS.items()}
    made["totalTokens"] = sum(made.values())
    made["missingCostEntries"] = sum(call.cost is None for call in calls)
    return {**made, "totalCost": sum((call.cost or 0.0 for call in calls), 0.0)}


def _describe_level(card: CallCard | None) -> dict[str, Any] | None:
    if card is None:
        return None
    return {"level": card.level, "reason": card.level_why, "asked": card.level_asked or card.level, "fast": card.fast}


def _describe_prompt(card: CallCard | None) -> dict[str, Any] | None:
    if card is None or card.sections is None:
        return None
    sections = [{"name": one.name, "bytes": one.bytes, "stable": one.stable} for one in card.sections]
    return {"sections": sections, "stableHash": card.stable, "messages": card.messages, "bytes": card.total}


def _describe_cache(facts: RunFacts, card: CallCard | None) -> dict[str, Any]:
    asked = sum(call.input + call.cache_read + call.cache_write for call in facts.calls)
    read = sum(call.cache_read for call in facts.calls)
    made: dict[str, Any] = {"read": read, "asked": asked, "share": round(read / asked, 3) if asked else None}
    first = facts.cards[0] if card is not None else None
    if first is not None:
        made |= {"kept": first.kept, "total": first.total, "broke": first.broke or None}
    return made


def _list_called(answers: Sequence[AssistantMessage], results: Sequence[ToolResult]) -> list[dict[str, Any]]:
    ended = {result.toolCallId: result for result in results}
    return [
        {"id": call.id, "name": call.name, "isError": ended[call.id].isError if call.id in ended else None}
        for answer in answers
        for call in answer.calls
    ]


def _list_memories(result: ToolResult) -> list[dict[str, Any]]:
    """Where what was remembered stands."""
    details = result.details if isinstance(result.details, dict) else {}
    hits = details.get("results")
    found = hits if isinstance(hits, list) else [details] if details.get("path") else []
    names = ("path", "startLine", "endLine", "score")
    return [{name: hit[name] for name in names if name in hit} for hit in found if isinstance(hit, dict)]


def _list_skills(answers: Sequence[AssistantMessage]) -> list[str]:
    """Skills whose text was read."""
    paths = (str(call.arguments.get("path", "")) for answer in answers for call in answer.calls if call.name == "read")
    return list(dict.fromkeys(path.removesuffix(_SKILL).rpartition("/")[2] for path in paths if path.endswith(_SKILL)))


def _describe_time(facts: RunFacts) -> dict[str, Any]:
    """Milliseconds per phase. `other` is our own work; what ran at the same time is counted in each."""
    row = facts.row
    took = [int(found[1]) for step in facts.steps if step.what == "result" and (found := _TOOK.search(step.detail))]
    cards = facts.cards
    model = sum(card.ms for card in cards) if cards else sum(call.ms for call in facts.calls)
    phases: dict[str, Any] = {"queued": max(0, row.claimed - row.at) if row.claimed else None}
    phases |= {"model": model, "tools": sum(took)}
    if cards and cards[0].first is not None:
        phases["firstWord"] = max(0, cards[0].at + cards[0].first - row.at)
    if row.settled and row.claimed:
        running = max(0, row.settled - row.claimed)
        phases |= {"running": running, "other": max(0, running - model - sum(took))}
        phases["total"] = max(0, row.settled - row.at)
    return phases


# --- in words


def format_duration(ms: int | None) -> str:
    """`12 ms`, `3.4 s`, `2 min`"""
    if ms is None:
        return "-"
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.1f} s" if ms < 120_000 else f"{ms // 60_000} min"


def _say_head(told: dict[str, Any]) -> list[str]:
    asked = " ".join(told["asked"].split())
    return [f"message  {told['item']}  in {told['sessionKey']}" + (f': "{asked}"' if asked else "")]


def _say_end(told: dict[str, Any], _: str = "") -> list[str]:
    note = " ".join(told["note"].split())[:SHOWN]
    if told["outcome"] is None:
        return [f"end      not yet: it is {told['state']}"]
    because = f": {note}" if note and told["outcome"] != "answered" else ""
    return [f"end      {told['outcome']}{because}"]


def _say_model(told: dict[str, Any], _: str = "") -> list[str]:
    model = told["model"]
    used = ", ".join(model["used"]) or "none answered"
    why = f": {model['why']}" if model["why"] else ""
    return [f"model    {used}{why}", *(f"         failed: {one}" for one in model["failures"])]


def _say_level(told: dict[str, Any], _: str = "") -> list[str]:
    level = told["thinking"]
    if level is None:
        return ["thinking not on file for this run"]
    fitted = f" (asked for {level['asked']}, which it does not have)" if level["asked"] != level["level"] else ""
    fast = ", fast" if level["fast"] else ""
    return [f"thinking {level['level']}{fitted}{fast}: {level['reason'] or 'nobody asked for more'}"]


def _say_prompt(told: dict[str, Any], _: str = "") -> list[str]:
    prompt = told["prompt"]
    if prompt is None:
        return []
    sections = prompt["sections"]
    sizes = [sum(s["bytes"] for s in sections if s["stable"] is stable) for stable in (True, False)]
    largest = sorted(sections, key=lambda s: -s["bytes"])[:3]
    named = ", ".join(f"{s['name']} {format_bytes(s['bytes'])}" for s in largest)
    stay, change = map(format_bytes, sizes)
    return [
        f"prompt   {len(sections)} sections, {stay} that stay and {change} that change ({named} …),"
        f" {format_count(prompt['messages'], 'message')}"
    ]


def format_bytes(size: int) -> str:
    """`812 B`, `9.8 kB`"""
    return f"{size} B" if size < 1000 else f"{size / 1000:.1f} kB"


def _say_tools(told: dict[str, Any], _: str = "") -> list[str]:
    tools = told["tools"]
    words = {None: "no result" if told["outcome"] else "not ended yet", True: "error", False: "ok"}
    called = ", ".join(f"{one['name']} {words[one['isError']]}" for one in tools["called"]) or "none called"
    if tools["offered"] is None:
        return [f"tools    {called}"]
    hidden = f", {len(tools['hidden'])} hidden (pal why tool NAME)" if tools["hidden"] else ""
    return [f"tools    {called}; {len(tools['offered'])} offered{hidden}"]


def _say_tool(told: dict[str, Any], name: str) -> list[str]:
    tools = told["tools"]
    if not name:
        lines = [f"hidden   {tool}: {why}" for tool, why in (tools["hidden"] or {}).items()]
        return [*_say_tools(told), *lines]
    uses = [one for one in tools["called"] if one["name"] == name]
    if uses:
        return [f"tool     {name} was offered and called {len(uses)} time{'s' if len(uses) > 1 else ''}"]
    if name in (tools["hidden"] or {}):
        return [f"tool     {name} was kept away: {tools['hidden'][name]}", f"         `pal policy explain {name}`"]
    if tools["offered"] is None:
        return [f"tool     which tools this run had is not on file; `pal policy explain {name}` tells of the next one"]
    if name in tools["offered"]:
        return [f"tool     {name} was offered; the model did not call it"]
    return [f"tool     there was no {name} in this run; `pal policy explain {name}`"]


def _say_cache(told: dict[str, Any], _: str = "") -> list[str]:
    cache = told["cache"]
    share = "the provider told nothing of its cache"
    if cache["read"]:
        share = f"{round(100 * cache['share'])} % of {cache['asked']:,} tokens read from the cache"
    if not cache.get("total"):
        return [f"cache    {share}"]
    kept = f"{100 * cache['kept'] // cache['total']} % of the first request as the one before"
    broke = f"; broke at {cache['broke']}" if cache["broke"] else ""
    return [f"cache    {share}; {kept if cache['kept'] else 'nothing came before'}{broke}"]


def _say_memory(told: dict[str, Any], _: str = "") -> list[str]:
    hits = [f"{hit['path']}:{hit['startLine']}" if "startLine" in hit else hit["path"] for hit in told["memories"]]
    lines = [f"memory   {', '.join(dict.fromkeys(hits)) or 'nothing was looked up'}"]
    files = [s["name"] for s in (told["prompt"] or {"sections": []})["sections"] if s["name"].endswith(".md")]
    lines += [f"         in the prompt: {', '.join(files)}"] if files else []
    return [*lines, *([f"skills   {', '.join(told['skills'])}"] if told["skills"] else [])]


def _say_outside(told: dict[str, Any], _: str = "") -> list[str]:
    return [f"outside  {', '.join(told['taint'])[:400] or 'nothing here came from outside'}"]


def _say_claims(told: dict[str, Any], _: str = "") -> list[str]:
    return [
        f'doubtful "{claim["said"]}": {claim["fact"]}' + (" (the model was asked again)" if found.get("asked") else "")
        for found in told["evidence"]
        for claim in found["claims"]
    ]


def _say_cost(told: dict[str, Any], _: str = "") -> list[str]:
    cost = told["cost"]
    price = f"${cost['totalCost']:.4f}" if cost["missingCostEntries"] < cost["calls"] else "no price known"
    if 0 < cost["missingCostEntries"] < cost["calls"]:
        price += f" ({format_count(cost['missingCostEntries'], 'call')} without a price)"
    cached = f", {cost['cacheRead']:,} from the cache" if cost["cacheRead"] else ""
    calls = f"{cost['calls']} model call{'' if cost['calls'] == 1 else 's'}"
    return [f"cost     {calls}, {cost['input']:,} tokens in{cached}, {cost['output']:,} out, {price}"]


def _say_calls(told: dict[str, Any], _: str = "") -> list[str]:
    lines = []
    for one in told["calls"]:
        name = one.get("purpose") or f"call {one['number']}"
        tokens = f"{one.get('input', 0):,} in, {one.get('output', 0):,} out"
        failed = f", failed ({one['failure']})" if one.get("failure") else ""
        lines.append(f"  {name}: {one['model']}, {tokens}, {format_duration(one.get('ms', 0))}{failed}")
    return lines


def _say_time(told: dict[str, Any], _: str = "") -> list[str]:
    time = told["time"]
    parts = [
        f"{name} {format_duration(time[name])}" for name in ("queued", "model", "tools", "other") if time.get(name)
    ]
    total = f"{format_duration(time['total'])}: " if "total" in time else ""
    return [f"time     {total}{', '.join(parts) or 'not measured'}"]


def _say_silence(told: dict[str, Any], _: str = "") -> list[str]:
    reasons = {
        None: "it has not ended: nothing was said yet",
        "answered": "it was not silent: it was answered",
        "silent": "the agent chose to say nothing (NO_REPLY, a quiet heartbeat, or a plugin took the message)",
        "failed": "it failed, and that was told",
        "refused": "it was refused, and that was told",
        "aborted": "it was stopped",
        "dead": "it ended the program several times and is not tried again",
    }
    return [f"silence  {reasons[told['outcome']]}", *_say_end(told)]


Say: TypeAlias = Callable[[dict[str, Any], str], list[str]]

# What can be asked about a run, with who says it, in the order of the whole.
TOPICS: dict[str, tuple[Say, ...]] = {
    "model": (_say_model,),
    "level": (_say_level, _say_model),
    "tool": (_say_tool,),
    "memory": (_say_memory, _say_outside),
    "cost": (_say_cost, _say_calls, _say_time),
    "silence": (_say_silence,),
    "short": (_say_model, _say_level, _say_tools, _say_claims, _say_cost, _say_time, _say_end),
    "reply": (_say_model, _say_memory, _say_outside, _say_tools, _say_claims, _say_end),
    "run": (
        _say_model, _say_level, _say_prompt, _say_tools, _say_claims, _say_cache, _say_memory, _say_outside, _say_cost,
        _say_calls, _say_time, _say_end,
    ),
}  # fmt: skip


def format_why(told: dict[str, Any], topic: str, name: str = "") -> str:
    """What `TOPICS` says of it; `name` is the tool that is asked about."""
    return "\n".join([*_say_head(told), *(line for say in TOPICS[topic] for line in say(told, name))])

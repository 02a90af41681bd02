"""`pal prompt show`: the system prompt a run would send now, byte for byte, and what each section weighs.
`pal policy explain TOOL` and `pal policy list`: which tools it would get, who decided, and what would change it.
`pal policy why CALL` is in `judged.py`.

Both go through the very `RunPreparer` that runs go through, with the state read only.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import msgspec

from palinurus.agent.plan.prepare import PreparerParts, RunPreparer, RunRefusal
from palinurus.agent.plan.prompt import PromptBuilder, PromptSupply
from palinurus.agent.plan.runplan import RunPlan
from palinurus.app.channels import open_channels
from palinurus.app.parts import make_budgets, make_pictures, make_voices
from palinurus.app.plugins import load_contributions
from palinurus.app.toolbox import make_voice_tool, make_web_tools
from palinurus.cli.args import JSON, CommandParser, Verb, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.look.judged import explain_call
from palinurus.clock import SystemClock
from palinurus.config.sections.policy import find_key_source
from palinurus.config.settings import Settings
from palinurus.core.policy.decide import KeyLocator, ToolVerdict, describe_tool_verdict, explain_tool_verdict
from palinurus.core.text import format_count
from palinurus.core.types.inbound import Inbound, Sender, Target, TurnOptions
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import Model, Prompt
from palinurus.core.types.node import OpenNodes
from palinurus.errors import BadRequest, NotFound
from palinurus.inbox.message import MessageReader
from palinurus.outbox.post import OutboxPost
from palinurus.plugins.hooks import Hooks
from palinurus.providers.catalog import Catalog
from palinurus.providers.probe import probe_ollama
from palinurus.services.nodes import part as nodes
from palinurus.sessions.transcript import Transcripts
from palinurus.store.factory import open_reader
from palinurus.store.port import RunClaim, SessionRow, Store, StoreRecord
from palinurus.tools.browser.offer import BrowserOffer
from palinurus.tools.canvas.offer import CanvasOffer
from palinurus.tools.collect import SessionsAndAgents, make_all_tools
from palinurus.tools.commands.environ import build_child_env, build_search_path
from palinurus.tools.nodes.offer import make_nodes_tool
from palinurus.tools.program import gateway
from palinurus.tools.program import message as tool
from palinurus.tools.program.cron import SchedulerPort
from palinurus.tools.program.memory import MemoryPort
from palinurus.tools.program.session import SessionStatusPort
from palinurus.tools.program.subagents import SubagentsPort
from palinurus.tools.web.toolset import WebToolset
from palinurus.workspace.sources import PromptSources

CHARS = 4  # to a token, roughly


def run_policy(argv: list[str]) -> int:
    """Exit code: 0, or 1 if the tool that was asked about is not offered. Raises BadRequest, ConfigError."""
    asked = parse_verb("policy", "Which tools a run gets, and why.", VERBS, argv)
    loaded = load_settings(os.environ)
    if asked.run is explain_call:
        return int(asked.run(asked, loaded.settings))
    seen = asyncio.run(preview_run(loaded.settings, os.environ, build_policy_message(asked), loaded.raw))
    return int(asked.run(asked, seen, partial(find_key_source, loaded.settings)))


def _list(asked: argparse.Namespace, seen: PlanPreview, where: KeyLocator) -> int:
    verdict = seen.verdict
    facts = {**_who(seen), "offered": verdict.offered, "hidden": verdict.hidden, "notes": verdict.notes}
    print(to_json(facts) if asked.json else "\n".join(format_tools(seen)))
    return 0


def _explain(asked: argparse.Namespace, seen: PlanPreview, where: KeyLocator) -> int:
    body = describe_tool_verdict(asked.tool, seen.verdict, where)
    lines = [f"for {_line(seen)}", *explain_tool_verdict(asked.tool, seen.verdict, where)]
    print(to_json({**_who(seen), **body}) if asked.json else "\n".join(lines))
    return 0 if body["available"] else 1


_WHOSE = (
    make_arg("--agent", default="", help="default: the default agent"),
    make_arg("--session", default="", metavar="KEY", help="default: the one such a message would get"),
    make_arg("--sender", default="", metavar="ID", help="who asks; default: the owner"),
    make_arg("--owner", action="store_true", help="the sender is the owner"),
    make_arg("--model", default="", help="default: the session's"),
    make_arg("--channel", default="terminal", help="where the message comes from (terminal)"),
    make_arg("--group", default="", metavar="ID", help="from this group there"),
    JSON,
)
_TOOL = make_arg("tool", metavar="TOOL")
_CALL = make_arg(
    "call", metavar="CALL", help="the id of the call, the beginning of the question's, or a tool: its last call"
)
VERBS = {
    "explain": Verb(_explain, "why a tool is offered or not, layer by layer", (_TOOL, *_WHOSE)),
    "list": Verb(_list, "list the tools a run gets, and why others are missing", _WHOSE),
    "why": Verb(explain_call, "why a tool call needed an approval, or did not", (_CALL, JSON)),
}


def build_policy_message(asked: argparse.Namespace) -> Inbound:
    """The message whose run is looked at."""
    owner = asked.owner or not asked.sender
    return Inbound(
        Target(asked.channel, asked.group or asked.sender),
        Sender(asked.sender or "operator", owner=owner, allowed=True),
        event="",
        text="preview",
        at=0,
        kind="group" if asked.group else "direct",
        session=asked.session,
        agent=asked.agent,
        options=TurnOptions(model=asked.model),
    )


def format_tools(seen: PlanPreview) -> list[str]:
    """Every tool, the offered ones first."""
    offered = seen.verdict.offered
    lines = [f"{format_count(len(offered), 'tool')} for {_line(seen)}:", *(f"  {name}" for name in offered)]
    hidden = seen.verdict.hidden
    if hidden:
        lines += ["kept away:", *(f"  {name}: {why}" for name, why in hidden.items())]
    return lines + [f"note: {note}" for note in seen.verdict.notes]


def _line(seen: PlanPreview) -> str:
    who = _who(seen)
    return f"agent {who['agent']}, session {who['session']}, model {who['model']}, sender {who['sender']}"


def _who(seen: PlanPreview) -> dict[str, Any]:
    plan = seen.plan
    sender = plan.inbound.sender
    return {
        "agent": plan.route.agent,
        "session": str(plan.route.key),
        "model": str(plan.model.ref),
        "sender": f"{sender.id} (owner)" if sender.owner else sender.id,
    }


def run_prompt(argv: list[str]) -> int:
    """The prompt on standard output, the sizes on standard error. Raises BadRequest, ConfigError."""
    asked = _parser().parse_args(argv)
    loaded = load_settings(os.environ)
    plan = asyncio.run(
        preview_plan(loaded.settings, os.environ, build_prompt_message(loaded.settings, asked), loaded.raw)
    )
    if asked.json:
        print(to_json(describe_prompt(plan)))
        return 0
    print(plan.prompt.text)
    sys.stdout.flush()
    print(format_section_sizes(plan.prompt), file=sys.stderr)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("prompt", "What the model is told before the conversation.")
    parser.add_argument("what", choices=("show",))
    parser.add_argument("--agent", default="", help="default: the default agent")
    parser.add_argument("--mode", choices=("full", "minimal", "none"), help="default: as the session has it")
    parser.add_argument("--channel", default="terminal", help="where the message comes from (terminal)")
    parser.add_argument("--group", action="store_true", help="from a group there, not from a person")
    parser.add_argument("--session", default="", metavar="KEY", help="default: the one such a message would get")
    parser.add_argument("--model", default="", help="default: the agent's")
    parser.add_argument("--json", action="store_true", help="print JSON, sizes included")
    return parser


def build_prompt_message(settings: Settings, asked: argparse.Namespace) -> Inbound:
    """The message whose run is shown. Minimal prompts are those of sub-agents."""
    session = asked.session
    if asked.mode == "minimal" and not session:
        session = str(SessionKey(asked.agent or settings.default_agent, "subagent:preview"))
    return Inbound(
        Target(asked.channel, "preview" if asked.group else ""),
        Sender("operator", owner=True),
        event="",
        text="preview",
        at=0,
        kind="group" if asked.group else "direct",
        session=session,
        agent=asked.agent,
        options=TurnOptions(model=asked.model, prompt_mode=asked.mode),
    )


class PlanPreview(msgspec.Struct, frozen=True):
    """The plan of a run that is not run, and what the policy said about its tools."""

    plan: RunPlan
    verdict: ToolVerdict


async def preview_plan(
    settings: Settings, environ: Mapping[str, str], inbound: Inbound, raw: dict[str, Any] | None = None
) -> RunPlan:
    """The plan a run of this message would have, prepared as runs are. Raises BadRequest with the reason if none."""
    return (await preview_run(settings, environ, inbound, raw)).plan


async def preview_run(
    settings: Settings, environ: Mapping[str, str], inbound: Inbound, raw: dict[str, Any] | None = None
) -> PlanPreview:
    """The same, with the verdict on every tool. Raises BadRequest."""
    environ = {**{name: value.reveal() for name, value in settings.env.items()}, **environ}
    catalog, others = Catalog(settings, environ), load_contributions(settings)
    catalog.vendors = others.vendors
    if any(catalog.wants_probe(agent) for agent in settings.agents.values()):
        catalog.ollama = await probe_ollama()
    reader = MessageReader(settings)
    try:
        where = reader.route(inbound)
    except BadRequest as exc:
        raise BadRequest(exc.message, fix="`pal prompt show --help`") from None
    message = reader.read(inbound, where)
    store = cast(Store, _StateOnDisk(settings.home))  # all a plan asks of the store is one session
    clock = SystemClock()
    sources = PromptSources(settings, environ, raw, path=build_search_path())
    family = WebToolset(settings.web, clock)
    web = make_web_tools(settings, catalog, family, cast(Model, None))
    browser = BrowserOffer(settings.browser, settings.home, environ, family.egress, clock=clock)
    lines = open_channels(settings, store, clock, family.egress, given=others, wanted=_unwanted)
    chats = OutboxPost(settings, store, lines, clock, wake=lambda _: None)
    voices = make_voices(settings, catalog, store, build_child_env(environ, {}), channels=lines)
    pictures = make_pictures(settings, catalog, make_budgets(settings, store, clock))
    parts = PreparerParts(
        settings,
        catalog,
        {  # a preview runs none of them
            **others.tools,
            **make_all_tools(
                cast(MemoryPort, None),
                cast(SessionStatusPort, None),
                cast(SessionsAndAgents, None),
                cast(SubagentsPort, None),
                web={**web, **browser.tools(), **CanvasOffer(settings, store, clock, lambda: browser).tools()},
                schedules=cast(SchedulerPort, object()),
            ),
            **make_voice_tool(settings, voices),
            **(pictures.make_tools(family.egress) if pictures is not None else {}),
            **tool.make_message_tool(chats, settings.messaging),
            **make_nodes_tool(cast(OpenNodes, None), _StateOnDisk(settings.home).has_nodes()),
            **gateway.make_gateway_tool(gateway.GatewayControl(settings.home, environ)),
        },
        store,
        transcripts=Transcripts(settings.home),
        clock=clock,
        env=build_child_env(environ, {}),
        hooks=Hooks(),
        prompts=PromptBuilder(settings, catalog, lambda a, k: PromptSupply(*sources(a, k)), speech=voices.find_mode),
        sources=sources,
    )
    claim = RunClaim("preview", str(where.key), where.lane, b"", at=clock.now(), attempts=1)
    preparer = RunPreparer(parts)
    prepared = await preparer.prepare(claim, message.said, where, message.inline)
    if isinstance(prepared, RunRefusal):
        raise BadRequest(prepared.failure.message.partition("; `pal m")[0], fix="`pal models` lists what can be used")
    plan = prepared.plan
    question = preparer.offers.question(where.key, plan.inbound, plan.model, prepared.session)
    return PlanPreview(plan, preparer.offers.judge(question))


async def _unwanted(inbound: Inbound) -> bool:
    return False  # nothing is received for a preview


class _StateOnDisk:
    """The state as it stands on disk, if there is any."""

    def __init__(self, home: str) -> None:
        self._home = home

    async def session(self, key: str) -> SessionRow | None:
        try:
            with open_reader(self._home) as reader:
                return reader.session(key)
        except NotFound:
            return None

    def has_nodes(self) -> bool:
        """Is a node paired?"""
        try:
            with open_reader(self._home) as reader:
                return nodes.has_paired(reader.list_records(nodes.KIND))
        except NotFound:
            return False

    async def list_records(self, kind: str) -> list[StoreRecord]:
        return []  # a preview runs no tool: what its taint would be does not show


def describe_prompt(plan: RunPlan) -> dict[str, Any]:
    """Everything, for programs."""
    prompt = plan.prompt
    schemas = len(msgspec.json.encode(plan.specs))
    return {
        "agent": plan.route.agent,
        "session": str(plan.route.key),
        "model": str(plan.model.ref),
        "stable": prompt.stable,
        "volatile": prompt.volatile,
        "text": prompt.text,
        "chars": len(prompt.text),
        "tokens": estimate_tokens(len(prompt.text)),
        "sections": [{"name": p.name, "chars": p.chars, "stable": p.stable} for p in prompt.parts],
        "tools": {"count": len(plan.specs), "schemaChars": schemas, "tokens": estimate_tokens(schemas)},
    }


def format_section_sizes(prompt: Prompt) -> str:
    """A line for each section, the cache boundary between, the sums at the end."""
    lines = [f"{'section':<20} {'chars':>7} {'tokens':>7}"]
    above = True
    for piece in prompt.parts:
        if above and not piece.stable:
            lines.append("-- cache boundary --")
            above = False
        lines.append(f"{piece.name:<20} {piece.chars:>7} {estimate_tokens(piece.chars):>7}")
    whole = len(prompt.text)
    lines.append(f"{'all':<20} {whole:>7} {estimate_tokens(whole):>7}   (stable: {len(prompt.stable)} chars)")
    return "\n".join(lines)


def estimate_tokens(chars: int) -> int:
    return -(-chars // CHARS)

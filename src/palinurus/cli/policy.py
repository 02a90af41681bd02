"""`pal policy explain TOOL` and `pal policy list`: which tools a run would get, who decided, and what would change it.

The answer comes from the very plan that a run would have (`cli/prompt.look`).
"""

from __future__ import annotations

import argparse
import asyncio
import os
from functools import partial
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, load_settings
from palinurus.cli.prompt import PlanPreview, preview_run
from palinurus.config.policy import find_key_source
from palinurus.core.policy.words import KeyLocator, describe_tool_verdict, explain_tool_verdict
from palinurus.core.types.inbound import Inbound, Sender, Target


def run_policy(argv: list[str]) -> int:
    """Exit code: 0, or 1 if the tool that was asked about is not offered. Raises BadRequest, ConfigError."""
    asked = _parser().parse_args(argv)
    loaded = load_settings(os.environ)
    seen = asyncio.run(preview_run(loaded.settings, os.environ, build_policy_message(asked), loaded.raw))
    where = partial(find_key_source, loaded.settings)
    if asked.what == "list":
        print(_json(_facts(seen)) if asked.json else "\n".join(format_tools(seen)))
        return 0
    body = describe_tool_verdict(asked.tool, seen.verdict, where)
    print(_json({**_who(seen), **body}) if asked.json else "\n".join(_explained(asked.tool, seen, where)))
    return 0 if body["available"] else 1


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser("policy", "Which tools a run gets, and why.")
    commands = parser.add_subparsers(dest="what", required=True, metavar="explain|list", parser_class=_Sub)
    explain = commands.add_parser("explain", help="the way of one tool through the eight layers")
    explain.add_argument("tool", metavar="TOOL")
    for sub in (explain, commands.add_parser("list", help="all tools, with who keeps the others away")):
        sub.add_argument("--agent", default="", help="default: the default agent")
        sub.add_argument("--session", default="", metavar="KEY", help="default: the one such a message would get")
        sub.add_argument("--sender", default="", metavar="ID", help="who asks; default: the owner")
        sub.add_argument("--owner", action="store_true", help="the sender is the owner")
        sub.add_argument("--model", default="", help="default: the session's")
        sub.add_argument("--channel", default="terminal", help="where the message comes from (terminal)")
        sub.add_argument("--group", default="", metavar="ID", help="from this group there")
        sub.add_argument("--json", action="store_true", help="print JSON")
    return parser


class _Sub(CommandParser):
    """A subcommand, which argparse makes by keyword."""

    def __init__(self, **given: Any) -> None:
        argparse.ArgumentParser.__init__(self, allow_abbrev=False, **given)


def build_policy_message(asked: argparse.Namespace) -> Inbound:
    """The message whose run is looked at."""
    options: dict[str, Any] = {"model": asked.model} if asked.model else {}
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
        options=options,
    )


def format_tools(seen: PlanPreview) -> list[str]:
    """Every tool, the offered ones first."""
    offered = seen.verdict.offered
    lines = [f"{len(offered)} tools for {_line(seen)}:", *(f"  {name}" for name in offered)]
    hidden = seen.verdict.hidden
    if hidden:
        lines += ["kept away:", *(f"  {name}: {why}" for name, why in hidden.items())]
    return lines + [f"note: {note}" for note in seen.verdict.notes]


def _explained(tool: str, seen: PlanPreview, where: KeyLocator) -> list[str]:
    return [f"for {_line(seen)}", *explain_tool_verdict(tool, seen.verdict, where)]


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


def _facts(seen: PlanPreview) -> dict[str, Any]:
    verdict = seen.verdict
    return {**_who(seen), "offered": verdict.offered, "hidden": verdict.hidden, "notes": verdict.notes}


def _json(body: Any) -> str:
    return msgspec.json.encode(body).decode()

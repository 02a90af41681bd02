"""`pal approvals`: what waits for a decision, the decision, and the rules that need none.

Works beside a running gateway (which then gives the answer, so that the waiting run hears of it) and without one.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import uuid
from datetime import datetime

import msgspec

from palinurus.cli.args import JSON, Verb, find_agent, load_settings, make_arg, parse_verb, to_json
from palinurus.cli.reach.gateway import reach_program
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.config.sections import approvals
from palinurus.config.settings import Settings
from palinurus.core.policy.command import RUNNERS, list_program_names
from palinurus.core.types.approval import CommandRule
from palinurus.errors import BadRequest, NotFound, StateLocked
from palinurus.inbox.commands.owner import DECISION_WORDS, list_questions
from palinurus.services.approvals import KIND, ApprovalRow
from palinurus.store.factory import open_reader
from palinurus.tools.commands.environ import build_search_path


class ApprovalsCommand(msgspec.Struct, frozen=True):
    loaded: LoadedConfig
    options: argparse.Namespace

    @property
    def settings(self) -> Settings:
        return self.loaded.settings

    @property
    def file(self) -> str:
        return os.path.join(self.settings.home, approvals.APPROVALS_FILE)


def run_approvals(argv: list[str]) -> int:
    """The command. Raises PalinurusError for what a person has to know."""
    options = parse_verb("approvals", "Answer the agent's questions for permission.", VERBS, argv, default="list")
    text, code = options.run(ApprovalsCommand(load_settings(os.environ), options))
    print(strip_controls(text))
    return int(code)


def _list(asked: ApprovalsCommand) -> tuple[str, int]:
    try:
        with open_reader(asked.settings.home) as reader:
            kept = reader.list_records(KIND)
    except NotFound:  # nothing ran here yet: nothing waits
        kept = []
    now = SystemClock().now()
    rows = [msgspec.json.decode(one.data, type=ApprovalRow) for one in kept]
    rows = sorted((r for r in rows if r.state == "pending" and r.expires > now), key=lambda r: r.created)
    if asked.options.json:
        return to_json([row.requested_payload() for row in rows]), 0
    return list_questions(rows, now), 0


def _answer(asked: ApprovalsCommand) -> tuple[str, int]:
    return asyncio.run(_answered(asked.loaded, asked.options.id, asked.options.decision))


async def _answered(loaded: LoadedConfig, ident: str, decision: str) -> tuple[str, int]:
    """As /approve does it: in the gateway if one runs, else in the store."""
    params = {"message": f"/approve {ident} {decision}", "idempotencyKey": str(uuid.uuid4())}
    try:
        async with reach_program(loaded, os.environ, SystemClock()) as program:
            said = (await program.call("agent", params, final=True))["result"]["payloads"]
    except StateLocked as exc:
        raise StateLocked(exc.message, fix="type /approve there, or stop it first") from None
    text = "\n".join(str(part["text"]) for part in said)
    return text, 1 if text.startswith("Nothing changed") else 0


def _allowlist(asked: ApprovalsCommand) -> tuple[str, int]:
    options = asked.options
    agent = options.agent if options.agent == "*" else find_agent(asked.settings, options.agent).id
    if options.action == "list":
        return _rules(asked, agent), 0
    if not options.rule:
        raise BadRequest(f"allowlist {options.action}: which?", fix="`pal approvals allowlist --help`")
    if options.action == "remove":
        gone = approvals.remove_rules(asked.file, agent, options.rule[0])
        return (f"Removed {gone}." if gone else "There is no such rule."), 0 if gone else 1
    rule = _rule(options.rule)
    new = approvals.add_rules(asked.file, agent, (rule,), "cli", now=SystemClock().now())
    return (f"Added: {_shown(rule)}" if new else "It was there already."), 0


def _rule(words: list[str]) -> CommandRule:
    """Raises BadRequest for what may not stand on a list."""
    program = words[0]
    if any(name in RUNNERS for name in list_program_names(program)):
        raise BadRequest(
            f"{program} runs other programs; no rule for it can say what it does",
            fix="allow the program that it runs, or answer each question",
        )
    if "/" not in program:
        program = shutil.which(program, path=build_search_path()) or program
    if program.startswith("/") and not set(program) & set("*?"):
        program = os.path.realpath(program)
    if any(name in RUNNERS for name in list_program_names(program)):
        raise BadRequest(
            f"{words[0]} is {program}, which runs other programs",
            fix="allow the program that it runs, or answer each question",
        )
    return CommandRule(program, tuple(words[1:]) or None)


def _rules(asked: ApprovalsCommand, agent: str) -> str:
    host = approvals.read_approvals(asked.file)
    if host.problem:
        return f"{host.problem}\nUntil it is repaired every command is refused."
    entries = host.entries(agent)
    if asked.options.json:
        return to_json([msgspec.to_builtins(e) for e in entries])
    lines = [f"{e.id[:8]:<8}  {_shown(e.rule)}  {_used(e)}".rstrip() for e in entries]
    words = ", ".join(f"{name}={value}" for name, value in host.words(agent).items())
    return "\n".join([*(lines or ["No rules."]), *([f"host policy: {words}"] if words else [])])


def _shown(rule: CommandRule) -> str:
    return f"{rule.pattern} (any arguments)" if rule.argv is None else " ".join((rule.pattern, *map(repr, rule.argv)))


def _used(entry: approvals.AllowlistEntry) -> str:
    if entry.problem:
        return f"[never used: {entry.problem}]"
    return f"[last used {datetime.fromtimestamp(entry.used / 1000):%Y-%m-%d %H:%M}]" if entry.used else ""


VERBS = {
    "list": Verb(_list, "list questions that wait for an answer", (JSON,)),
    "answer": Verb(
        _answer,
        "answer one: allow-once, allow-always or deny",
        (
            make_arg("id", help="the id, or the beginning of it"),
            make_arg("decision", choices=sorted(set(DECISION_WORDS.values()))),
        ),
    ),
    "allowlist": Verb(
        _allowlist,
        "rules: what runs outside the sandbox without a question",
        (
            make_arg("action", nargs="?", choices=("list", "add", "remove"), default="list"),
            make_arg("rule", nargs=argparse.REMAINDER, help="add: PROGRAM [ARGUMENT …], exactly; remove: ID or PATH"),
            make_arg("--agent", default="", help="which agent, or * for all (default: the default one)"),
            JSON,
        ),
    ),
}

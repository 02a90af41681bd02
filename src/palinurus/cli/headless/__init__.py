"""`pal -p TEXT`: one request for programs. Text, one JSON object, or a stream of the messages that Claude's Agent SDK
speaks (`frames.py`), also in both directions (`talk.py`).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import select
import sys
import uuid
from typing import Any

from palinurus.cli.agent import read_files, read_schema
from palinurus.cli.args import CommandParser, load_settings, resolve_session_key
from palinurus.cli.headless.talk import HeadlessOrder, run_headless
from palinurus.cli.here import add_folder_args, choose_folder
from palinurus.cli.reach.client import CliMessage
from palinurus.config.settings import Settings
from palinurus.core.jsonschema import list_unsupported
from palinurus.core.policy.modes import MODES, parse_mode
from palinurus.core.text import repair_surrogates
from palinurus.core.types.inbound import TurnBounds
from palinurus.core.types.keys import SessionKey, parse_session_key
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions.lifecycle import PRINTED
from palinurus.store.factory import open_reader

QUIET = 3.0  # seconds in which a pipe that is to hold context must say something
# Claude Code's names of tools, as ours.
TOOLS: dict[str, tuple[str, ...]] = {
    "Read": ("read",),
    "Write": ("write",),
    "Edit": ("edit", "apply_patch"),
    "MultiEdit": ("edit", "apply_patch"),
    "Bash": ("exec", "process"),
    "BashOutput": ("process",),
    "KillShell": ("process",),
    "Glob": ("find", "ls"),
    "LS": ("ls",),
    "Grep": ("grep",),
    "WebFetch": ("web_fetch",),
    "WebSearch": ("web_search",),
    "Task": ("sessions_spawn", "subagents", "agents_list"),
    "Agent": ("sessions_spawn", "subagents", "agents_list"),
    "TodoWrite": ("update_plan",),
    "Skill": ("read",),
}
LEVELS = {"disabled": "off", "enabled": "medium"}  # --thinking as the SDK writes it
EXAMPLES = """examples:
  pal -p "what does this project do?"
  git diff | pal -p "review this" --permission-mode plan
  pal -p "list the files" --output-format json | jq -r .result
  pal -p "who wrote it?" --schema form.json --max-turns 5
  pal -p "and now?" --continue
exit codes: 0 answered, 1 failed, 64 wrong line, 75 in use, 124 time limit, 130 interrupted
"""


def run_print(argv: list[str]) -> int:
    """Parse, talk, print. Raises BadRequest, NotFound, ConfigError."""
    args = make_parser().parse_args(argv)
    environ = dict(os.environ)
    loaded = load_settings(environ)
    streamed = args.input_format == "stream-json"
    if streamed and args.output_format != "stream-json":
        raise BadRequest(
            "--input-format stream-json needs --output-format stream-json", fix="add --output-format stream-json"
        )
    text = "" if streamed else _read_text(args.prompt)
    if not (text.strip() or streamed):
        raise BadRequest("there is nothing to answer", fix='pal -p "TEXT", or pipe it in')
    key, ident = _find_session(loaded.settings, args)
    earlier = bool(args.session or args.resume or args.last)  # it has its folder
    folder = "" if earlier and not (args.here or args.folder) else choose_folder(args, loaded, environ, person=False)
    asks = args.permission_prompt_tool == "stdio"
    message = CliMessage(
        text,
        str(key),
        key.agent,
        args.model,
        thinking=args.effort or LEVELS.get(args.thinking, args.thinking),
        schema=_find_schema(args),
        folder=folder,
        unattended=not asks,
        mode=_find_mode(args.permission_mode, asks),
        system="\n\n".join(filter(None, (args.system_prompt, args.append_system_prompt))),
        bounds=TurnBounds(_find_tools(args), _list_tools(args.disallowed_tools) or (), max(0, args.max_turns)),
        files=read_files(args.file),
    )
    order = HeadlessOrder(
        message,
        ident,
        args.output_format,
        streamed,
        asks=asks,
        partial=args.include_partial_messages,
        verbose=args.verbose,
        local=args.local,
        timeout=args.timeout,
    )
    return asyncio.run(run_headless(loaded, environ, order))


def make_parser() -> CommandParser:
    """Our names of options, and Claude Code's where there is one."""
    form = argparse.RawDescriptionHelpFormatter
    parser = CommandParser(
        "print", "Answer one request, for programs. `pal -p` is the same.", epilog=EXAMPLES, formatter_class=form
    )
    add = parser.add_argument
    add("prompt", nargs="?", default="", metavar="TEXT", help="what to do; what is piped in is its context")
    add("-p", "--print", action="store_true", help="not needed here; what `pal -p` says")
    add("--output-format", choices=("text", "json", "stream-json"), default="text", help="of the answer (text)")
    add("--input-format", choices=("text", "stream-json"), default="text", help="stream-json: messages on stdin")
    add("--include-partial-messages", action="store_true", help="stream-json: with every piece of text as it comes")
    add("--allowed-tools", "--allowedTools", "--tools", action="append", metavar="NAMES", help="only these tools")
    add("--disallowed-tools", "--disallowedTools", action="append", metavar="NAMES", help="not these tools")
    add("--max-turns", type=int, default=0, metavar="N", help="model calls at most")
    modes = ", ".join(MODES)
    add("--permission-mode", default="", metavar="MODE", help=f"{modes}; Claude Code's names are understood")
    add("--permission-prompt-tool", choices=("stdio",), default="", help="stdio: questions go to the program (SDK)")
    add("--model", default="", help="provider/model")
    add("--thinking", default="", metavar="LEVEL", help="thinking level")
    add("--effort", default="", metavar="LEVEL", help="the same")
    add("--schema", default="", metavar="FILE", help="the reply is JSON that fits this JSON schema")
    add("--json-schema", default="", metavar="JSON", help="the same, with the schema on the line")
    add("--file", action="append", default=[], metavar="PATH", help="send this file or picture along; may be repeated")
    add("--system-prompt", default="", metavar="TEXT", help="added to the agent's own prompt, which stays")
    add("--append-system-prompt", default="", metavar="TEXT", help="the same")
    add("--agent", default="", help="which agent (default: the default one)")
    add_folder_args(parser)
    add("--session", default="", metavar="KEY", help="this session, not a new one")
    add("--session-id", default="", metavar="ID", help="the new session's id")
    add("--continue", "-c", dest="last", action="store_true", help="go on with the last session of `pal -p`")
    add("--resume", "-r", default="", metavar="ID", help="go on with this session")
    add("--timeout", type=float, default=0.0, metavar="SECONDS", help="after which the turn is stopped; 0 is never")
    add("--local", action="store_true", help="run in this process, not through a gateway")
    add("--verbose", action="store_true", help="tools on standard error")
    return parser


def _read_text(prompt: str) -> str:
    """The prompt with what was piped in below it, between fences: that is content, not the person's own words."""
    piped = repair_surrogates(_read_piped(wait=not prompt)).strip("\n")
    prompt = repair_surrogates(prompt)
    if not (prompt and piped):
        return prompt or piped
    ticks = "```"
    while ticks in piped:
        ticks += "`"
    return f"{prompt}\n\n{ticks}\n{piped}\n{ticks}"


def _read_piped(*, wait: bool) -> str:
    if sys.stdin.isatty():
        return ""
    try:
        ready = wait or select.select([sys.stdin], [], [], QUIET)[0]
    except (OSError, ValueError):
        return ""
    if not ready:
        print(f"pal: nothing came on stdin for {QUIET:.0f} s; going on without it", file=sys.stderr)
        return ""
    return sys.stdin.read()


def _find_session(settings: Settings, args: argparse.Namespace) -> tuple[SessionKey, str]:
    """The session, and the id it has for programs."""
    agent = args.agent or settings.default_agent
    if sum(map(bool, (args.session, args.resume, args.last, args.session_id))) > 1:
        raise BadRequest("--session, --session-id, --resume and --continue exclude each other", fix="choose one")
    if args.session:
        key = resolve_session_key(settings, args.session, args.agent)
        return key, str(key)
    ident = args.session_id or str(uuid.uuid4())
    if args.resume or args.last:
        return _find_earlier(settings, args.resume, agent)
    return resolve_session_key(settings, f"{PRINTED}{ident}", agent), ident


def _find_earlier(settings: Settings, wanted: str, agent: str) -> tuple[SessionKey, str]:
    with open_reader(settings.home) as reader:
        rows = sorted(reader.sessions(), key=lambda row: -row.updated)
    for row in rows:
        key = parse_session_key(row.key)
        if key is None:
            continue
        ident = key.rest.removeprefix(PRINTED) if key.rest.startswith(PRINTED) else str(key)
        last = not wanted and key.agent == agent and key.rest.startswith(PRINTED)
        if last or (wanted and wanted in (ident, row.session_id, row.key)):
            return key, ident
    if wanted:
        raise NotFound(f"there is no session {wanted[:80]!r}", fix="`pal sessions` lists them")
    raise NotFound("there is no session of `pal -p` to continue", fix="leave --continue out, or name one: --resume ID")


def _find_mode(word: str, asks: bool) -> str:
    """Claude Code's `default` asks before edits and commands; a program that brings a way to answer wants that."""
    if asks and word in ("", "default"):
        return "ask"
    if not word:
        return ""
    if word in ("dontAsk", "auto"):  # nobody is asked, and what would ask is not done: that is what -p does anyway
        return "default"
    if (mode := parse_mode(word)) is None:
        raise BadRequest(f"there is no permission mode {word[:40]!r}", fix=f"use one of: {', '.join(MODES)}")
    return mode


def _find_tools(args: argparse.Namespace) -> tuple[str, ...] | None:
    if args.allowed_tools == ["default"]:  # the SDK's word for all that there are
        return None
    return _list_tools(args.allowed_tools)


def _list_tools(given: list[str] | None) -> tuple[str, ...] | None:
    """Our names of the tools that are meant. Raises BadRequest for a part of a tool, which cannot be promised."""
    if given is None:
        return None
    found: list[str] = []
    for word in " ".join(given).replace(",", " ").split():
        name, part, _ = word.partition("(")
        if part and name != "Skill":
            raise BadRequest(f"{word[:60]}: only a whole tool can be named here", fix=f"say {name}")
        found += TOOLS.get(name, (name.removeprefix("mcp__"),))
    return tuple(dict.fromkeys(found))


def _find_schema(args: argparse.Namespace) -> dict[str, Any] | None:
    if args.schema:
        return read_schema(args.schema)
    if not args.json_schema:
        return None
    try:
        found = json.loads(args.json_schema)
    except ValueError as exc:
        raise BadRequest(
            f"--json-schema is not JSON: {exc}", fix='one JSON object in quotes of the shell: \'{"type": "object"}\''
        ) from None
    if wrong := list_unsupported(found):
        raise BadRequest(
            f"--json-schema: {'; '.join(wrong)}",
            fix="pal checks answers with JSON Schema's usual words: type, properties, required, items, enum",
        )
    return dict(found)

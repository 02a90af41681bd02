"""`pal agent -m TEXT`: one message, its reply on stdout, and an exit code that tells whether there was one."""

from __future__ import annotations

import argparse
import asyncio
import base64
import mimetypes
import os
import signal
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, load_settings, read_message_text, resolve_session_key, to_json
from palinurus.cli.reach.client import AgentClient, CliMessage, CliOutcome, connect_agent
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.core.jsonschema import list_unsupported
from palinurus.core.types.events import AgentEnd, AgentStart, RunEvent, ToolEnd, ToolStart, ToolUpdate
from palinurus.errors import BadRequest
from palinurus.files import open_plain_file

TIMED_OUT = 124  # as timeout(1)
FILES_BYTES = 14 * 1024 * 1024  # of one message: a request of the gateway's holds 20 MB, and base64 takes a third more


def run_agent(argv: list[str]) -> int:
    """Parse, send, print."""
    args = _parser().parse_args(argv)
    text = read_message_text(args.message)
    if not text.strip():
        raise BadRequest("the message is empty", fix="pal agent -m TEXT, or -m - to read it from stdin")
    environ = dict(os.environ)
    loaded = load_settings(environ)
    where = resolve_session_key(loaded.settings, args.session, args.agent)
    schema = _read_schema(args.schema) if args.schema else None
    message = CliMessage(
        text,
        str(where),
        where.agent,
        args.model,
        thinking=args.thinking,
        schema=schema,
        files=_read_files(args.file),
    )
    return asyncio.run(_talk(loaded, environ, message, args))


def _parser() -> CommandParser:
    parser = CommandParser("agent", "Send one message to the agent and print the reply.")
    parser.add_argument("-m", "--message", required=True, help="what to say; - reads it from stdin")
    parser.add_argument("--session", default="", help="session key, or a word (default: the main session)")
    parser.add_argument("--agent", default="", help="which agent (default: the default one)")
    parser.add_argument("--model", default="", help="provider/model for this turn")
    parser.add_argument("--thinking", default="", metavar="LEVEL", help="thinking level for this turn")
    parser.add_argument(
        "--file", action="append", default=[], metavar="PATH", help="send this file or picture along; may be repeated"
    )
    parser.add_argument("--schema", default="", metavar="FILE", help="the reply is JSON that fits this JSON schema")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--local", action="store_true", help="run in this process, not through a gateway")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds after which the turn is stopped")
    return parser


def _read_schema(file: str) -> dict[str, Any]:
    """Raises BadRequest for what is no schema, or one that cannot be promised."""
    try:
        with open(file, "rb") as source:
            found = msgspec.json.decode(source.read())
    except OSError as exc:
        raise BadRequest(f"{file}: {exc.strerror}") from None
    except msgspec.DecodeError as exc:
        raise BadRequest(f"{file} is not JSON: {exc}") from None
    if wrong := list_unsupported(found):
        raise BadRequest(f"{file}: {'; '.join(wrong)}")
    return dict(found)


def _read_files(paths: list[str]) -> tuple[dict[str, str], ...]:
    """The files as clients of the gateway send them. Raises BadRequest."""
    found: list[dict[str, str]] = []
    left = FILES_BYTES
    for path in paths:
        try:
            with open_plain_file(os.path.expanduser(path), follow=True) as source:
                data = source.read(left + 1)
        except OSError as exc:
            raise BadRequest(f"{path}: {exc.strerror or exc}") from None
        left -= len(data)
        if left < 0:
            most = f"{FILES_BYTES // 1024 // 1024} MB"
            raise BadRequest(
                f"{path}: the files of one message may have {most} together",
                fix="put it into the workspace and name it in the message",
            )
        name = os.path.basename(path)
        mime = mimetypes.guess_type(name)[0] or ""
        found.append({"fileName": name, "mimeType": mime, "content": base64.b64encode(data).decode()})
    return tuple(found)


class _Seen:
    """What is worth telling about the run."""

    def __init__(self) -> None:
        self.model = ""
        self.tools: list[dict[str, Any]] = []
        self.notices: list[str] = []
        self.stopped = ""

    def note(self, event: RunEvent) -> None:
        if isinstance(event, AgentStart):
            self.model = event.model
        elif isinstance(event, AgentEnd):
            self.notices += event.notices
        elif isinstance(event, ToolEnd):
            code = event.result.exit_code
            told = {"name": event.name, "ok": not event.is_error and not code, "durationMs": event.took_ms}
            self.tools.append(told | ({"exitCode": code} if code else {}))


async def _talk(loaded: LoadedConfig, environ: Mapping[str, str], message: CliMessage, args: argparse.Namespace) -> int:
    clock: Clock = SystemClock()
    client = await connect_agent(loaded, environ, clock, local=args.local)
    seen = _Seen()
    began = clock.monotonic()
    try:
        outcome = await _turn(client, message, args, environ, seen=seen)
    finally:
        await client.close()
    if args.json:
        _json(outcome, seen, int(1000 * (clock.monotonic() - began)))
    return _code(outcome, seen)


async def _turn(
    client: AgentClient, message: CliMessage, args: argparse.Namespace, environ: Mapping[str, str], seen: _Seen
) -> CliOutcome:
    """Run the turn and show it. Ctrl-C and the time limit stop the turn; its outcome is still waited for."""
    loop = asyncio.get_running_loop()
    tasks: set[asyncio.Future[None]] = set()

    def stop(why: str) -> None:
        seen.stopped = seen.stopped or why
        tasks.add(asyncio.ensure_future(client.abort(message.session)))

    loop.add_signal_handler(signal.SIGINT, stop, "interrupted")
    timer = loop.call_later(args.timeout, stop, "timeout") if args.timeout > 0 else None
    live = sys.stdout.isatty() and not args.json and not args.schema
    view = TerminalView(sys.stdout if live else sys.stderr, environ, tools=sys.stderr.isatty())
    outcome: CliOutcome | None = None
    try:
        async for piece in client.send(message):
            if isinstance(piece, CliOutcome):
                outcome = piece
                continue
            seen.note(piece)
            if live or isinstance(piece, (ToolStart, ToolUpdate, ToolEnd, AgentEnd)):
                view.show(piece)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if timer is not None:
            timer.cancel()
    assert outcome is not None, "a client ends with an outcome or raises"
    view.finish()
    only_wrong = bool(outcome.error) and (bool(args.schema) or outcome.text == outcome.error)  # stderr tells it
    if not (args.json or only_wrong or (live and view.said)):
        print(
            strip_controls(outcome.text) if live else outcome.text, flush=True
        )  # whoever waits for it need not wait on
    return outcome


def _json(outcome: CliOutcome, seen: _Seen, ms: int) -> None:
    found = {
        "id": outcome.id,
        "session": outcome.session,
        "outcome": outcome.outcome,
        "text": outcome.text,
        "model": seen.model,
        "usage": outcome.usage,
        "tools": seen.tools,
        **({"notices": seen.notices} if seen.notices else {}),
        "durationMs": ms,
        **({"error": outcome.error} if outcome.error else {}),
    }
    print(to_json(found))


def _code(outcome: CliOutcome, seen: _Seen) -> int:
    if seen.stopped == "timeout":
        print("pal: stopped: the time limit was reached", file=sys.stderr)
        return TIMED_OUT
    if not outcome.error:
        return 0
    print(f"pal: {strip_controls(outcome.error)}", file=sys.stderr)
    return 130 if seen.stopped else 1

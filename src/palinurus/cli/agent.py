"""`pal agent -m TEXT`: one message, its reply on stdout, and an exit code that tells whether there was one."""

from __future__ import annotations

import argparse
import asyncio
import base64
import mimetypes
import os
import signal
import sys
import termios
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, load_settings, read_message_text, to_json
from palinurus.cli.here import add_place_args, find_place
from palinurus.cli.reach.client import AgentClient, CliMessage, CliOutcome, connect_agent
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.clock import Clock, SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.core.jsonschema import list_unsupported
from palinurus.core.policy.card import parse_card_buttons
from palinurus.core.types.events import AgentEnd, AgentStart, RunEvent, ToolEnd, ToolStart, ToolUpdate
from palinurus.errors import BadRequest
from palinurus.files import open_plain_file
from palinurus.tasks import TaskSet

TIMED_OUT = 124  # as timeout(1)
FILES_BYTES = 14 * 1024 * 1024  # of one message: a request of the gateway's holds 20 MB, and base64 takes a third more
_WORDS = {"allow-once": "once", "allow-always": "always", "deny": "no"}
_STOPS = {"interrupted": "stopped: Ctrl-C", "timeout": "stopped: the time limit was reached"}


def run_agent(argv: list[str]) -> int:
    """Parse, send, print."""
    args = _parser().parse_args(argv)
    text = read_message_text(args.message)
    if not text.strip():
        raise BadRequest("the message is empty", fix="pal agent -m TEXT, or -m - to read it from stdin")
    environ = dict(os.environ)
    loaded = load_settings(environ)
    schema = read_schema(args.schema) if args.schema else None
    person = all(end is not None and end.isatty() for end in (sys.stdin, sys.stderr))
    place = find_place(args, loaded, environ, person=person)
    message = CliMessage(
        text,
        str(place.key),
        place.key.agent,
        args.model,
        thinking=args.thinking,
        schema=schema,
        files=read_files(args.file),
        folder=place.folder,
        unattended=not person,
    )
    return asyncio.run(_talk(loaded, environ, message, args))


def _parser() -> CommandParser:
    parser = CommandParser("agent", "Send one message to the agent and print the reply.")
    parser.add_argument("-m", "--message", required=True, help="what to say; - reads it from stdin")
    add_place_args(parser)
    parser.add_argument("--agent", default="", help="which agent (default: the default one)")
    parser.add_argument("--model", default="", help="provider/model for this turn")
    parser.add_argument("--thinking", default="", metavar="LEVEL", help="thinking level for this turn")
    parser.add_argument(
        "--file", action="append", default=[], metavar="PATH", help="send this file or picture along; may be repeated"
    )
    parser.add_argument("--schema", default="", metavar="FILE", help="the reply is JSON that fits this JSON schema")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--local", action="store_true", help="run in this process, not through a gateway")
    parser.add_argument(
        "--timeout", type=float, default=0.0, help="seconds after which the turn is stopped; 0 is never"
    )
    return parser


def read_schema(file: str) -> dict[str, Any]:
    """Raises BadRequest for what is no schema, or one that cannot be promised."""
    try:
        with open(file, "rb") as source:
            found = msgspec.json.decode(source.read())
    except OSError as exc:
        raise BadRequest(f"{file}: {exc.strerror}") from None
    except msgspec.DecodeError as exc:
        raise BadRequest(f"{file} is not JSON: {exc}", fix='one JSON object: `{"type": "object", …}`') from None
    if wrong := list_unsupported(found):
        raise BadRequest(f"{file}: {'; '.join(wrong)}")
    return dict(found)


def read_files(paths: list[str]) -> tuple[dict[str, str], ...]:
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


class _Questions:
    """What the run asks leave for: put to the person at the terminal one by one; without one they are told how it is
    answered elsewhere, or that it was refused."""

    def __init__(self, client: AgentClient, message: CliMessage, view: TerminalView) -> None:
        self._client = client
        self._message = message
        self._view = view
        self._open: list[ToolUpdate] = []
        self._answers = TaskSet("answering an approval")

    def show(self, event: ToolUpdate) -> None:
        """A new question. What was typed before it can be read does not answer it."""
        first, _, _ = event.partial.partition("\n")
        card, _, how = event.partial.rpartition("\n")
        if not self._message.unattended:
            self._open.append(event)
            if len(self._open) == 1:
                self._ask()
        elif self._client.alone:
            allow = f"pal approvals answer {event.approval[:8]} allow-once"
            what = f"refused, nobody is here to ask: {first.partition(']: ')[2]}"
            self._view.note(f"pal: {what}; fix: in a terminal you are asked; or `{allow}` before the next try")
        else:
            self._view.note(card, "bold")
            self._view.note(how.replace("/approve", "pal approvals answer"))

    def end(self, call: str) -> None:
        """The call is over: nothing more is asked about it."""
        was = self._open[:1]
        self._open = [one for one in self._open if one.id != call]
        if was and self._open[:1] != was:
            self.close()
            if self._open:
                self._ask()

    def _ask(self) -> None:
        card, _, _ = self._open[0].partial.rpartition("\n")
        self._view.note(card, "bold")
        termios.tcflush(sys.stdin, termios.TCIFLUSH)
        self._prompt()
        asyncio.get_running_loop().add_reader(sys.stdin, self._read)

    def _offers(self) -> dict[str, str]:
        """First letter -> the line that decides so."""
        words = (button.text for button in parse_card_buttons(self._open[0].partial))
        return {_WORDS[line.rpartition(" ")[2]]: line for line in words}

    def _prompt(self) -> None:
        sys.stderr.write(f"{' / '.join(self._offers())}? ")
        sys.stderr.flush()

    def _read(self) -> None:
        line = sys.stdin.readline()
        said = line.strip().lower() if line else "no"  # the terminal is gone
        found = [order for word, order in self._offers().items() if said and word.startswith(said)]
        if not found:
            self._prompt()
            return
        answer = CliMessage(found[0], self._message.session, self._message.agent)
        self._answers.start(self._send(answer))
        self.end(self._open[0].id)

    async def _send(self, answer: CliMessage) -> None:
        async for piece in self._client.send(answer):
            if isinstance(piece, CliOutcome) and piece.text.startswith("Nothing changed"):
                self._view.note(piece.text)

    def close(self) -> None:
        """Read nothing more."""
        if not self._message.unattended:
            asyncio.get_running_loop().remove_reader(sys.stdin)

    async def settle(self) -> None:
        self.close()
        await self._answers.settle()


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
    questions = _Questions(client, message, view)
    outcome: CliOutcome | None = None
    try:
        async for piece in client.send(message):
            if isinstance(piece, CliOutcome):
                outcome = piece
                continue
            seen.note(piece)
            if isinstance(piece, ToolEnd):
                questions.end(piece.id)
            if isinstance(piece, ToolUpdate) and piece.approval:
                questions.show(piece)
            elif live or isinstance(piece, (ToolStart, ToolUpdate, ToolEnd, AgentEnd)):
                view.show(piece)
    finally:
        await questions.settle()
        loop.remove_signal_handler(signal.SIGINT)
        if timer is not None:
            timer.cancel()
    assert outcome is not None, "a client ends with an outcome or raises"
    view.finish()
    outcome = _reworded(outcome, seen)
    only_wrong = bool(outcome.error) and (bool(args.schema) or outcome.text in ("", outcome.error))  # stderr tells it
    if not (args.json or only_wrong or (live and view.said)):
        print(
            strip_controls(outcome.text) if live else outcome.text, flush=True
        )  # whoever waits for it need not wait on
    return outcome


def _reworded(outcome: CliOutcome, seen: _Seen) -> CliOutcome:
    """With who stopped it in words; what was said until then stays."""
    if outcome.outcome != "aborted":
        return outcome
    error = _STOPS.get(seen.stopped, "stopped from elsewhere")
    said = "" if outcome.text.startswith("stopped (") else outcome.text
    return msgspec.structs.replace(outcome, error=error, text=said)


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
        print(f"pal: {_STOPS['timeout']}", file=sys.stderr)
        return TIMED_OUT
    if not outcome.error:
        return 0
    fix = (
        "\n  fix: `pal why last` tells more, `pal models status` which key is used"
        if outcome.outcome == "failed"
        else ""
    )
    print(f"pal: {strip_controls(outcome.error)}{'' if seen.stopped else fix}", file=sys.stderr)
    return 130 if seen.stopped else 1

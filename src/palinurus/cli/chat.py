"""`pal chat`: a conversation in the terminal. The prompt is in the first thread, the agent in a second one.

Ctrl-C stops the turn, twice at the prompt it leaves; Ctrl-D leaves. With a pipe on stdin every line is a message.
"""

from __future__ import annotations

import os
import readline
import select
import signal
import sys
from collections.abc import Mapping

from palinurus import __version__
from palinurus.cli.args import Parser
from palinurus.cli.args import settings as load_settings
from palinurus.cli.client import Client, Message, Outcome, connect, key
from palinurus.cli.render import View, plain
from palinurus.cli.thread import Worker
from palinurus.clock import SystemClock
from palinurus.core.types.events import AgentStart
from palinurus.errors import PalinurusError

HISTORY = 1000
PASTE_SECONDS = 0.03  # lines that follow faster than this were pasted, not typed

_HELP = """  /exit, /quit   leave (also Ctrl-D, or Ctrl-C twice at the prompt)
  /help          this text
  Ctrl-C         stop the running turn
  a line ending in \\ goes on in the next; pasted lines are one message
  everything else goes to the agent"""


def run(argv: list[str]) -> int:
    """Parse, connect, talk until the person leaves."""
    parser = Parser("chat", "Talk to the agent in the terminal.")
    parser.add_argument("--session", default="", help="session key, or a word (default: the main session)")
    parser.add_argument("--agent", default="", help="which agent (default: the default one)")
    parser.add_argument("--model", default="", help="provider/model for these turns")
    parser.add_argument("--local", action="store_true", help="run in this process, not through a gateway")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    loaded = load_settings(environ)
    where = key(loaded.settings, args.session, args.agent)
    worker = Worker()
    try:
        client = worker.call(connect(loaded, environ, SystemClock(), local=args.local))
        try:
            talk = Talk(worker, client, Message("", str(where), where.agent, args.model), environ)
            if sys.stdin.isatty():
                talk.greet()
                return talk.typed(os.path.join(loaded.settings.home, "history"))
            return talk.piped()
        finally:
            worker.call(client.close())
    finally:
        worker.close()


class Talk:
    """One conversation."""

    def __init__(self, worker: Worker, client: Client, blank: Message, environ: Mapping[str, str]) -> None:
        self._worker = worker
        self._client = client
        self._blank = blank
        self._view = View(sys.stdout, environ)
        self._model = ""

    def greet(self) -> None:
        """The first lines."""
        view = self._view
        print(f"{view.style('Palinurus', 'bold')} {__version__}  {view.style(self._client.where, 'dim')}")
        print(view.style(f"session {self._blank.session}; /help tells more, Ctrl-D leaves", "dim"))

    def typed(self, history: str) -> int:
        """Prompt after prompt until the person leaves."""
        _remember(history)
        try:
            while (text := self._ask()) is not None:
                word = text.strip().lower()
                if word in ("/exit", "/quit"):
                    break
                if word == "/help":
                    print(_HELP)
                elif word:
                    self.turn(text)
        finally:
            _keep(history)
        return 0

    def piped(self) -> int:
        """Each line one message; 1 if any was not answered."""
        code = 0
        for line in sys.stdin:
            if line.strip() in ("/exit", "/quit"):
                break
            if line.strip() and not self.turn(line.rstrip("\n")):
                code = 1
        return code

    def turn(self, text: str) -> bool:
        """One message and its answer. False if there was none."""
        view = self._view
        view.begin()
        message = Message(text, self._blank.session, self._blank.agent, self._blank.model)
        stops = 0

        def stop(number: int, frame: object) -> None:
            nonlocal stops
            stops += 1
            if stops > 1:
                raise KeyboardInterrupt  # it does not want to stop; let the person go on
            self._worker.start(self._client.abort(message.session))

        # A handler instead of the exception, which could come between any two lines of the drawing.
        before = signal.signal(signal.SIGINT, stop)
        outcome: Outcome | None = None
        try:
            for piece in self._worker.each(self._client.send(message)):
                if isinstance(piece, Outcome):
                    outcome = piece
                    continue
                if isinstance(piece, AgentStart):
                    self._named(piece.model)
                view.show(piece)
        except KeyboardInterrupt:
            pass
        except PalinurusError as exc:  # not accepted: say why, and let the person go on
            view.note(f"{exc.message}" + (f"; {exc.fix}" if exc.fix else ""), "red")
            return False
        finally:
            signal.signal(signal.SIGINT, before)
        return self._ended(outcome, stops > 0)

    def _named(self, model: str) -> None:
        """Say which model answers, when that changes."""
        if model != self._model and sys.stdin.isatty():
            self._view.note(model)
        self._model = model

    def _ended(self, outcome: Outcome | None, stopped: bool) -> bool:
        view = self._view
        if outcome is not None and outcome.text and not view.said and not outcome.error:
            view.text(outcome.text)
        view.finish()
        if stopped:
            view.note("stopped")
        elif outcome is None or outcome.error:
            view.note(f"no answer: {plain(outcome.error) if outcome else 'the connection was lost'}", "red")
        return outcome is not None and not outcome.error

    def _ask(self) -> str | None:
        """What the person says next; None when they leave."""
        view = self._view
        mark = view.prompt
        if view.color:  # readline must know which characters take no room
            mark = f"\x01\x1b[1;36m\x02{mark}\x01\x1b[0m\x02"
        lines: list[str] = []
        interrupted = False
        while True:
            try:
                line = input(mark if not lines else "")
            except EOFError:
                print()
                return None if not lines else "\n".join(lines)
            except KeyboardInterrupt:
                print()
                if interrupted:
                    return None
                interrupted = True
                lines.clear()
                view.note("Ctrl-C again leaves")
                continue
            lines.append(line.removesuffix("\\"))
            if not line.endswith("\\") and not _more():
                return "\n".join(lines)


def _more() -> bool:
    """Do more lines wait already?"""
    return bool(select.select([sys.stdin], [], [], PASTE_SECONDS)[0])


def _remember(path: str) -> None:
    try:
        readline.read_history_file(path)
    except OSError:
        pass  # none yet
    readline.set_history_length(HISTORY)


def _keep(path: str) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        readline.write_history_file(path)
        os.chmod(path, 0o600)
    except OSError as exc:
        print(f"pal: the history cannot be kept: {exc.strerror}", file=sys.stderr)

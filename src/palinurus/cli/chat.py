"""`pal chat`: a conversation in the terminal. On a screen that can (and with the extra `tui`) it is `cli/tui`; with
--plain, a dumb terminal or a pipe it is the plain one here, the prompt in the first thread, the agent in a second one.

Ctrl-C stops the turn, twice at the prompt it leaves; Ctrl-D leaves. With a pipe on stdin every line is a message.
"""

from __future__ import annotations

import asyncio
import os
import queue
import readline
import select
import signal
import sys
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator, Mapping
from importlib.util import find_spec
from typing import Any, TypeVar

import msgspec

from palinurus import __version__
from palinurus.cli.args import CommandParser, load_settings
from palinurus.cli.here import add_place_args, find_place
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.client import AgentClient, CliMessage, CliOutcome, connect_agent
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.cli.tui.early import EarlyPrompt
from palinurus.clock import SystemClock
from palinurus.config.paths import find_home, find_profile
from palinurus.core.types.events import AgentStart, RunEvent
from palinurus.errors import PalinurusError

# An event loop in a second thread, so that the first one can wait at a prompt and hear Ctrl-C.

T = TypeVar("T")


class LoopThread:
    """Runs coroutines elsewhere; the caller waits and stays interruptible."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="palinurus", daemon=True)
        self._thread.start()

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of `work`; raises what it raises."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def start(self, work: Coroutine[Any, Any, object]) -> None:
        """Begin `work` and do not wait; safe in a signal handler."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def each(self, items: AsyncIterator[T]) -> LoopItems[T]:
        """The items as they come. An interrupted wait loses none: go on with `next`."""
        return LoopItems(self._loop, items)

    def close(self) -> None:
        """Stop the loop and wait for its thread."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._thread.is_alive():
            self._loop.close()


class LoopItems(Iterator[T]):
    """Filled by the loop's thread, emptied by ours."""

    def __init__(self, loop: asyncio.AbstractEventLoop, items: AsyncIterator[T]) -> None:
        self._queue: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._first: list[tuple[str, Any]] = []  # looked at by `wait`, not taken yet
        self._filling = asyncio.run_coroutine_threadsafe(self._fill(items), loop)  # held: nobody else holds the task

    async def _fill(self, items: AsyncIterator[T]) -> None:
        try:
            async for item in items:
                self._queue.put(("item", item))
            self._queue.put(("end", None))
        except Exception as exc:  # noqa: BLE001 - task boundary: raised again in the thread that waits
            self._queue.put(("error", exc))

    def put(self, item: Any) -> None:
        """An item from elsewhere; from any thread."""
        self._queue.put(("item", item))

    def wait(self, seconds: float) -> bool:
        """Is there something to take? Waits at most so long."""
        try:
            first = self._queue.get(timeout=seconds)
        except queue.Empty:
            return False
        self._first.append(first)
        return True

    def __next__(self) -> T:
        kind, value = self._first.pop() if self._first else self._queue.get()
        if kind == "item":
            found: T = value
            return found
        self._queue.put((kind, value))
        if kind == "error":
            raise value
        raise StopIteration


HISTORY = 1000
LISTEN_SECONDS = 0.1  # between looks at the keyboard while a run is going
PASTE_SECONDS = 0.03  # lines that follow faster than this were pasted, not typed

_HELP = """  /exit, /quit   leave (also Ctrl-D, or Ctrl-C twice at the prompt)
  /help          this text
  Ctrl-C         stop the running turn
  what you type while a turn runs is steered into it; commands answer at once
  a line ending in \\ goes on in the next; pasted lines are one message
  everything else goes to the agent"""


def run_chat(argv: list[str]) -> int:
    """Parse, connect, talk until the person leaves."""
    parser = CommandParser("chat", "Talk to the agent in the terminal.")
    add_place_args(parser)
    parser.add_argument("--agent", default="", help="which agent (default: the default one)")
    parser.add_argument("--model", default="", help="provider/model for these turns")
    parser.add_argument("--local", action="store_true", help="run in this process, not through a gateway")
    parser.add_argument("--plain", action="store_true", help="line by line, without the full screen")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    loaded = load_settings(environ)
    person = sys.stdin.isatty()
    place = find_place(args, loaded, environ, person=person and sys.stdout.isatty())
    blank = CliMessage("", str(place.key), place.key.agent, args.model, folder=place.folder, unattended=not person)
    if not args.plain and _is_screen(environ):
        # drawn before the screen is loaded, which takes longer than all that came before
        early = EarlyPrompt(colours=loaded.settings.gateway.look.terminal.theme == "auto")
        try:
            early.open()
            if (screen := _load_screen()) is not None:
                return int(screen(loaded, environ, blank, early, local=args.local))
        finally:
            early.close()
    worker = LoopThread()
    try:
        client = worker.call(connect_agent(loaded, environ, SystemClock(), local=args.local))
        try:
            talk = PlainChat(worker, client, blank, environ)
            if sys.stdin.isatty():
                talk.greet()
                return talk.answer_prompts(os.path.join(loaded.settings.home, "history"))
            return talk.answer_pipe()
        finally:
            worker.call(client.close())
    finally:
        worker.close()


def _is_screen(environ: Mapping[str, str]) -> bool:
    """Is there a screen to fill, and the extra that can?"""
    ends = (sys.stdin, sys.stdout, sys.stderr)  # drawn on the last
    return environ.get("TERM", "dumb") != "dumb" and all(end.isatty() for end in ends) and bool(find_spec("textual"))


def _load_screen() -> Any:
    """None where a part of the extra is missing after all."""
    try:
        return load_part(PARTS["tui"])
    except ModuleNotFoundError as exc:
        if (exc.name or "").partition(".")[0] == "palinurus":
            raise
        return None


class AsideOutcome(msgspec.Struct, frozen=True):
    """What became of a message typed while a run was going. `outcome` None: it was not accepted."""

    outcome: CliOutcome | None
    said: str


class PlainChat:
    """One conversation."""

    def __init__(self, worker: LoopThread, client: AgentClient, blank: CliMessage, environ: Mapping[str, str]) -> None:
        self._worker = worker
        self._client = client
        self._blank = blank
        self._view = TerminalView(sys.stdout, environ)
        self._profile = find_profile(find_home(environ))
        self._model = ""

    def greet(self) -> None:
        """The first lines."""
        view = self._view
        print(f"{view.style('Palinurus', 'bold')} {__version__}  {view.style(self._client.where, 'dim')}")
        place = f" in {strip_controls(self._blank.folder)}" if self._blank.folder else ""
        print(view.style(f"session {self._blank.session}{place}; /help tells more, Ctrl-D leaves", "dim"))
        if not find_spec("textual"):
            print(view.style("`pal extras add tui` brings the chat on the whole screen", "dim"))

    def answer_prompts(self, history: str) -> int:
        """Prompt after prompt until the person leaves."""
        _remember(history)
        try:
            while (text := self._ask()) is not None:
                word = text.strip().lower()
                if word in ("/exit", "/quit"):
                    break
                if word == "/help":
                    print(_HELP)
                if word:
                    self.turn(text)
        finally:
            _keep(history)
        return 0

    def answer_pipe(self) -> int:
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
        message = msgspec.structs.replace(self._blank, text=text)
        stops = 0

        def stop(number: int, frame: object) -> None:
            nonlocal stops
            stops += 1
            if stops > 1:
                raise KeyboardInterrupt  # it does not want to stop; let the person go on
            self._worker.start(self._client.abort(message.session))

        # A handler instead of the exception, which could come between any two lines of the drawing.
        before = signal.signal(signal.SIGINT, stop)
        outcome: CliOutcome | None = None
        try:
            outcome = self._watch(message)
        except KeyboardInterrupt:
            pass
        except PalinurusError as exc:  # not accepted: say why, and let the person go on
            view.note(f"{exc.message}" + (f"; {exc.fix}" if exc.fix else ""), "red")
            return False
        finally:
            signal.signal(signal.SIGINT, before)
        return self._ended(outcome, stops > 0)

    def _watch(self, message: CliMessage) -> CliOutcome | None:
        """Show the run, and hand on what is typed meanwhile. Ends when all that was said has been answered."""
        items: LoopItems[RunEvent | CliOutcome | AsideOutcome] = self._worker.each(self._client.send(message))
        outcome: CliOutcome | None = None
        asides: list[AsideOutcome] = []
        waiting = 0
        ended = False
        while not ended or waiting:
            if not items.wait(LISTEN_SECONDS):
                if sys.stdin.isatty() and _more(0) and (line := sys.stdin.readline().strip()):
                    waiting += 1
                    self._worker.start(self._aside(msgspec.structs.replace(message, text=line), items))
                continue
            try:
                piece = next(items)
            except StopIteration:
                ended = True
                continue
            if isinstance(piece, AsideOutcome):
                waiting -= 1
                asides.append(piece)
                if piece.outcome is None or piece.outcome.session.startswith("control"):
                    self._view.note(piece.said)
            elif isinstance(piece, CliOutcome):
                outcome = piece
            else:
                if isinstance(piece, AgentStart):
                    self._named(piece.model)
                self._view.show(piece)
        for aside in asides:  # one that became part of the run was answered by it
            found = aside.outcome
            own = found is not None and not found.session.startswith("control")
            if own and (outcome is None or found.id != outcome.id):  # type: ignore[union-attr]
                self._view.note(aside.said, "cyan")
        return outcome

    async def _aside(self, message: CliMessage, items: LoopItems[RunEvent | CliOutcome | AsideOutcome]) -> None:
        try:
            async for piece in self._client.send(message):
                if isinstance(piece, CliOutcome):
                    items.put(AsideOutcome(piece, piece.error or piece.text))
        except PalinurusError as exc:
            items.put(AsideOutcome(None, exc.message))

    def _named(self, model: str) -> None:
        """Say which model answers, when that changes."""
        if model != self._model and sys.stdin.isatty():
            self._view.note(model)
        self._model = model

    def _ended(self, outcome: CliOutcome | None, stopped: bool) -> bool:
        view = self._view
        if outcome is not None and outcome.text and not view.said and not outcome.error:
            view.text(outcome.text)
        view.finish()
        if stopped or (outcome is not None and outcome.outcome == "aborted"):
            view.note("stopped")
        elif outcome is None or outcome.error:
            view.note(f"no answer: {strip_controls(outcome.error) if outcome else 'the connection was lost'}", "red")
        return outcome is not None and not outcome.error

    def _ask(self) -> str | None:
        """What the person says next; None when they leave."""
        view = self._view
        mark = f"{self._profile} {view.prompt}".lstrip()
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


def _more(seconds: float = PASTE_SECONDS) -> bool:
    """Do more lines wait already?"""
    return bool(select.select([sys.stdin], [], [], seconds)[0])


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

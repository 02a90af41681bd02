"""The screen: who is where, what a key does, what an event changes. Stands before the agent is reached.

Drawing is the widgets' affair, what is to be seen `talk`'s (ConversationLog), what goes over the line `remote`'s
(ScreenSession), what actions do their base's (ScreenActions).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

from msgspec.structs import replace
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Static

from palinurus import __version__
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.client import CliMessage
from palinurus.cli.render import strip_controls
from palinurus.cli.tui import errands, status, style, terminal
from palinurus.cli.tui.actions import ScreenActions, ScreenStart
from palinurus.cli.tui.blocks import ConversationLog
from palinurus.cli.tui.complete import gather_completion_words, is_unknown_command
from palinurus.cli.tui.composer import Composer
from palinurus.cli.tui.dialogs import QuestionCard, ScreenQuestion, parse_question
from palinurus.cli.tui.early import EarlyPrompt
from palinurus.cli.tui.history import InputHistory
from palinurus.cli.tui.panel import PlanStrip
from palinurus.cli.tui.session import ConnectionSource, ScreenChange, ScreenSession
from palinurus.cli.tui.vi import ViState
from palinurus.clock import Clock, SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.config.paths import find_profile
from palinurus.core.text import format_tokens
from palinurus.errors import PalinurusError

AGAIN = 2.0  # seconds in which a second Ctrl-C leaves
TWICE = 0.8  # seconds in which a second Esc goes back
LONG = 10.0  # seconds of a run whose end is rung
LOOK = 3  # beats (seconds) between looks at the background, the branch and the person's command


class ChatScreen(ScreenActions):
    """One person at one terminal."""

    CSS = style.CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+p", "sessions", priority=True),
        Binding("ctrl+n", "begin", priority=True),
        Binding("ctrl+l", "models", priority=True),
        Binding("ctrl+t", "levels", priority=True),
        Binding("ctrl+o", "fold", priority=True),
        Binding("ctrl+y", "copy", priority=True),
        Binding("f1", "keys", priority=True),
        Binding("f2", "panel"),
        Binding("f3", "find", priority=True),
        Binding("ctrl+q", "quit", priority=True),
        Binding("ctrl+z", "suspend_process", priority=True),
        Binding("pageup", "look(-1)", priority=True),
        Binding("pagedown", "look(1)", priority=True),
    ]

    def __init__(self, start: ScreenStart, clock: Clock) -> None:
        super().__init__(start, clock)
        self.trouble: PalinurusError | None = None  # why it ended, if not because somebody left
        self.remote = ScreenSession(start.enter, start.session, start.model, clock, tell=self._told)
        self.remote.folder = start.folder
        self.register_theme(style.DARK)
        self.register_theme(style.LIGHT)
        self.theme = style.choose_theme(start.look.theme, self.available_themes, light=start.light)
        self._profile = find_profile(os.path.dirname(start.history))
        self._warned = self._escaped = -AGAIN  # when Ctrl-C, when Esc was pressed
        self._doubted = ""  # the unknown command that was put back once
        self._since: float | None = None
        self._questions: dict[str, ScreenQuestion] = {}
        self.talk, self.card, self.composer = ConversationLog(), QuestionCard(), Composer(InputHistory(start.history))
        self.composer.vi = ViState("") if start.look.keys == "vi" else None
        self.strip = PlanStrip()
        self._status, self._line = Static("", id="status", markup=False), ""
        self._beats = 0
        self._facts: dict[str, Any] = {}  # what is looked up now and then
        self._title = ""

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.talk
        yield self.strip
        yield self.card
        yield self.composer
        yield self._status

    async def on_mount(self) -> None:
        """The box has the keys at once."""
        self.composer.box.focus()
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(repaint=True, layout=True))  # after Ctrl-Z and fg
        self.set_interval(1.0, self._tick)
        self._beat()
        self.call_after_refresh(self._stand)

    def _stand(self) -> None:
        """Drawn for the first time: what was typed before goes into the box, and the agent is looked for. Earlier, what
        that loads would be loaded beside the drawing."""
        if self._start.early is not None:
            self._start.early.ready.set()
        self.run_worker(self._live(), name="live", exit_on_error=True)

    def take_signal(self, number: int, frame: Any) -> None:
        """Leave, once the screen stands: what an exception ends inside of Textual, Textual waits for. Before there is a
        loop, raises KeyboardInterrupt."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            signal.default_int_handler(number, frame)
        code = 130 if number == signal.SIGINT else 0
        loop.call_soon_threadsafe(self.call_after_refresh, self.exit, None, code)

    async def on_unmount(self) -> None:
        """Leave things in order."""
        self._shell.stop()
        await self.remote.close()

    async def _live(self) -> None:
        try:
            await self.remote.live()
        except PalinurusError as exc:
            self.trouble = exc
            self.exit(return_code=1)

    # --- what the remote tells ---------------------------------------------------------------------------------

    async def _told(self, told: ScreenChange) -> None:
        """Something changed. Nobody looks any more once the screen is taken down."""
        if not self.talk.is_attached:
            return
        if told.fresh:
            await self.talk.clear()
            await self.talk.show([self.remote.talk.note(self._greeting())])
        await (self.talk.show_above if told.earlier else self.talk.show)(told.blocks)
        if told.asked is not None:
            asked = parse_question(told.asked, self.remote.session)
            self._questions[asked.id] = asked
            self._ring()
        self._questions.pop(told.answered, None)
        self._card()
        if told.lists:
            self._list()
        self._mark_run()
        self._beat()

    def _list(self) -> None:
        remote = self.remote
        names = [f"{m['provider']}/{m['id']}" for m in remote.models]
        levels = [str(row["id"]) for row in remote.levels]
        self.composer.known = gather_completion_words(
            remote.commands, names, levels, ("auto", *style.THEMES, *self.available_themes)
        )
        self.run_worker(self._look_up(), group="facts", exclusive=True)

    def _mark_run(self) -> None:
        """Since when something runs; a long run that ends is rung."""
        now = self._clock.monotonic()
        if self.remote.talk.run:
            self._since = self._since or now
        elif self._since is not None:
            long, self._since = now - self._since > LONG, None
            self._facts.pop("tasks", None)  # it may have left something behind
            self.run_worker(self._look_up(), group="facts", exclusive=True)
            if long:
                self._ring()
        self.strip.show_plan(self.remote.talk.plan, running=self._since is not None)

    def _ring(self) -> None:
        if self._start.look.bell:
            self.bell()

    def _greeting(self) -> str:
        demo = self.remote.row.get("modelProvider") == "builtin"
        hint = "\nThis is the built-in demo; `pal setup` connects a real model." if demo else ""
        where = f", in {self._folder}" if self._folder else ""
        return f"Palinurus {__version__}, {self.remote.where}{where}. F1 lists the keys.{hint}"

    @property
    def _folder(self) -> str:
        """Where the session works: as its row says, or its agent's workspace."""
        agent = self.remote.session.partition(":")[2].partition(":")[0]
        return str(self.remote.row.get("folder") or "") or self._start.folders.get(agent, "")

    def _card(self) -> None:
        card = self.card
        first = next(iter(self._questions.values()), None)
        had = card.has_focus
        card.ask(first, len(self._questions) - 1)
        if had:  # the next question must not get a key that was meant for the one before
            self.composer.box.focus()

    # --- the line at the bottom ----------------------------------------------------------------------------------

    def _tick(self) -> None:
        self._beats += 1
        if self._beats % LOOK == 0 and not self.remote.line:
            self.run_worker(self._look_up(), group="facts", exclusive=True)
        self._beat()

    async def _look_up(self) -> None:
        """What nobody tells by itself: work in the background, the branch, how commands are held, the own command."""
        facts = self._facts
        if "sandbox" not in facts:
            facts["sandbox"] = await errands.describe_sandbox(self.remote)
        if self._since is not None or facts.get("tasks") or "tasks" not in facts:
            found = await errands.list_background(self.remote)
            facts["tasks"] = sum(row["status"] in errands.ACTIVE for row in found)
        facts["branch"] = await asyncio.to_thread(status.read_branch, self._folder) if self._folder else ""
        if self._start.command is not None:
            facts["command"] = await self._start.command(self._folder)
        self._beat()

    def _beat(self) -> None:
        remote, vi = self.remote, self.composer.vi
        home = self._start.environ.get("HOME", "")
        facts = status.StatusBarFacts(
            remote.session,
            remote.row,
            None if self._since is None else self._clock.monotonic() - self._since,
            remote.line,
            waiting=len(self._questions),
            cost=remote.cost,
            profile=self._profile,
            title=remote.title,
            folder=status.shorten_folder(self._folder, home),
            keys="" if vi is None else "INSERT" if vi.insert else "NORMAL",
            **self._facts,
        )
        self.composer.folder = self._folder
        line = status.render_status_line(facts, max(20, self.size.width - 2), self._start.look.status)
        if line.markup != self._line:  # a line that is drawn again costs a look at the whole screen
            self._line = line.markup
            self._status.update(line)
        self._call_window(f"pal: {remote.title or os.path.basename(self._folder) or 'chat'}")

    def _call_window(self, title: str) -> None:
        """What the terminal's window is called."""
        if title != self._title and self._driver is not None and not self.is_headless:
            self._title = title
            self._driver.write(f"\x1b]2;{strip_controls(title)[:80]}\x07")

    # --- typing ----------------------------------------------------------------------------------------------

    async def on_composer_sent(self, event: Composer.Sent) -> None:
        """A command of ours, a line for the shell, a note, or something for the agent."""
        text = event.text
        self._warned = -AGAIN  # whoever types does not want to leave
        name, _, rest = text.strip().partition(" ")
        if text.strip().lower() in OURS:
            await self.run_action(OURS[text.strip().lower()])
        elif name in TAKING:
            found = TAKING[name](self, rest.strip())
            if found is not None:
                await found
        elif text.startswith("!") and text[1:].strip():
            self.run_worker(self.run_line(text[1:].strip()))
        elif text.startswith("#") and text.lstrip("#").strip() and "\n" not in text and text[1] != "#":
            await self.add_note(text[1:].strip())
        elif is_unknown_command(text, self.composer.known) and text != self._doubted:
            self._doubted = text
            self.composer.set(text)
            self.notify(f"There is no command {name}; Enter sends it to the agent as it is.", markup=False)
        else:
            self._doubted = ""
            self.talk.anchor()
            await self.remote.send(text, event.pictures)

    async def on_composer_key(self, event: Composer.Key) -> None:
        """A key that the box has no use for."""
        action = _KEYS.get(event.key)
        if event.key == "tab":
            if self.card.display:
                self.card.focus()
        elif event.key == "ctrl+c":
            await self._interrupt()
        elif event.key == "escape":
            await self._escape()
        elif action is not None:
            await self.run_action(action)

    def on_question_card_left(self) -> None:
        """Back to the box."""
        self.composer.box.focus()

    async def on_conversation_log_top_reached(self) -> None:
        """What came before, for who scrolls."""
        await self.remote.look_back()

    async def _interrupt(self) -> None:
        if self.composer.text:
            self.composer.set("")
        elif not await self._stop():
            now = self._clock.monotonic()
            if now - self._warned < AGAIN:
                self.exit()
            self._warned = now
            self.notify("Ctrl-C again leaves", timeout=AGAIN)

    async def _escape(self) -> None:
        now = self._clock.monotonic()
        before, self._escaped = self._escaped, now
        if not await self._stop() and not self.composer.text and now - before < TWICE:
            self._escaped = -AGAIN
            await self.action_rewind()

    async def _stop(self) -> bool:
        if self._shell.busy:
            self._shell.stop()
            return True
        return await self.remote.stop()

    async def on_question_card_decided(self, event: QuestionCard.Decided) -> None:
        """An answer for the agent."""
        self.composer.box.focus()
        await self.remote.decide(event.question.id, event.decision)

    def tell_farewell(self) -> str:
        """What is printed when the screen is gone: how to go on, and what it took."""
        remote = self.remote
        if not remote.row:
            return ""
        used = int(remote.row.get("inputTokens") or 0) + int(remote.row.get("outputTokens") or 0)
        spent = [f"{format_tokens(used)} tokens"] if used else []
        spent += [status.format_cost(remote.cost)] if remote.cost else []
        told = f"  ({', '.join(spent)})" if spent else ""
        return f"To go on with this conversation: pal chat --session {remote.session}{told}"


# Keys that the box hands on, and words that are ours alone -> an action.
_KEYS = {
    "ctrl+d": "quit",
    "ctrl+r": "history",
    "ctrl+g": "edit",
    "ctrl+v": "paste_picture",
    "alt+up": "take_back",
    "shift+tab": "mode",
}
OURS = {
    "/exit": "quit",
    "/quit": "quit",
    "/sessions": "sessions",
    "/models": "models",
    "/model": "models",
    "/think": "levels",
    "/keys": "keys",
    "/edit": "edit",
    "/panel": "panel",
    "/retry": "retry",
    "/rewind": "rewind",
}
# Commands of ours that take a word.
TAKING: dict[str, Callable[[ChatScreen, str], Awaitable[None] | None]] = {
    "/theme": ChatScreen.choose_theme,
    "/find": ChatScreen.find_words,
    "/copy": lambda screen, word: screen.copy_answer(word or "1"),
}


def run_chat_screen(
    loaded: LoadedConfig, environ: Mapping[str, str], blank: CliMessage, early: EarlyPrompt, *, local: bool
) -> int:
    """Talk until the person leaves. Raises PalinurusError when the agent cannot be reached at all."""
    clock = SystemClock()

    async def enter() -> ConnectionSource:
        part: Any = await asyncio.to_thread(load_part, PARTS["link"])
        found: ConnectionSource = await part(loaded, environ, clock, local)
        return found

    history = os.path.join(loaded.settings.home, "history")
    folders = {a.id: a.workspace for a in loaded.settings.agents.values() if loaded.settings.gateway.mode == "local"}
    look = loaded.settings.gateway.look.terminal
    light = style.is_light(environ, early) if look.theme == "auto" else False
    own: Any = load_part(PARTS["status-command"]) if look.command else None
    command = own(loaded.settings, environ, clock) if own is not None else None
    start = ScreenStart(*(enter, blank.session, blank.model, history), folders=folders, folder=blank.folder)
    start = replace(start, environ=environ, look=look, light=light, command=command, early=early)
    screen = ChatScreen(start, clock)
    terminal.watch_hangup()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, screen.take_signal)
    screen.run()
    if screen.trouble is not None:
        raise screen.trouble
    if farewell := screen.tell_farewell():
        sys.stdout.write(strip_controls(farewell) + "\n")
    return screen.return_code or 0

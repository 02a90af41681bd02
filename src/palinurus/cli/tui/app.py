"""The screen: who is where, what a key does, what an event changes. Stands before the agent is reached.

Drawing is the widgets' affair, what is to be seen `talk`'s (ConversationLog), what goes over the line `remote`'s
(ScreenSession).
"""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Markdown, Static

from palinurus import __version__
from palinurus.cli.main import PARTS, load_part
from palinurus.cli.reach.client import CliMessage
from palinurus.cli.render import strip_controls
from palinurus.cli.tui import status, terminal
from palinurus.cli.tui.blocks import ConversationLog
from palinurus.cli.tui.composer import Composer, InputHistory, gather_completion_words
from palinurus.cli.tui.conversation import ConversationBlock
from palinurus.cli.tui.dialogs import Picker, PickerChoice, QuestionCard, ScreenQuestion, parse_question
from palinurus.cli.tui.session import ConnectionSource, ScreenChange, ScreenSession
from palinurus.cli.tui.terminal import UserShell
from palinurus.clock import Clock, SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.config.paths import find_profile
from palinurus.core.text import format_tokens
from palinurus.errors import PalinurusError

AGAIN = 2.0  # seconds in which a second Ctrl-C leaves

CSS = """
Screen { layers: base; }
#log { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
#log > * { margin: 0 0 1 0; height: auto; width: 1fr; }
#log .user { background: $boost; padding: 0 1; }
#log .words { padding: 0; margin: 0 0 0 0; }
#log MarkdownFence { overflow: hidden hidden; }
#log MarkdownFence > Label { width: 1fr; }
#log .thought { color: $text-muted; padding: 0 1; }
#log .tool { border-left: thick $primary-muted; padding: 0 1; }
#log .note { color: $text-muted; padding: 0 1; }
#log .error { color: $text-error; padding: 0 1; }
#card { height: auto; max-height: 14; border: round $warning; padding: 0 1; }
#card:focus { border: heavy $warning; background: $boost; }
#composer { height: auto; max-height: 18; border-top: solid $primary-muted; }
#offers { height: auto; max-height: 8; display: none; background: $panel; }
ComposerBox { height: auto; max-height: 8; padding: 0 1; background: transparent; }
#status { height: 1; padding: 0 1; background: $panel; color: $text-muted; }
ToastRack { dock: top; align: right top; margin: 0; }
Picker { align: center middle; }
#picker { width: 90%; max-width: 100; height: auto; max-height: 90%; }
#picker { border: round $primary; padding: 0 1; background: $surface; }
#picker #title { text-style: bold; }
#picker #choices { height: auto; max-height: 14; }
"""

KEYS = """Enter          send; while the agent works it is steered into the run
Ctrl-J         a new line (also Shift-Enter, or \\ at the end of a line)
Esc            stop the run, close a list
Up, Down       what you said before
PgUp, PgDn     look back, and forth again
Tab            complete a /command or a @file; else answer the open question
Ctrl-P         sessions        Ctrl-N  a new one
Ctrl-L         models          Ctrl-T  thinking level
Ctrl-O         show all of what tools and thoughts say
Ctrl-Y         copy the last answer
!line          run a line in your own shell; the agent does not see it
Ctrl-C, Ctrl-D stop, clear, leave"""


class ScreenStart(msgspec.Struct, frozen=True):
    """What a screen begins with. `enter` finds the agent; it may take its time."""

    enter: Callable[[], Awaitable[ConnectionSource]]
    session: str
    model: str = ""
    history: str = ""  # the file
    environ: Mapping[str, str] = {}
    folders: Mapping[str, str] = {}  # the workspace of each agent, where it is on this machine
    folder: str = ""  # where the session works, if it begins now; "": as it has it


class ChatScreen(App[None]):
    """One person at one terminal."""

    CSS = CSS
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+p", "sessions", priority=True),
        Binding("ctrl+n", "begin", priority=True),
        Binding("ctrl+l", "models", priority=True),
        Binding("ctrl+t", "levels", priority=True),
        Binding("ctrl+o", "fold", priority=True),
        Binding("ctrl+y", "copy", priority=True),
        Binding("f1", "keys", priority=True),
        Binding("ctrl+q", "quit", priority=True),
        Binding("pageup", "look(-1)", priority=True),
        Binding("pagedown", "look(1)", priority=True),
    ]

    def __init__(self, start: ScreenStart, clock: Clock) -> None:
        super().__init__()
        self.trouble: PalinurusError | None = None  # why it ended, if not because somebody left
        self.remote = ScreenSession(start.enter, start.session, start.model, clock, tell=self._told)
        self.remote.folder = start.folder
        self._start, self._clock = start, clock
        self._profile = find_profile(os.path.dirname(start.history))
        self._shell = UserShell(start.environ)
        self._trusted = False  # shell lines were allowed once
        self._warned = -AGAIN
        self._since: float | None = None
        self._questions: dict[str, ScreenQuestion] = {}
        self.talk, self.card, self.composer = ConversationLog(), QuestionCard(), Composer(InputHistory(start.history))
        self._status = Static("", id="status", markup=False)

    def compose(self) -> ComposeResult:
        """From top to bottom."""
        yield self.talk
        yield self.card
        yield self.composer
        yield self._status

    async def on_mount(self) -> None:
        """The box has the keys at once; the agent is looked for meanwhile."""
        self.composer.box.focus()
        self.set_interval(1.0, self._beat)
        self._beat()
        self.run_worker(self._live(), name="live", exit_on_error=True)

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
        self._questions.pop(told.answered, None)
        self._card()
        if told.lists:
            remote = self.remote
            names = [f"{m['provider']}/{m['id']}" for m in remote.models]
            self.composer.known = gather_completion_words(remote.commands, names, [str(r["id"]) for r in remote.levels])
        own = self._start.folders.get(self.remote.session.partition(":")[2].partition(":")[0], "")
        self.composer.folder = str(self.remote.row.get("folder") or own)
        self._since = (self._since or self._clock.monotonic()) if self.remote.talk.run else None
        self._beat()

    def _greeting(self) -> str:
        demo = self.remote.row.get("modelProvider") == "builtin"
        hint = "\nThis is the built-in demo; `pal setup` connects a real model." if demo else ""
        return f"Palinurus {__version__}, {self.remote.where}. F1 tells the keys.{hint}"

    def _card(self) -> None:
        card = self.card
        first = next(iter(self._questions.values()), None)
        had = card.has_focus
        card.ask(first, len(self._questions) - 1)
        if had:  # the next question must not get a key that was meant for the one before
            self.composer.box.focus()

    def _beat(self) -> None:
        going = None if self._since is None else self._clock.monotonic() - self._since
        remote = self.remote
        facts = status.StatusBarFacts(remote.session, remote.row, going, remote.line, profile=self._profile)
        facts = replace(facts, waiting=len(self._questions), cost=remote.cost)
        self._status.update(strip_controls(status.render_status_line(facts, max(20, self.size.width - 2))))

    # --- typing ----------------------------------------------------------------------------------------------

    async def on_composer_sent(self, event: Composer.Sent) -> None:
        """A command of ours, a line for the shell, or something for the agent."""
        text = event.text
        own = OURS.get(text.strip().lower())
        if own is not None:
            await self.run_action(own)
        elif text.startswith("!") and text[1:].strip():
            self.run_worker(self._line(text[1:].strip()))
        else:
            self.talk.anchor()
            await self.remote.send(text)

    async def on_composer_key(self, event: Composer.Key) -> None:
        """A key that the box has no use for."""
        if event.key == "tab":
            if self.card.display:
                self.card.focus()
        elif event.key == "ctrl+d":
            self.exit()
        elif event.key == "escape":
            await self._stop()
        elif event.key == "ctrl+c":
            await self._interrupt()

    def on_question_card_left(self) -> None:
        """Back to the box."""
        self.composer.box.focus()

    async def _interrupt(self) -> None:
        if self.composer.text:
            self.composer.set("")
        elif not await self._stop():
            now = self._clock.monotonic()
            if now - self._warned < AGAIN:
                self.exit()
            self._warned = now
            self.notify("Ctrl-C again leaves", timeout=AGAIN)

    async def _stop(self) -> bool:
        if self._shell.busy:
            self._shell.stop()
            return True
        return await self.remote.stop()

    async def on_question_card_decided(self, event: QuestionCard.Decided) -> None:
        """An answer for the agent."""
        self.composer.box.focus()
        await self.remote.decide(event.question.id, event.decision)

    async def on_markdown_link_clicked(self, event: Markdown.LinkClicked) -> None:
        """An address is copied, never opened: what the model writes starts no program here."""
        event.stop()
        self.copy_to_clipboard(strip_controls(event.href))
        self.notify(f"copied: {strip_controls(event.href)[:200]}", markup=False)

    # --- actions ---------------------------------------------------------------------------------------------

    def action_fold(self) -> None:
        """Show all, or the beginnings."""
        self.talk.fold()

    def action_copy(self) -> None:
        """The last answer to the clipboard (through the terminal, so that it works over SSH)."""
        self.copy_to_clipboard(self.talk.last())
        self.notify("copied the last answer")

    def action_look(self, way: int) -> None:
        """A page back or forth."""
        if way < 0:
            self.talk.release_anchor()
            if self.talk.scroll_target_y <= 0:
                self.remote.look_back()
            self.talk.scroll_page_up()
        else:
            self.talk.scroll_page_down()
            if self.talk.scroll_target_y >= self.talk.max_scroll_y:
                self.talk.anchor()

    async def action_keys(self) -> None:
        """What the keys do."""
        await self.talk.show([self.remote.talk.note(KEYS)])

    async def action_begin(self) -> None:
        """A new session."""
        await self.remote.begin()

    def action_models(self) -> None:
        """Choose a model for this session."""
        row = self.remote.row
        now = f"{row.get('providerOverride')}/{row.get('modelOverride')}" if row.get("modelOverride") else ""
        choices = [PickerChoice("", f"Inherited: {self.remote.inherited}")]
        choices += [
            PickerChoice(f"{m['provider']}/{m['id']}", f"{m['provider']}/{m['id']}", _about(m))
            for m in self.remote.models
        ]
        self._ask(Picker("Model", choices, now), lambda value: self.remote.patch(model=value or None))

    def action_levels(self) -> None:
        """Choose how much it thinks."""
        row = self.remote.row
        choices = [PickerChoice("", f"Inherited: {row.get('thinkingDefault') or 'off'}")]
        choices += [PickerChoice(str(one["id"]), str(one["label"])) for one in self.remote.levels]
        picker = Picker("Thinking", choices, str(row.get("thinkingLevel") or ""))
        self._ask(picker, lambda value: self.remote.patch(thinkingLevel=value or None))

    async def action_sessions(self) -> None:
        """Go elsewhere."""
        now = self._clock.now()
        choices = [PickerChoice("+", "+ new session")]
        choices += [PickerChoice(f"+{name}", f"+ new session with {name}") for name in await self.remote.agents()]
        for row in await self.remote.sessions():
            title = strip_controls(str(row.get("label") or row.get("derivedTitle") or row["key"]))
            going = "working, " if row.get("hasActiveRun") else ""
            choices.append(
                PickerChoice(
                    str(row["key"]), title, f"{going}{status.format_ago(now, row.get('updatedAt'))}{row['key']}"
                )
            )

        async def go(value: str) -> None:
            await (self.remote.begin(value[1:]) if value.startswith("+") else self.remote.go(value))

        self._ask(Picker("Sessions", choices, self.remote.session), go)

    def _ask(self, picker: Picker, then: Callable[[str], Awaitable[None]]) -> None:
        async def chosen(value: str | None) -> None:
            if value is not None:
                await then(value)

        if len(self.screen_stack) == 1:
            self.push_screen(picker, chosen)

    async def _line(self, line: str) -> None:
        """A line for the shell; asks the first time."""
        if self._shell.busy:
            self.notify("a line is running; Esc stops it", severity="warning")
            return
        if not self._trusted:
            choices = [PickerChoice("no", "No"), PickerChoice("yes", "Yes, and do not ask again until I leave")]
            title = "Run lines in your shell, with your rights and outside any sandbox?"
            self._trusted = await self.push_screen_wait(Picker(title, choices)) == "yes"
        if not self._trusted:
            return
        ident = f"shell:{uuid.uuid4()}"
        shown = ConversationBlock(ident, "tool", "", f"! {strip_controls(line)}", state="running")
        await self.talk.show([shown])
        heard: list[str] = [""]

        def show(text: str) -> None:
            heard[0] = strip_controls(text)
            self.run_worker(self.talk.show([ConversationBlock(ident, "tool", heard[0], shown.head, state="running")]))

        began = self._clock.monotonic()
        try:
            code = await self._shell.run(line, show)
        except OSError as exc:
            code, heard[0] = 127, str(exc)
        took = int(1000 * (self._clock.monotonic() - began))
        await self.talk.show(
            [ConversationBlock(ident, "tool", heard[0], shown.head, state="failed" if code else "done", took=took)]
        )


def _about(model: Mapping[str, Any]) -> str:
    room = model.get("contextWindow")
    name = strip_controls(str(model.get("name") or ""))
    shown = name if name != model["id"] else ""
    return ", ".join(part for part in (shown, f"{format_tokens(room)} tokens" if room else "") if part)


OURS = {
    "/exit": "quit",
    "/quit": "quit",
    "/sessions": "sessions",
    "/models": "models",
    "/model": "models",
    "/think": "levels",
    "/keys": "keys",
}


def run_chat_screen(loaded: LoadedConfig, environ: Mapping[str, str], blank: CliMessage, local: bool) -> int:
    """Talk until the person leaves. Raises PalinurusError when the agent cannot be reached at all."""
    clock = SystemClock()

    async def enter() -> ConnectionSource:
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, screen.exit)
        part: Any = await asyncio.to_thread(load_part, PARTS["link"])
        found: ConnectionSource = await part(loaded, environ, clock, local)
        return found

    history = os.path.join(loaded.settings.home, "history")
    folders = {a.id: a.workspace for a in loaded.settings.agents.values() if loaded.settings.gateway.mode == "local"}
    start = ScreenStart(enter, blank.session, blank.model, history, environ=environ, folders=folders)
    start = replace(start, folder=blank.folder)
    screen = ChatScreen(start, clock)
    terminal.watch_hangup()
    screen.run()
    if screen.trouble is not None:
        raise screen.trouble
    return screen.return_code or 0

"""What keys and commands of the screen's own do: choosing, copying, editing, going back, looking for something. The
screen itself (`app`) says which key or word does what."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import msgspec
from textual.app import App

from palinurus.cli.render import strip_controls
from palinurus.cli.tui import errands, style, terminal
from palinurus.cli.tui.blocks import ConversationLog
from palinurus.cli.tui.composer import Composer
from palinurus.cli.tui.conversation import ConversationBlock, extract_words
from palinurus.cli.tui.dialogs import Picker, PickerChoice, cut_around
from palinurus.cli.tui.early import EarlyPrompt
from palinurus.cli.tui.panel import TaskPanel
from palinurus.cli.tui.paste import ClipboardReplies, read_clipboard_picture
from palinurus.cli.tui.session import ConnectionSource, ScreenSession
from palinurus.cli.tui.terminal import UserShell
from palinurus.clock import Clock
from palinurus.config.sections.browser import TerminalLook
from palinurus.core.policy.modes import ABOUT
from palinurus.core.text import cut_line, format_count, format_span, format_tokens
from palinurus.core.types.approval import PermissionMode

MODES: tuple[PermissionMode, ...] = ("default", "acceptEdits", "full", "plan", "ask")  # as Shift-Tab goes through them
PAGES = 1000  # of a conversation that are looked through for a place in it
BACK = (
    PickerChoice("talk", "Only the conversation", "files stay as they are"),
    PickerChoice("both", "The conversation and the files", "what was changed since is put back (/redo does it again)"),
)


class ScreenStart(msgspec.Struct, frozen=True):
    """What a screen begins with. `enter` finds the agent; it may take its time."""

    enter: Callable[[], Awaitable[ConnectionSource]]
    session: str
    model: str = ""
    history: str = ""  # the file
    environ: Mapping[str, str] = {}
    folders: Mapping[str, str] = {}  # the workspace of each agent, where it is on this machine
    folder: str = ""  # where the session works, if it begins now; "": as it has it
    look: TerminalLook = TerminalLook()
    light: bool = False  # the terminal's background
    command: Callable[[str], Awaitable[str]] | None = None  # what the configured command says, run in a folder
    early: EarlyPrompt | None = None  # what stands on the terminal already


class ScreenActions(App[None]):
    """The part of the screen that reads no events. `ChatScreen` is the whole."""

    def __init__(self, start: ScreenStart, clock: Clock) -> None:
        # Without colours Textual would make greys of its own theme's; the terminal's own colours can be left out.
        self._replies = ClipboardReplies()
        driver = None if start.early is None else terminal.make_driver(start.early, self._replies)
        super().__init__(driver, ansi_color=True if start.environ.get("NO_COLOR") else None)
        self._start, self._clock = start, clock
        self.remote: ScreenSession
        self.talk: ConversationLog
        self.composer: Composer
        self._shell = UserShell(start.environ)
        self._trusted = False  # shell lines were allowed once

    # --- choosing ----------------------------------------------------------------------------------------------

    def pick(self, picker: Picker, then: Callable[[str], Awaitable[None]]) -> None:
        """Show a list; `then` gets what was chosen."""

        async def chosen(value: str | None) -> None:
            if value is not None:
                await then(value)

        if len(self.screen_stack) == 1:
            self.push_screen(picker, chosen)

    def action_models(self) -> None:
        """Choose a model for this session."""
        row = self.remote.row
        now = f"{row.get('providerOverride')}/{row.get('modelOverride')}" if row.get("modelOverride") else ""
        choices = [PickerChoice("", f"Inherited: {self.remote.inherited}")]
        choices += [
            PickerChoice(f"{m['provider']}/{m['id']}", f"{m['provider']}/{m['id']}", _about(m))
            for m in self.remote.models
        ]
        self.pick(Picker("Model", choices, now), lambda value: self.remote.patch(model=value or None))

    def action_levels(self) -> None:
        """Choose how much it thinks."""
        row = self.remote.row
        levels = {str(one["id"]): str(one["label"]) for one in self.remote.levels}
        usual = str(row.get("thinkingDefault") or "off")
        choices = [PickerChoice("", f"Inherited: {levels.get(usual, usual)}")]
        choices += [PickerChoice(*one) for one in levels.items()]
        picker = Picker("Thinking", choices, str(row.get("thinkingLevel") or ""))
        self.pick(picker, lambda value: self.remote.patch(thinkingLevel=value or None))

    async def action_sessions(self) -> None:
        """Go elsewhere."""
        now = self._clock.now()
        choices = [PickerChoice("+", "+ new session")]
        choices += [PickerChoice(f"+{name}", f"+ new session with {name}") for name in await self.remote.agents()]
        for row in await self.remote.sessions():
            title = strip_controls(str(row.get("label") or row.get("derivedTitle") or row["key"]))
            going = "working, " if row.get("hasActiveRun") else ""
            choices.append(
                PickerChoice(str(row["key"]), title, f"{going}{_ago(now, row.get('updatedAt'))}{row['key']}")
            )

        async def go(value: str) -> None:
            await (self.remote.begin(value[1:]) if value.startswith("+") else self.remote.go(value))

        self.pick(Picker("Sessions", choices, self.remote.session, more=self._search), go)

    async def _search(self, words: str) -> list[PickerChoice]:
        """Sessions in which this was said, with the words around it; each once, the newest place first."""
        hits: dict[str, PickerChoice] = {}
        for hit in await self.remote.search(words):
            text = " ".join(strip_controls(str(hit["text"])).split())
            choice = PickerChoice(str(hit["key"]), cut_around(text, words, 60), f"said in {hit['key']}")
            hits.setdefault(choice.value, choice)
        return list(hits.values())

    async def choose_theme(self, name: str = "") -> None:
        """Other colours until the end; the configuration keeps one (ui.terminal.theme)."""
        known = self.available_themes
        names = ["auto", *style.THEMES, *sorted(set(known) - set(style.THEMES.values()))]

        async def take(wanted: str) -> None:
            self.theme = style.choose_theme(wanted, known, light=self._start.light)
            self.notify(f"theme {wanted}; `pal config set ui.terminal.theme {wanted}` keeps it", markup=False)

        if name:
            await (take(name) if name in names or name in known else self.tell(f"There is no theme {name}."))
        else:
            self.pick(Picker("Theme", [PickerChoice(one, one) for one in names], self.theme), take)

    def action_history(self) -> None:
        """Look through what was typed before."""

        async def take(text: str) -> None:
            self.composer.set(text)

        lines = self.composer.history.list_newest()
        choices = [PickerChoice(line, strip_controls(cut_line(line, 300))) for line in lines]
        self.pick(Picker("What you said before", choices, typed=self.composer.text), take)

    # --- what is on the screen ---------------------------------------------------------------------------------

    async def tell(self, text: str, *, error: bool = False) -> None:
        """A line of ours in the conversation."""
        await self.talk.show([self.remote.talk.note(text, "error" if error else "note")])

    async def action_keys(self) -> None:
        """What the keys do."""
        await self.tell(style.KEYS)

    def action_fold(self) -> None:
        """Show all, or the beginnings."""
        self.talk.fold()

    def copy_answer(self, number: str = "1") -> None:
        """An answer to the clipboard (through the terminal, so that it works over SSH); 2 is the last but one."""
        found = self.talk.list_answers()
        at = int(number) if number.isdecimal() else 1
        if not 0 < at <= len(found):
            self.notify("there is no such answer", severity="warning")
            return
        self.copy_to_clipboard(found[-at])
        self.notify("copied the last answer" if at == 1 else f"copied answer {at} from the end")

    def action_copy(self) -> None:
        """The last answer to the clipboard."""
        self.copy_answer()

    def action_copy_address(self, address: str) -> None:
        """An address is copied, never opened: what the model writes starts no program here."""
        self.copy_to_clipboard(strip_controls(address))
        self.notify(f"copied: {strip_controls(address)[:200]}", markup=False)

    async def find_words(self, words: str = "") -> None:
        """Look for words in the conversation, also in what is not on the screen, and go there."""
        choices = []
        for message in reversed(await errands.list_messages(self.remote)):
            text = errands.read_said(message) or extract_words(message.get("content"))
            ident = errands.get_entry(message)
            if message.get("role") in ("user", "assistant") and text.strip() and ident:
                mark = "› " if message["role"] == "user" else "  "
                choices.append(PickerChoice(ident, mark + strip_controls(" ".join(text.split()))))

        async def go(ident: str) -> None:
            if not self.talk.find(ident):  # what came while we looked has no name yet
                await self.remote.read_again()
            for _ in range(PAGES):
                if self.talk.find(ident) or not await self.remote.look_back():
                    return

        self.pick(Picker("Find", choices, typed=words, around=True), go)

    async def action_find(self) -> None:
        """Look for words."""
        await self.find_words()

    def action_panel(self) -> None:
        """What goes on in the background."""
        remote = self.remote

        async def stop(ident: str) -> str:
            return await errands.stop_task(remote, ident)

        async def log(ident: str) -> str:
            return await errands.read_task_log(remote, ident)

        if len(self.screen_stack) == 1:
            self.push_screen(TaskPanel(lambda: errands.list_background(remote), log, stop, self._clock.now))

    async def action_look(self, way: int) -> None:
        """A page back or forth."""
        if way < 0:
            self.talk.release_anchor()
            if self.talk.scroll_target_y <= 0:
                await self.remote.look_back()
            self.talk.scroll_page_up()
        else:
            self.talk.scroll_page_down()
            if self.talk.scroll_target_y >= self.talk.max_scroll_y:
                self.talk.anchor()

    async def action_begin(self) -> None:
        """A new session."""
        await self.remote.begin()

    async def action_mode(self) -> None:
        """The next permission mode of the session."""
        now = str(self.remote.row.get("permissionMode") or "default")
        wanted = MODES[(MODES.index(now) + 1) % len(MODES)] if now in MODES else MODES[0]
        await self.remote.patch(permissionMode=None if wanted == "default" else wanted)
        self.notify(f"{wanted}: {ABOUT[wanted]}", markup=False)

    # --- going back --------------------------------------------------------------------------------------------

    async def action_rewind(self) -> None:
        """Back to an earlier message, which stands in the box then; the files too, if wanted."""
        messages = await errands.list_messages(self.remote)
        said = [(at, text) for at, message in enumerate(messages) if (text := errands.read_said(message))]
        choices = [PickerChoice(str(at), strip_controls(cut_line(text, 300))) for at, text in reversed(said)]

        async def back(value: str) -> None:
            at = int(value)
            items = [str(message.get("item") or "") for message in messages[at:]]

            async def how(way: str) -> None:
                await self._rewind(messages[at], items if way == "both" else [])

            self.pick(Picker("Go back", BACK), how)

        if choices:
            self.pick(Picker("Back to which message?", choices), back)
        else:
            self.notify("nothing was said yet")

    async def _rewind(self, message: Mapping[str, Any], items: list[str]) -> None:
        restored = await errands.restore_files(self.remote, items) if items else []
        if await errands.rewind(self.remote, errands.get_entry(message)):
            self.composer.set(errands.read_said(message))
            files = f" {format_count(len(restored), 'file')} put back: {', '.join(restored[:8])}." if restored else ""
            await self.tell(f"Back to before this message; what was said since is kept as a branch.{files}")

    async def action_retry(self) -> None:
        """Ask the last thing again; the answer that was is kept as a branch."""
        said = [one for one in await errands.list_messages(self.remote) if errands.read_said(one)]
        if said and await errands.rewind(self.remote, errands.get_entry(said[-1])):
            await self.remote.send(errands.read_said(said[-1]))

    async def action_take_back(self) -> None:
        """What still waits comes back into the box."""
        text = await self.remote.take_back()
        if text:
            self.composer.set(f"{text}\n{self.composer.text}" if self.composer.text else text)
        else:
            self.notify("nothing waits")

    def action_suspend_process(self) -> None:
        """To the shell, if one can bring us back: otherwise the terminal would stand still for ever."""
        if self.is_headless or terminal.has_job_control():
            super().action_suspend_process()
        else:
            self.notify("there is no shell to go to")

    # --- writing -----------------------------------------------------------------------------------------------

    async def action_edit(self) -> None:
        """Write the message in the person's own editor. The agent goes on meanwhile; nothing is drawn."""
        environ = self._start.environ
        editor = environ.get("VISUAL") or environ.get("EDITOR") or "vi"
        away = contextlib.nullcontext() if self.is_headless else self.suspend()
        before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is the editor's
        with away, self.batch_update():
            text = self.composer.shelf.expand(self.composer.text)
            made = await asyncio.to_thread(terminal.edit_text, editor, text, environ)
        signal.signal(signal.SIGINT, before)
        self.refresh(repaint=True)
        if made is None:
            await self.tell(f"{editor} did not end well; nothing was changed", error=True)
        else:
            self.composer.set(made)

    async def action_paste_picture(self) -> None:
        """The picture of the clipboard; text that was copied here otherwise."""
        environ = self._start.environ
        data = await read_clipboard_picture(environ)
        if not data and (environ.get("KITTY_WINDOW_ID") or environ.get("TERM") == "xterm-kitty"):
            data = await terminal.ask_terminal_picture(self._driver, self._replies)
        if data:
            self.composer.add(self.composer.shelf.add_picture("clipboard.png", data, "image/png") + " ")
        elif self.clipboard:
            self.composer.add(self.clipboard)
        else:
            self.notify("no picture in the clipboard (kitty, wl-paste, xclip or a Mac's own programs read it)")

    async def add_note(self, text: str) -> None:
        """A line for the agent's memory."""
        if await errands.add_note(self.remote, text):
            await self.tell(f"Noted in {errands.MEMORY}: {strip_controls(text)}")

    async def run_line(self, line: str) -> None:
        """A line for the shell; asks the first time."""
        if self._shell.busy:
            self.notify("a line is running; Esc stops it", severity="warning")
            return
        if not self._trusted:
            choices = [PickerChoice("no", "No"), PickerChoice("yes", "Yes, and do not ask again until I leave")]
            title = "Run lines in your shell, with your rights and outside any sandbox?"
            self._trusted = await self.push_screen_wait(Picker(title, choices)) == "yes"
        if not self._trusted:
            self.composer.set(f"!{line}")
            return
        ident = f"shell:{uuid.uuid4()}"
        shown = ConversationBlock(ident, "tool", "", f"! {strip_controls(line)}", state="running")
        await self.talk.show([shown])
        heard: list[str] = [""]

        def show(text: str) -> None:
            heard[0] = strip_controls(text)
            self.run_worker(self.talk.show([msgspec.structs.replace(shown, text=heard[0])]))

        began = self._clock.monotonic()
        try:
            code = await self._shell.run(line, show)
        except OSError as exc:
            code, heard[0] = 127, str(exc)
        took = int(1000 * (self._clock.monotonic() - began))
        state: Any = "failed" if code else "done"
        await self.talk.show([msgspec.structs.replace(shown, text=heard[0], state=state, took=took)])


def _about(model: Mapping[str, Any]) -> str:
    room = model.get("contextWindow")
    name = strip_controls(str(model.get("name") or ""))
    shown = name if name != model["id"] else ""
    return ", ".join(part for part in (shown, f"{format_tokens(room)} tokens" if room else "") if part)


def _ago(now: int, then: Any) -> str:
    if not isinstance(then, int):
        return ""
    seconds = max(0, (now - then) // 1000)
    return f"{format_span(seconds)} ago, " if seconds >= 60 else "just now, "

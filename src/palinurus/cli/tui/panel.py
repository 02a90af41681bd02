"""What goes on besides the conversation: the steps of a plan above the line, and the list of work in the background."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, OptionList, Static
from textual.widgets.option_list import Option

from palinurus.cli.render import strip_controls
from palinurus.cli.tui.blocks import draw_plan
from palinurus.cli.tui.told import ShownStep
from palinurus.core.text import format_span

LOW = 26  # rows of a screen that has room for one line of a plan only
STEPS = 6
REFRESH = 2.0  # seconds
_STYLES = {"running": "$warning", "completed": "$success", "failed": "$error"}


class PlanStrip(Static):
    """The plan while it is worked on; gone when every step is done or nothing runs."""

    def __init__(self) -> None:
        super().__init__("", id="plan", markup=False)
        self._shown: tuple[Sequence[ShownStep], bool] = ((), False)

    def show_plan(self, steps: Sequence[ShownStep], *, running: bool) -> None:
        """These steps; nothing where there is nothing to wait for."""
        low = self.app.size.height < LOW
        if (steps, low) == self._shown and self.display == running:
            return
        self._shown = (steps, low)
        done = sum(one.status == "completed" for one in steps)
        self.display = running and 0 < len(steps) != done
        now = next((one.step for one in steps if one.status == "in_progress"), "")
        head = Content.styled(f"Plan {done}/{len(steps)}" + (f"  ▸ {now}" if low and now else ""), "bold")
        self.update(head if low else Content.assemble(head, *draw_plan(steps, STEPS)))


class TaskPanel(ModalScreen[None]):
    """Commands, sub-agents and jobs: s stops the marked one, Enter shows what it says."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,f2,q", "leave", show=False),
        Binding("s,delete", "stop", show=False),
    ]

    def __init__(
        self,
        rows: Callable[[], Awaitable[list[dict[str, Any]]]],
        log: Callable[[str], Awaitable[str]],
        stop: Callable[[str], Awaitable[str]],
        now: Callable[[], int],
    ) -> None:
        super().__init__()
        self._find, self._log, self._stop, self._now = rows, log, stop, now
        self._rows: list[dict[str, Any]] = []
        self._open = ""  # whose log is shown

    def compose(self) -> ComposeResult:
        """The list, and below it what one of them says."""
        with Vertical(id="picker"):
            yield Label("In the background   Enter log   s stop   Esc back", id="title", markup=False)
            yield OptionList(markup=False, compact=True, id="choices")
            with VerticalScroll(id="text", can_focus=False):
                yield Static("", markup=False, id="log-text")

    async def on_mount(self) -> None:
        """Filled now and every two seconds."""
        await self._refresh()
        self.set_interval(REFRESH, self._refresh)

    async def _refresh(self) -> None:
        self._rows = await self._find()
        listing = self.query_one("#choices", OptionList)
        at = listing.highlighted or 0
        listing.clear_options()
        listing.add_options([Option(draw_task(row, self._now())) for row in self._rows])
        if not self._rows:
            listing.add_option(Option("nothing goes on", disabled=True))
        listing.highlighted = min(at, len(self._rows) - 1) if self._rows else None
        await self._read()

    async def _read(self) -> None:
        if self._open:
            said = await self._log(self._open)
            self.query_one("#log-text", Static).update(Content(said or "(it has said nothing yet)"))
            self.query_one("#text").scroll_end(animate=False)

    async def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        """Its log, or no longer."""
        found = self._rows[event.option_index]["id"]
        self._open = "" if self._open == found else found
        self.query_one("#text").display = bool(self._open)
        await self._read()

    async def action_stop(self) -> None:
        """End the marked one."""
        at = self.query_one("#choices", OptionList).highlighted
        if at is not None and at < len(self._rows):
            said = await self._stop(self._rows[at]["id"])
            if said:
                self.notify(said, markup=False)
            await self._refresh()

    def action_leave(self) -> None:
        """Back to the conversation."""
        self.dismiss(None)


def draw_task(row: Mapping[str, Any], now: int) -> Content:
    """A line of the list."""
    seconds = max(0, (int(row.get("endedAt") or now) - int(row["createdAt"])) // 1000)
    status = str(row["status"])
    return Content.assemble(
        Content.styled(f"{row['kind']:<9} ", "bold"),
        Content.styled(f"{status:<10}", _STYLES.get(status, "dim")),
        f"{format_span(seconds):>6}  ",
        strip_controls(" ".join(str(row["title"]).split()))[:200],
    )

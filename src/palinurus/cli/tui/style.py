"""How the screen looks: its style sheet, its themes, and which of them suits a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from textual.theme import Theme

from palinurus.cli.tui.early import EarlyPrompt

CSS = """
Screen { layers: base; }
#log { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; scrollbar-gutter: stable; }
#log > * { margin: 0 0 1 0; height: auto; width: 1fr; }
#log .user { background: $panel; padding: 0 1; }
#log .words { padding: 0; }
#log .words Static { height: auto; width: 1fr; text-wrap: nowrap; text-overflow: clip; }
#log .thought { color: $text-muted; padding: 0 1; }
#log .tool { border-left: thick $primary; padding: 0 1; }
#log .note, #log .told { color: $text-muted; padding: 0 1; }
#log .error { color: $error; padding: 0 1; }
#log .found { border-left: thick $warning; }
#plan { height: auto; max-height: 9; padding: 0 1; border-top: solid $primary; display: none; }
#card { height: auto; max-height: 14; border: round $warning; padding: 0 1; }
#card:focus { border: heavy $warning; background: $panel; }
#composer { height: auto; max-height: 18; border-top: solid $primary; }
#offers { height: auto; max-height: 8; display: none; background: $panel; }
ComposerBox { height: auto; max-height: 8; padding: 0 1; background: transparent; }
#status { height: 1; padding: 0 1; background: $panel; color: $text-muted; }
ToastRack { dock: top; align: right top; margin: 0; }
Picker, TaskPanel { align: center middle; }
#picker { width: 90%; max-width: 100; height: auto; max-height: 90%; }
#picker { border: round $primary; padding: 0 1; background: $surface; }
#picker #title { text-style: bold; }
#picker #choices { height: auto; max-height: 14; text-wrap: nowrap; text-overflow: ellipsis; }
#picker #text { height: auto; max-height: 12; overflow-y: auto; border-top: solid $primary; display: none; }
ComposerBox .text-area--placeholder { color: $text-muted; }
Screen:ansi #log .user { text-style: bold; }
Screen:ansi ComposerBox .text-area--placeholder { text-style: dim; }
Screen:ansi #log .thought, Screen:ansi #log .note, Screen:ansi #log .told, Screen:ansi #status { text-style: dim; }
"""

KEYS = """Enter       send; while the agent works, join the run
Ctrl-J      new line (also Shift-Enter, \\ at the end)
Esc         stop the run, close a list; twice: go back
Shift-Tab   next permission mode (in the bottom line)
Up, Down    what you said before; Ctrl-R searches it
Alt-Up      take back a message that still waits
PgUp, PgDn  scroll (or the wheel); F3 finds words
Tab         complete a /command or @file; or answer
Ctrl-G      write in $EDITOR (also Ctrl-X Ctrl-E)
Ctrl-V      paste a picture (or drop one here)
Ctrl-P      sessions; Ctrl-N starts a new one
Ctrl-L      models; Ctrl-T thinking level
Ctrl-O      show all of tools and thoughts, or fold them
Ctrl-Y      copy the last answer
F2          background work: see its output, stop it
!line       run it in your shell, unseen by the agent
#note       write a line into the agent's memory
Ctrl-C      clear the line, stop the run, leave
Ctrl-D      leave; Ctrl-Z to the shell, fg comes back"""

# Letters of every colour have at least 4.5 times the light of what they stand on, or a part of it (a test counts).
DARK = Theme(
    "pal-dark", "#4FA8F0", "#9CC4E8", "#FEA62B", "#F07A8C", "#4EBF71", "#FEA62B",
    foreground="#E0E0E0", background="#121212", surface="#1E1E1E", panel="#20272E",
)  # fmt: skip
LIGHT = Theme(
    "pal-light", "#00518F", "#35506B", "#7A5300", "#A8152F", "#15692F", "#8A4600",
    foreground="#1C1C1C", background="#FAFAFA", surface="#F0F0F0", panel="#E6E8EA", dark=False,
)  # fmt: skip
# What people call them -> Textual's names. auto and 16 are the terminal's own colours on its own background.
THEMES: Mapping[str, str] = {
    "dark": DARK.name,
    "light": LIGHT.name,
    "16": "ansi-dark",
    "16-light": "ansi-light",
}
OWN = ("ansi-dark", "ansi-light")


def choose_theme(wanted: str, known: Mapping[str, object], *, light: bool) -> str:
    """Textual's name of the theme that is meant; the terminal's own colours for one that nobody knows."""
    name = THEMES.get(wanted, wanted)
    return name if name in known else OWN[light]


def is_light(environ: Mapping[str, str], early: EarlyPrompt | None = None) -> bool:
    """Is the terminal's background light? It says so in a variable, or when it was asked; else it is dark."""
    told = environ.get("COLORFGBG", "").rpartition(";")[2]
    if told.isdecimal():
        return int(told) in (7, *range(9, 16))
    return early is not None and is_light_colour(early.background)


def is_light_colour(answer: str) -> bool:
    """From what a terminal answers: ]11;rgb:ffff/ffff/ffff."""
    parts = answer.partition("rgb:")[2].split("/")[:3]
    try:
        red, green, blue = (int(part[:2], 16) for part in parts)
    except ValueError:
        return False
    return 0.299 * red + 0.587 * green + 0.114 * blue > 140

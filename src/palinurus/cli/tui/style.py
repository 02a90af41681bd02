"""How the screen looks, and what its keys do, in words."""

from __future__ import annotations

CSS = """
Screen { layers: base; }
#log { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
#log > * { margin: 0 0 1 0; height: auto; width: 1fr; }
#log .user { background: $boost; padding: 0 1; }
#log .words { padding: 0; margin: 0 0 0 0; }
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
Tab            complete; with nothing to complete: answer the open question
Ctrl-P         sessions        Ctrl-N  a new one
Ctrl-L         models          Ctrl-T  thinking level
Ctrl-O         show all of what tools and thoughts say
Ctrl-Y         copy the last answer
!line          run a line in your own shell; the agent does not see it
Ctrl-C, Ctrl-D stop, clear, leave"""

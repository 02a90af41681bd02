"""The composition root: settings in, a wired App out. The only folder that knows who plugs into whom.

`program.py` is the App: open, start and stop, and what its faces call. `wiring.py` is the list of its parts; the other
files put one part together each.
"""

from palinurus.app.program import App as App
from palinurus.app.program import build_app as build_app

"""The composition root: settings in, a wired App out. The only folder that knows who plugs into whom.

`program.py` is the App: start and stop order, and what its faces call. `tools.py`, `models.py`, `speech.py` each put
one part together.
"""

from palinurus.app.program import App as App
from palinurus.app.program import build_app as build_app

"""`make compat`: the unmodified OpenClaw clients against our gateway with a mock model, the configs of its docs, and
Claude's Agent SDK with `pal` as its command line, and the npm SDK's client of the Agent Client Protocol with `pal acp`.
Exit 1 on a mismatch.

PARTS (blocks, homes, agentsdk, editors, cli, node, tui, control) as arguments pick some of them. The package is kept in
$COMPAT_PACKAGE (else the user's cache folder); screens and screenshots go to a new folder that is named at the end.
"""

from __future__ import annotations

import os
import sys

import agentsdk
import blocks
import control
import editors
import homes
import node
import place
import tui
from tally import Tally

import cli

PARTS = ("blocks", "homes", "agentsdk", "editors", "cli", "node", "tui", "control")


def main(wanted: list[str]) -> int:
    """Install, start, drive, report."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    package = os.environ.get("COMPAT_PACKAGE") or os.path.join(cache, "palinurus-compat", place.VERSION)
    tally = Tally()
    if "agentsdk" in (wanted or PARTS):
        agentsdk.drive(cache, tally)
    if "editors" in (wanted or PARTS):
        editors.drive(cache, tally)
    if wanted and set(wanted) <= {"agentsdk", "editors"}:
        return 0 if tally.good else 1
    place.install(package)
    if "blocks" in (wanted or PARTS):
        blocks.drive(os.path.join(package, "node_modules", "openclaw", "docs"), tally)
    if "homes" in (wanted or PARTS):
        homes.drive(package, cache, tally)
    wanted = [part for part in wanted or PARTS if part not in ("blocks", "homes", "agentsdk", "editors")]
    if not wanted:
        return 0 if tally.good else 1
    server = control.serve(package)
    here = place.start(package, (f"http://127.0.0.1:{server.server_address[1]}",))
    print(f"compat: openclaw {place.VERSION} against {here.url}; logs in {here.root}")
    try:
        for part in wanted:
            if part == "cli":
                cli.drive(here, tally)
            elif part == "node":
                node.drive(here, tally)
            elif part == "tui":
                tui.drive(here, tally)
            elif part == "control":
                control.drive(here, tally, server)
            else:
                raise SystemExit(f"compat: there is no part {part!r}; parts are {', '.join(PARTS)}")
    finally:
        here.stop()
        server.shutdown()
    failed = [name for name, ok, _ in tally.rows if not ok]
    print(f"\ncompat: {len(tally.rows) - len(failed)} of {len(tally.rows)} fit; look at {here.shots}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

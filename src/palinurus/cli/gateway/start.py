"""`pal gateway`: the program itself, or what a service manager does with it. Loads only the one that is asked for."""

from __future__ import annotations

from typing import Any

from palinurus.cli.main import PARTS, load_part


def run_gateway_command(argv: list[str]) -> int:
    """With a verb behind it, the service. Returns the exit code."""
    verb = bool(argv) and argv[0] != "run" and not argv[0].startswith("-")
    run: Any = load_part(PARTS["service" if verb else "gateway"])
    return int(run(argv))

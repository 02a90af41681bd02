"""The person's own part of the line at the bottom: the first line that a configured command prints (ui.terminal.
statusCommand). It runs in a cell: programs and the session's folder can be read, nothing written, nothing connected to.
"""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping

from msgspec.structs import replace

from palinurus.cli.render import strip_controls
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.tools.commands.environ import build_child_env
from palinurus.tools.sandbox.launch import prepare_launch, start_child
from palinurus.tools.sandbox.probe import make_empty_sandbox

SECONDS = 2.0  # it may take
BYTES = 4096
SHOWN = 60  # letters


class StatusCommand:
    """What it said last; run again when that is old."""

    def __init__(self, settings: Settings, environ: Mapping[str, str], clock: Clock) -> None:
        look = settings.gateway.look.terminal
        self._line, self._every = look.command, look.every
        self._environ = environ
        self._clock = clock
        self._said: tuple[str, float, str] = ("", -3600.0, "")  # in which folder, when, what

    async def __call__(self, folder: str) -> str:
        """A line for the session's folder."""
        where, when, said = self._said
        now = self._clock.monotonic()
        if where == folder and now - when < self._every:
            return said
        said = await asyncio.to_thread(self._run, folder)
        self._said = (folder, now, said)
        return said

    def _run(self, folder: str) -> str:
        cell = make_empty_sandbox()
        if cell.kind == "none":
            return "(statusCommand: nothing holds commands here)"
        place = folder or "/"
        cell = replace(cell, read=(*cell.read, place) if folder else cell.read)
        env = build_child_env(self._environ, {"PAL_FOLDER": place})
        try:
            launch = prepare_launch(("/bin/sh", "-c", self._line), place, env, cell)
            child = start_child(launch, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError as exc:
            return f"(statusCommand: {exc.strerror or exc})"
        try:
            child.wait(SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return "(statusCommand took too long)"
        assert child.stdout is not None
        with child.stdout as stream:
            first = stream.read(BYTES).decode("utf-8", "replace").partition("\n")[0]
        return strip_controls(first.strip())[:SHOWN]

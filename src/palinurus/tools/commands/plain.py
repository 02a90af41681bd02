"""A child that no keeper stands behind: the searches, and every child where there are no keepers (not Linux).

Looks like a `KeptChild` to `child`. Its family is found in /proc, as far as there is one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from palinurus.tools.commands import descendants
from palinurus.tools.sandbox.children import ChildHandles


class PlainChild:
    """Started when made. Raises OSError if it cannot be started."""

    started = True
    failure: OSError | None = None
    left = 0

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: Mapping[str, str],
        handles: ChildHandles,
        *,
        mark: str,
        session: bool = True,
        pass_fds: tuple[int, ...] = (),
    ) -> None:
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=env,
            stdin=handles.stdin,
            stdout=handles.stdout,
            stderr=handles.stderr,
            pass_fds=pass_fds,
            start_new_session=session,
        )
        self.pid = self._process.pid
        self._mark = mark
        self._since = descendants.read_start_time(self.pid)
        self._known: set[descendants.SystemProcess] = set()
        self._pidfd = _open_pidfd(self.pid)

    def fileno(self) -> int:
        """A handle that can be read when it has ended; -1 where there is no such thing."""
        return self._pidfd

    def poll(self) -> int | None:
        return self._process.poll()

    def terminate(self) -> None:
        """SIGTERM to the family. Who is in it is remembered: orphans lose their traces."""
        self._known = self._find_members()
        descendants.signal_family(self.pid, self._known, signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the family."""
        known = self._known | self._find_members()
        for _ in range(4):  # a member may have forked between look and signal
            descendants.signal_family(self.pid, known, signal.SIGKILL)
            known = self._find_members()
            if not known:
                return

    def _find_members(self) -> set[descendants.SystemProcess]:
        return descendants.find_descendants(self.pid, self._mark, self._since)

    def close(self) -> None:
        """Let go of it; if it is somehow still there, it dies first."""
        if self._process.poll() is None:
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
        if self._pidfd >= 0:
            os.close(self._pidfd)


def _open_pidfd(pid: int) -> int:
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1  # not Linux, or an old one: the exit is polled for

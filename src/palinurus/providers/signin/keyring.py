"""The OS keyring, where there is one: through the programs `secret-tool` (Secret Service) or `keyring`.

Knows names and secrets, not what they are. Every call may take a moment and none waits for a person: a keyring that is
locked is one that does not answer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping

import msgspec

PATIENCE = 5.0  # seconds


class KeyringProgram(msgspec.Struct, frozen=True):
    """How a program is asked."""

    name: str
    get: str
    put: str
    remove: str
    variable: str = ""  # must be set, or there is nobody to ask


PROGRAMS = {
    "secret-tool": KeyringProgram(
        "Secret Service",
        "lookup service palinurus home {home} account {ident}",
        "store --label=Palinurus service palinurus home {home} account {ident}",
        "clear service palinurus home {home} account {ident}",
        variable="DBUS_SESSION_BUS_ADDRESS",
    ),
    "keyring": KeyringProgram(
        "the system's keyring",
        "get palinurus/{home} {ident}",
        "set palinurus/{home} {ident}",
        "del palinurus/{home} {ident}",
    ),
}


class ProgramKeyring:
    """A program that speaks to the keyring. The secret goes through standard input, never through arguments."""

    def __init__(self, program: str, home: str, environ: Mapping[str, str]) -> None:
        self._program = program
        self._row = PROGRAMS[os.path.basename(program)]
        self._home = hashlib.sha256(os.path.realpath(home).encode()).hexdigest()[:12]  # of each home its own
        self._env = dict(environ)
        self.name = self._row.name

    def get(self, ident: str) -> str | None:
        done = self._run(self._row.get, ident)
        return done.decode("utf-8", "replace").rstrip("\n") if done else None

    def put(self, ident: str, secret: str) -> bool:
        return self._run(self._row.put, ident, secret.encode()) is not None and self.get(ident) == secret

    def remove(self, ident: str) -> bool:
        return self._run(self._row.remove, ident) is not None

    def _run(self, words: str, ident: str, given: bytes = b"") -> bytes | None:
        line = [word.format(home=self._home, ident=ident) for word in words.split()]
        try:
            done = subprocess.run(
                [self._program, *line], input=given, capture_output=True, timeout=PATIENCE, env=self._env, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None


def find_keyring(home: str, environ: Mapping[str, str]) -> ProgramKeyring | None:
    """The keyring of this session, if there is one that could be asked."""
    for name, row in PROGRAMS.items():
        program = shutil.which(name, path=environ.get("PATH"))
        if program and (not row.variable or environ.get(row.variable)):
            return ProgramKeyring(program, home, environ)
    return None

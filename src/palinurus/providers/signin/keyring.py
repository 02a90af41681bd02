"""The OS keyring, where there is one: through `secret-tool` (Secret Service) or the package `keyring`.

Knows names and secrets, not what they are. Every call may take a moment and none waits for a person: a keyring that is
locked is one that does not answer.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Protocol

from palinurus import late

SERVICE = "palinurus"
PATIENCE = 5.0  # seconds


class OsKeyring(Protocol):
    """What any of them can do. None and False: it did not."""

    name: str

    def get(self, ident: str) -> str | None: ...

    def put(self, ident: str, secret: str) -> bool: ...

    def remove(self, ident: str) -> bool: ...


class SecretToolKeyring:
    """libsecret's own program. The secret goes through standard input, never through arguments."""

    name = "Secret Service"

    def __init__(self, program: str, home: str, environ: Mapping[str, str]) -> None:
        self._program = program
        self._home = _mark(home)
        self._env = dict(environ)

    def get(self, ident: str) -> str | None:
        done = self._run("lookup", ident)
        return done.decode("utf-8", "replace") if done else None

    def put(self, ident: str, secret: str) -> bool:
        label = f"--label=Palinurus: {ident}"
        return self._run("store", ident, label, given=secret.encode()) is not None and self.get(ident) == secret

    def remove(self, ident: str) -> bool:
        return self._run("clear", ident) is not None

    def _run(self, verb: str, ident: str, *options: str, given: bytes = b"") -> bytes | None:
        line = [self._program, verb, *options, "service", SERVICE, "home", self._home, "account", ident]
        try:
            done = subprocess.run(line, input=given, capture_output=True, timeout=PATIENCE, env=self._env, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout if done.returncode == 0 else None


class PackageKeyring:
    """The package `keyring`, if it is installed and has a real keyring behind it."""

    name = "the system's keyring"

    def __init__(self, home: str) -> None:
        self._package = late.load_part("keyring")
        self._home = _mark(home)

    def get(self, ident: str) -> str | None:
        try:
            found = self._package.get_password(f"{SERVICE}/{self._home}", ident)
        except (self._package.errors.KeyringError, OSError, RuntimeError):
            return None
        return found if isinstance(found, str) else None

    def put(self, ident: str, secret: str) -> bool:
        try:
            self._package.set_password(f"{SERVICE}/{self._home}", ident, secret)
        except (self._package.errors.KeyringError, OSError, RuntimeError):
            return False
        return self.get(ident) == secret

    def remove(self, ident: str) -> bool:
        try:
            self._package.delete_password(f"{SERVICE}/{self._home}", ident)
        except (self._package.errors.KeyringError, OSError, RuntimeError):
            return False
        return True


def find_keyring(home: str, environ: Mapping[str, str]) -> OsKeyring | None:
    """The keyring of this session. Without a session bus there is none that could be asked."""
    program = shutil.which("secret-tool", path=environ.get("PATH"))
    if program and environ.get("DBUS_SESSION_BUS_ADDRESS"):
        return SecretToolKeyring(program, home, environ)
    if find_spec("keyring") is not None:
        return PackageKeyring(home)
    return None


def _mark(home: str) -> str:
    """Two homes of one person are two sets of sign-ins."""
    return hashlib.sha256(os.path.realpath(home).encode()).hexdigest()[:12]

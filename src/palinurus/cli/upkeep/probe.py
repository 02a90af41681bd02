"""Is a version sound, and is there a way back from it? Tried in a home of its own, with a copy of the database.

There it brings the schema up, comes up as a gateway, and answers one message with the built-in model; no chat, job or
model of the owner's is reached. What is unfinished in the copy is ended first: nothing of it happens twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

import msgspec

from palinurus.cli.reach.http import GatewayEndpoint, is_gateway_alive
from palinurus.clock import Clock
from palinurus.errors import PalinurusError
from palinurus.gateway.token import find_location
from palinurus.store.sqlite.backup import copy_database, end_unfinished
from palinurus.store.sqlite.database import NAME, open_for_writing, to_state_error
from palinurus.store.sqlite.lock import take_lock
from palinurus.store.sqlite.schema import MIGRATIONS, lower_schema, migrate_schema

SECONDS = 120.0  # for a gateway that comes up on a busy machine
_CONFIG = '{agents: {defaults: {model: "builtin/demo"}}, cron: {enabled: false}, gateway: {bind: "loopback"}}\n'
_WORDS = "Are you there?"


class VersionFault(PalinurusError):
    """A version that must not be put in force; says what it did wrong."""


def run_version(path: str, home: str, *words: str) -> str:
    """What `pal` of that version prints (`path` goes before what is in force). Raises VersionFault."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "palinurus", "--home", home, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            env=_environ(path),
            cwd=home,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise VersionFault(f"`pal {words[0]}` did not end within {SECONDS:g} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or [f"exit code {done.returncode}"]
        raise VersionFault(f"`pal {words[0]}` failed: {' '.join(said[-3:])[-400:]}")
    return done.stdout


def _environ(path: str) -> dict[str, str]:
    """Without the owner's keys and home."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "PYTHONHOME", "VIRTUAL_ENV")
    environ = {name: os.environ[name] for name in kept if name in os.environ}
    return {**environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}


@contextlib.contextmanager
def _make_home(database: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory(prefix="palinurus-probe-") as folder:
        home = os.path.join(folder, "home")
        os.mkdir(home, 0o700)
        with open(os.open(os.path.join(home, "palinurus.json"), os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
            file.write(_CONFIG)
        if database:
            shutil.copyfile(database, os.path.join(home, NAME))
            os.chmod(os.path.join(home, NAME), 0o600)
        yield home


def try_version(path: str, database: str, clock: Clock) -> None:
    """Schema up, gateway up, one answer, an orderly end; on a copy of `database` (may be ""). Raises VersionFault."""
    with _make_home(database) as home:
        if database:
            end_unfinished(os.path.join(home, NAME))
        run_version(path, home, "update", "--schema")
        log = os.path.join(home, "probe.log")
        with open(log, "wb") as said:
            child = subprocess.Popen(
                [sys.executable, "-m", "palinurus", "--home", home, "gateway", "--port", "0"],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=_environ(path),
                cwd=home,
            )
        try:
            asyncio.run(_come_up(child, home, log, clock))
            answer = run_version(path, home, "agent", "-m", _WORDS, "--json")
            _check_answer(answer)
            child.terminate()
            if (code := child.wait(SECONDS)) != 0:
                raise VersionFault(f"its gateway ended with {code}: {_read_end(log)}")
        except subprocess.TimeoutExpired:
            raise VersionFault(f"its gateway does not end: {_read_end(log)}") from None
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()


async def _come_up(child: subprocess.Popen[bytes], home: str, log: str, clock: Clock) -> None:
    end = clock.monotonic() + SECONDS
    while clock.monotonic() < end and child.poll() is None:
        place = find_location(home)
        if place is not None and await is_gateway_alive(
            GatewayEndpoint(place.host, place.port, "", place.fingerprint, proof=place.proof)
        ):
            return
        await clock.sleep(0.1)
    raise VersionFault(f"its gateway does not come up: {_read_end(log)}")


def _check_answer(answer: str) -> None:
    try:
        found = msgspec.json.decode(answer, type=dict)
    except msgspec.MsgspecError:
        found = {}
    if not found.get("text") or found.get("error"):
        raise VersionFault(f"it does not answer: {answer.strip()[:300]}")


def _read_end(log: str) -> str:
    with open(log, "rb") as file:
        lines = file.read().decode("utf-8", "replace").strip().splitlines()
    return " ".join(lines[-3:])[-400:] or "it says nothing"


# --- the schema ------------------------------------------------------------------------------------------------


def fit_schema(home: str) -> tuple[int, int, list[str]]:
    """Bring the database to this program's schema, up or down: (before, now, what was taken away).

    Raises StateLocked while a gateway runs, StateBroken where there is no way down."""
    lock = take_lock(home)
    try:
        conn = open_for_writing(home)
        try:
            before = int(conn.execute("PRAGMA user_version").fetchone()[0])
            gone = lower_schema(conn, os.path.join(home, NAME)) if before > len(MIGRATIONS) else []
            migrate_schema(conn, os.path.join(home, NAME))
        except sqlite3.Error as error:
            raise to_state_error(error, os.path.join(home, NAME)) from None
        finally:
            conn.close()
    finally:
        lock.release()
    return before, len(MIGRATIONS), gone


def prove_way_back(old: str, new: str, database: str) -> None:
    """The new version takes a copy up, the old one takes it down again: every row must be as it was. Raises
    VersionFault."""
    if not database:
        return
    with _make_home(database) as home:
        file = os.path.join(home, NAME)
        tables = _list_tables(file)
        before = digest_rows(file, tables)
        run_version(new, home, "update", "--schema")
        run_version(old, home, "update", "--schema")
        if digest_rows(file, tables) != before:
            raise VersionFault("its schema cannot be taken back without loss")


def _list_tables(file: str) -> dict[str, list[str]]:
    with contextlib.closing(sqlite3.connect(file)) as base:
        names = [row[0] for row in base.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return {
            name: [row[0] for row in base.execute("SELECT name FROM pragma_table_info(?)", (name,))] for name in names
        }


def digest_rows(file: str, tables: Mapping[str, list[str]]) -> str:
    """Of what these tables hold in these columns."""
    digest = hashlib.sha256()
    with contextlib.closing(sqlite3.connect(file)) as base:
        for name, columns in tables.items():
            listed = ", ".join(f'"{column}"' for column in columns)
            for row in base.execute(f'SELECT {listed} FROM "{name}" ORDER BY {listed}'):
                digest.update(repr(row).encode())
    return digest.hexdigest()


def copy_state(home: str, target: str) -> str:
    """A copy of the database, taken while whoever works; "" for a home without one. Raises StateError, OSError."""
    file = os.path.join(home, NAME)
    if not os.path.isfile(file):
        return ""
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    copy_database(file, target)
    os.chmod(target, 0o600)
    return target

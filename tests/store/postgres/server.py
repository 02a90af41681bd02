"""A PostgreSQL of our own for tests: in a temporary directory, on a socket only. Where none is installed, tests that
want one are skipped and say so."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from palinurus.testing.home import HomeSnapshot

MISSING = "no PostgreSQL: apt-get install postgresql, or name a server in PALINURUS_TEST_POSTGRES"
TABLES = (
    "node, inbox, hold, outbox, sessions, spent, slots, steps, line, kept, held, news, aside, account, reserved, blob"
)


def find_programs() -> str | None:
    """The folder with initdb and postgres."""
    found = shutil.which("initdb")
    if found:
        return os.path.dirname(os.path.realpath(found))
    return next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), None)


class Postgres:
    """A server of our own in `folder` ("": a new one). `url` is that of its socket; `port`: also over TCP."""

    def __init__(self, folder: str = "", port: int = 0, settings: str = "-c fsync=off") -> None:
        programs = find_programs()
        assert programs is not None, MISSING
        self._programs, self._port = programs, port
        user = pwd.getpwnam("nobody") if os.getuid() == 0 else None  # it refuses to be root's
        self._as: dict[str, Any] = {}
        self.folder = folder or tempfile.mkdtemp(prefix="pal-pg-")
        if user is not None:
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self._as = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        where = f"-c listen_addresses=127.0.0.1 -p {port}" if port else "-c listen_addresses=''"
        self._settings = f"-k {self.folder} {where} -c max_connections=120 -c shared_buffers=16MB {settings}"
        self.url = f"postgresql://pal@/postgres?host={self.folder}" + (f"&port={port}" if port else "")

    def make_url(self, port: int = 0) -> str:
        """Over TCP, by itself or through what listens on another port."""
        return f"postgresql://pal@127.0.0.1:{port or self._port}/postgres?sslmode=disable"

    def create(self) -> None:
        self._run("initdb", "-U", "pal", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")

    def start(self) -> None:
        """Returns when it takes connections."""
        self._run("pg_ctl", "-w", "-l", os.path.join(self.folder, "log"), "-o", self._settings, "start")

    def stop(self, how: str = "immediate") -> None:
        self._run("pg_ctl", "-m", how, "stop", check=False)

    def revive(self) -> None:
        """Start it if it came down."""
        if not self._answers():
            self.stop()
            self.start()

    def _answers(self) -> bool:
        line = [os.path.join(self._programs, "pg_isready"), "-q", "-h", self.folder]
        line += ["-p", str(self._port)] if self._port else []
        return any(subprocess.run(line, check=False).returncode == 0 or time.sleep(0.5) for _ in range(10))

    def _run(self, name: str, *args: str, check: bool = True) -> None:
        line = [os.path.join(self._programs, name), "-D", os.path.join(self.folder, "data"), *args]
        subprocess.run(line, check=check, capture_output=True, cwd="/", **self._as)


@contextmanager
def running_server() -> Iterator[str]:
    """The address of a server that is gone afterwards."""
    server = Postgres()
    try:
        server.create()
        server.start()
        yield server.url
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)


async def empty_tables(url: str) -> None:
    """Forget all that has happened there."""
    async with connected(url) as conn:
        if await conn.fetchval("SELECT to_regclass('palinurus.node')") is not None:
            await conn.execute(f"TRUNCATE {TABLES} RESTART IDENTITY")


async def read_fleet(url: str) -> HomeSnapshot:
    """What the checker of homes looks at, from a fleet's tables."""
    async with connected(url) as conn:
        inbox = [dict(row) for row in await conn.fetch("SELECT * FROM inbox ORDER BY seq")]
        outbox = [dict(row) for row in await conn.fetch("SELECT * FROM outbox ORDER BY seq")]
        lines = await conn.fetch("SELECT path, data FROM line ORDER BY path, start")
    files: dict[str, tuple[bytes, ...]] = {}
    for path, data in lines:
        files[path] = (*files.get(path, (b"",))[:-1], bytes(data), b"")
    return HomeSnapshot(tuple(inbox), tuple(outbox), files)


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    """A connection that sees a fleet's tables."""
    import asyncpg  # the dev extra; tests without a server never come here

    conn = await asyncpg.connect(url, server_settings={"search_path": "palinurus"})
    try:
        yield conn
    finally:
        await conn.close()

"""A PostgreSQL of our own for tests: in a temporary directory, on a socket only. Where none is installed, tests that
want one are skipped and say so."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
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


@contextmanager
def running_server() -> Iterator[str]:
    """The address of a server that is gone afterwards."""
    programs = find_programs()
    assert programs is not None, MISSING
    folder = tempfile.mkdtemp(prefix="pal-pg-")
    user = pwd.getpwnam("nobody") if os.getuid() == 0 else None  # it refuses to be root's
    if user is not None:
        os.chown(folder, user.pw_uid, user.pw_gid)
    options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []} if user is not None else {}
    data = os.path.join(folder, "data")

    def run(name: str, *args: str) -> None:
        subprocess.run(
            [os.path.join(programs, name), "-D", data, *args], check=True, capture_output=True, cwd=folder, **options
        )  # type: ignore[call-overload]

    try:
        run("initdb", "-U", "pal", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C")
        settings = f"-k {folder} -c listen_addresses='' -c max_connections=80 -c fsync=off -c shared_buffers=16MB"
        run("pg_ctl", "-w", "-l", os.path.join(folder, "log"), "-o", settings, "start")
        yield f"postgresql://pal@/postgres?host={folder}"
    finally:
        subprocess.run(
            [os.path.join(programs, "pg_ctl"), "-D", data, "-m", "immediate", "stop"],
            capture_output=True,
            check=False,
            cwd="/",
            **options,
        )  # type: ignore[call-overload]
        shutil.rmtree(folder, ignore_errors=True)


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

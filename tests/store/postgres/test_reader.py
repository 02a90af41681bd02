"""What `pal doctor` says of a PostgreSQL: behind a real pooler, with its settings wrong, with nodes that disagree."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from channels.scene import until
from palinurus.cli.doctor.checks import DoctorCase, DoctorFinding
from palinurus.cli.doctor.fleet import check_fleet
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.store.fleet import MemberFacts
from palinurus.store.postgres import open_postgres_store
from palinurus.store.postgres.link import FleetMember
from store.postgres.server import connected

BOUNCER = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def examine(url: str, home: Path) -> dict[str, DoctorFinding]:
    environ = {"PALINURUS_STORE": url}
    case = DoctorCase(str(home), environ, load_config(str(home), environ), running=False)
    return {f"{one.level}: {one.what}": one for one in check_fleet(case)}


def node(name: str, config: str) -> FleetMember:
    return FleetMember(name, lease=600.0, facts=MemberFacts("1.0", config))


class Ahead(SystemClock):
    def now(self) -> int:
        return super().now() + 3_630_000


async def told(url: str, home: Path) -> list[str]:
    """In a thread: the doctor waits."""
    found = await asyncio.to_thread(examine, url, home)
    assert all(one.fix for one in found.values() if one.level != "ok")
    return sorted(found)


async def test_a_sound_fleet_is_one_line(fleet: str, tmp_path: Path) -> None:
    store = await open_postgres_store(fleet, str(tmp_path), SystemClock(), node("a", "x"))
    try:
        assert await told(fleet, tmp_path) == ["ok: fleet: 1 node, tables of version 2"]
    finally:
        await store.close()


async def test_nodes_that_disagree_or_have_a_wrong_clock_are_named(fleet: str, tmp_path: Path) -> None:
    stores = [
        await open_postgres_store(fleet, str(tmp_path), SystemClock(), node("a", "x")),
        await open_postgres_store(fleet, str(tmp_path), Ahead(), node("b", "y")),
    ]
    try:
        assert await told(fleet, tmp_path) == [
            "warn: fleet: the clock of b is 1h off the database's",
            "warn: fleet: the configs of its nodes differ: a x, b y",
        ]
    finally:
        for store in stores:
            await store.close()


async def test_a_server_that_loses_what_it_acknowledged_is_refused(fleet: str, tmp_path: Path) -> None:
    async with connected(fleet) as conn:
        await conn.execute("ALTER DATABASE postgres SET synchronous_commit = off")
        try:
            (found,) = [one for one in await told(fleet, tmp_path) if one.startswith("fail")]
            assert found.startswith("fail: fleet: synchronous_commit is off")
        finally:
            await conn.execute("ALTER DATABASE postgres RESET synchronous_commit")


async def test_a_server_that_is_not_there_is_told_with_a_way_out(tmp_path: Path) -> None:
    pytest.importorskip("asyncpg")
    (found,) = await told(f"postgresql://pal@/postgres?host={tmp_path}", tmp_path)
    assert found.startswith("fail: fleet: the fleet's database cannot be reached")


def test_one_machine_alone_is_not_asked(tmp_path: Path) -> None:
    assert examine("", tmp_path) == {}


@pytest.fixture
async def bouncer(fleet: str) -> AsyncIterator[str]:
    """The address of a real PgBouncer in transaction mode before the fleet's server."""
    if BOUNCER is None:
        pytest.skip("the check for a pooler was not tested: apt-get install pgbouncer")
    socket = parse_qs(urlsplit(fleet).query).get("host", [""])[0]
    if not socket:
        pytest.skip("the check for a pooler was not tested: it needs a server on a socket")
    with _folder() as folder:
        told = [
            *("[databases]", f"postgres = host={socket} dbname=postgres user=pal", "[pgbouncer]"),
            *("pool_mode = transaction", "auth_type = any", f"unix_socket_dir = {folder}", "listen_port = 6432"),
            *(f"logfile = {folder}/log", "server_check_delay = 0"),
        ]
        Path(folder, "ini").write_text("\n".join(told))
        Path(folder, "ini").chmod(0o644)
        options = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("nobody")
            os.chown(folder, user.pw_uid, user.pw_gid)
            options = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        process = subprocess.Popen(
            [BOUNCER, f"{folder}/ini"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **options
        )  # type: ignore[call-overload]
        try:
            await until(lambda: os.path.exists(f"{folder}/.s.PGSQL.6432"))
            yield f"postgresql://pal@/postgres?host={folder}&port=6432"
        finally:
            process.terminate()
            process.wait()


@contextlib.contextmanager
def _folder() -> Iterator[str]:
    made = tempfile.mkdtemp(prefix="pal-bouncer-")
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


async def test_a_pooler_in_transaction_mode_is_found(bouncer: str, tmp_path: Path) -> None:
    assert await told(bouncer, tmp_path) == ["fail: fleet: a pooler in transaction mode stands before PostgreSQL"]

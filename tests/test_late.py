"""What is loaded late, and that it is: an idle gateway holds none of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.place import SRC
from palinurus.late import PARTS, load_part
from palinurus.tools.sandbox.system import make_own_command

# What is only there because of a part, and would come back with an import at the top of a file.
# aiohttp's client reads the machine's certificates twice; models are called without it.
HEAVY = {"nacl", "pyjson5", "importlib.metadata", "mcp", "palinurus.gateway.client", "aiohttp.connector"}


@pytest.mark.parametrize("row", PARTS)
def test_every_row_leads_somewhere(row: str) -> None:
    if row in ("mcp", "mcp-http"):
        pytest.importorskip("mcp")
    assert load_part(row) is load_part(row) is not None


def test_an_unknown_part() -> None:
    with pytest.raises(KeyError):
        load_part("no such thing")


def test_a_gateway_loads_none_of_it_before_it_is_asked() -> None:
    code = "import sys, palinurus.late as late; late.postpone_package('aiohttp'); import palinurus.cli.gateway.serve"
    code += "; import palinurus.providers.http; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    late = {where.partition(":")[0] for where in PARTS.values()} | HEAVY
    assert late & set(done.stdout.split()) == set()


def test_nor_when_it_is_ready(tmp_path: Path) -> None:
    """The program is made, wired and started, and takes messages; a part that is loaded by then is no late part."""
    code = (
        "import asyncio, sys, pathlib; from flow.test_app import running\n"
        "from palinurus.testing.model import ScriptedModel\n"
        "before = set(sys.modules)\n"
        "async def main():\n"
        "    async with running(pathlib.Path(sys.argv[1]), ScriptedModel([])) as app:\n"
        "        assert app.ready() == (True, [])\n"
        "        print(*set(sys.modules) - before)\n"
        "asyncio.run(main())"
    )
    environ = {**os.environ, "PYTHONPATH": f"{SRC}:{Path(__file__).parent}"}
    line = [sys.executable, "-c", code, str(tmp_path / "h")]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environ)
    assert {where.partition(":")[0] for where in PARTS.values()} & set(done.stdout.split()) == set()


@pytest.mark.parametrize("what", ["version", "gateway"])
def test_who_has_no_fleet_loads_nothing_of_it(what: str, tmp_path: Path) -> None:
    """`pal --version`, and a gateway on files that has answered a message."""
    code = {
        "version": "from palinurus.cli.main import main; main(['--version'])",
        "gateway": "import nursery; nursery._warm()",
    }[what]
    environ = {**os.environ, "PYTHONPATH": f"{SRC}:{Path(__file__).parent}", "PALINURUS_HOME": str(tmp_path)}
    environ.pop("PALINURUS_STORE", None)
    line = [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, env=environ)
    loaded = done.stdout.split()
    assert "palinurus" in loaded and not [n for n in loaded if n.startswith(("asyncpg", "palinurus.store.postgres"))]


def test_what_forks_keepers_loads_little() -> None:
    """Every `pal agent` waits for one to start: with asyncio it took twice as long."""
    line = make_own_command("palinurus.tools.sandbox.starter")
    asked = line[line.index("-c") + 1].removesuffix("main()") + "print(*sys.modules)"
    done = subprocess.run([*line[: line.index("-c")], "-c", asked, SRC], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "palinurus.tools.sandbox.keeper" in loaded
    assert loaded & {"asyncio", "logging", "msgspec", "ssl", "subprocess", "tempfile", "threading"} == set()


def _run(code: str) -> str:
    environ = {**os.environ, "PYTHONPATH": SRC}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ)
    return done.stdout.strip()


_LATE = "import sys; from palinurus.late import postpone_package; postpone_package('aiohttp'); "


def test_a_gateway_has_the_server_of_aiohttp_without_its_client() -> None:
    told = _run(
        _LATE + "import palinurus.cli.gateway.serve, aiohttp;"
        "print('aiohttp.web_protocol' in sys.modules, 'aiohttp.connector' in sys.modules, type(aiohttp).__name__)"
    )
    assert told == "True False LatePackage"


def test_what_is_asked_of_a_late_package_is_what_it_would_have_been() -> None:
    whole = _run("import aiohttp; print(aiohttp.__version__, sorted(n for n in dir(aiohttp) if n[0] != '_'))")
    late = _run(
        _LATE + "from aiohttp import web; import aiohttp, aiohttp.http; version = aiohttp.__version__;"
        "from aiohttp import ClientSession, WSMsgType; from aiohttp.client import ClientSession as same;"
        "assert ClientSession is same is aiohttp.ClientSession and type(aiohttp) is type(sys);"
        "assert version in aiohttp.http.SERVER_SOFTWARE;"
        "print(version, sorted(n for n in dir(aiohttp) if n[0] != '_'))"
    )
    names = set(late.split(" ", 1)[1].strip("[]").split(", "))
    assert late.split()[0] == whole.split()[0]
    assert set(whole.split(" ", 1)[1].strip("[]").split(", ")) <= names


def test_two_threads_may_ask_at_once() -> None:
    told = _run(
        _LATE + "import aiohttp, threading; seen = [];"
        "ask = lambda: seen.append(aiohttp.ClientSession);"
        "some = [threading.Thread(target=ask) for _ in range(8)];"
        "[one.start() for one in some]; [one.join() for one in some];"
        "print(len(seen), len(set(seen)))"
    )
    assert told == "8 1"


def test_a_name_that_no_package_has_stays_an_error() -> None:
    told = _run(_LATE + "import aiohttp; print(hasattr(aiohttp, 'no_such_thing'), hasattr(aiohttp, '__wrapped__'))")
    assert told == "False False"


def test_a_package_that_is_there_already_or_not_at_all_is_left_alone() -> None:
    told = _run(
        "import sys, aiohttp; from palinurus.late import postpone_package; postpone_package('aiohttp');"
        "postpone_package('no_such_package'); print(type(aiohttp).__name__, 'no_such_package' in sys.modules)"
    )
    assert told == "module False"


def test_one_message_from_the_command_line_loads_no_server() -> None:
    told = _run(
        _LATE + "import palinurus.cli.agent, palinurus.cli.reach.local;"
        "heavy = ('aiohttp.web', 'aiohttp.connector', 'palinurus.gateway.server');"
        "print([n for n in sys.modules if n.startswith(heavy)])"
    )
    assert told == "[]"


def test_through_a_gateway_it_loads_no_program() -> None:
    told = _run(
        _LATE + "import palinurus.cli.agent, palinurus.cli.reach.client, palinurus.cli.reach.http;"
        "heavy = ('palinurus.app', 'palinurus.agent', 'palinurus.tools', 'aiohttp.');"
        "print([n for n in sys.modules if n.startswith(heavy)])"
    )
    assert told == "[]"


def test_a_gateway_on_one_machine_loads_nothing_of_a_fleet() -> None:
    told = _run(
        _LATE + "import palinurus.cli.gateway.serve;"
        "fleet = ('asyncpg', 'palinurus.store.postgres', 'palinurus.store.fleet', 'palinurus.app.fleet');"
        "print([n for n in sys.modules if n.startswith(fleet)])"
    )
    assert told == "[]"

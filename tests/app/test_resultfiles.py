"""Whole tool results of another node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_app import running
from palinurus.app.resultfiles import ResultFiles
from palinurus.core.types.inbound import Sender
from palinurus.errors import StateBroken
from palinurus.testing.model import ScriptedModel, call_tools, say
from palinurus.tools.results import keep_result
from support import inbound

OWNER = Sender("me", owner=True)
LONG = "one line of many\n" * 20_000


class Shelf:
    """The store's bytes."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.away = False

    async def put_blob(self, name: str, data: bytes) -> None:
        self._check()
        self.kept.setdefault(name, data)

    async def get_blob(self, name: str) -> bytes | None:
        self._check()
        return self.kept.get(name)

    def _check(self) -> None:
        if self.away:
            raise StateBroken("the database is away")


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def place(tmp_path: Path, node: str) -> str:
    return str(tmp_path / node / "sessions" / "abc.jsonl.result-")


async def test_what_one_node_kept_is_laid_out_where_it_is_asked_for(shelf: Shelf, tmp_path: Path) -> None:
    here, there, files = place(tmp_path, "a"), place(tmp_path, "b"), ResultFiles(shelf)
    handle = keep_result(here, LONG)
    await files.share(here, f"beginning … [whole: result:{handle}] … end; and result:{'0' * 16}")
    assert list(shelf.kept) == [f"abc.jsonl.result-{handle}"]
    for word in ("result:", "notes.txt", f"result:{'1' * 16}", "x" * 100):
        await files.bring(there, {"path": word, "limit": 5})
    assert not Path(there).parent.exists()
    await files.bring(there, {"path": f"result:{handle}"})
    assert Path(there + handle).read_text() == LONG
    Path(there + handle).write_text("ours")
    await files.bring(there, {"path": f"result:{handle}"})
    assert Path(there + handle).read_text() == "ours"


async def test_a_store_that_is_away_stops_no_tool(shelf: Shelf, tmp_path: Path) -> None:
    here, files = place(tmp_path, "a"), ResultFiles(shelf)
    handle = keep_result(here, LONG)
    shelf.away = True
    await files.share(here, f"result:{handle}")
    await files.bring(place(tmp_path, "b"), {"path": f"result:{handle}"})
    assert shelf.kept == {}


async def test_a_run_shares_what_its_tools_gave_and_brings_what_they_ask_for(shelf: Shelf, tmp_path: Path) -> None:
    """A conversation whose files are gone, as on a node that never had them, reads on."""

    def read_on(request: Any) -> Any:
        (name,) = shelf.kept
        return call_tools(("read", {"path": f"result:{name.rpartition('-')[2]}", "offset": 9_000}))

    model = ScriptedModel([call_tools(("exec", {"command": "seq 20000"})), say("done"), read_on, say("read")])
    async with running(tmp_path / "h", model) as app:
        assert app.turns._s.carrier is None, "one node alone carries nothing"
        app.turns._s = msgspec.structs.replace(app.turns._s, carrier=ResultFiles(shelf))
        await app.wait((await app.submit(inbound("go", sender=OWNER, push=False))).id)
        (file,) = (tmp_path / "h").rglob(next(iter(shelf.kept)))
        file.unlink()
        await app.wait((await app.submit(inbound("and?", sender=OWNER, push=False))).id)
    assert "\\n9005\\n" in str(model.requests[-1].messages[-1])

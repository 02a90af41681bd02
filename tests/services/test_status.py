"""session_status on a real store and catalogue. (→ tests/inbox/test_standing.py)"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import AgentSettings, Secret, Settings
from palinurus.core.types.keys import parse_session_key
from palinurus.core.types.tool import ToolFailure
from palinurus.providers.catalog import Catalog
from palinurus.services.status import SessionStatusReader
from palinurus.sessions.record import SessionRecord
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, Settlement, Store, UsageRow
from palinurus.testing.clock import FakeClock
from palinurus.tools.program.session import make_status_tool

OWN, CHILD, OTHER = "agent:main:main", "agent:main:subagent:1", "agent:main:telegram:direct:2"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    opened = await open_store(str(tmp_path / "home"), FakeClock())
    for number, key in enumerate((OWN, CHILD, OTHER)):
        parsed = parse_session_key(key)
        assert parsed is not None
        record = SessionRecord.fresh(parsed, 1, f"id-{number}")
        if key == CHILD:
            record = msgspec.structs.replace(record, spawnedBy=OWN)
        await opened.save_session(record.row(parsed))
    yield opened
    await opened.close()


@pytest.fixture
def standing(tmp_path: Path, store: Store) -> SessionStatusReader:
    agent = AgentSettings("main", "main", str(tmp_path), model="p/usual", user_timezone="Europe/Berlin")
    models = (ModelSettings("usual"), ModelSettings("big"))
    provider = ProviderSettings("p", "http://127.0.0.1:1/v1", "openai-completions", Secret("k"), models=models)
    settings = Settings(str(tmp_path / "home"), {"main": agent}, "main", {"p": provider})
    return SessionStatusReader(
        settings, store, Catalog(settings, {}), FakeClock(), {"LANG": "C"}, lambda key: key == OWN
    )


class Ctx:
    session = OWN
    trusted = True


async def ask(standing: SessionStatusReader, **args: Any) -> str:
    output = await make_status_tool(standing)["session_status"].run(Ctx(), **args)
    return "".join(block.text for block in output.content)


@pytest.mark.seed(257)
async def test_the_time_line(standing: SessionStatusReader) -> None:
    assert (await ask(standing)).startswith("Time: Thursday, 2026-01-01 01:00 (Europe/Berlin, UTC+01:00)\n")


@pytest.mark.seed(258)
async def test_the_model_of_the_session_is_set_and_cleared(standing: SessionStatusReader, store: Store) -> None:
    assert "Model: p/big (chosen for this session)" in await ask(standing, model="p/big")
    row = await store.session(OWN)
    assert row is not None and SessionRecord.decode(row.data).modelOverride == "big"
    other = await store.session(OTHER)
    assert other is not None and SessionRecord.decode(other.data).modelOverride is None
    assert "Model: p/usual\n" in await ask(standing, model="default")
    row = await store.session(OWN)
    assert row is not None and SessionRecord.decode(row.data).modelOverride is None
    with pytest.raises(ToolFailure):
        await ask(standing, model="no-such-model-anywhere")


async def test_usage_and_cost_come_from_the_ledger(standing: SessionStatusReader, store: Store) -> None:
    accepted = await store.accept(InboxItem("i", "d", OWN, "main", b"{}", 1), claim=True)
    assert accepted.claim is not None
    spent = UsageRow("i", "r", OWN, "main", "p", "usual", 1, 10, 2, 0, 0)
    await store.settle(accepted.claim, Settlement("answered", spent=(spent, msgspec.structs.replace(spent, cost=1.5))))
    told = await ask(standing)
    assert "Usage: 20 in, 4 out in 2 calls" in told and "Cost: $1.50 and 1 unpriced calls" in told


async def test_a_session_sees_itself_and_its_children(standing: SessionStatusReader) -> None:
    assert await standing.card(OWN, CHILD) is not None
    for caller, session in ((CHILD, OWN), (OWN, OTHER), (OTHER, CHILD), (OWN, "agent:gone:main"), (OWN, "")):
        assert await standing.card(caller, session) is None
        with pytest.raises(ToolFailure):
            await standing.set_model(caller, session, "p/big")

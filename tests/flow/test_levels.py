"""Who decides thinking and fast mode, seen where it counts: in the request of a prepared run."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.core.types.inbound import TurnOptions
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.model import ModelRequest
from palinurus.sessions.record import SessionRecord
from palinurus.store.port import SessionRow
from palinurus.testing.model import ScriptedModel
from support import inbound

LAB = {
    "baseUrl": "http://127.0.0.1:9/v1",
    "apiKey": "k",
    "models": [{"id": "thinks", "reasoning": True}, {"id": "plain", "reasoning": False}],
}


class Bench:
    def __init__(self, app: App, model: ScriptedModel) -> None:
        self.app, self.model = app, model

    async def ask(self, **options: Any) -> ModelRequest:
        accepted = await self.app.submit(inbound("hello", event=str(uuid.uuid4()), options=TurnOptions(**options)))
        await self.app.wait(accepted.id)
        return self.model.requests[-1]

    async def store(self, **fields: Any) -> None:
        """What a directive-only message leaves behind."""
        key = SessionKey("main", "main")
        row = await self.app.store.session(str(key))
        now = self.app.clock.now()
        record = SessionRecord.decode(row.data) if row else SessionRecord.fresh(key, now, str(uuid.uuid4()))
        record = msgspec.structs.replace(record, **fields)
        await self.app.store.save_session(SessionRow(str(key), "main", record.sessionId, now, record.encode()))


@asynccontextmanager
async def bench(home: Path, model: str = "lab/thinks", *, entry: Any = None, **defaults: Any) -> AsyncIterator[Bench]:
    home.mkdir()
    agents: dict[str, Any] = {"defaults": {"model": {"primary": model}, **defaults}}
    if entry is not None:
        agents["list"] = [{"id": "main", **entry}]
    (home / "palinurus.json").write_text(json.dumps({"models": {"providers": {"lab": LAB}}, "agents": agents}))
    script = ScriptedModel(["ok"], repeat=True)
    app = App(load_config(str(home), {}).settings, {}, SystemClock(), model=script)
    await app.start()
    try:
        yield Bench(app, script)
    finally:
        await app.stop()


ALL: dict[str, Any] = {"entry": {"thinkingDefault": "minimal"}, "thinkingDefault": "high"}


@pytest.mark.seed(19, 20, 21, 31)
@pytest.mark.parametrize(
    ("model", "stored", "used"),
    [
        ("lab/thinks", "adaptive", "medium"),
        ("lab/thinks", "xhigh", "high"),
        ("lab/thinks", "max", "high"),
        ("anthropic/claude-opus-4-8", "adaptive", "adaptive"),
        ("anthropic/claude-opus-4-6", "xhigh", "max"),
        ("openrouter/deepseek/deepseek-v4-pro", "max", "xhigh"),
        ("zai/glm-5.2", "adaptive", "low"),  # it has no medium: the nearest below
        ("zai/glm-4.7", "max", "low"),
        ("moonshot/kimi-k2.7-code", "off", "low"),
        ("ollama/gpt-oss:20b", "minimal", "low"),
        ("lab/plain", "adaptive", "off"),
    ],
)
async def test_a_stored_level_that_the_model_has_not_is_remapped(
    tmp_path: Path, model: str, stored: str, used: str
) -> None:
    async with bench(tmp_path / "a", model) as made:
        await made.store(thinkingLevel=stored)
        assert (await made.ask()).level == used


@pytest.mark.seed(50, 51, 52, 53, 66)
async def test_inline_then_session_then_agent_then_defaults(tmp_path: Path) -> None:
    async with bench(tmp_path / "a", **ALL) as made:
        await made.store(thinkingLevel="low")
        assert (await made.ask(thinking="medium")).level == "medium"
        assert (await made.ask()).level == "low"  # inline was for that message only
        await made.store(thinkingLevel=None)
        assert (await made.ask()).level == "minimal"
    async with bench(tmp_path / "b", thinkingDefault="high") as made:
        assert (await made.ask()).level == "high"
        await made.store(thinkingLevel="off")
        assert (await made.ask()).level == "off"  # an explicit off is a decision


@pytest.mark.seed(54)
async def test_the_provider_s_own_default(tmp_path: Path) -> None:
    async with bench(tmp_path / "a", "anthropic/claude-opus-4-6") as made:
        assert (await made.ask()).level == "adaptive"
    async with bench(tmp_path / "b", "anthropic/claude-opus-4-8") as made:
        assert (await made.ask()).level == "off"
        assert (await made.ask(thinking="high")).level == "high"


@pytest.mark.seed(55, 56)
async def test_medium_for_who_reasons_off_for_who_does_not(tmp_path: Path) -> None:
    async with bench(tmp_path / "a") as made:
        assert (await made.ask()).level == "medium"
    async with bench(tmp_path / "b", "lab/plain", thinkingDefault="high") as made:
        assert (await made.ask()).level == "off"
        assert (await made.ask(thinking="high")).level == "off"  # nothing is sent that the model cannot do


@pytest.mark.seed(74, 75)
async def test_fast_mode_inline_session_agent_model_params(tmp_path: Path) -> None:
    params = {"lab/thinks": {"params": {"fastMode": True, "fastAutoOnSeconds": 1000}}}
    async with bench(tmp_path / "a", entry={"fastModeDefault": False}, models=params) as made:
        await made.store(fastMode="auto")
        assert (await made.ask(fast="off")).fast is False
        auto = await made.ask()
        assert auto.fast is True and auto.fast_until is not None
        row = await made.app.store.session("agent:main:main")
        assert row is not None and SessionRecord.decode(row.data).fastMode == "auto"  # stored as said, decided per call
        await made.store(fastMode=None)
        assert (await made.ask()).fast is False
    async with bench(tmp_path / "b", models=params) as made:
        assert (await made.ask()).fast is True
    async with bench(tmp_path / "c") as made:
        assert not (await made.ask()).fast

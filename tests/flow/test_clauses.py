"""Clauses of the contract that no marked test proved: each of these was green with its clause broken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from flow.test_access import OWNER, in_group, message
from flow.test_access import config as grouped
from flow.test_app import running
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel


@pytest.mark.seed(193)
@pytest.mark.parametrize("who", [OWNER, "2"])
@pytest.mark.parametrize("where", ["direct", "group"])
async def test_what_context_measures_is_what_is_sent_to_whoever_asks(tmp_path: Path, who: str, where: str) -> None:
    """A preview in a chat is of the next message there, not of the owner's somewhere else."""
    model, seen = ScriptedModel(["ok"], repeat=True), list[Any]()
    make = in_group if where == "group" else message
    defaults = {"model": "fake/m", "reasoningDefault": "on", "contextInjection": "continuation-skip"}
    async with running(tmp_path / "h", model, FakeChannel(), **grouped(), agents={"defaults": defaults}) as app:
        for text in ("/context json", "hello", "/context json", "again"):
            row = await app.wait(await app.admission.take(make(text, who)))
            seen += [json.loads(row.note)["prompt"]] if row.note != "ok" else []
    sent = [[msgspec.to_builtins(part) for part in request.prompt.parts] for request in model.requests]
    assert len(sent) == 2 and seen == sent

"""Whatever a client sends, a method answers: with a result, or with an error that is not "internal"."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.whole import place
from palinurus.gateway.methods import METHODS
from palinurus.gateway.rpc import MethodError
from palinurus.testing.model import ScriptedModel, say

WORDS = (
    "", " ", "main", "agent:main:main", "agent:nobody:x", "global", "::", "a:b:c:d", "../../etc", "x" * 700, "\0",
    "{}", "null", "{\"gateway\": {\"port\": 1}}", "now", "allow-once", "on", "off", "fake/m", "2026-01-01", "-1",
    "SOUL.md", "read", "k1", "plugin:", "[0]", "a.b[1].c", "*", "%s{0}", "UTC+99", "UTC-7:61", "9" * 30, "é\u202e🦉",
)  # fmt: skip
VALUES: tuple[Any, ...] = (None, True, False, 0, 1, -1, 2**53, 0.5, 1e308, [], {}, [""], [{}], {"": ""}, {"a": [1]})


SEEDS = (0, 6, 9, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(10, 60)))


def junk(dice: random.Random) -> Any:
    return dice.choice(WORDS) if dice.random() < 0.7 else dice.choice(VALUES)


def fields(params: type[msgspec.Struct]) -> list[tuple[str, bool]]:
    return [(field.encode_name, field.required) for field in msgspec.structs.fields(params)]


@pytest.mark.parametrize("seed", SEEDS)
async def test_no_params_break_a_method(tmp_path: Path, seed: int) -> None:
    dice, broken = random.Random(seed), []
    async with place(tmp_path / "h", ScriptedModel([say("ok")], repeat=True)) as here:
        await here.say("hello", "k1")
        server = here.server.clients
        server.methods = {name: msgspec.structs.replace(method, write=False) for name, method in METHODS.items()}
        names = [name for name in METHODS for _ in range(8)]
        dice.shuffle(names)
        for name in names:
            known = METHODS[name].params
            given = fields(known) if known is not None else []
            params = {field: junk(dice) for field, required in given if required or dice.random() < 0.4}
            if "timeoutMs" in dict(given):
                params["timeoutMs"] = 1
            try:
                async with asyncio.timeout(60):
                    await here.link.call(name, params)
            except MethodError as error:
                if error.message.startswith("internal error"):
                    broken.append((name, params))
                assert error.code and error.message
    assert broken == []

"""Attacks drawn by seeds, each in a home of its own: whatever the steps, nothing reaches a place the attacker chose and
nothing stays that acts later. `make torture` plays 500, the suite 40.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.model import ScriptedModel, call_tools, say
from security.kit import SECRET, Desk, running, turn, workspace
from security.test_injection import Place, place
from security.variants import Variant, fill_calls, make_variant

__all__ = ["place"]
STEERING = (".git/hooks/pre-commit", ".claude/settings.json", ".mcp.json", ".github/workflows/x.yml", "a/b/AGENTS.md")
SENT, MADE, PLAYED = 40, 500, 10  # in the suite, in `make torture`, by one test


async def play(place: Place, home: Path, variant: Variant, **taint: Any) -> list[str]:
    """What it reached."""
    place.site.routes["/p"] = "<main><p>hello</p></main>"
    here = place._replace(home=home)
    values = {"site": place.site.url(), "canary": place.canary.url(), "out": str(place.out), "secret": SECRET}
    sessions = [fill_calls(calls, values) for calls in variant.sessions]
    model = ScriptedModel([step for calls in sessions for step in (*map(call_tools, calls), say("done"))])
    config = here.config(**taint)
    config["agents"] = {
        "defaults": {
            "model": {"primary": "fake/gpt-m"}, "skipBootstrap": True,
            "sandbox": {"contain": "landlock", "connect": [443, place.canary.port, place.site.port]},
        }
    }  # fmt: skip
    async with running(home, model, "landlock", **config) as app:
        before = here.furnish(app)
        _furnish(workspace(app))
        Desk(app)
        for number in range(len(sessions)):
            assert await turn(app, f"have a look at {values['site']}p", f"agent:main:s{number}") == "done"
        found = here.reached(app, before)
        found += [f"planted {name}" for name in STEERING if (workspace(app) / name).exists()]
        return found + [f"job {job['name']}" for job in app.scheduler.jobs()]


def _furnish(root: Path) -> None:
    (root / "README.md").write_text("hello, this is a project\n")
    (root / "mail.eml").write_text("From: eve@evil.example\n\nhello\n")
    (root / "tools").mkdir()


async def sweep(place: Place, tmp_path: Path, seeds: range) -> dict[str, list[str]]:
    found = {}
    for seed in seeds:
        variant = make_variant(seed)
        if reached := await play(place, tmp_path / f"h{seed}", variant):
            found[f"{seed}: {variant.name}"] = reached
    return found


@pytest.mark.parametrize("start", range(0, SENT, PLAYED))
async def test_no_variant_reaches_a_sink(place: Place, tmp_path: Path, start: int) -> None:
    assert await sweep(place, tmp_path, range(start, start + PLAYED)) == {}


@pytest.mark.torture
@pytest.mark.parametrize("start", range(SENT, MADE, PLAYED))
async def test_no_variant_of_many_reaches_a_sink(place: Place, tmp_path: Path, start: int) -> None:
    assert await sweep(place, tmp_path, range(start, start + PLAYED)) == {}


async def test_with_the_gate_off_they_do(place: Place, tmp_path: Path) -> None:
    """The variants are alive: it is the gate that stops them."""
    reached = [bool(await play(place, tmp_path / f"h{seed}", make_variant(seed), mode="off")) for seed in range(12)]
    assert sum(reached) >= 8, reached


def test_the_same_seed_is_the_same_attack_and_seeds_differ() -> None:
    assert make_variant(7) == make_variant(7)
    assert len({make_variant(seed).name for seed in range(MADE)}) > 250

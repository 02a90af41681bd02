"""`pal why cache`: the break, its place, its cause, and what the provider counted."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from core.prompt.kit import full
from palinurus.agent.promptcache import CacheWatch
from palinurus.cli.look.why import run_why
from palinurus.core.prompt.render import render_prompt
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.errors import BadRequest, NotFound
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, SessionRow, Settlement
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import make_ledger_call
from palinurus.testing.model import make_model_info

KEY = "agent:main:main"


def request(*texts: str, zone: str = "Europe/Vienna") -> ModelRequest:
    return ModelRequest(
        make_model_info(), render_prompt(full(timezone=zone)), tuple(UserMessage(t) for t in texts), session="sid"
    )


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three turns; in the second the time zone changed."""
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    clock = FakeClock()
    store = await open_store(str(tmp_path), clock)
    watch = CacheWatch(str(tmp_path))
    said: list[str] = []
    for n, zone in enumerate(("Europe/Vienna", "Europe/Paris", "Europe/Paris")):
        await clock.advance(60)
        item = f"item{n}"
        claim = (await store.accept(InboxItem(item, item, KEY, "main", b"", clock.now()), claim=True)).claim
        assert claim is not None
        said.append(f"message {n}")
        watch.look(request(*said, zone=zone), clock.now())
        await clock.advance(1)
        spent = msgspec.structs.replace(
            make_ledger_call(item, clock.now()), session=KEY, input=100, cache_read=900 * (n % 2), cache_write=0
        )
        row = SessionRow(KEY, "main", "sid", clock.now(), b'{"sessionId":"sid"}')
        await store.settle(claim, Settlement("answered", session=row, spent=(spent,)))
    await store.close()
    return tmp_path


def test_the_break_is_explained(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_why(["cache"]) == 0
    out = capsys.readouterr().out
    at = render_prompt(full()).stable.encode().index(b"Vienna")
    assert f"prompt: prompt section time, byte {at} of the stable part" in out
    assert "was: one: Europe/Vienna" in out and "now: one: Europe/Paris" in out
    assert "why: the stable part changed" in out and "(pal trace item1)" in out
    assert "1000 in, 900 read from cache (90 %)" in out
    assert "reports no cache use" in out  # of the last request, whose prefix was whole


def test_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_why(["cache", "main", "--json"])
    told = json.loads(capsys.readouterr().out)
    (found,) = told["request"]["breaks"]
    assert (found["cause"], found["name"], found["item"]) == ("prompt", "time", "item1")
    assert told["request"]["requests"] == 3 and len(told["calls"]) == 3
    assert {s["name"] for s in told["request"]["sections"]} >= {"identity", "runtime"}


async def test_a_last_request_that_broke_it_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    CacheWatch(str(home)).look(request("other"), 2_000_000_000_000)
    run_why(["cache"])
    assert "The last request broke the prefix." in capsys.readouterr().out


async def test_a_long_pause_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    texts = [f"message {n}" for n in range(4)]
    CacheWatch(str(home)).look(request(*texts, zone="Europe/Paris"), FakeClock().now() + 3_600_000)
    run_why(["cache"])
    assert "minutes older" in capsys.readouterr().out


def test_nothing_to_tell(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (home / "cache").iterdir():
        path.unlink()
    run_why(["cache"])
    assert "No request of this session has been looked at yet." in capsys.readouterr().out


def test_wrong_questions(home: Path) -> None:
    with pytest.raises(NotFound):
        run_why(["cache", "agent:main:nobody"])
    with pytest.raises(BadRequest):
        run_why(["cache", "a/b"])
    with pytest.raises(NotFound, match="weather"):  # no topic, so it could be a message
        run_why(["weather"])

"""`pal trace`: the whole story of a message, from the store alone (I22)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from palinurus.cli.look.why import list_steps, run_trace
from palinurus.core.types.card import CallCard
from palinurus.errors import NotFound
from palinurus.store.factory import open_store
from palinurus.store.port import InboxItem, Settlement, TraceStep
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import make_ledger_call, make_reply_part


@pytest.fixture
async def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    clock = FakeClock()
    store = await open_store(str(tmp_path), clock)
    start = clock.now()
    held = (await store.accept(InboxItem("first", "d1", "agent:main:main", "main", b"", start), claim=True)).claim
    await store.accept(InboxItem("second", "d2", "agent:main:main", "main", b"", start), claim=False)
    assert held is not None
    await clock.advance(0.25)
    await store.append(
        held, [], absorb=["second"], steps=[TraceStep("first", clock.now(), "tool", "read a\x1b[2Jb.txt")]
    )
    await clock.advance(2)
    end = Settlement(
        "answered", "hi", replies=(make_reply_part("r1", of="first"),), spent=(make_ledger_call("first", start + 100),)
    )
    await store.settle(held, end)
    await clock.advance(4000)
    await store.mark_sending("r1", clock.now())
    await store.mark_delivered("r1", "receipt-55", clock.now())
    await store.close()
    return tmp_path


def test_when_the_first_word_came_stands_before_its_call() -> None:
    """Issue 27, finding 26."""
    card = msgspec.json.encode(CallCard(1, 1000, "fake/m", "", "off", "", first=420)).decode()
    for order in (("card", "model"), ("model", "card")):
        steps = [TraceStep("i", 1900, what, card if what == "card" else "m: 1 in") for what in order]
        first, call = list_steps(steps)
        assert (first.at, first.what, call.what) == (1420, "first word", "model") and "420 ms" in first.detail
    assert list_steps([TraceStep("i", 5, "card", card.replace(',"first":420', ""))]) == []


def test_the_timeline_reads_from_accept_to_receipt(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_trace(["fir"]) == 0
    out = capsys.readouterr().out
    head, lines = out.split("\n\n")
    assert "first" in head
    assert "answered" in head
    told = [line.split() for line in lines.splitlines()]
    assert [words[0:3] for words in told] == [
        ["+0", "ms", "accepted"],
        ["+0", "ms", "claimed"],
        ["+100", "ms", "model"],
        ["+250", "ms", "tool"],
        ["+2.25", "s", "settled"],
        ["+2.25", "s", "reply"],
        ["+1:06:42", "sending", "fake"],
        ["+1:06:42", "sent", "fake"],
    ]
    assert "receipt-55" in told[-1]
    assert "\x1b" not in out


def test_an_absorbed_message_names_the_one_that_answers_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_trace(["second"])
    assert "pal trace first" in capsys.readouterr().out


def test_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_trace(["second", "--json"])
    data = json.loads(capsys.readouterr().out)
    assert (data["id"], data["state"], data["absorbedBy"]) == ("second", "absorbed", "first")
    assert [step["what"] for step in data["steps"]] == ["accepted", "absorbed"]


def test_an_unknown_id_is_told_the_latest(home: Path) -> None:
    with pytest.raises(NotFound) as caught:
        run_trace(["zzz"])
    assert "second" in caught.value.fix


def test_no_state_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "none"))
    with pytest.raises(NotFound, match="no state yet"):
        run_trace(["x"])
    assert not (tmp_path / "none").exists()

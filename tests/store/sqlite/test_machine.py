"""A random life of a store, crashes included, against a model of it in plain lists (I1, I2, I3, I4, I7, I11)."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from palinurus.store.port import InboxItem, OutboxRow, RunClaim, Settlement, StaleClaim, Store, TranscriptLine
from palinurus.store.sqlite import open_sqlite_store
from palinurus.store.sqlite.reader import open_sqlite_reader
from palinurus.testing.clock import FakeClock
from palinurus.testing.conformance.inbox import claim_one

SESSIONS = st.sampled_from("abc")


class Message:
    """What the store must know about one message."""

    def __init__(self, number: int, session: str) -> None:
        self.id = f"m{number:04}"
        self.dedupe = f"event:{number}"
        self.session = session
        self.state = "queued"
        self.attempts = 0
        self.replies = 0


class Life(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.root = Path(tempfile.mkdtemp(prefix="store-"))
        self.lives = 0
        self.messages: list[Message] = []
        self.held: dict[str, RunClaim] = {}
        self.past: list[RunClaim] = []  # claims that have ended
        self.lines: dict[str, list[bytes]] = {s: [] for s in "abc"}
        self.entries = 0
        self.store = self.run(open_sqlite_store(str(self.home), FakeClock()))

    @property
    def home(self) -> Path:
        return self.root / f"home{self.lives}"

    def run(self, work: Any) -> Any:
        return self.runner.run(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.runner.close()
        shutil.rmtree(self.root)

    def free(self, session: str) -> bool:
        return not any(m.session == session and m.state in ("queued", "running") for m in self.messages)

    def line(self, session: str) -> TranscriptLine:
        self.entries += 1
        data = b'{"id":"e%d","text":"%s"}' % (self.entries, b"." * (self.entries % 7))
        self.lines[session].append(data)
        return TranscriptLine(f"agents/main/sessions/{session}.jsonl", f"e{self.entries}", data)

    def by_id(self, ident: str) -> Message:
        return next(m for m in self.messages if m.id == ident)

    # --- what can happen ---------------------------------------------------------------------------------------

    @rule(session=SESSIONS, claim=st.booleans())
    def accept(self, session: str, claim: bool) -> None:
        free = self.free(session)
        message = Message(len(self.messages), session)
        self.messages.append(message)
        got = self.run(self.store.accept(InboxItem(message.id, message.dedupe, session, "main", b"x", 1), claim=claim))
        assert (got.id, got.duplicate, got.claim is not None) == (message.id, False, claim and free)
        if got.claim is not None:
            self.taken(got.claim)

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), claim=st.booleans())
    def redelivered(self, data: st.DataObject, claim: bool) -> None:
        message = data.draw(st.sampled_from(self.messages))
        got = self.run(
            self.store.accept(InboxItem("other", message.dedupe, message.session, "main", b"x", 1), claim=claim)
        )
        assert (got.id, got.duplicate, got.state, got.claim) == (message.id, True, message.state, None)

    @rule(serves=st.none() | st.lists(SESSIONS, max_size=2))
    def claim(self, serves: list[str] | None) -> None:
        due = [m for m in self.messages if m.state == "queued" and m.session not in self.held]
        due = [m for m in due if serves is None or m.session in serves]
        got = self.run(claim_one(self.store, "main", serves))
        assert (got and got.id) == (due[0].id if due else None)
        if got is not None:
            self.taken(got)

    def taken(self, claim: RunClaim) -> None:
        message = self.by_id(claim.id)
        message.state = "running"
        message.attempts += 1
        assert claim.attempts == message.attempts
        assert message.session not in self.held
        self.held[message.session] = claim

    @precondition(lambda self: self.held)
    @rule(data=st.data(), outcome=st.sampled_from(["answered", "silent", "failed"]), parts=st.integers(0, 2))
    def settle(self, data: st.DataObject, outcome: Any, parts: int) -> None:
        session = data.draw(st.sampled_from(sorted(self.held)))
        claim = self.held.pop(session)
        message = self.by_id(claim.id)
        replies = tuple(OutboxRow(f"r{claim.id}.{n}", claim.id, "fake", session, b"hi", 1) for n in range(parts))
        self.run(self.store.settle(claim, Settlement(outcome, lines=(self.line(session),), replies=replies)))
        message.state, message.replies = "done", parts
        self.past.append(claim)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), absorb=st.booleans())
    def append(self, data: st.DataObject, absorb: bool) -> None:
        session = data.draw(st.sampled_from(sorted(self.held)))
        waiting = [m for m in self.messages if m.session == session and m.state == "queued"] if absorb else []
        lines = [self.line(session) for _ in range(1 + len(waiting))]
        self.run(self.store.append(self.held[session], lines, absorb=[m.id for m in waiting]))
        for message in waiting:
            message.state = "absorbed"

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        claim = self.held.pop(data.draw(st.sampled_from(sorted(self.held))))
        self.run(self.store.yield_back(claim))
        message = self.by_id(claim.id)
        message.state = "queued"
        message.attempts -= 1
        self.past.append(claim)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def stale(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.past))
        with pytest.raises(StaleClaim):
            self.run(
                self.store.settle(claim, Settlement("answered", replies=(OutboxRow("no", "no", "f", "t", b"", 1),)))
            )

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A copy of the files is what a power cut leaves; of unsynced transcript lines any part may be missing."""
        dead, old = self.store, self.home
        self.lives += 1
        shutil.copytree(old, self.home, ignore=shutil.ignore_patterns("*-shm", "*.lock"))
        with closing(sqlite3.connect(self.home / "state.db")) as conn:
            unsynced = conn.execute("SELECT path, sum(length(data) + 1) FROM journal GROUP BY path").fetchall()
        for path, size in unsynced:
            content = (self.home / path).read_bytes()
            (self.home / path).write_bytes(content[: len(content) - data.draw(st.integers(0, size))])
        self.restart(dead)
        shutil.rmtree(old)

    @rule()
    def reopen(self) -> None:
        self.run(self.store.close())
        self.restart(None)

    def restart(self, dead: Store | None) -> None:
        if dead is not None:
            self.run(dead.close())
        self.store = self.run(open_sqlite_store(str(self.home), FakeClock()))
        found = self.run(self.store.recover())
        for claim in self.held.values():
            self.by_id(claim.id).state = "queued"
        assert [row.id for row in found] == [m.id for m in self.messages if m.state == "queued"]
        self.past += self.held.values()
        self.held.clear()

    # --- what must hold ----------------------------------------------------------------------------------------

    @invariant()
    def the_store_knows_what_the_model_knows(self) -> None:
        with open_sqlite_reader(str(self.home)) as reader:
            rows = reader.items(limit=10_000)[::-1]
            assert [(r.id, r.session, r.state, r.attempts) for r in rows] == [
                (m.id, m.session, m.state, m.attempts) for m in self.messages
            ]
            for message in self.messages:
                assert len(reader.replies(message.id)) == message.replies

    @invariant()
    def transcripts_hold_every_line_once(self) -> None:
        for session, lines in self.lines.items():
            path = self.home / f"agents/main/sessions/{session}.jsonl"
            assert (path.read_bytes() if path.exists() else b"") == b"".join(line + b"\n" for line in lines)


def test_a_random_life() -> None:
    run_state_machine_as_test(Life, settings=settings(max_examples=12, stateful_step_count=25, deadline=None))


@pytest.mark.torture
def test_many_random_lives() -> None:
    run_state_machine_as_test(Life, settings=settings(max_examples=1000, stateful_step_count=60, deadline=None))

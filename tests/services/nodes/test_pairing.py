"""Who is paired, on disk: codes, tokens, requests, and what another gateway of the same state changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.errors import BadRequest, NotFound, Unauthorized
from palinurus.services.nodes.pairing import CODE_MS, EXPIRES_MS, SHORT, NodeAsked, NodeFacts, NodePairing, digest_token
from palinurus.store.factory import open_store
from palinurus.store.port import Store
from palinurus.testing.clock import FakeClock

ADMIN = ("operator.admin",)
FACTS = NodeFacts("n1", "linux", "Shed", commands=("system.run", "system.notify"))


class Desk:
    """A pairing on a store, and what it told."""

    def __init__(self, store: Store, clock: FakeClock) -> None:
        self.said: list[str] = []
        self.closed: list[str] = []
        self.changes = 0
        self.clock, self.store = clock, store
        self.pairing = NodePairing(
            store, clock, lambda event, _: self.said.append(event), self.closed.append, changed=self._count
        )

    def _count(self) -> None:
        self.changes += 1


@pytest.fixture
async def desk(tmp_path: Path):
    clock = FakeClock()
    store = await open_store(str(tmp_path), clock)
    yield Desk(store, clock)
    await store.close()


async def test_a_code_is_used_once_and_in_time(desk: Desk) -> None:
    token, expires = await desk.pairing.make_code()
    assert expires == desk.clock.now() + CODE_MS and desk.pairing.find_code(token) is not None
    assert desk.pairing.find_proof_key(f"code:{digest_token(token)[:SHORT]}") == digest_token(token)
    node, own = await desk.pairing.admit(FACTS, "code", token)
    assert node is not None and desk.pairing.holds("n1", own) and not desk.pairing.holds("n1", token)
    with pytest.raises(Unauthorized):
        await desk.pairing.admit(NodeFacts("n2"), "code", token)
    late, _ = await desk.pairing.make_code()
    await desk.clock.advance(CODE_MS / 1000 + 1)
    assert desk.pairing.find_code(late) is None
    with pytest.raises(Unauthorized):
        await desk.pairing.admit(NodeFacts("n2"), "code", late)
    again = Desk(desk.store, desk.clock)
    await again.pairing.load()
    assert again.pairing.holds("n1", own) and [n.node_id for n in again.pairing.nodes()] == ["n1"]


async def test_more_commands_than_were_approved_wait_for_a_person(desk: Desk) -> None:
    assert await desk.pairing.admit(FACTS, "token") == (None, "")
    (request,) = desk.pairing.requests()
    await desk.pairing.approve(request.request_id, ADMIN)
    more = NodeFacts("n1", "linux", "Shed", commands=(*FACTS.commands, "camera.snap"))
    node, token = await desk.pairing.admit(more, "token")
    assert node is not None and node.commands == FACTS.commands and token
    (request,) = desk.pairing.requests()
    assert request.is_repair and "camera.snap" in request.commands
    await desk.pairing.admit(more, "device")  # the same wish twice is one request
    assert len(desk.pairing.requests()) == 1
    await desk.pairing.approve(request.request_id, ADMIN)
    assert desk.pairing.node("n1").commands == more.commands  # type: ignore[union-attr]
    assert desk.pairing.holds("n1", token)


async def test_a_token_that_was_taken_away_stays_dead(desk: Desk) -> None:
    code, _ = await desk.pairing.make_code()
    _, token = await desk.pairing.admit(FACTS, "code", code)
    await desk.pairing.remove("n1")
    assert desk.closed == ["n1"] and desk.pairing.taken == 1 and not desk.pairing.holds("n1", token)
    assert desk.pairing.find_proof_key("node:n1") == digest_token(token)  # it must believe us that it is out
    with pytest.raises(NodeAsked) as asked:
        await desk.pairing.admit(FACTS, "token")
    await desk.pairing.approve(asked.value.request.request_id, ADMIN)
    assert not desk.pairing.holds("n1", token)
    _, fresh = await desk.pairing.admit(FACTS, "token")
    assert fresh and desk.pairing.holds("n1", fresh)
    with pytest.raises(NotFound):
        await desk.pairing.remove("n2")


async def test_requests_end_and_are_bounded(desk: Desk) -> None:
    for number in range(70):
        await desk.pairing.admit(NodeFacts(f"n{number}", commands=("system.notify",)), "token")
    assert len(desk.pairing.requests()) == 64
    await desk.clock.advance(EXPIRES_MS / 1000 + 1)
    assert desk.pairing.requests() == []
    with pytest.raises(NotFound):
        await desk.pairing.approve("x", ADMIN)


async def test_another_gateway_takes_it_away(desk: Desk) -> None:
    code, _ = await desk.pairing.make_code()
    _, token = await desk.pairing.admit(FACTS, "code", code)
    other = Desk(desk.store, desk.clock)
    await other.pairing.load()
    await other.pairing.remove("n1")
    assert desk.pairing.holds("n1", token)
    await desk.pairing.reread("n1")
    assert not desk.pairing.holds("n1", token) and desk.closed == ["n1"]


async def test_two_changes_at_once_do_not_undo_each_other(desk: Desk) -> None:
    code, _ = await desk.pairing.make_code()
    await desk.pairing.admit(FACTS, "code", code)
    other = Desk(desk.store, desk.clock)
    await other.pairing.load()
    await other.pairing.remove("n1")
    with pytest.raises(BadRequest, match="changed meanwhile"):
        await desk.pairing.rename("n1", "Barn")

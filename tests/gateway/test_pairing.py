"""Devices and their tokens: given, taken away, never more than the giver has, and on disk before anyone hears of it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.host import Ledger
from palinurus.clock import SystemClock
from palinurus.gateway.pairing import EXPIRES_MS, WAITING, DevicePairing
from palinurus.gateway.rpc import ADMIN, PAIRING, READ, WRITE, MethodError
from palinurus.gateway.ws.devicerow import PairedDevice, describe_device
from palinurus.store.factory import open_store
from palinurus.testing.clock import FakeClock


class Desk:
    def __init__(self, store: Ledger | None = None) -> None:
        self.clock = FakeClock()
        self.store = store or Ledger()
        self.said: list[tuple[str, Any]] = []
        self.closed: list[str] = []
        self.pairing = DevicePairing(self.store, self.clock, lambda e, p: self.said.append((e, p)), self.closed.append)

    async def again(self) -> DevicePairing:
        """What a new process reads from the same rows."""
        fresh = DevicePairing(self.store, self.clock)
        await fresh.load()
        return fresh


def device(ident: str = "d1", *scopes: str) -> PairedDevice:
    return PairedDevice(ident, "key", "linux", "cli", "cli", "operator", ("operator",), tuple(sorted(scopes)), 1, 1)


async def refused(waiting: Any) -> str:
    with pytest.raises(MethodError) as found:
        await waiting
    return found.value.message


async def test_a_token_is_given_once_and_again_when_it_must_open_more() -> None:
    desk = Desk()
    _, first = await desk.pairing.enrol(device("d1", READ))
    assert (await desk.pairing.enrol(device("d1", READ)))[1] == ""
    assert (await desk.pairing.enrol(device("d1")))[1] == ""
    _, second = await desk.pairing.enrol(device("d1", WRITE))
    assert second not in ("", first)
    assert desk.pairing.holder(first) is None
    holder = desk.pairing.holder(second)
    assert holder is not None and holder.scopes == {READ, WRITE} and holder.device == "d1"
    assert (await desk.again()).holder(second) == holder


async def test_no_row_holds_a_token() -> None:
    desk = Desk()
    _, token = await desk.pairing.enrol(device("d1", READ))
    assert token and not any(token.encode() in data for data in desk.store.records.values())
    assert "digest" not in str(describe_device(desk.pairing.devices()[0]))


@pytest.mark.parametrize("token", ["", "x", "\ud800", "x" * 100_000])
async def test_other_texts_are_nobodys_token(token: str) -> None:
    desk = Desk()
    await desk.pairing.enrol(device("d1", READ))
    await desk.pairing.rotate("d1", "operator", {ADMIN}, own=False)
    assert desk.pairing.holder(token) is None


async def test_a_request_waits_for_a_yes() -> None:
    desk = Desk()
    _, token = await desk.pairing.enrol(device("d1", READ))
    request = await desk.pairing.ask(device("d1", READ, WRITE))
    assert request == await desk.pairing.ask(device("d1", READ, WRITE))
    assert [e for e, _ in desk.said] == ["device.pair.requested"]
    assert (await desk.again()).requests() == [request]
    assert await refused(desk.pairing.approve("nonsense", {ADMIN})) == "unknown requestId"
    approved = await desk.pairing.approve(request.request_id, {PAIRING, WRITE, READ})
    assert approved.scopes == (READ, WRITE)
    assert desk.said[-1][0] == "device.pair.resolved" and desk.said[-1][1]["decision"] == "approved"
    holder = desk.pairing.holder(token)
    assert holder is not None and WRITE in holder.scopes
    assert desk.pairing.requests() == [] == (await desk.again()).requests()


async def test_nobody_approves_or_takes_more_than_they_have() -> None:
    desk = Desk()
    request = await desk.pairing.ask(device("d1", ADMIN))
    assert await refused(desk.pairing.approve(request.request_id, {PAIRING, WRITE})) == f"missing scope: {ADMIN}"
    await desk.pairing.enrol(device("d2", ADMIN))
    assert await refused(desk.pairing.rotate("d2", "operator", {PAIRING}, own=True)) == f"missing scope: {ADMIN}"
    assert await refused(desk.pairing.revoke("d2", "operator", {PAIRING})) == f"missing scope: {ADMIN}"
    assert await refused(desk.pairing.remove("d2", {PAIRING})) == f"missing scope: {ADMIN}"
    assert desk.closed == []


async def test_a_no_ends_a_request() -> None:
    desk = Desk()
    request = await desk.pairing.ask(device("d1", READ))
    await desk.pairing.reject(request.request_id)
    assert desk.said[-1][1]["decision"] == "rejected" and desk.pairing.requests() == []
    assert await refused(desk.pairing.approve(request.request_id, {ADMIN})) == "unknown requestId"


async def test_requests_are_bounded_and_lapse() -> None:
    desk = Desk()
    for n in range(WAITING + 5):
        await desk.pairing.ask(device(f"d{n}", READ))
        desk.clock.jump(0.001)
    assert len(desk.pairing.requests()) == WAITING
    await desk.pairing.ask(device("d60", WRITE))
    assert len([r for r in desk.pairing.requests() if r.device_id == "d60"]) == 1
    desk.clock.jump(EXPIRES_MS / 1000 + 1)
    assert desk.pairing.requests() == []


async def test_rotation_kills_the_old_token_and_only_the_device_hears_the_new_one() -> None:
    desk = Desk()
    _, old = await desk.pairing.enrol(device("d1", READ, WRITE))
    row, new = await desk.pairing.rotate("d1", "operator", {ADMIN}, own=True, scopes=(READ,))
    assert row.scopes == (READ,) and desk.closed == ["d1"] and desk.pairing.taken == 1
    assert desk.pairing.holder(old) is None
    holder = desk.pairing.holder(new)
    assert holder is not None and holder.scopes == {READ}
    _, told = await desk.pairing.rotate("d1", "operator", {ADMIN}, own=False)
    assert told == "" and desk.pairing.holder(new) is None
    assert (await desk.pairing.enrol(device("d1", READ)))[1] != ""
    more = desk.pairing.rotate("d1", "operator", {ADMIN}, own=True, scopes=(ADMIN,))
    assert await refused(more) == "requested scopes exceed the approved ones"
    assert await refused(desk.pairing.rotate("d1", "node", {ADMIN}, own=True)) == "unknown deviceId/role"


async def test_revocation_ends_the_token_and_the_connections() -> None:
    desk = Desk()
    _, token = await desk.pairing.enrol(device("d1", READ))
    await desk.pairing.revoke("d1", "operator", {ADMIN})
    assert desk.closed == ["d1"] and desk.pairing.holder(token) is None
    assert (await desk.again()).holder(token) is None


async def test_a_removed_device_stays_out_until_a_person_says_yes() -> None:
    desk = Desk()
    _, token = await desk.pairing.enrol(device("d1", ADMIN))
    await desk.pairing.remove("d1", {ADMIN})
    assert desk.closed == ["d1"] and desk.pairing.holder(token) is None and desk.pairing.devices() == []
    assert await refused(desk.pairing.enrol(device("d1", ADMIN))) == "device is not approved"
    assert await refused(desk.pairing.remove("d1", {ADMIN})) == "unknown deviceId"
    fresh = await desk.again()
    assert fresh.devices() == []
    request = await desk.pairing.ask(device("d1", READ))
    approved = await desk.pairing.approve(request.request_id, {ADMIN})
    assert approved.scopes == (READ,)  # what it had before does not come back
    assert (await desk.pairing.enrol(device("d1", READ)))[1] != ""


async def test_what_is_being_taken_away_cannot_be_given_back_meanwhile() -> None:
    desk = Desk()
    await desk.pairing.enrol(device("d1", READ))
    out = await asyncio.gather(
        desk.pairing.remove("d1", {ADMIN}), desk.pairing.enrol(device("d1", READ)), return_exceptions=True
    )
    assert isinstance(out[1], MethodError)
    assert desk.pairing.devices() == [] == (await desk.again()).devices()


async def test_a_token_works_while_its_row_is_written() -> None:
    desk = Desk()
    _, token = await desk.pairing.enrol(device("d1", READ))
    gate = asyncio.Event()
    desk.store.pause = gate.wait  # type: ignore[assignment]
    desk.clock.jump(7200)
    writing = asyncio.ensure_future(desk.pairing.note_connected("d1"))
    await asyncio.sleep(0)
    assert desk.pairing.holder(token) is not None
    gate.set()
    await writing


async def test_rows_that_cannot_be_read_grant_nothing() -> None:
    store = Ledger()
    store.records = {("device", "a"): b"{", ("device", "b"): b'{"deviceId":1}', ("pairing", "c"): b"[]"}
    fresh = await Desk(store).again()
    assert fresh.devices() == [] and fresh.requests() == []


async def test_the_real_store_keeps_what_was_given_and_what_was_taken(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path), SystemClock())
    pairing = DevicePairing(store, SystemClock())
    _, kept = await pairing.enrol(device("d1", READ))
    _, dead = await pairing.enrol(device("d2", READ))
    await pairing.remove("d2", {ADMIN})
    request = await pairing.ask(device("d3", WRITE))
    await store.close()
    store = await open_store(str(tmp_path), SystemClock())
    fresh = DevicePairing(store, SystemClock())
    await fresh.load()
    holder = fresh.holder(kept)
    assert holder is not None and holder.device == "d1" and fresh.holder(dead) is None
    assert fresh.requests() == [request]
    assert await refused(fresh.enrol(device("d2", READ))) == "device is not approved"
    await store.close()

"""Olm and Megolm as two devices use them, without a server."""

from __future__ import annotations

import json

import pytest

from palinurus.channels.matrix.sealed.keyring import INBOUND, InboundKey, OlmKeyring, RoomKeys, is_signed_by
from palinurus.channels.matrix.unread import Undecipherable

KEY = bytes(32)
ROOM = "!r:fake"


def two() -> tuple[OlmKeyring, OlmKeyring]:
    alice, pal = OlmKeyring("@alice:fake", "A", KEY), OlmKeyring("@pal:fake", "P", KEY)
    given = pal.make_one_time_keys(0, fallback=True)
    alice.begin_session(pal.curve, next(iter(given["one_time_keys"].values()))["key"])
    return alice, pal


def again(keyring: OlmKeyring) -> OlmKeyring:
    """As after a start."""
    return OlmKeyring(keyring.me, keyring.device, KEY, json.loads(json.dumps(keyring.dump())))


def test_both_ways_and_after_a_restart() -> None:
    alice, pal = two()
    assert pal.open(alice.curve, alice.seal(pal.curve, {"n": 1})) == {"n": 1}
    alice, pal = again(alice), again(pal)
    assert alice.open(pal.curve, pal.seal(alice.curve, {"n": 2})) == {"n": 2}
    sealed = alice.seal(pal.curve, {"n": 3})
    late = again(pal)  # killed before what it opened was saved: it can be opened again
    assert (pal.open(alice.curve, sealed), late.open(alice.curve, sealed)) == ({"n": 3}, {"n": 3})
    with pytest.raises(Undecipherable):
        pal.open(alice.curve, sealed)


def test_the_wrong_key_opens_nothing() -> None:
    kept = OlmKeyring("@a:fake", "A", KEY).dump()
    with pytest.raises(Undecipherable):
        OlmKeyring("@a:fake", "A", b"1" * 32, kept)


def test_enough_one_time_keys_and_no_more() -> None:
    pal = OlmKeyring("@pal:fake", "P", KEY)
    given = pal.make_one_time_keys(0, fallback=True)
    assert len(given["one_time_keys"]) == 50 and len(given["fallback_keys"]) == 1
    row = next(iter(given["one_time_keys"].values()))
    assert is_signed_by(row, "@pal:fake", "P", pal.signing) and not is_signed_by(row, "@pal:fake", "P", pal.curve)
    assert again(pal).make_one_time_keys(0, fallback=True) == given  # killed before the upload: the same once more
    pal.mark_published()
    assert pal.make_one_time_keys(40, fallback=False) == {} and pal.make_one_time_keys(24, fallback=False)


def room_of(keyring: OlmKeyring) -> RoomKeys:
    made = RoomKeys(ROOM, KEY)
    made.rotate(keyring.me, keyring.curve, keyring.signing, 0)
    return made


def event(sealed: dict[str, object], ident: str = "$1", sender: str = "@alice:fake") -> dict[str, object]:
    return {"type": "m.room.encrypted", "event_id": ident, "sender": sender, "content": sealed}


def test_a_room_message_is_of_who_wrote_it_in_this_room_and_new() -> None:
    alice = OlmKeyring("@alice:fake", "A", KEY)
    hers, ours = room_of(alice), RoomKeys(ROOM, KEY)
    about = {"rel_type": "m.thread", "event_id": "$0"}
    first = hers.seal("m.room.message", {"body": "hi", "m.relates_to": about}, alice)
    with pytest.raises(Undecipherable) as failed:
        ours.open(event(first), fresh=True)
    assert failed.value.missing
    key = hers.describe_session()
    assert hers.out is not None
    assert ours.add(hers.out.starts[0], InboundKey("", "@alice:fake", alice.curve, alice.signing))
    assert not ours.add(key["session_key"], InboundKey("", "@alice:fake", alice.curve, alice.signing))  # reads less
    found, row = ours.open(event(first), fresh=True)
    assert found["content"] == {"body": "hi", "m.relates_to": about} and found["type"] == "m.room.message"
    assert row.curve == alice.curve
    assert ours.open(event(first), fresh=True)[0] == found  # told twice is the same event
    for wrong in (event(first, "$2"), event(first, sender="@bob:fake")):
        with pytest.raises(Undecipherable) as failed:
            ours.open(wrong, fresh=True)
        assert not failed.value.missing
    kept = RoomKeys(ROOM, KEY)
    kept.load(json.dumps({ident: one.__struct_fields__ and {f: getattr(one, f) for f in one.__struct_fields__}
                          for ident, one in ours.inbound.items()}).encode(), None, ours.dump_seen())  # fmt: skip
    with pytest.raises(Undecipherable):
        kept.open(event(first, "$2"), fresh=True)  # also after a start
    assert kept.open(event(first, "$2"), fresh=False)  # who reads back does not mind


def test_a_new_session_when_somebody_left_or_it_is_worn() -> None:
    alice = OlmKeyring("@alice:fake", "A", KEY)
    keys = room_of(alice)
    keys.mark_shared(["@pal:fake P", "@bob:fake B"])
    assert not keys.is_worn(1, {}, ["@pal:fake P", "@bob:fake B", "@new:fake N"])
    assert keys.is_worn(1, {}, ["@pal:fake P"])
    assert keys.is_worn(604_800_001, {}, ["@pal:fake P", "@bob:fake B"])
    keys.seal("m.room.message", {}, alice)
    assert keys.is_worn(1, {"rotation_period_msgs": 1}, ["@pal:fake P", "@bob:fake B"])


def test_a_room_keeps_so_many_keys_and_who_sends_most_loses_the_least_used() -> None:
    """Somebody who sends keys without end does not push out those of the others."""
    ours, alice, mallory = RoomKeys(ROOM, KEY), OlmKeyring("@alice:fake", "A", KEY), OlmKeyring("@mal:fake", "M", KEY)
    hers = room_of(alice)
    assert hers.out is not None
    ours.add(hers.out.starts[0], InboundKey("", "@alice:fake", alice.curve, alice.signing))
    for number in range(INBOUND + 20):
        theirs = room_of(mallory)
        assert theirs.out is not None
        ours.add(theirs.out.starts[0], InboundKey("", "@mal:fake", mallory.curve, mallory.signing))
        if number == 0:
            first = event(theirs.seal("m.room.message", {"body": "mine"}, mallory), sender="@mal:fake")
        ours.open(first, fresh=False)  # the one that is used stays
    assert len(ours.inbound) == INBOUND
    assert ours.open(event(hers.seal("m.room.message", {"body": "hi"}, alice)), fresh=True)

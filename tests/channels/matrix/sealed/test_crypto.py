"""An account in encrypted rooms: what is on disk before what, keys that do not come, devices nobody vouches for."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from palinurus.channels.matrix.channel import MatrixChannel
from palinurus.channels.matrix.sealed import crypto
from palinurus.channels.matrix.sealed.devices import parse_devices
from palinurus.channels.matrix.sealed.signing import SigningKey
from palinurus.core.types.channel import SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply
from palinurus.testing.conformance.channel import PNG, ChannelHarness, wait_until
from palinurus.testing.matrix.sealed import DEVICE, FakeSealedMatrix
from palinurus.testing.matrix.server import DIRECT
from palinurus.testing.matrix.state import ALICE, ME
from palinurus.testing.platform import FastClock, FileMemo, make_channel_kit


class Killed(BaseException):
    """What a kill -9 looks like from inside."""


class MortalMemo(FileMemo):
    """Ends the program before one of its writes: that one and all that would come after are not made."""

    left = -1  # writes until then; below 0: never
    struck = False

    async def put(self, key: str, data: bytes | None) -> None:
        if MortalMemo.left == 0:
            MortalMemo.struck = True
            raise Killed(key)
        MortalMemo.left -= 1
        await super().put(key, data)


class MortalMatrix(FakeSealedMatrix):
    def channel(self, folder: str) -> MatrixChannel:
        kit = make_channel_kit(self.name, folder, self.section)
        return MatrixChannel(msgspec.structs.replace(kit, memo=MortalMemo(os.path.join(folder, "memo"))))


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[ChannelHarness]:
    async with FakeSealedMatrix() as platform:
        made = ChannelHarness(platform, str(tmp_path))
        await made.ready()
        yield made
        await made.stop()


@pytest.mark.parametrize("writes", range(1, 7))  # it makes five
async def test_killed_before_any_of_its_writes_it_reads_the_message_after_all(tmp_path: Path, writes: int) -> None:
    """The key of the message comes once: the server forgets it when we ask for what came after."""
    async with MortalMatrix() as platform:
        MortalMemo.left, MortalMemo.struck = -1, False
        world = ChannelHarness(platform, str(tmp_path))
        await world.ready()
        await wait_until(lambda: bool(platform.spare))
        MortalMemo.left = writes - 1
        await platform.say("hello")
        await wait_until(lambda: MortalMemo.struck or bool(world.heard))
        with contextlib.suppress(Killed):
            await world.stop()
        MortalMemo.left = -1
        await world.restart()
        early = await world.channel.send(Reply(Target("matrix", DIRECT), "read it", "c1"))
        if isinstance(early, SendFailure):  # the outbox begins before we are signed in
            assert early.trouble == "down"
        await wait_until(lambda: "hello" in world.texts)
        await world.ready()
        sent = await world.channel.send(Reply(world.heard[-1].target, "read it", "c1"))
        assert isinstance(sent, SendReceipt), sent
        assert [one.text for one in platform.visible_messages()] == ["read it"]
        await world.stop()


async def test_our_ratchet_is_on_disk_before_what_it_sealed_is_sent(world: ChannelHarness) -> None:
    target = await world.target()
    for number in range(3):
        world.platform.fail("cut")
        await world.channel.send(Reply(target, f"plain {number}", f"c{number}"))
        await world.restart()
        await world.ready()
    assert [one.text for one in world.platform.visible_messages()] == ["plain 0", "plain 1", "plain 2"]
    sealed = [e["content"] for e in world.platform.stream if e["sender"] == ME]  # type: ignore[attr-defined]
    assert len({one["ciphertext"][:40] for one in sealed}) == 3  # no place of the session was used twice
    assert "plain 0" not in str(sealed)


async def test_an_encrypted_file_comes_in(world: ChannelHarness) -> None:
    assert isinstance(world.platform, FakeSealedMatrix)
    await world.platform.send_file("chart.png", "image/png", PNG)
    await wait_until(lambda: bool(world.heard))
    (file,) = world.heard[0].files
    assert Path(file.path).read_bytes() == PNG


async def test_a_key_that_comes_late_makes_a_message_of_it(world: ChannelHarness) -> None:
    platform = world.platform
    assert isinstance(platform, FakeSealedMatrix)
    platform.withhold = True
    await platform.say("too early")
    await wait_until(lambda: bool(platform.requests_for_keys))
    assert platform.requests_for_keys[0]["body"]["room_id"] == DIRECT and not world.heard
    await world.restart()  # it waits on disk
    await world.ready()
    platform.give_key(ALICE, DIRECT)
    platform.wake()
    await wait_until(lambda: world.texts == ["too early"])


async def test_a_key_saved_by_a_process_that_was_killed_is_used_by_the_next(world: ChannelHarness) -> None:
    platform = world.platform
    assert isinstance(platform, FakeSealedMatrix)
    platform.withhold = True
    await platform.say("too early")
    await wait_until(lambda: bool(platform.requests_for_keys))
    assert isinstance(world.channel, MatrixChannel)
    world.channel._unread._read = None  # it dies before what waited is read
    platform.give_key(ALICE, DIRECT)
    platform.wake()
    platform.withhold = False
    await platform.say("with a key")  # the batch with the key is on disk
    await wait_until(lambda: world.texts == ["with a key"])
    await world.restart()
    await wait_until(lambda: world.texts == ["with a key", "too early"])


class Hasty(FastClock):
    async def sleep(self, seconds: float) -> None:
        await super().sleep(min(seconds, 0.05))


async def test_a_key_that_never_comes_is_told_to_the_person(tmp_path: Path) -> None:
    class Impatient(FakeSealedMatrix):
        def channel(self, folder: str) -> MatrixChannel:
            return MatrixChannel(make_channel_kit(self.name, folder, self.section, Hasty()))

    async with Impatient() as platform:
        world = ChannelHarness(platform, str(tmp_path))
        await world.ready()
        platform.withhold = True
        await platform.say("lost")
        await platform.say("lost too")  # the same key: told once
        await wait_until(lambda: bool(platform.visible_messages()))
        await platform.say("still lost")
        await world.stop()
        (notice,) = platform.visible_messages()
        assert "could not read your last message" in notice.text and not world.heard


async def test_a_device_that_its_owner_does_not_vouch_for_is_not_heard(world: ChannelHarness) -> None:
    platform = world.platform
    assert isinstance(platform, FakeSealedMatrix)
    master = SigningKey(bytes(32))
    row = {"user_id": ALICE, "usage": ["master"], "keys": {f"ed25519:{master.name}": master.name}}
    platform.cross["master"][ALICE] = row
    platform.cross["self_signing"][ALICE] = master.sign({**row, "usage": ["self_signing"]}, ALICE)
    await platform.say("it is me")
    await wait_until(lambda: any("unread-" in path for _, path in platform.requests))
    assert not world.heard
    ident = platform.people[ALICE].keyring.device
    platform.devices[ALICE][ident] = master.sign(platform.devices[ALICE][ident], ALICE)
    await platform.say("now it is")
    await wait_until(lambda: world.texts == ["now it is"])


async def test_our_own_device_is_vouched_for_and_stays_the_same(world: ChannelHarness) -> None:
    platform = world.platform
    assert isinstance(platform, FakeSealedMatrix)
    told = {"device_keys": platform.devices, **{f"{kind}_keys": rows for kind, rows in platform.cross.items()}}
    master, (device,) = parse_devices(told, ME)
    assert master and device.believed
    await world.restart()
    await world.ready()
    assert platform.devices[ME][DEVICE]["keys"][f"curve25519:{DEVICE}"] == device.curve


async def test_what_is_kept_is_encrypted_and_without_its_key_it_says_so(world: ChannelHarness) -> None:
    await world.target()
    await world.stop()
    kept = b"".join(path.read_bytes() for path in Path(world.folder, "memo").iterdir())
    assert b"account" not in kept and b"pickle" not in kept
    Path(world.folder, "pickle.key").write_bytes(b"x" * 32)
    await world.restart()
    await world.ready()
    await world.platform.say("hello")
    await wait_until(lambda: "pickle.key" in world.channel.status().detail)


async def test_keys_of_so_many_rooms_are_kept_and_those_of_unused_rooms_go_first(
    world: ChannelHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anybody may send us keys of rooms that do not exist: neither memory nor disk grows with them."""
    monkeypatch.setattr(crypto, "KEPT", 5)
    monkeypatch.setattr(crypto, "ROOMS", 3)
    platform = world.platform
    assert isinstance(platform, FakeSealedMatrix)
    await world.restart()
    await world.ready()
    await platform.say("hello")
    await wait_until(lambda: world.texts == ["hello"])
    for number in range(12):
        platform.seal(f"!made-up-{number}:fake", ALICE, {})
    platform.wake()
    await platform.say("still here")
    await wait_until(lambda: world.texts[-1:] == ["still here"])
    kept = {bytes.fromhex(path.name).decode() for path in Path(world.folder, "memo").iterdir()}
    assert len([key for key in kept if key.startswith("in/")]) == 5 and f"in/{DIRECT}" in kept
    assert isinstance(world.channel, MatrixChannel) and world.channel._rooms.crypto is not None
    assert len(world.channel._rooms.crypto._rooms) <= 3
    await world.restart()
    await platform.say("after a restart")
    await wait_until(lambda: world.texts[-1:] == ["after a restart"])

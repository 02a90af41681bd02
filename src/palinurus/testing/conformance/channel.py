"""What every Channel must do, as tests against a fake of its platform. A test file names the fake:

    class TestConformance(ChannelSuite):
        platform = FakeTelegram

Needs pytest with pytest-asyncio (auto). No App here: the channel's own promises, seen from both of its sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import ClassVar

import pytest

from palinurus.clock import SystemClock
from palinurus.core.types.channel import (
    Channel,
    DeleteAction,
    EditAction,
    ReactAction,
    SendFailure,
    SendReceipt,
    TypingAction,
)
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.errors import BadRequest, PalinurusError, QueueFull
from palinurus.testing.platform import FakePlatform

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100c9fe92"
    "ef0000000049454e44ae426082"
)
LIMIT = 60.0  # seconds for anything to happen
_CLOCK = SystemClock()


async def wait_until(true: Callable[[], bool], seconds: float = LIMIT) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await _CLOCK.sleep(0.005)


class ChannelHarness:
    """A platform, our client of it, and what the client handed in."""

    def __init__(self, platform: FakePlatform, folder: str) -> None:
        self.platform = platform
        self.folder = folder
        self.heard: list[Inbound] = []
        self.refuse: list[PalinurusError] = []  # raised by the next submits, one each
        self.channel: Channel = platform.channel(folder)
        self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        await self.channel.run(self._submit)

    async def _submit(self, inbound: Inbound) -> str:
        if self.refuse:
            raise self.refuse.pop(0)
        self.heard.append(inbound)
        return f"item-{len(self.heard)}"

    @property
    def events(self) -> list[str]:
        """What the program would have taken: every event once."""
        return list(dict.fromkeys(one.event for one in self.heard))

    @property
    def texts(self) -> list[str]:
        first = {one.event: one.text for one in reversed(self.heard)}
        return [first[event] for event in self.events]

    async def ready(self) -> None:
        await wait_until(lambda: self.channel.status().state == "ready")

    async def target(self) -> Target:
        """Where the usual person is: who has written can be answered."""
        count = len(self.heard)
        await self.platform.say("are you there?")
        await wait_until(lambda: len(self.heard) > count)
        return self.heard[-1].target

    async def restart(self) -> None:
        """As after a kill: a new client with what the old one kept."""
        await self.stop()
        self.channel = self.platform.channel(self.folder)
        self._task = asyncio.ensure_future(self._run())

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class ChannelSuite:
    """Subclass it, name it Test…, give it `platform`."""

    platform: ClassVar[Callable[[], FakePlatform]]

    @pytest.fixture
    async def world(self, tmp_path: Path) -> AsyncIterator[ChannelHarness]:
        async with type(self).platform() as platform:
            made = ChannelHarness(platform, str(tmp_path))
            await made.ready()
            yield made
            await made.stop()

    # --- what people say

    async def test_a_message_comes_in_with_stable_ids(self, world: ChannelHarness) -> None:
        await world.platform.say("hello")
        await wait_until(lambda: bool(world.heard))
        heard = world.heard[0]
        assert (heard.text, heard.kind, heard.target.channel) == ("hello", "direct", world.platform.name)
        assert heard.event and heard.sender.id and heard.target.to
        assert not heard.sender.owner and not heard.sender.allowed  # a channel gives no rights
        await world.platform.say("again")
        await wait_until(lambda: len(world.events) == 2)
        assert world.heard[-1].sender.id == heard.sender.id and world.heard[-1].target == heard.target

    async def test_what_is_told_twice_is_one_event(self, world: ChannelHarness) -> None:
        await world.platform.say("once", times=2)
        await world.platform.say("then")
        await wait_until(lambda: "then" in world.texts)
        assert world.texts == ["once", "then"]

    async def test_messages_keep_their_order(self, world: ChannelHarness) -> None:
        for number in range(5):
            await world.platform.say(f"m{number}")
        await wait_until(lambda: len(world.events) == 5)
        assert world.texts == [f"m{number}" for number in range(5)]

    async def test_what_was_not_taken_comes_again(self, world: ChannelHarness) -> None:
        world.refuse = [QueueFull("full")]
        await world.platform.say("patience")
        await wait_until(lambda: not world.refuse)
        if not world.heard:
            await _CLOCK.sleep(0.05)
        await self._again(world, lambda: "patience" in world.texts)
        assert world.texts == ["patience"]

    async def _again(self, world: ChannelHarness, true: Callable[[], bool]) -> None:
        """It comes by itself, or at the latest after a reconnect."""
        try:
            await wait_until(true, seconds=2)
        except TimeoutError:
            await world.restart()
            await wait_until(true)

    async def test_what_never_can_be_taken_stops_nothing(self, world: ChannelHarness) -> None:
        world.refuse = [BadRequest("no")]
        await world.platform.say("bad")
        await world.platform.say("good")
        await wait_until(lambda: "good" in world.texts)
        assert world.texts == ["good"]

    async def test_a_restart_repeats_nothing_that_was_taken(self, world: ChannelHarness) -> None:
        await world.platform.say("before")
        await wait_until(lambda: bool(world.heard))
        await _CLOCK.sleep(0.05)  # the acknowledgement goes out
        await world.restart()
        await world.ready()
        await world.platform.say("after")
        await wait_until(lambda: "after" in world.texts)
        assert world.texts == ["before", "after"]

    async def test_what_was_said_while_we_were_cut_off_comes(self, world: ChannelHarness) -> None:
        await world.platform.say("first")
        await wait_until(lambda: bool(world.heard))
        await world.platform.cut()
        if world.platform.connected:
            await wait_until(lambda: world.channel.status().state != "ready")
        await world.platform.say("meanwhile")
        await world.platform.mend()
        await wait_until(lambda: "meanwhile" in world.texts)
        assert world.texts == ["first", "meanwhile"]
        await world.ready()

    async def test_a_group_says_whether_we_were_meant(self, world: ChannelHarness) -> None:
        if not world.platform.groups:
            pytest.skip("does not apply: a channel without groups")
        await world.platform.say("nice weather", chat="group")
        await world.platform.say("and you?", chat="group", mention=True)
        await wait_until(lambda: len(world.events) == 2)
        small, meant = world.heard[0], world.heard[-1]
        assert small.kind != "direct" and (small.mentioned, meant.mentioned) == (False, True)
        assert meant.text.strip() == "and you?" and small.target == meant.target

    # --- what we say

    async def test_a_reply_is_read_without_markup(self, world: ChannelHarness) -> None:
        target = await world.target()
        sent = await world.channel.send(Reply(target, "plain **bold** <b>&amp; `code`", "c1"))
        assert isinstance(sent, SendReceipt), sent
        (shown,) = world.platform.visible_messages()
        assert shown.text == "plain bold <b>&amp; code" and shown.message_id == sent.message_id
        assert isinstance(await world.channel.send(Reply(target, "**as is**", "c2", plain=True)), SendReceipt)
        assert world.platform.visible_messages()[-1].text == "**as is**"

    async def test_the_longest_text_is_taken_whole(self, world: ChannelHarness) -> None:
        target, able = await world.target(), world.channel.abilities
        width = {"characters": 1, "utf16": 2, "bytes": 4}[able.unit]
        text = "🜂" * (able.limit // width)
        assert isinstance(await world.channel.send(Reply(target, text, "c1", plain=True)), SendReceipt)
        assert world.platform.visible_messages()[-1].text == text

    async def test_every_trouble_has_its_word(self, world: ChannelHarness) -> None:
        target = await world.target()
        for number, trouble in enumerate(t for t in world.platform.troubles if t != "cut"):
            before = world.platform.visible_messages()
            world.platform.fail(trouble, retry_after=7.0)
            answer = await world.channel.send(Reply(target, f"hello {number}", f"c{number}"))
            assert isinstance(answer, SendFailure) and answer.trouble == trouble and answer.reason, (trouble, answer)
            assert trouble != "limited" or answer.retry_after is not None
            assert world.platform.visible_messages() == before

    async def test_a_lost_acknowledgement_is_no_second_copy_where_the_platform_helps(
        self, world: ChannelHarness
    ) -> None:
        if "cut" not in world.platform.troubles:
            pytest.skip("does not apply: a platform that loses no answers")
        target = await world.target()
        world.platform.fail("cut")
        reply = Reply(target, "once", "c-once")
        answer = await world.channel.send(reply)
        assert isinstance(answer, SendFailure) and answer.trouble == "cut", answer
        assert [one.text for one in world.platform.visible_messages()] == ["once"]
        await world.restart()  # nobody remembers
        await world.ready()
        found = await world.channel.find(reply)
        if found is not None:
            assert found.message_id == world.platform.visible_messages()[0].message_id
        elif world.channel.dedupes:
            assert isinstance(await world.channel.send(reply), SendReceipt)
            assert [one.text for one in world.platform.visible_messages()] == ["once"]
        assert await world.channel.find(Reply(target, "once", "c-other")) is None

    async def test_acts(self, world: ChannelHarness) -> None:
        target, acts = await world.target(), world.channel.abilities.acts
        sent = await world.channel.send(Reply(target, "draft", "c1"))
        assert isinstance(sent, SendReceipt)
        if "typing" in acts:
            assert isinstance(await world.channel.act(target, TypingAction()), SendReceipt)
        if "react" in acts:
            assert isinstance(
                await world.channel.act(target, ReactAction(world.heard[-1].event, "👀")), SendReceipt | SendFailure
            )
        if "edit" in acts:
            done = await world.channel.act(target, EditAction(sent.message_id, "**better**"))
            assert isinstance(done, SendReceipt), done
            assert [one.text for one in world.platform.visible_messages()] == ["better"]
        if "delete" in acts:
            assert isinstance(await world.channel.act(target, DeleteAction(sent.message_id)), SendReceipt)
            assert world.platform.visible_messages() == []

    async def test_a_button_is_a_message_of_who_presses_it(self, world: ChannelHarness) -> None:
        if not world.channel.abilities.buttons:
            pytest.skip("does not apply: a channel without buttons")
        target = await world.target()
        long = "/approve 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef allow-always"
        buttons = (Button("Once", "/approve 1 allow-once", "good"), Button("Always", long), Button("No", "/no", "bad"))
        sent = await world.channel.send(Reply(target, "May I?", "c1", "notice", buttons=buttons))
        assert isinstance(sent, SendReceipt), sent
        assert world.platform.visible_messages()[-1].buttons == ("Once", "Always", "No")
        await world.restart()  # what is behind a button is not lost with the program
        await world.ready()
        await world.platform.press(sent.message_id, "Always")
        await wait_until(lambda: any(one.pressed for one in world.heard))  # what came before may be handed in again
        heard = next(one for one in world.heard if one.pressed)
        assert (heard.text, heard.pressed) == (long, sent.message_id)
        assert heard.sender.id == world.heard[0].sender.id and heard.target == target

    async def test_a_file_goes_out(self, world: ChannelHarness) -> None:
        if not world.channel.abilities.media:
            pytest.skip("does not apply: a channel without files")
        path = Path(world.folder) / "picture-ü.png"  # names are shown as they are
        path.write_bytes(PNG)
        sent = await world.channel.send(Reply(await world.target(), "look", "c1", media=(str(path),)))
        assert isinstance(sent, SendReceipt), sent
        assert "picture-ü.png" in [name for one in world.platform.visible_messages() for name in one.media]
        assert "look" in " ".join(one.text for one in world.platform.visible_messages())

    async def test_nothing_raises_when_the_platform_is_gone(self, world: ChannelHarness) -> None:
        target = await world.target()
        await world.platform.cut()
        answer = await world.channel.send(Reply(target, "anybody?", "c1"))
        assert isinstance(answer, SendFailure) and answer.trouble in ("down", "cut"), answer
        await world.platform.mend()

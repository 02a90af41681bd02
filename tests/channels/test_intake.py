from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from palinurus.channels.intake import ChatWorkers, discard_files, hand_in, hand_in_once, keep_receiving
from palinurus.channels.kit import BasicChannel
from palinurus.core.types.channel import SendResult, SubmitInbound
from palinurus.core.types.inbound import Attachment, Inbound, Sender, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import BadRequest, QueueFull
from palinurus.testing.clock import FakeClock, run_ready_tasks

HELLO = Inbound(Target("x", "chat"), Sender("ann"), "e", "hello", 0)


async def test_a_message_is_handed_in_until_it_is_taken() -> None:
    clock, answers = FakeClock(), [QueueFull("full"), QueueFull("full")]

    async def submit(inbound: Inbound) -> str:
        if answers:
            raise answers.pop()
        return "id"

    task = asyncio.ensure_future(hand_in(submit, HELLO, clock))
    await clock.advance(0.1)
    assert not task.done() and len(answers) == 1
    await clock.advance(2)
    assert await task == "id"


async def test_one_that_never_can_be_taken_is_left_out() -> None:
    async def submit(inbound: Inbound) -> str:
        raise BadRequest("no")

    assert await hand_in(submit, HELLO, FakeClock()) == ""


async def test_a_chat_that_waits_holds_no_other_back_and_keeps_its_order() -> None:
    done: list[str] = []
    gate = asyncio.Event()

    async def take(one: str) -> None:
        if one == "a1":
            await gate.wait()
        if one == "b2":
            raise ValueError("broken")
        done.append(one)

    hands: ChatWorkers[str] = ChatWorkers(take, lambda one: None)
    for one in ("a1", "b1", "a2", "b2", "b3"):
        hands.give(one[0], one)
    await run_ready_tasks()
    assert done == ["b1", "b3"]
    gate.set()
    await run_ready_tasks()
    assert done == ["b1", "b3", "a1", "a2"]


async def test_a_chat_that_is_full_is_told_once_and_heard_again_when_it_is_done() -> None:
    done: list[int] = []
    full: list[int] = []
    gate = asyncio.Event()

    async def take(one: int) -> None:
        await gate.wait()
        done.append(one)

    hands: ChatWorkers[int] = ChatWorkers(take, full.append, most=3)
    for number in range(10):
        hands.give("chat", number)
    await run_ready_tasks()
    assert full == [3]
    gate.set()
    await run_ready_tasks()
    hands.give("chat", 10)
    await run_ready_tasks()
    assert done == [0, 1, 2, 10]
    gate.clear()
    hands.give("chat", 11)
    await run_ready_tasks()
    await hands.close()
    gate.set()
    await run_ready_tasks()
    assert done == [0, 1, 2, 10]


async def test_files_that_are_not_wanted_go(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    await discard_files(
        (Attachment(str(tmp_path / "a"), "a", "text/plain", 1), Attachment(str(tmp_path / "b"), "b", "", 1))
    )
    assert list(tmp_path.iterdir()) == []


async def test_files_of_a_message_that_is_not_let_in_go_and_of_one_that_waits_stay(tmp_path: Path) -> None:
    answers: list[str | Exception] = []
    file = tmp_path / "a"
    message = msgspec.structs.replace(HELLO, files=(Attachment(str(file), "a", "text/plain", 1),))

    async def submit(inbound: Inbound) -> str:
        found = answers.pop()
        if isinstance(found, Exception):
            raise found
        return found

    for answer, stays in (("id", True), ("", False), (BadRequest("no"), False), (QueueFull("full"), True)):
        file.write_text("x")
        answers.append(answer)
        if isinstance(answer, str):
            assert await hand_in_once(submit, message) == answer
        else:
            with pytest.raises(type(answer)):
                await hand_in_once(submit, message)
        assert file.exists() is stays


async def test_a_receiver_that_ran_well_for_long_is_begun_again_at_once() -> None:
    clock, runs = FakeClock(), 0

    class Breaking(BasicChannel):
        async def run(self, submit: SubmitInbound) -> None:
            nonlocal runs
            runs += 1
            if runs == 6:  # the sixth time all goes well for a day
                await clock.sleep(86_400)
            raise RuntimeError("it breaks")

        async def send(self, reply: Reply) -> SendResult:
            raise NotImplementedError

    async def submit(inbound: Inbound) -> str:
        return ""

    task = asyncio.ensure_future(keep_receiving(Breaking(), submit, clock, "test"))
    await clock.advance(1 + 2 + 4 + 8 + 16)
    assert runs == 6
    await clock.advance(86_400 + 1)
    assert runs == 7 and clock.slept[-1] == 2
    task.cancel()

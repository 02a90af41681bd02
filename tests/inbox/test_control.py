"""What is for the program and not for the model, and that it is done once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from palinurus.abort import Abort
from palinurus.core.types.events import AgentEnd, MessageUpdate
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.messages import ImageBlock
from palinurus.errors import QueueFull
from palinurus.inbox.commands.reset import make_session_id
from palinurus.inbox.control import CommandController
from palinurus.testing.clock import LoopTick
from palinurus.testing.conformance.inbox import claim_one
from support import inbound, is_control

KEY = SessionKey("main", "main")
OWNER, STRANGER = Sender("me", owner=True), Sender("who")
FOR_US = [
    "/think high", "/think", "/thinking big", "/fast auto", "/queue collect", "/status", "/help", "/new", "/new do it",
    "/stop", "stop", "STOP!", "please stop", "Stopp.", "停止", "/model list", "/modle x", "/nonsense", "/t high /v on",
    "/status@palinurus_bot", "  /help", "/config set a.b 1", "/whoami", "/home",
]  # fmt: skip
FOR_THE_MODEL = [
    "hello", "hello /t low", "/think about it", "/etc/hosts is wrong", "/tmp is full", "stop the music", "wait for me",
    "/model openai/gpt-5 write a poem", "what does /status do?", "a\n/think high", "//help", "/ help", "",
]  # fmt: skip


@pytest.mark.parametrize("text", FOR_US)
def test_for_the_program(text: str) -> None:
    assert is_control(inbound(text, sender=OWNER))
    assert is_control(inbound(text, sender=Sender("friend", allowed=True)))


@pytest.mark.parametrize("text", FOR_THE_MODEL)
def test_for_the_model(text: str) -> None:
    assert not is_control(inbound(text, sender=OWNER))


@pytest.mark.parametrize("text", FOR_US + FOR_THE_MODEL)
def test_what_strangers_write_is_text(text: str) -> None:
    assert not is_control(inbound(text, sender=STRANGER))
    assert not is_control(inbound(text, sender=Sender("who", scopes=("operator.admin",))))


def test_a_picture_is_more_than_a_directive() -> None:
    picture = (ImageBlock("eA==", "image/png"),)
    assert not is_control(inbound("/think high", sender=OWNER, images=picture))
    assert is_control(inbound("/new", sender=OWNER, images=picture))


async def test_a_channel_gets_one_reply_row(office: Any) -> None:
    await office.say("/think high", target=Target("telegram", "7", thread="2"), reply_to="m1")
    (row,) = await office.store.list_due_replies("telegram", office.clock.now())
    assert b"Thinking level set to high." in row.data and row.target == "default/7/2"
    assert [r.reply_to for r in office.replied] == ["m1"]


async def test_a_client_that_waits_sees_events_and_the_note(office: Any) -> None:
    assert await office.say("/think high", push=False, target=Target("webchat")) == "Thinking level set to high."
    assert office.replied == [] and await office.store.list_due_replies("webchat", office.clock.now()) == []
    update, end = office.events
    assert isinstance(update, MessageUpdate) and update.delta == "Thinking level set to high."
    assert isinstance(end, AgentEnd) and end.end == "stop" and end.messages[0].text == update.delta


async def test_nothing_goes_into_the_transcript(office: Any) -> None:
    await office.say("/think high")
    assert not (office.home / "agents").exists()


async def test_a_directive_reaches_disk_with_its_outcome(office: Any) -> None:
    """Who lost the claim changes nothing and says nothing; the next try does it, once."""
    message = office.message("/think high")
    claim = await office.claim(message)
    await office.store.yield_back(claim)
    await office.controller.turn(claim, office.read(message), office)
    assert await office.record() is None and office.replied == []
    again = await claim_one(office.store, "control")
    await office.controller.turn(again, office.read(message), office)
    assert (await office.record()).thinkingLevel == "high"
    assert len(office.replied) == 1 and len(await office.store.list_due_replies("telegram", office.clock.now())) == 1


async def test_what_a_command_cannot_do_is_said(office: Any) -> None:
    said = await office.say("/config get no.such.key")
    assert said.startswith("⚠️ there is no key no.such.key\nkeys here: agents,")


async def test_a_command_that_breaks_is_answered(office: Any) -> None:
    def broken(session: str) -> bool:
        raise RuntimeError("secret detail")

    office.inbox.running = broken
    assert await office.say("/status") == "⚠️ The command failed; the log says why."


async def test_a_command_that_kills_the_gateway_is_given_up(office: Any) -> None:
    message = office.message("/status")
    claim = await office.claim(message)
    for _ in range(3):
        await office.store.recover()
        claim = await claim_one(office.store, "control")
    await office.controller.turn(claim, office.read(message), office)
    row = await office.store.item(claim.id)
    assert row.outcome == "dead" and "not run" in row.note


async def test_a_row_that_cannot_be_read_is_ended(office: Any) -> None:
    claim = await office.claim(office.message("/status"))
    await office.controller.turn(claim, office.read(office.message("")), office)
    assert (await office.store.item(claim.id)).outcome == "dead"


async def test_unknown_commands_suggest(office: Any) -> None:
    assert await office.say("/statsu") == "Unknown command /statsu. Did you mean /status? /commands lists all."
    assert await office.say("/qqqq") == "Unknown command /qqqq. /commands lists all."


@pytest.mark.parametrize("text", ["/config show", "/export"])
async def test_commands_for_the_owner(office: Any, text: str) -> None:
    name = text.split()[0]
    assert await office.say(text, sender=Sender("friend", allowed=True)) == f"{name} is for the owner only."


# --- a message that a command sends on ------------------------------------------------------------------------------


async def test_the_first_message_of_a_new_session_from_a_channel(office: Any) -> None:
    said = await office.say("/new tell me more")
    assert said == "✅ New session started · model: fake/m"
    assert [m.text for m in office.submitted] == ["tell me more"]
    assert [r.text for r in office.replied][:1] == [said]
    assert len(await office.store.list_due_replies("telegram", office.clock.now())) == 1


async def test_a_client_that_waits_gets_the_answer_itself(office: Any) -> None:
    assert await office.say("/new tell me more", push=False, target=Target("webchat")) == "the model's answer"
    update, end = office.events
    assert update == MessageUpdate("the model's answer") and isinstance(end, AgentEnd)


@pytest.mark.parametrize("push", [True, False])
async def test_done_twice_after_a_crash_is_done_once(office: Any, push: bool) -> None:
    """The process dies when everything but the settlement is on disk."""
    await office.say("/think high")
    message = office.message("/new hello", push=push)
    claim = await office.claim(message)

    class Died(Exception):
        pass

    class Dying:
        def __getattr__(self, name: str) -> Any:
            return getattr(office.store, name)

        async def settle(self, *args: Any) -> None:
            raise Died

    with pytest.raises(Died):
        dying = CommandController(msgspec.structs.replace(office.program, store=Dying()), office.replied.extend)
        await dying.turn(claim, office.read(message), office)
    first = await office.record()
    await office.store.recover()
    again = await claim_one(office.store, "control")
    await office.controller.turn(again, office.read(message), office)
    assert (await office.store.item(claim.id)).outcome == "answered"
    assert await office.record() == first and first.sessionId == make_session_id(claim.id)
    assert len({m.event for m in office.submitted}) == 1
    queued = [step for step in await office.store.trace(claim.id) if step.what == "reply queued"]
    assert len(queued) == (1 if push else 0)


async def test_a_message_that_is_not_taken_is_explained(office: Any) -> None:
    async def full(message: Inbound, sink: Any = None) -> Any:
        raise QueueFull("20 messages already wait")

    office.inbox.submit = full
    assert await office.say("/new hello") == "⚠️ 20 messages already wait"
    assert [r.text for r in office.replied] == ["✅ New session started · model: fake/m", "⚠️ 20 messages already wait"]


async def test_a_drain_hands_the_command_back(office: Any) -> None:
    async def never(ident: str) -> Any:
        await asyncio.get_running_loop().create_future()

    abort = Abort()
    message = office.message("/new hello", push=False)
    claim = await office.claim(message)
    office.inbox.wait = never
    task = asyncio.ensure_future(office.controller.turn(claim, office.read(message), office, abort))
    while not office.submitted or (await office.store.item(claim.id)).state != "running":
        await LoopTick()
    for _ in range(50):
        await LoopTick()
    abort.set("drain")
    await task
    assert (await office.store.item(claim.id)).state == "queued"


@pytest.mark.parametrize("text", ["/think high", "/status", "stop", "/nonsense"])
def test_a_programs_requests_mean_what_they_say(text: str) -> None:
    person = Inbound(Target("terminal"), Sender("operator", owner=True), "", text, 0)
    program = Inbound(Target("http"), Sender("operator", owner=True), "", text, 0)
    assert is_control(person) and not is_control(program)


async def test_a_directive_leaves_what_a_run_settles_meanwhile(office: Any) -> None:
    """The command has read the session's record; before it writes, a run ends and writes its totals."""
    await office.say("/verbose on")
    row = await office.store.session("agent:main:main")
    await office.store.touch(replace(row, data=b'{"inputTokens":5}'))
    before = await office.record()

    class Meanwhile:
        def __getattr__(self, name: str) -> Any:
            return getattr(office.store, name)

        async def session(self, key: str) -> Any:
            row = await office.store.session(key)
            told = {"sessionId": before.sessionId, "inputTokens": 77}
            await office.store.touch(replace(row, data=msgspec.json.encode(told)))
            return row

    office.controller.program = msgspec.structs.replace(office.program, store=Meanwhile())
    await office.say("/verbose off")
    after = await office.record()
    assert (before.verboseLevel, after.verboseLevel, after.inputTokens) == ("on", "off", 77)

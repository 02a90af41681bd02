"""Whole messages through the App: what people on Telegram say, and what they see."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.scene import asked, hurried, until
from channels.telegram.world import running
from palinurus.app import App
from palinurus.gateway.server import GatewayServer
from palinurus.outbox.deliver import LOST_TEXT
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from palinurus.testing.telegram.api import ME, TOKEN
from palinurus.testing.telegram.server import BOB, GROUP, FakeTelegram
from ports import reserve_port


@pytest.fixture
async def fake() -> AsyncIterator[FakeTelegram]:
    async with FakeTelegram() as made:
        yield made


async def test_a_conversation(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("Hello, **Ann** <3"), say("Still here.")])
    async with running(tmp_path / "h", model, fake) as app:
        await fake.say("hello")
        await until(lambda: fake.read())
        await fake.say("and now?")
        await until(lambda: len(fake.read()) == 2)
        assert app.channels["telegram"].status().me == "@pal_bot"
    assert fake.read() == ["Hello, Ann <3", "Still here."]
    assert fake.calls_of("sendMessage")[0]["text"] == "Hello, <b>Ann</b> &lt;3"
    assert [m.text for m in model.requests[1].messages][1] == "Hello, **Ann** <3"


async def test_in_a_group_a_mention_and_an_answer_to_the_bot_are_heard(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("to the mention"), say("to the answer")])
    async with running(tmp_path / "h", model, fake):
        await fake.say("nice weather", chat="group", sender="bob")
        await fake.say("what do you think?", chat="group", sender="bob", mention=True)
        await until(lambda: fake.read("group"))
        ours = fake.visible_messages("group")[0]
        quoted = {"message_id": int(ours.message_id), "date": 1, "chat": fake.describe_chat(GROUP), "from": ME}
        fake.tell({"text": "why?", "reply_to_message": {**quoted, "text": ours.text}}, chat="group", sender="bob")
        await until(lambda: len(fake.read("group")) == 2)
    assert fake.read("group") == ["to the mention", "to the answer"]
    assert len(model.requests) == 2 and "pal_bot" not in asked(model, 0)
    assert "what do you think?" in asked(model, 0) and "why?" in asked(model, 1)


async def test_each_topic_of_a_forum_is_a_conversation_of_its_own(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("about plans"), say("about food"), say("about all")])
    plans, food = fake.topic("Plans"), fake.topic("Food")
    async with running(tmp_path / "h", model, fake):
        for topic, count in ((plans, 1), (food, 2), (0, 3)):
            thread = {"message_thread_id": topic, "is_topic_message": True} if topic else {}
            mention = {"entities": [{"type": "mention", "offset": 0, "length": 8}]}
            fake.tell({"text": "@pal_bot well?", **mention, **thread}, chat="forum")
            await until(lambda count=count: len(fake.read("forum")) == count)
    assert (fake.read("forum", plans), fake.read("forum", food)) == (["about plans"], ["about food"])
    assert fake.read("forum")[2] == "about all" and "message_thread_id" not in fake.calls_of("sendMessage")[2]
    assert [len(request.messages) for request in model.requests] == [1, 1, 1]


async def test_a_long_answer_comes_in_parts_and_in_order(tmp_path: Path, fake: FakeTelegram) -> None:
    words = " ".join(f"word{number}" for number in range(1500))
    model = ScriptedModel([say(f"# Title\n\n{words}\n\n```py\n{'x = 1  # <b>' * 300}\n```\nthe end")])
    async with running(tmp_path / "h", model, fake):
        await fake.say("tell me all")
        await until(lambda: fake.read() and fake.read()[-1].endswith("the end"))
    texts = fake.read()
    assert len(texts) > 3 and all(len(text.encode("utf-16-le")) <= 8192 for text in texts)
    assert " ".join("\n".join(texts).split()).count("word") == 1500
    assert [f"word{n}" for n in range(1500)] == [w for w in "\n".join(texts).split() if w.startswith("word")]


async def test_files_that_people_send_are_on_our_disk(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("seen")], repeat=True)
    photo = {**fake.keep("photos/1.jpg", PNG), "width": 1, "height": 1}
    paper = {**fake.keep("documents/2.pdf", b"%PDF"), "file_name": "../plan.pdf", "mime_type": "application/pdf"}
    voice = {**fake.keep("voice/3.oga", b"OggS"), "duration": 2, "mime_type": "audio/ogg"}
    lost = {"file_id": "nowhere", "file_unique_id": "n", "file_size": 3, "file_name": "lost.txt"}
    huge = {"file_id": "huge", "file_unique_id": "h", "file_size": 21 * 1024 * 1024, "file_name": "huge.zip"}
    messages: list[dict[str, Any]] = [
        {"photo": [photo], "caption": "look"},
        {"document": paper},
        {"voice": voice},
        {"document": lost},
        {"document": huge},
    ]
    async with running(tmp_path / "h", model, fake):
        for count, message in enumerate(messages, 1):
            fake.tell(message)
            await until(lambda count=count: len(fake.read()) == count)
    kept = [path for path in (tmp_path / "h" / "media" / "inbound").iterdir() if path.is_file()]
    assert [path.read_bytes() for path in sorted(kept)] == [PNG, b"%PDF", b"OggS"]
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)
    told = [asked(model, number) for number in range(5)]
    assert "look" in told[0] and "plan.pdf" in told[1] and "voice note" in told[2]
    assert "lost.txt could not be fetched" in told[3] and "huge.zip is larger than 20 MB" in told[4]


@pytest.mark.seed(312, 313)
async def test_files_that_the_agent_sends_are_seen(tmp_path: Path, fake: FakeTelegram) -> None:
    work = tmp_path / "h" / "workspace"
    work.mkdir(parents=True)
    (work / "cat.png").write_bytes(PNG)
    (work / "notes.txt").write_text("notes")
    (work / "words.ogg").write_bytes(b"OggS")
    model = ScriptedModel(
        [
            say(f"A **cat**.[[media:{work}/cat.png]]\nMEDIA: {work}/notes.txt\n"),
            say(f"[[audio_as_voice]]\nMEDIA: {work}/words.ogg\n"),
        ]
    )
    async with running(tmp_path / "h", model, fake):
        await fake.say("a cat, please")
        await until(lambda: len(fake.visible_messages()) == 2)
        await fake.say("say it")
        await until(lambda: len(fake.visible_messages()) == 3)
    first, second, third = fake.visible_messages()
    assert (first.text, first.media, second.text, second.media) == ("A cat.", ("cat.png",), "", ("notes.txt",))
    assert third.media == ("words.ogg",)
    kinds = [one.kind for one in fake.messages if one.media]
    assert kinds == ["photo", "document", "voice"] and fake.files["sent/cat.png"] == PNG


async def test_an_answer_grows_in_place(tmp_path: Path, fake: FakeTelegram) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("The whole answer, in **one** message."), gate, 4)])
    async with running(tmp_path / "h", model, fake, {"streaming": "partial"}):
        await fake.say("tell me")
        await gate.wait_reached()
        await until(lambda: fake.read())
        draft = fake.visible_messages()[0]
        gate.open()
        await until(lambda: fake.read() == ["The whole answer, in one message."])
    assert draft.text != "The whole answer, in one message."
    assert [one.message_id for one in fake.visible_messages()] == [draft.message_id]


async def test_typing_and_the_reaction_that_says_it_was_taken(tmp_path: Path, fake: FakeTelegram) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("done"), gate, 0)])
    async with running(tmp_path / "h", model, fake, {"ackReaction": "👀"}, messages={"ackReactionScope": "all"}):
        ident = await fake.say("work")
        await gate.wait_reached()
        await until(lambda: fake.calls_of("sendChatAction"))
        await until(lambda: fake.reactions.get((1001, int(ident))) == ["👀"])
        gate.open()
        await until(lambda: fake.read() == ["done"])
    assert fake.calls_of("sendChatAction")[0] == {"chat_id": "1001", "action": "typing"}


async def test_an_approval_by_button_counts_from_the_owner_only(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch made/X"})), say("made")])
    made = tmp_path / "h" / "workspace" / "made" / "X"
    made.parent.mkdir(parents=True)  # a command of a group's turn makes no files beside the owner's own
    rules = {"exec": {"security": "full", "ask": "always", "host": "gateway"}}
    async with running(tmp_path / "h", model, fake, tools=rules) as app:
        await fake.say("make X", chat="group", sender="ann", mention=True)
        await until(lambda: fake.visible_messages("group") and fake.visible_messages("group")[0].buttons)
        card = fake.visible_messages("group")[0]
        label = card.buttons[0]
        assert "touch made/X" in card.text and card.buttons == ("Allow once", "Deny")
        await fake.press(card.message_id, label, chat="group", sender="bob")
        await until(lambda: len(fake.answered) == 1)
        await asyncio.sleep(0.05)
        assert not made.exists() and len(await app.approvals.pending()) == 1
        await fake.press(card.message_id, label, chat="group", sender="ann")
        await until(lambda: "made" in fake.read("group"))
    assert made.exists() and len(fake.answered) == 2


async def test_the_menu_of_commands(tmp_path: Path, fake: FakeTelegram) -> None:
    custom = [{"command": "/backup", "description": "copy everything"}]
    model = ScriptedModel([say("unused")])
    async with running(tmp_path / "h", model, fake, {"customCommands": custom}):
        await until(lambda: fake.menu)
        await fake.say("/status")
        await until(lambda: fake.read())
    rows = {row["command"]: row["description"] for row in fake.menu}
    assert rows["backup"] == "copy everything" and rows["status"] and "help" in rows
    assert model.requests == []
    async with running(tmp_path / "h", model, fake, {"customCommands": custom}) as app:
        await until(lambda: app.channels["telegram"].status().state == "ready")
    assert len(fake.calls_of("setMyCommands")) == 1  # told when it changes


async def test_what_telegram_tells_again_is_one_turn(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("once")], repeat=True)
    async with running(tmp_path / "h", model, fake):
        ident = await fake.say("hello", times=3)
        await until(lambda: fake.read() and not fake.updates)
    async with running(tmp_path / "h", model, fake):
        await fake.say("hello", event=ident)
        await until(lambda: not fake.updates)
        await asyncio.sleep(0.05)
    assert fake.read() == ["once"] and len(model.requests) == 1


async def test_a_disconnect_loses_nothing(tmp_path: Path, fake: FakeTelegram) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("first"), gate, 0), say("second")])
    async with running(tmp_path / "h", model, fake) as app:
        await fake.say("one")
        await gate.wait_reached()
        await until(lambda: not fake.updates)
        await fake.cut()
        await until(lambda: app.channels["telegram"].status().state == "reconnecting")
        await until(lambda: "cannot be reached" in app.channels["telegram"].status().detail)
        gate.open()
        await fake.say("two")
        await fake.mend()
        async with hurried(app):
            await until(lambda: len(fake.read()) == 2)
        await until(lambda: app.channels["telegram"].status().state == "ready")
    assert fake.read() == ["first", "second"]


async def test_a_storm_of_429_delays_and_doubles_nothing(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("a"), say("b")])
    fake.fail("limited", 8, retry_after=0.02)
    async with running(tmp_path / "h", model, fake):
        await fake.say("one")
        await until(lambda: fake.read() == ["a"])
        fake.fail("limited", 3, retry_after=0.02)
        await fake.say("two")
        await until(lambda: len(fake.read()) == 2)
    assert fake.read() == ["a", "b"]


async def test_markup_that_is_refused_goes_as_plain_text(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("**bold** & more")])
    fake.fail("markup")
    async with running(tmp_path / "h", model, fake):
        await fake.say("hello")
        await until(lambda: fake.read())
    assert [call.get("parse_mode") for call in fake.calls_of("sendMessage")] == ["HTML", None]
    assert fake.read()[0] in ("**bold** & more", "bold & more")


async def test_who_blocked_us_is_not_written_to_again(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("unheard")])
    fake.fail("blocked", 5)
    async with running(tmp_path / "h", model, fake) as app:
        await fake.say("hello")
        await until(lambda: fake.calls_of("sendMessage"))
        await asyncio.sleep(0.1)
        assert await app.store.list_due_replies("telegram", app.clock.now() + 10**9) == []
    assert len(fake.calls_of("sendMessage")) == 1 and fake.read() == []


async def test_a_receipt_that_is_lost_shows_two_copies_at_most(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("maybe twice"), say("next")])
    fake.fail("cut", 2)
    async with running(tmp_path / "h", model, fake) as app, hurried(app):
        await fake.say("hello")
        await until(lambda: LOST_TEXT in fake.read())
        await fake.say("again")
        await until(lambda: "next" in fake.read())
    assert fake.read() == ["maybe twice", "maybe twice", LOST_TEXT, "next"]


async def test_a_group_that_becomes_a_supergroup_keeps_its_conversation(tmp_path: Path, fake: FakeTelegram) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("first"), gate, 0), say("second"), say("third")])
    new = -100999

    def again(text: str) -> None:
        entities = [{"type": "mention", "offset": 0, "length": 8}]
        message = {"message_id": fake.number(), "date": 1, "chat": fake.describe_chat(new), "from": fake.user(1001)}
        fake.add(message={**message, "text": f"@pal_bot {text}", "entities": entities})

    def seen() -> list[str]:
        return [one.text for one in fake.messages if one.chat == new]

    async with running(tmp_path / "h", model, fake):
        await fake.say("one", chat="group", mention=True)
        await gate.wait_reached()
        fake.migrate(new)
        gate.open()  # the answer is for an id that is gone
        await until(lambda: seen() == ["first"])
        again("two")
        await until(lambda: len(seen()) == 2)
    async with running(tmp_path / "h", model, fake):  # it is remembered
        again("three")
        await until(lambda: len(seen()) == 3)
    assert seen() == ["first", "second", "third"] and fake.read("group") == []
    assert [len(request.messages) for request in model.requests] == [1, 3, 5]


@pytest.mark.seed(93)
async def test_who_may_command_changes_the_session_and_a_stranger_does_not(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("unused")], repeat=True)
    async with running(tmp_path / "h", model, fake) as app:
        await fake.say("/verbose on")
        await until(lambda: fake.read())
        await fake.say("/verbose on", chat="group", sender="bob")
        await fake.say("/verbose on", chat="bob")
        await fake.say("/verbose")
        await until(lambda: len(fake.read()) == 2)
        levels = [record.get("verboseLevel") for record in await records(app)]
    assert "on" in fake.read()[1]
    assert levels.count("on") == 1


async def test_a_stranger_gets_a_code_and_no_answer(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("unused")], repeat=True)
    async with running(tmp_path / "h", model, fake, {"dmPolicy": "pairing", "allowFrom": []}):
        await fake.say("let me in", chat="bob")
        await fake.say("please", chat="bob")
        await until(lambda: fake.read("bob") and not fake.updates)
        await asyncio.sleep(0.05)
    assert len(fake.read("bob")) == 1 and str(BOB) in fake.read("bob")[0] and model.requests == []


async def records(app: App) -> list[dict[str, Any]]:
    return [json.loads(row.data) for row in await app.store.sessions()]


async def test_requests_of_telegram_through_the_gateway(tmp_path: Path, fake: FakeTelegram) -> None:
    port = reserve_port()
    url = f"http://127.0.0.1:{port}/channels/telegram/default"
    model = ScriptedModel([say("first"), say("second")])
    async with running(tmp_path / "h", model, fake, {"webhookUrl": url, "webhookSecret": "s-1"}) as app:
        gateway = GatewayServer(app, app.clock, "token")
        await fake.say("one", times=2)
        await until(lambda: fake.hook)  # nobody listens yet: Telegram tries again
        await gateway.start("127.0.0.1", port)
        try:
            await until(lambda: fake.read())
            await fake.say("two")
            await until(lambda: len(fake.read()) == 2)
            wrong = {"X-Telegram-Bot-Api-Secret-Token": "s-2"}
            async with aiohttp.ClientSession() as http, http.post(url, json={"update_id": 1}, headers=wrong) as answer:
                assert answer.status == 401
        finally:
            await gateway.stop()
    assert fake.read() == ["first", "second"] and fake.updates == [] and fake.calls_of("getUpdates") == []


async def test_two_bots_are_two_accounts(tmp_path: Path, fake: FakeTelegram) -> None:
    model = ScriptedModel([say("from the first"), say("from the second")])
    async with FakeTelegram() as other:
        accounts = {"home": fake.section, "work": other.section}
        async with running(tmp_path / "h", model, fake, {"accounts": accounts}) as app:
            await fake.say("hello", event="5")
            await until(lambda: fake.read())
            await fake.cut()  # one of them is cut off, the other goes on
            await other.say("hello", event="5")  # the same number, another bot
            await until(lambda: other.read())
            assert app.channels["telegram"].status().state == "reconnecting"
            await fake.mend()
    assert (fake.read(), other.read()) == (["from the first"], ["from the second"])


async def test_the_token_is_in_no_log(tmp_path: Path, fake: FakeTelegram, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    model = ScriptedModel([say("hello")], repeat=True)
    async with running(tmp_path / "h", model, fake) as app:
        fake.fail("down")
        fake.fail("cut")
        await fake.say("hello")
        async with hurried(app):
            await until(lambda: fake.read())
        await fake.cut()
        await until(lambda: app.channels["telegram"].status().state == "reconnecting")
        await fake.mend()
        assert TOKEN not in repr(app.channels["telegram"].__dict__)
    assert TOKEN not in caplog.text

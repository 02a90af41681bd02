"""Whole messages through the App: what people on Matrix say, and what they see."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from channels.scene import asked, hurried, running, texts, until
from palinurus.channels.matrix.channel import MatrixChannel
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.matrix.server import DIRECT, PASSWORD, TOKEN, FakeMatrix
from palinurus.testing.matrix.state import ALICE, BOB, ME
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say
from palinurus.testing.platform import make_channel_kit


@pytest.fixture
async def matrix() -> AsyncIterator[FakeMatrix]:
    async with FakeMatrix() as made:
        yield made


async def test_a_conversation(matrix: FakeMatrix, tmp_path: Path) -> None:
    await matrix.say("said before we came: not for us")
    model = ScriptedModel([say("Hello, **Alice** <3"), say("Still here.")])
    async with running(tmp_path / "h", model, matrix, ALICE) as app:
        await matrix.say("hello")
        await until(lambda: texts(matrix))
        await matrix.say("and now?")
        await until(lambda: len(texts(matrix)) == 2)
        assert app.channels["matrix"].status().me == ME
    assert texts(matrix) == ["Hello, Alice <3", "Still here."]
    sent = next(e["content"] for e in matrix.stream if e["sender"] == ME)
    assert sent["formatted_body"] == "Hello, <strong>Alice</strong> &lt;3" and sent["m.mentions"] == {}
    assert asked(model, 0) == "hello" and len(model.requests[1].messages) == 3


async def test_that_we_write_is_shown_until_we_have(matrix: FakeMatrix, tmp_path: Path) -> None:
    gate = StreamGate()
    async with running(tmp_path / "h", ScriptedModel([hold_at(say("at last"), gate, 0)]), matrix, ALICE):
        await matrix.say("hello")
        await until(lambda: (DIRECT, True) in matrix.typing)
        gate.open()
        await until(lambda: texts(matrix) and matrix.typing[-1] == (DIRECT, False))


async def test_a_group_is_answered_when_we_are_meant(matrix: FakeMatrix, tmp_path: Path) -> None:
    model = ScriptedModel([say("to the mention"), say("to the pill"), say("to the answer")])
    pill = f'<a href="https://matrix.to/#/{ME}">Pal</a>: and this?'
    async with running(tmp_path / "h", model, matrix, ALICE):
        await matrix.say("nice weather", chat="group", sender=BOB)
        await matrix.say("what do you think?", chat="group", sender=BOB, mention=True)
        await until(lambda: len(texts(matrix, "group")) == 1)
        await matrix.say("Pal: and this?", chat="group", sender=BOB, formatted_body=pill)
        await until(lambda: len(texts(matrix, "group")) == 2)
        ours = matrix.visible_messages("group")[-1]
        answer = {"m.relates_to": {"m.in_reply_to": {"event_id": ours.message_id}}}
        await matrix.say(f"> <{ME}> to the pill\n\nwhy?", chat="group", sender=BOB, **answer)
        await until(lambda: len(texts(matrix, "group")) == 3)
    assert texts(matrix, "group") == ["to the mention", "to the pill", "to the answer"]
    assert "what do you think?" in asked(model, 0) and "Pal:" not in asked(model, 0)
    assert "Bob: nice weather" in asked(model, 0) and "harbour" in asked(model, 0)
    assert "Bob: and this?" in asked(model, 1)
    assert "Bob: why?" in asked(model, 2) and "to the pill" in asked(model, 2)


async def test_a_thread_is_a_conversation_of_its_own(matrix: FakeMatrix, tmp_path: Path) -> None:
    model = ScriptedModel([say("below"), say("above")])
    async with running(tmp_path / "h", model, matrix, ALICE):
        root = await matrix.say("a root", chat="group")
        about = {"rel_type": "m.thread", "event_id": root, "is_falling_back": True}
        await matrix.say("in it", chat="group", mention=True, **{"m.relates_to": about})
        await until(lambda: len(texts(matrix, "group")) == 1)
        await matrix.say("outside", chat="group", mention=True)
        await until(lambda: len(texts(matrix, "group")) == 2)
    first, second = (e["content"] for e in matrix.stream if e["sender"] == ME and e["type"] == "m.room.message")
    assert first["m.relates_to"]["rel_type"] == "m.thread" and first["m.relates_to"]["event_id"] == root
    assert "rel_type" not in second.get("m.relates_to", {}) and len(model.requests[1].messages) == 1


async def test_a_long_answer_comes_in_parts_in_order(matrix: FakeMatrix, tmp_path: Path) -> None:
    words = [f"word{number}" for number in range(2000)]
    async with running(tmp_path / "h", ScriptedModel([say(" ".join(words))]), matrix, ALICE):
        await matrix.say("tell me all")
        await until(lambda: " ".join(texts(matrix)).split()[-1:] == ["word1999"])
    assert len(texts(matrix)) > 3 and " ".join(texts(matrix)).split() == words


@pytest.mark.parametrize("old", [False, True])
async def test_files_come_in_and_go_out(matrix: FakeMatrix, tmp_path: Path, old: bool) -> None:
    matrix.old_media = old
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    model = ScriptedModel([say(f"Here it is.\nMEDIA:{work}/chart.png")])
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(work)}}
    async with running(tmp_path / "h", model, matrix, ALICE, agents=agents):
        await matrix.send_file("draw this", "text/plain", b"one two three", filename="notes.txt")
        await until(lambda: len(matrix.visible_messages()) == 2)
    text, file = matrix.visible_messages()
    assert text.text == "Here it is." and file.media == ("chart.png",)
    assert ("image/png", PNG) in matrix.media.values()
    kept = re.search(r"notes\.txt .* at (/\S+notes\.txt)", asked(model))
    assert kept is not None and Path(kept.group(1)).read_bytes() == b"one two three" and "draw this" in asked(model)


async def test_a_file_that_the_server_does_not_take_becomes_words(matrix: FakeMatrix, tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "chart.png").write_bytes(PNG)
    model = ScriptedModel([say(f"Here it is.\nMEDIA:{work}/chart.png")])
    agents = {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(work)}}
    async with running(tmp_path / "h", model, matrix, ALICE, agents=agents):
        matrix.refuse_media = 99
        await matrix.say("draw")
        await until(lambda: any("chart.png" in text for text in texts(matrix)))
    assert not any(one.media for one in matrix.visible_messages())


async def test_an_answer_grows_by_edits_and_is_one_message(matrix: FakeMatrix, tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("It begins here. " * 10 + "And it ends."), gate, 4)])
    async with running(tmp_path / "h", model, matrix, ALICE, {"streaming": "partial"}):
        await matrix.say("go on")
        await gate.wait_reached()
        await until(lambda: texts(matrix))
        assert len(texts(matrix)) == 1 and not texts(matrix)[0].endswith("And it ends.")
        gate.open()
        await until(lambda: texts(matrix)[0].endswith("And it ends."))
        await asyncio.sleep(0.1)
    assert texts(matrix) == [("It begins here. " * 10 + "And it ends.")]


async def test_an_approval_is_typed_and_counts_only_from_who_may(matrix: FakeMatrix, tmp_path: Path) -> None:
    model = ScriptedModel([call_tools(("exec", {"command": "touch made/X"})), say("done")])
    async with running(tmp_path / "h", model, matrix, ALICE, tools={"exec": {"ask": "always"}}) as app:
        made = Path(app.settings.agents["main"].workspace) / "made" / "X"
        made.parent.mkdir()  # a command of a group's turn makes no files beside the owner's own
        await matrix.say("make X", chat="group", mention=True)
        await until(lambda: texts(matrix, "group"))
        card = texts(matrix, "group")[0]
        ident = re.search(r"/approve (\w+) allow-once", card)
        assert ident is not None, card
        await matrix.say(f"!approve {ident.group(1)} allow-once", chat="group", sender=BOB, mention=True)
        await asyncio.sleep(0.1)
        assert len(await app.approvals.pending()) == 1 and not made.exists()
        await matrix.say(f"!approve {ident.group(1)} allow-once", chat="group")
        await until(lambda: "done" in texts(matrix, "group"))
        assert made.exists() and await app.approvals.pending() == []


async def test_what_is_told_again_is_one_turn_also_after_a_restart(matrix: FakeMatrix, tmp_path: Path) -> None:
    model = ScriptedModel([say("once"), say("twice")])
    async with running(tmp_path / "h", model, matrix, ALICE):
        ident = await matrix.say("hello", times=3)
        await until(lambda: texts(matrix))
    async with running(tmp_path / "h", model, matrix, ALICE):
        await matrix.say("hello", event=ident)
        await matrix.say("something else")
        await until(lambda: len(texts(matrix)) == 2)
    assert texts(matrix) == ["once", "twice"] and len(model.requests) == 2
    assert asked(model) == "something else"


async def test_a_disconnect_loses_nothing(matrix: FakeMatrix, tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([hold_at(say("written while the line was dead"), gate, 0), say("two")])
    async with running(tmp_path / "h", model, matrix, ALICE) as app:
        channel = app.channels["matrix"]
        await matrix.say("first")
        await gate.wait_reached()
        await matrix.cut()
        await until(lambda: channel.status().state == "reconnecting")
        gate.open()
        await asyncio.sleep(0.05)
        assert texts(matrix) == []
        await matrix.say("second")
        await matrix.mend()
        async with hurried(app):
            await until(lambda: len(texts(matrix)) == 2)
        assert channel.status().state == "ready"
    assert texts(matrix) == ["written while the line was dead", "two"]


async def test_a_server_that_stammers_makes_no_message_of_a_person_an_overheard_one(
    matrix: FakeMatrix, tmp_path: Path
) -> None:
    async with running(tmp_path / "h", ScriptedModel([say("hello")]), matrix, ALICE):
        matrix.broken = {"joined_members": 3, "m.room.name": 2}
        await matrix.say("hello")
        await until(lambda: texts(matrix))
    assert matrix.broken == {"joined_members": 0, "m.room.name": 0}


async def test_all_that_was_said_in_a_long_absence_is_read(matrix: FakeMatrix, tmp_path: Path) -> None:
    """More than the server tells at once."""
    model = ScriptedModel([say("ok")], repeat=True)
    async with running(tmp_path / "h", model, matrix, ALICE):
        pass
    for number in range(130):
        await matrix.say(f"m{number}", chat="group", sender=BOB)
    async with running(tmp_path / "h", model, matrix, ALICE, {"historyLimit": 200}):
        await matrix.say("now", chat="group", mention=True)
        await until(lambda: texts(matrix, "group"))
    heard = re.findall(r"\bm(\d+)\b", asked(model))
    assert [int(number) for number in heard] == list(range(130))


async def test_a_storm_of_limits_is_waited_out_and_nothing_doubles(matrix: FakeMatrix, tmp_path: Path) -> None:
    model = ScriptedModel([say(" ".join(f"w{n}" for n in range(3000)))])
    async with running(tmp_path / "h", model, matrix, ALICE):
        matrix.fail("limited", 8, retry_after=0.01)
        await matrix.say("much, please")
        await until(lambda: " ".join(texts(matrix)).split()[-1:] == ["w2999"])
    assert " ".join(texts(matrix)).split() == [f"w{n}" for n in range(3000)]


async def test_a_token_that_is_taken_back_is_said(matrix: FakeMatrix, tmp_path: Path, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    async with running(tmp_path / "h", ScriptedModel([]), matrix, ALICE) as app:
        matrix.revoked = True
        matrix.wake()
        await until(lambda: app.channels["matrix"].status().state == "signed_out")
        assert "sign in again" in app.channels["matrix"].status().detail
    assert TOKEN not in caplog.text


async def test_signing_in_with_a_password(matrix: FakeMatrix, tmp_path: Path, caplog: Any) -> None:
    """Once; again on the same device when the token is taken back; and said when the password is wrong."""
    caplog.set_level(logging.DEBUG)
    own = {"accessToken": None, "userId": ME, "password": PASSWORD}
    model = ScriptedModel([say("one"), say("two")])
    async with running(tmp_path / "h", model, matrix, ALICE, own):
        await matrix.say("hello")
        await until(lambda: texts(matrix))
    async with running(tmp_path / "h", model, matrix, ALICE, own):
        assert len(matrix.logins) == 1
        matrix.revoked = True
        await matrix.say("still there?")
        await until(lambda: len(texts(matrix)) == 2)
    assert len(matrix.logins) == 2 and matrix.logins[1]["device_id"] == "D1"
    assert PASSWORD not in caplog.text and TOKEN not in caplog.text
    wrong = MatrixChannel(
        make_channel_kit("matrix", str(tmp_path / "w"), {**matrix.section, **own, "password": "wrong"})
    )
    await wrong.run(None)  # type: ignore[arg-type]
    assert wrong.status().state == "signed_out"


async def test_people_ask_us_in(matrix: FakeMatrix, tmp_path: Path) -> None:
    """The owner into any room; a stranger into a direct chat, where access decides; a stranger's group never."""
    model = ScriptedModel([say("hello there"), say("in the new room")])
    async with running(tmp_path / "h", model, matrix, ALICE, {"dmPolicy": "pairing"}):
        matrix.invite("!new:fake", ALICE, direct=True)
        await matrix.say("written while we were asked in", chat="!new:fake")
        await until(lambda: texts(matrix, "!new:fake"))
        matrix.invite("!stranger:fake", BOB, direct=True)
        await matrix.say("let me in", chat="!stranger:fake", sender=BOB)
        await until(lambda: texts(matrix, "!stranger:fake"))
        matrix.invite("!crowd:fake", BOB, title="crowd")
        matrix.add("!old:fake", ALICE, "m.room.message", {"msgtype": "m.text", "body": "Pal: an old thing"})
        matrix.invite("!old:fake", ALICE, title="old")
        await until(lambda: matrix.members["!old:fake"][ME] == "join")
        await matrix.say("a new thing", chat="!old:fake", mention=True)
        await until(lambda: texts(matrix, "!old:fake"))
    assert texts(matrix, "!new:fake") == ["hello there"] and "written while" in asked(model, 0)
    assert "pairing" in texts(matrix, "!stranger:fake")[0].lower()
    assert matrix.members["!crowd:fake"][ME] == "invite"
    assert len(model.requests) == 2 and "an old thing" not in asked(model, 1)


async def test_an_encrypted_room_is_said_to_be_unreadable(matrix: FakeMatrix, tmp_path: Path) -> None:
    async with running(tmp_path / "h", ScriptedModel([say("hi")]), matrix, ALICE) as app:
        matrix.add(DIRECT, ALICE, "m.room.encrypted", {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "…"})
        matrix.wake()
        await until(lambda: "encrypted" in app.channels["matrix"].status().detail)
        await matrix.say("hello", chat="group", mention=True)
        await until(lambda: texts(matrix, "group"))
    assert texts(matrix) == []

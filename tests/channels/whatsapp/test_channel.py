"""Whole messages through the App, with the fake in the place of the library."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from channels.scene import PROVIDER, FastClock, asked, rules, texts, until
from palinurus.app import App
from palinurus.channels.intake import RemoteFile
from palinurus.channels.whatsapp.channel import WhatsAppChannel
from palinurus.channels.whatsapp.port import WhatsAppCrash
from palinurus.config.load import load_config
from palinurus.core.types.model import Model
from palinurus.testing.conformance.channel import PNG
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.whatsapp import GROUP, HUMAN, FakeWhatsApp, quote_message


@asynccontextmanager
async def running(root: Path, model: Model, people: FakeWhatsApp, **own: Any) -> AsyncIterator[App]:
    config = {
        "models": {"providers": {"fake": PROVIDER}},
        "agents": {"defaults": {"model": {"primary": "fake/m"}, "workspace": str(root / "w")}},
        "commands": {"ownerAllowFrom": [f"whatsapp:{HUMAN}"]},
        "channels": {"whatsapp": rules(people, HUMAN, own)},
    }
    (root / "h").mkdir(exist_ok=True)
    (root / "h" / "palinurus.json").write_text(json.dumps(config))
    channel = WhatsAppChannel(make_channel_kit("whatsapp", str(root), people.section), people.client())
    app = App(
        load_config(str(root / "h"), {}).settings,
        {"HOME": str(root)},
        FastClock(),
        model=model,
        channels={"whatsapp": channel},
    )
    await app.start()
    try:
        yield app
    finally:
        await app.stop()


async def test_a_conversation_with_receipts_and_duplicates(tmp_path: Path) -> None:
    model = ScriptedModel([say("Hello, **human**."), say("Yes.")])
    async with FakeWhatsApp() as people, running(tmp_path, model, people):
        first = await people.say("hello", times=3)
        await until(lambda: texts(people) == ["Hello, human."])
        assert people.seen[0]["text"] == "Hello, *human*." and people.seen[0]["quote"] == first
        await people.say("still there?")
        await until(lambda: texts(people) == ["Hello, human.", "Yes."])
    assert len(model.requests) == 2 and ("read", HUMAN, HUMAN, first) in people.calls


async def test_a_group_in_which_we_are_named_or_answered(tmp_path: Path) -> None:
    model = ScriptedModel([say("Here."), say("I meant it.")])
    async with FakeWhatsApp() as people, running(tmp_path, model, people):
        await people.say("among ourselves", chat="group", sender="ann")
        await people.say("and you?", chat="group", sender="bob", mention=True)
        await until(lambda: texts(people, "group") == ["Here."])
        mine = quote_message(people.seen[0]["id"], "Here.")
        await people.say("really?", chat="group", sender="ann", quoted=mine)
        await until(lambda: texts(people, "group") == ["Here.", "I meant it."])
    assert "[In the group “The group”]" in asked(model, 0) and "Ann: among ourselves" in asked(model, 0)
    assert {one["to"] for one in people.seen} == {GROUP}


async def test_a_number_in_the_list_lets_its_bearer_in(tmp_path: Path) -> None:
    model = ScriptedModel([say("Welcome.")])
    async with FakeWhatsApp() as people:
        number = "+" + people.person("ann").partition("@")[0]
        async with running(tmp_path, model, people, allowFrom=[number]):
            await people.say("hi", sender="eve")
            await people.say("hi", sender="ann")
            await until(lambda: texts(people, "ann") == ["Welcome."])
        assert texts(people, "eve") == []


async def test_files_in_and_out_and_a_long_answer_in_parts(tmp_path: Path) -> None:
    long = "\n\n".join(f"Paragraph {n}. " + "word " * 60 for n in range(40))
    model = ScriptedModel([say(f"Look.\n\nMEDIA:{tmp_path}/w/cat.png"), say("Gone."), say(long)])
    async with FakeWhatsApp() as people, running(tmp_path, model, people):
        (tmp_path / "w" / "cat.png").write_bytes(PNG)
        people.files["f"] = b"spoken"
        await people.say("", media=RemoteFile("audio", "audio/ogg", "f", 6, True))
        await until(lambda: bool(people.visible_messages()))
        assert people.visible_messages()[-1][1:3] == ("Look.", ("cat.png",))
        assert "[voice note: could not be transcribed" in asked(model)
        await people.say("old", media=RemoteFile("a.pdf", "application/pdf", "gone", 6))
        await until(lambda: len(model.requests) == 2)
        assert "a.pdf could not be fetched: download failed" in asked(model)
        await people.say("tell me more")
        await until(lambda: "Paragraph 39." in texts(people)[-1])
    parts = [text for text in texts(people) if text.startswith("Paragraph")]
    assert len(parts) > 1 and all(len(part) <= 4000 for part in parts)


async def test_what_goes_wrong_with_an_answer_and_what_people_see_then(tmp_path: Path) -> None:
    picture = f"Look.\n\nMEDIA:{tmp_path}/w/cat.png"
    model = ScriptedModel([say(picture), say("never"), say("twice"), say("last")])
    async with FakeWhatsApp() as people, running(tmp_path, model, people):
        (tmp_path / "w" / "cat.png").write_bytes(PNG)
        people.fail("media")
        await people.say("one")
        await until(lambda: bool(texts(people)))
        assert "cat.png" in texts(people)[0] and people.visible_messages()[0].media == ()
        people.fail("gone")
        await people.say("two")
        await until(lambda: len(model.requests) == 2 and not people.faults)
        people.fail("cut")  # shown, and nobody told us: once more, never a third time
        await people.say("three")
        await until(lambda: texts(people)[1:] == ["twice", "twice"])
        await people.say("four")
        await until(lambda: texts(people)[3:] == ["last"])


async def test_a_phone_that_unlinks_us_is_told_about_with_what_to_do(tmp_path: Path) -> None:
    async with FakeWhatsApp() as people, running(tmp_path, ScriptedModel([]), people) as app:
        await until(lambda: app.channels["whatsapp"].status().state == "ready")
        people.unlink()
        await until(lambda: app.channels["whatsapp"].status().state == "signed_out")
        assert "pal channels login whatsapp" in app.channels["whatsapp"].status().detail


async def test_without_a_sign_in_it_says_so_and_a_client_that_ends_is_begun_again(tmp_path: Path) -> None:
    model = ScriptedModel([say("Back.")])
    async with FakeWhatsApp() as people:
        people.linked = False
        async with running(tmp_path, model, people) as app:
            await until(lambda: app.channels["whatsapp"].status().state == "signed_out")
            people.linked = True
            assert await app.receivers.start("whatsapp")
            await until(lambda: app.channels["whatsapp"].status().state == "ready")
            assert people._client is not None
            people._client.hear(WhatsAppCrash("it died"))
            await people.say("hello")
            await until(lambda: texts(people) == ["Back."])

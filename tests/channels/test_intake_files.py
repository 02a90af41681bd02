"""Files are fetched for those from whom a turn comes. Strangers, and what passes by in groups, cost us nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from channels.scene import asked, running, texts, until
from palinurus.channels.intake import FileUnavailable, RemoteFile, fetch_message_files
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.errors import DiskFull
from palinurus.testing.clock import FakeClock
from palinurus.testing.discord.server import FakeDiscord
from palinurus.testing.matrix.server import FakeMatrix
from palinurus.testing.matrix.state import ALICE, BOB, ME
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.signal import PEOPLE, FakeSignal
from palinurus.testing.slack.server import FakeSlack
from palinurus.testing.telegram.server import ANN, FakeTelegram

LARGE = 20 * 1024 * 1024


class Sends(NamedTuple):
    """Somebody sends a picture: with a text, in the direct chat or the group, naming us or not."""

    name: str
    data: bytes
    text: str = "look"
    stranger: bool = False
    group: bool = False
    mention: bool = False

    @property
    def chat(self) -> str:
        return "group" if self.group else ""


async def telegram(fake: FakeTelegram, one: Sends) -> None:
    text = f"@pal_bot {one.text}" if one.mention else one.text
    entities = [{"type": "mention", "offset": 0, "length": 8}] if one.mention else []
    paper = {**fake.keep(f"documents/{one.name}", one.data), "file_name": one.name, "mime_type": "image/png"}
    told = {"document": paper, "caption": text, "caption_entities": entities}
    fake.tell(told, chat=one.chat or ("bob" if one.stranger else ""), sender="bob" if one.stranger else "")


async def matrix(fake: FakeMatrix, one: Sends) -> None:
    named = {"m.mentions": {"user_ids": [ME]}} if one.mention else {}
    who = BOB if one.stranger else ALICE
    await fake.send_file(one.text, "image/png", one.data, chat=one.chat, sender=who, filename=one.name, **named)


async def attached(fake: FakeSlack | FakeDiscord, one: Sends) -> None:
    who = "UBOB" if one.stranger else ""
    file = (one.name, "image/png", one.data)
    await fake.say(one.text, chat=one.chat, sender=who, mention=one.mention, files=[file])


async def signal(fake: FakeSignal, one: Sends) -> None:
    fake.files[one.name] = one.data
    held = {"contentType": "image/png", "id": one.name, "size": len(one.data), "filename": one.name}
    who = "stranger" if one.stranger else ""
    await fake.say(one.text, chat=one.chat, sender=who, mention=one.mention, attachments=[held])


class Case(NamedTuple):
    fake: Callable[[], Any]
    send: Callable[[Any, Sends], Awaitable[None]]
    owner: Callable[[Any], str]
    fetched: Callable[[Any], int] = lambda fake: fake.fetched


CASES = {
    "telegram": Case(FakeTelegram, telegram, lambda fake: str(ANN)),
    "discord": Case(FakeDiscord, attached, lambda fake: fake.world.person("")["id"], lambda fake: fake.world.fetched),
    "slack": Case(FakeSlack, attached, lambda fake: "UALICE"),
    "matrix": Case(FakeMatrix, matrix, lambda fake: ALICE),
    "signal": Case(FakeSignal, signal, lambda fake: PEOPLE["human"][0]),
}


@pytest.mark.parametrize("name", CASES)
async def test_who_makes_us_fetch(tmp_path: Path, name: str) -> None:
    case, model = CASES[name], ScriptedModel([say("seen")], repeat=True)
    async with (
        case.fake() as fake,
        running(tmp_path / "h", model, fake, case.owner(fake), {"dmPolicy": "pairing", "streaming": "off"}) as app,
    ):
        await case.send(fake, Sends("huge.png", bytes(LARGE), stranger=True))
        async with asyncio.timeout(60):
            while not await app.admission.pairing.list_waiting():  # let in by nobody yet, but taken notice of
                await asyncio.sleep(0.005)
        await case.send(fake, Sends("passing.png", b"by", group=True))
        await case.send(fake, Sends("mine.png", b"mine"))
        await until(lambda: texts(fake)[-1:] == ["seen"])
        assert case.fetched(fake) == 1 and "mine.png" in asked(model)
        await case.send(fake, Sends("ours.png", b"ours", group=True, mention=True))
        await until(lambda: texts(fake, "group")[-1:] == ["seen"])
    assert case.fetched(fake) == 2 and len(model.requests) == 2
    assert "look\n  [file: passing.png]" in asked(model) and "ours.png (image/png, 4 bytes) at /" in asked(model)
    kept = {path.read_bytes() for path in (tmp_path / "h" / "media").rglob("*") if path.is_file()}
    assert kept == {b"mine", b"ours"}


MESSAGE = Inbound(Target("fake", "c"), Sender("2"), "e", "look", 1)


async def fetch(file: RemoteFile) -> AsyncGenerator[bytes, None]:
    if not file.source:
        raise FileUnavailable("is not there")
    yield file.source


@pytest.mark.parametrize(
    ("wanted", "text", "names"),
    [(True, "look\n[gone is not there]", ["cat"]), (False, "look\n[file: cat]\n[file: gone]", [])],
)
async def test_what_is_not_fetched_is_named(tmp_path: Path, wanted: bool, text: str, names: list[str]) -> None:
    async def answer(inbound: Inbound) -> bool:
        assert inbound == MESSAGE
        return wanted

    own = msgspec.structs.replace(make_channel_kit("telegram", str(tmp_path), {"botToken": "1:x"}), wanted=answer)
    got = await fetch_message_files(
        own, MESSAGE, [RemoteFile("cat", "image/png", b"x"), RemoteFile("gone", "", b"")], fetch
    )
    assert (got.text, [one.name for one in got.files]) == (text, names)


async def test_a_message_without_files_is_not_asked_for_and_a_disk_that_cannot_answer_is_waited_for(
    tmp_path: Path,
) -> None:
    clock, tries = FakeClock(0), 0

    async def answer(inbound: Inbound) -> bool:
        nonlocal tries
        tries += 1
        if tries < 3:
            raise DiskFull("full")
        return True

    own = msgspec.structs.replace(
        make_channel_kit("telegram", str(tmp_path), {"botToken": "1:x"}, clock), wanted=answer
    )
    assert await fetch_message_files(own, MESSAGE, [], fetch) is MESSAGE and tries == 0
    going = asyncio.ensure_future(fetch_message_files(own, MESSAGE, [RemoteFile("cat", "image/png", b"x")], fetch))
    await clock.advance(10)
    got = await going
    assert tries == 3 and [one.name for one in got.files] == ["cat"]


async def test_what_is_too_large_is_not_even_fetched_and_is_named_briefly(tmp_path: Path) -> None:
    async def nobody(file: RemoteFile) -> AsyncGenerator[bytes, None]:
        raise AssertionError("it was fetched")
        yield b""

    own = make_channel_kit("telegram", str(tmp_path), {"botToken": "1:x", "mediaMaxMb": 1})
    got = await fetch_message_files(own, MESSAGE, [RemoteFile("n" * 200, "image/png", "id", 2 * 1024 * 1024)], nobody)
    assert got.text == f"look\n[{'n' * 80} is larger than 1 MB (mediaMaxMb) and was not taken]" and got.files == ()


async def test_a_file_is_tried_again_only_where_that_may_help(tmp_path: Path) -> None:
    own, tries = make_channel_kit("telegram", str(tmp_path), {"botToken": "1:x"}), list[str]()

    async def breaking(file: RemoteFile) -> AsyncGenerator[bytes, None]:
        tries.append(file.name)
        if file.name == "never" or tries.count(file.name) < 3:
            raise FileUnavailable("could not be fetched", again=file.name != "never")
        yield b"whole"

    files = [RemoteFile("never", "", ""), RemoteFile("late", "audio/ogg", "", voice=True)]
    got = await fetch_message_files(own, MESSAGE, files, breaking)
    assert tries == ["never", "late", "late", "late"] and got.text == "look\n[never could not be fetched]"
    assert [(one.name, one.size, one.voice) for one in got.files] == [("late", 5, True)]

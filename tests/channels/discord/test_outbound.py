"""How replies become requests, and errors words; and what people see when Discord says no."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from discord.errors import HTTPException
from hypothesis import given
from hypothesis import strategies as st

from channels.discord.scene import running, settled
from channels.scene import texts, until
from palinurus.channels.discord import outbound
from palinurus.channels.discord.wire import DiscordRateLimit
from palinurus.core.types.channel import SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Button, Reply
from palinurus.testing.discord.server import FakeDiscord, find_refusal
from palinurus.testing.discord.state import GROUP, strip_marks
from palinurus.testing.model import ScriptedModel, say


@pytest.fixture
async def discord() -> AsyncIterator[FakeDiscord]:
    async with FakeDiscord() as made:
        yield made


class Answered:
    """As much of a response as the library's error wants."""

    reason = "No"

    def __init__(self, status: int) -> None:
        self.status = status


@pytest.mark.parametrize(
    ("status", "code", "trouble"),
    [
        (401, 0, "signed_out"), (403, 50001, "gone"), (403, 50007, "blocked"), (403, 50013, "refused"),
        (404, 10003, "gone"), (404, 0, "gone"), (413, 40005, "media"), (400, 50035, "refused"), (500, 0, "cut"),
        (502, 0, "cut"), (503, 0, "down"), (400, 20028, "limited"), (403, 0, "refused"), (418, 1, "refused"),
    ],
)  # fmt: skip
def test_every_answer_has_its_word(status: int, code: int, trouble: str) -> None:
    exc = HTTPException(Answered(status), {"code": code, "message": "no"})  # type: ignore[arg-type]
    assert outbound.explain_discord_error(exc).trouble == trouble


def test_every_break_has_its_word() -> None:
    key: Any = None
    assert outbound.explain_discord_error(aiohttp.ClientConnectorError(key, OSError("refused"))).trouble == "down"
    assert outbound.explain_discord_error(aiohttp.ServerDisconnectedError()).trouble == "cut"
    assert outbound.explain_discord_error(TimeoutError()).trouble == "cut"
    assert outbound.explain_discord_error(DiscordRateLimit(3.0, True)) == SendFailure(
        "Discord wants fewer requests for a moment", "limited", 3.0, True
    )
    assert outbound.explain_discord_error(KeyError("secret")) == SendFailure("unexpected: KeyError", "refused")


@given(st.lists(st.builds(Button, st.text(min_size=1), st.text(max_size=300)), max_size=30), st.text(max_size=60))
def test_what_we_make_discord_takes(buttons: list[Button], client: str) -> None:
    assert find_refusal(outbound.build_message("x", buttons, client, "123"), []) is None


@given(st.text(alphabet="ab *_~`|>\\#-[]()\n", max_size=80))
def test_a_plain_text_is_read_as_it_is(text: str) -> None:
    assert "".join(strip_marks(outbound.render_content(text, True)).split()) == "".join(text.split())


def test_no_address_of_an_answer_is_fetched_for_a_preview() -> None:
    assert outbound.build_message("https://evil.example/?d=secret", (), "c", "")["flags"] & 4  # SUPPRESS_EMBEDS


def test_nobody_is_woken_but_who_is_named() -> None:
    assert outbound.build_message("@everyone", (), "c", "")["allowed_mentions"] == {
        "parse": ["users"],
        "replied_user": False,
    }


async def test_a_storm_of_429_loses_nothing_and_doubles_nothing(discord: FakeDiscord, tmp_path: Path) -> None:
    words = "\n\n".join(f"Paragraph {n}. " + "word " * 80 for n in range(20))

    def answer(request: Any) -> Any:
        return say(words if request.messages[-1].text == "tell me all" else "fine")

    async with running(tmp_path / "h", discord, ScriptedModel([answer], repeat=True)):
        discord.fail("limited", 12, retry_after=0.01)
        await discord.say("tell me all")
        await discord.say("and you?", chat="group", mention=True)
        await until(lambda: "Paragraph 19" in "".join(texts(discord)) and texts(discord, "group") == ["fine"])
    assert discord.refused == 12
    assert "".join("".join(texts(discord)).split()) == "".join(words.split())


async def test_a_limit_over_all_holds_every_request_back(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, ScriptedModel([])) as app:
        channel = app.channels["discord"]
        mine = Target("discord", discord.world.chat("")["id"])
        discord.fail("limited", retry_after=30.0, everywhere=True)
        first = await channel.send(Reply(mine, "one", "c1"))
        assert isinstance(first, SendFailure) and (first.trouble, first.retry_after, first.everywhere) == (
            "limited", 30.0, True,
        )  # fmt: skip
        other = await channel.send(Reply(Target("discord", GROUP), "two", "c2"))
        assert isinstance(other, SendFailure) and other.everywhere
        # the connection's own requests may still be under way; this one was not made
        assert f"POST /channels/{GROUP}/messages" not in discord.world.calls, discord.world.calls


async def test_a_limit_that_is_used_up_is_not_tried(discord: FakeDiscord, tmp_path: Path) -> None:
    async with running(tmp_path / "h", discord, ScriptedModel([])) as app:
        channel = app.channels["discord"]
        mine = Target("discord", discord.world.chat("")["id"])
        discord.remaining = 30.0
        assert isinstance(await channel.send(Reply(mine, "one", "c1")), SendReceipt)
        second = await channel.send(Reply(mine, "two", "c2"))
        assert isinstance(second, SendFailure) and second.trouble == "limited" and second.retry_after
        assert isinstance(await channel.send(Reply(Target("discord", GROUP), "elsewhere", "c3")), SendReceipt)
    assert discord.refused == 0


@pytest.mark.parametrize("remembered", [True, False])
async def test_a_lost_receipt_is_no_second_copy(discord: FakeDiscord, tmp_path: Path, remembered: bool) -> None:
    """Also when so much time has gone by that Discord does not know the nonce any more."""
    async with running(tmp_path / "h", discord, ScriptedModel([say("same")], repeat=True)):
        await discord.say("hello")
        await until(lambda: texts(discord) == ["same"])
        discord.fail("cut")
        if not remembered:
            discord.world.forgetful = True
        await discord.say("hello again")
        await until(lambda: len(texts(discord)) == 2)
        await until(lambda: settled(tmp_path / "h") == 2)
    assert texts(discord) == ["same", "same"]

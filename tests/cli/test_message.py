"""`pal message`: a person writes through the gateway that runs."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.methods.test_channels import place
from palinurus.cli.message import run_message
from palinurus.core.types.channel import (
    ChannelAbilities,
    DeleteAction,
    EditAction,
    PinAction,
    PollAction,
    ReactAction,
    ReadAction,
    ThreadAction,
)
from palinurus.errors import BadRequest, GatewayUnreachable, NotFound
from palinurus.testing.channel import FakeChannel

ABLE = ChannelAbilities(acts=frozenset(("react", "edit", "delete", "pin", "poll", "thread", "read")))


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    return lambda: capsys.readouterr().out


async def test_what_a_person_can_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, printed: Callable[[], str]
) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "h"))
    channel = FakeChannel(abilities=ABLE)

    async def pal(line: str) -> tuple[int, str]:
        code = await asyncio.to_thread(run_message, line.split())
        return code, printed().strip()

    async with place(tmp_path / "h", channel):
        assert await pal("send --channel fake --to 5 hello there") == (0, "sent as fake-1")
        assert await pal("send hello --target fake:6 --thread 7") == (0, "sent as fake-2")
        monkeypatch.setattr("sys.stdin", io.StringIO("from a pipe\n"))
        assert json.loads((await pal("send --to fake:5 --json -"))[1])["state"] == "sent"
        channel.faults = ["refused"]
        assert await pal("send --to fake:5 x") == (1, "not sent (failed): the chat does not exist")
        for line in (
            "react --to fake:5 --id 1 👍",
            "edit --to fake:5 --id 1 new text",
            "delete --to fake:5 --id 1",
            "pin --to fake:5 --id 1",
            "unpin --to fake:5 --id 1",
            "poll --to fake:5 --option a --option b --multi which one",
            "thread-create --to fake:5 news",
        ):
            assert (await pal(line))[0] == 0, line
        assert await pal("read --to fake:5 --limit 3") == (0, "nothing")
        channel.abilities = ChannelAbilities()
        with pytest.raises(BadRequest, match="fake cannot pin; it can: send"):
            await pal("pin --to fake:5 --id 1")
        with pytest.raises(NotFound, match="no channel 'x'"):
            await pal("send --to x:5 hello")
    assert [(one.target.to, one.target.thread, one.text) for one in channel.sends[:3]] == [
        ("5", "", "hello there"),
        ("6", "7", "hello"),
        ("5", "", "from a pipe\n"),
    ]
    assert [act for _, act in channel.acts] == [
        ReactAction("1", "👍"),
        EditAction("1", "new text"),
        DeleteAction("1"),
        PinAction("1"),
        PinAction("1", True),
        PollAction("which one", ("a", "b"), True),
        ThreadAction("news"),
        ReadAction(3),
    ]


@pytest.mark.parametrize(
    "line",
    ["send --to 5 x", "send --to fake:5", "delete --to fake:5", "poll --to fake:5 q", "fly --to fake:5", "send x"],
)
def test_what_is_missing_is_said(line: str) -> None:
    with pytest.raises(BadRequest):
        run_message(line.split())


def test_without_a_gateway_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    (tmp_path / "palinurus.json").write_text('{"gateway": {"port": 1}}')
    with pytest.raises(GatewayUnreachable):
        run_message(["send", "--to", "fake:5", "hello"])

from __future__ import annotations

import asyncio
import errno
import json
import os
from pathlib import Path

import pytest

from palinurus.channels.spool import SpoolChannel
from palinurus.core.types.channel import SendFailure, SendReceipt
from palinurus.core.types.inbound import Inbound, Target
from palinurus.core.types.outbound import Reply
from palinurus.errors import ConfigError
from palinurus.testing.platform import make_channel_kit


@pytest.mark.parametrize("words", ["[]", "3", '"text"', "null", "{", "{}"])
async def test_a_file_that_is_no_message_is_set_aside_and_stops_no_other(tmp_path: Path, words: str) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text(words)
    (tmp_path / "in" / "2.json").write_text(json.dumps({"text": "hi"}))
    heard: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def submit(inbound: Inbound) -> str:
        heard.set_result(inbound.text)
        return "1"

    channel = SpoolChannel(make_channel_kit("spool", str(tmp_path), {"dir": str(tmp_path), "pollSeconds": 0.01}))
    running = asyncio.ensure_future(channel.run(submit))
    try:
        await asyncio.wait((running, heard), timeout=60, return_when=asyncio.FIRST_COMPLETED)
        assert heard.done() and heard.result() == "hi" and not running.done()
        assert (tmp_path / "bad" / "1.json").exists() and (tmp_path / "bad" / "1.json.why").read_text().strip()
    finally:
        running.cancel()


@pytest.mark.parametrize("poll", ["soon", [], True])
def test_a_pace_that_is_no_number_is_told(tmp_path: Path, poll: object) -> None:
    with pytest.raises(ConfigError, match="pollSeconds: must be a number"):
        SpoolChannel(make_channel_kit("spool", str(tmp_path), {"dir": str(tmp_path), "pollSeconds": poll}))


@pytest.mark.parametrize("poll", [None, -1, 0])
def test_a_pace_that_is_none_is_not_set(tmp_path: Path, poll: object) -> None:
    own = {"dir": str(tmp_path), "pollSeconds": poll}
    assert SpoolChannel(make_channel_kit("spool", str(tmp_path), own))._look == 0.2


async def test_a_reply_whose_sync_failed_is_looked_for_before_it_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The line is there, though nobody could promise that it stays."""
    channel = SpoolChannel(make_channel_kit("spool", str(tmp_path), {"dir": str(tmp_path)}))
    reply = Reply(Target("spool", "chat"), "hello", "item.1")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    failed = await channel.send(reply)
    assert isinstance(failed, SendFailure) and failed.trouble == "cut"
    assert await channel.find(reply) == SendReceipt("item.1")

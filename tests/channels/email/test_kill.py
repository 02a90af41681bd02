"""kill -9 of a real gateway on the way of a mail. What was sent is found again by its Message-ID: one copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.scene import Gateway, texts, until
from palinurus.testing.mail import HUMAN, FakeMail
from palinurus.testing.server import ModelServer

LONG = 30.0
LATER = [pytest.param(crash, marks=pytest.mark.torture) for crash in ("accept.after:1", "settle.after:1")]


@pytest.mark.parametrize("crash", ["outbox.sent:1", *LATER])
async def test_answered_once_wherever_we_die(tmp_path: Path, crash: str) -> None:
    async with FakeMail() as people, ModelServer() as model:
        gateway = Gateway(tmp_path, model.url, people, HUMAN)
        await people.say("from before")
        with gateway.up(crash) as process:
            await until(lambda: people.is_watched, LONG)  # before that, mail is old mail
            await people.say("SAY Hello there.")
            await until(lambda: process.poll() is not None, LONG)
            assert process.returncode == 137
        with gateway.up():
            await until(lambda: texts(people) == ["Hello there."], LONG)
            await people.say("SAY And again.")
            await until(lambda: texts(people)[-1:] == ["And again."], LONG)
            await until(lambda: people.is_seen(2) and people.is_seen(3), LONG)
    assert texts(people) == ["Hello there.", "And again."] and not people.is_seen(1)

"""The part of the real client that needs no network."""

from __future__ import annotations

from pathlib import Path

import pytest
from neonize.exc import SendMessageError

from palinurus.channels.whatsapp.channel import WhatsApp
from palinurus.channels.whatsapp.client import Neonize, _tried, draw, make
from palinurus.channels.whatsapp.port import Post, Refused
from palinurus.testing.platform import kit


def test_a_code_for_the_terminal_and_for_the_browser() -> None:
    picture = draw("2@abc,def,ghi")
    assert picture.count("\n") > 10 and picture.url.startswith("data:image/png;base64,")
    assert draw("2@abc,def,other").url != picture.url


async def test_nothing_happens_before_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "account"
    given = kit("whatsapp", str(folder), {})
    assert isinstance(make(given), WhatsApp) and not folder.exists()
    with pytest.raises(Refused, match="not connected"):
        await Neonize(given).send("49@s.whatsapp.net", Post("hi"))
    await Neonize(given).stop()


async def test_what_the_library_raises_is_a_refusal() -> None:
    async def work() -> None:
        raise SendMessageError("server returned error 479")

    with pytest.raises(Refused, match="upload: server returned error 479") as found:
        await _tried(work(), "upload: ", sending=True)
    assert found.value.sending

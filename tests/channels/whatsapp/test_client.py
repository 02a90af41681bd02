"""The part of the real client that needs no network."""

from __future__ import annotations

from pathlib import Path

import pytest
from neonize.exc import SendMessageError

from palinurus.channels.whatsapp.channel import WhatsAppChannel
from palinurus.channels.whatsapp.client import NeonizeClient, _tried, draw_qr_code, make_whatsapp_channel
from palinurus.channels.whatsapp.port import WhatsAppPost, WhatsAppRefusal
from palinurus.testing.platform import make_channel_kit


def test_a_code_for_the_terminal_and_for_the_browser() -> None:
    picture = draw_qr_code("2@abc,def,ghi")
    assert picture.count("\n") > 10 and picture.url.startswith("data:image/png;base64,")
    assert draw_qr_code("2@abc,def,other").url != picture.url


async def test_nothing_happens_before_it_runs(tmp_path: Path) -> None:
    folder = tmp_path / "account"
    given = make_channel_kit("whatsapp", str(folder), {})
    assert isinstance(make_whatsapp_channel(given), WhatsAppChannel) and not folder.exists()
    with pytest.raises(WhatsAppRefusal, match="not connected"):
        await NeonizeClient(given).send("49@s.whatsapp.net", WhatsAppPost("hi"))
    await NeonizeClient(given).stop()


async def test_what_the_library_raises_is_a_refusal() -> None:
    async def work() -> None:
        raise SendMessageError("server returned error 479")

    with pytest.raises(WhatsAppRefusal, match="upload: server returned error 479") as found:
        await _tried(work(), "upload: ", sending=True)
    assert found.value.sending

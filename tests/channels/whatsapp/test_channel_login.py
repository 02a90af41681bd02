from __future__ import annotations

import asyncio

from channels.scene import until
from palinurus.channels.whatsapp.channel import QrPicture, link_device, unlink_device
from palinurus.testing.whatsapp import FakeWhatsApp


def drawn(code: str) -> QrPicture:
    return QrPicture(f"[{code}]")


async def test_a_phone_reads_the_code() -> None:
    people, shown = FakeWhatsApp(), list[str]()
    people.linked = False
    going = asyncio.ensure_future(link_device(people.client(), drawn, shown.append))
    await until(lambda: len(shown) == 2)
    assert shown[1] == "[2@abc,def]" and isinstance(shown[1], QrPicture)
    people.scan()
    assert await going == ""
    assert people._client is None  # the connection is the channel's again


async def test_who_is_signed_in_already_needs_no_code() -> None:
    shown: list[str] = []
    assert await link_device(FakeWhatsApp().client(), drawn, shown.append) == "" and shown == []


async def test_signing_out() -> None:
    people = FakeWhatsApp()
    assert await unlink_device(people.client()) == "" and not people.linked
    assert await unlink_device(people.client()) == "nobody is signed in"

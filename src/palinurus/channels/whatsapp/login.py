"""Signing in and out: a phone reads a QR code, and we are one of its linked devices. Knows the client's port; who shows
the code to whom is the caller's affair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from palinurus.channels.whatsapp.port import (
    WhatsAppClient,
    WhatsAppCrash,
    WhatsAppEvent,
    WhatsAppQrCode,
    WhatsAppReady,
    WhatsAppRefusal,
    WhatsAppSignedOut,
)

SECONDS = 180.0  # for a person to find the phone


class QrPicture(str):
    """A QR code as text for a terminal. `url` shows the same in a browser."""

    url: str = ""


async def link_device(client: WhatsAppClient, draw: Callable[[str], QrPicture], show: Callable[[str], object]) -> str:
    """Returns "" once a phone has linked us (or had before), else why not. Every new code is shown."""
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hear(told: WhatsAppEvent) -> None:
        if isinstance(told, WhatsAppQrCode):
            show("Open WhatsApp on the phone, Settings, Linked devices, Link a device, and read this:")
            show(draw(told.text))
        elif isinstance(told, WhatsAppReady) and not done.done():
            done.set_result("")
        elif isinstance(told, WhatsAppSignedOut | WhatsAppCrash) and not done.done():
            done.set_result(told.reason or "WhatsApp signed us out")

    try:
        await client.start(hear)
        async with asyncio.timeout(SECONDS):
            return await done
    except WhatsAppRefusal as exc:
        return str(exc)
    except TimeoutError:
        return "nobody read the code in time"
    finally:
        await client.stop()


async def unlink_device(client: WhatsAppClient) -> str:
    """Returns "" once the phone has forgotten us, else why not."""
    done: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def hear(told: WhatsAppEvent) -> None:
        if not done.done() and isinstance(told, WhatsAppReady | WhatsAppSignedOut | WhatsAppQrCode):
            done.set_result("" if isinstance(told, WhatsAppReady) else "nobody is signed in")

    try:
        await client.start(hear)
        async with asyncio.timeout(SECONDS / 6):
            why = await done
        if not why:
            await client.logout()
        return why
    except WhatsAppRefusal as exc:
        return str(exc)
    except TimeoutError:
        return "WhatsApp cannot be reached; take the device off the phone's list of linked devices"
    finally:
        await client.stop()

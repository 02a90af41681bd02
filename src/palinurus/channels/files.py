"""The files of a message: fetched when a turn comes of it, else only named. Strangers make us fetch nothing, and what
only passes by in a group stays where it is. Knows no platform.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

import msgspec

from palinurus.channels.backoff import Backoff
from palinurus.channels.kit import ChannelKit
from palinurus.core.types.inbound import Attachment, Inbound
from palinurus.core.untrusted import clean_label
from palinurus.errors import PalinurusError

log = logging.getLogger(__name__)

MAX_FILE_NAME = 80  # characters of a name that are shown


class RemoteFile(Protocol):
    """A file that is still with the platform."""

    @property
    def name(self) -> str: ...


F = TypeVar("F", bound=RemoteFile)


async def fetch_message_files(
    kit: ChannelKit, inbound: Inbound, files: Sequence[F], fetch: Callable[[F], Awaitable[Attachment | str]]
) -> Inbound:
    """The message with its files on our disk. `fetch` gives a text for one that cannot be had; that, and the names of
    files that are not wanted, are added to what was said."""
    if not files:
        return inbound
    if await _wanted(kit, inbound):
        got = [await fetch(one) for one in files]
    else:  # where a message has no words, its channel may have named the file already
        got = [shown for one in files if (shown := f"file: {clean_label(one.name, MAX_FILE_NAME)}") not in inbound.text]
    notes = (f"[{one}]" for one in got if isinstance(one, str))
    text = "\n".join(part for part in (inbound.text, *notes) if part)
    return msgspec.structs.replace(inbound, text=text, files=tuple(one for one in got if isinstance(one, Attachment)))


async def _wanted(kit: ChannelKit, inbound: Inbound) -> bool:
    """While the disk cannot be asked we wait: a guess would lose somebody's file, or fetch a stranger's."""
    backoff = Backoff()
    while True:
        try:
            return await kit.wanted(inbound)
        except PalinurusError as exc:
            log.warning("%s: the files of a message wait: %s", inbound.target.channel, exc.message)
        await kit.clock.sleep(backoff.next_delay())

"""What we do on Discord besides sending: one function for each kind of act, and the table of them.

Each raises what a request raises; `channel.py` turns that into words.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, cast

from discord.http import Route

from palinurus.channels.discord import inbound, outbound
from palinurus.channels.discord.wire import DiscordRest
from palinurus.core.types.channel import (
    DeleteAction,
    EditAction,
    PinAction,
    PollAction,
    ReactAction,
    ReadAction,
    SendReceipt,
    ThreadAction,
    TypingAction,
)

OPEN: Final = 1440  # minutes without a message after which a thread is put away
PUBLIC: Final = 11  # the kind of thread that everybody in its channel sees
PAGE = 100  # messages that can be read at once


async def _typing(rest: DiscordRest, chat: str, act: TypingAction) -> SendReceipt:
    await rest.send_typing(chat)
    return SendReceipt("")


async def _edit(rest: DiscordRest, chat: str, act: EditAction) -> SendReceipt:
    path = "/channels/{channel_id}/messages/{message_id}"
    body = outbound.build_content(outbound.render_content(act.text, act.plain), act.buttons)
    await rest.request(Route("PATCH", path, channel_id=chat, message_id=act.message_id), json=body)
    return SendReceipt(act.message_id)


async def _delete(rest: DiscordRest, chat: str, act: DeleteAction) -> SendReceipt:
    await rest.delete_message(chat, act.message_id)
    return SendReceipt(act.message_id)


async def _react(rest: DiscordRest, chat: str, act: ReactAction) -> SendReceipt:
    emoji = act.emoji.removeprefix("<").removesuffix(">").lstrip(":")
    if not act.remove:
        await rest.add_reaction(chat, act.message_id, emoji)
        return SendReceipt(act.message_id)
    for one in [emoji] if emoji else await _ours(rest, chat, act.message_id):
        await rest.remove_own_reaction(chat, act.message_id, one)
    return SendReceipt(act.message_id)


async def _ours(rest: DiscordRest, chat: str, message: str) -> list[str]:
    """Our reactions on a message."""
    raw = await rest.get_message(chat, message)
    found = [one["emoji"] for one in raw.get("reactions", ()) if one["me"]]
    return [f"{one['name']}:{one['id']}" if one.get("id") else str(one["name"]) for one in found]


async def _pin(rest: DiscordRest, chat: str, act: PinAction) -> SendReceipt:
    await (rest.unpin_message if act.remove else rest.pin_message)(chat, act.message_id)
    return SendReceipt(act.message_id)


async def _poll(rest: DiscordRest, chat: str, act: PollAction) -> SendReceipt:
    route = Route("POST", "/channels/{channel_id}/messages", channel_id=chat)
    return SendReceipt(str((await rest.request(route, json=outbound.build_poll(act)))["id"]))


async def _thread(rest: DiscordRest, chat: str, act: ThreadAction) -> SendReceipt:
    name = act.name[:100] or "thread"
    if act.message_id:
        raw = await rest.start_thread_with_message(chat, act.message_id, name=name, auto_archive_duration=OPEN)
    else:
        raw = await rest.start_thread_without_message(chat, name=name, auto_archive_duration=OPEN, type=PUBLIC)
    return SendReceipt(str(raw["id"]))


async def _read(rest: DiscordRest, chat: str, act: ReadAction) -> SendReceipt:
    rows = await rest.logs_from(chat, min(max(act.limit, 1), PAGE))
    return SendReceipt("", inbound.to_history_rows(cast("list[dict[str, Any]]", rows)))


ACTS: dict[type, Callable[[DiscordRest, str, Any], Awaitable[SendReceipt]]] = {
    TypingAction: _typing,
    EditAction: _edit,
    DeleteAction: _delete,
    ReactAction: _react,
    PinAction: _pin,
    PollAction: _poll,
    ThreadAction: _thread,
    ReadAction: _read,
}

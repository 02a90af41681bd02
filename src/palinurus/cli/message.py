"""`pal message`: a person does what the agent's `message` tool can do, through the gateway that runs.

What each action needs is the table `ACTIONS`; the gateway says what a channel cannot do.
"""

from __future__ import annotations

import argparse
import os
import uuid
from typing import Any

import msgspec

from palinurus.cli.args import CommandParser, load_settings, read_message_text, to_json
from palinurus.cli.reach.gateway import call_gateway
from palinurus.cli.render import strip_controls


class MessageActionRow(msgspec.Struct, frozen=True):
    """`words` names what the rest of the line is; `needs` are options it cannot do without."""

    about: str
    words: str = ""
    needs: tuple[str, ...] = ()


ACTIONS: dict[str, MessageActionRow] = {
    "send": MessageActionRow("write to a chat; the text from standard input with -", "message"),
    "react": MessageActionRow("put an emoji on a message; --remove takes it away", "emoji", ("id",)),
    "edit": MessageActionRow("put another text in the place of a message of ours", "message", ("id",)),
    "delete": MessageActionRow("take a message back", "", ("id",)),
    "pin": MessageActionRow("pin a message", "", ("id",)),
    "unpin": MessageActionRow("unpin it", "", ("id",)),
    "poll": MessageActionRow("ask: QUESTION, with an --option for each answer", "pollQuestion", ("option",)),
    "thread-create": MessageActionRow("begin a thread, below a message with --id", "threadName"),
    "read": MessageActionRow("show the newest messages"),
}


def run_message(argv: list[str]) -> int:
    """0; 1 if it was not done. Raises GatewayUnreachable, Unauthorized, BadRequest."""
    asked = _asked(argv)
    settings = load_settings(dict(os.environ)).settings
    found = call_gateway(settings, "message.action", _params(asked))
    if asked.json:
        print(to_json(found))
    else:
        print(strip_controls(_shown(asked.action, found)))
    return 1 if found.get("state") == "failed" else 0


def _asked(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser("message", "Write to a chat, or act there, as the agent does it.")
    help = "; ".join(f"{name}: {action.about}" for name, action in ACTIONS.items())
    parser.add_argument("action", choices=tuple(ACTIONS), help=help)
    parser.add_argument("words", nargs="*", metavar="TEXT", help="the text, emoji, question or name; - reads it")
    parser.add_argument("--channel", default="", help="such as telegram; --to telegram:5 says the same")
    parser.add_argument("--to", "--target", dest="to", required=True, help="the chat's id on the channel")
    parser.add_argument("--account", default="", help="where a channel has several")
    parser.add_argument("--thread", "--thread-id", dest="thread", default="", help="a thread or topic in it")
    parser.add_argument("--id", "--message-id", dest="id", default="", help="which message")
    parser.add_argument("--option", action="append", default=[], help="poll: an answer; at least two")
    parser.add_argument("--multi", action="store_true", help="poll: several answers may be chosen")
    parser.add_argument("--remove", action="store_true", help="react: take it away")
    parser.add_argument("--limit", type=int, default=20, help="read: how many")
    parser.add_argument("--json", action="store_true", help="for programs")
    asked = parser.parse_intermixed_args(argv)
    action = ACTIONS[asked.action]
    for need in action.needs:
        if not getattr(asked, need):
            parser.error(f"`{asked.action}` needs --{need}")
    if action.words and not asked.words:
        parser.error(f"`{asked.action}` needs a text")
    if not asked.channel:
        asked.channel, colon, asked.to = asked.to.partition(":")
        if not colon:
            parser.error("which channel? --channel telegram, or --to telegram:ID")
    return asked


def _params(asked: argparse.Namespace) -> dict[str, Any]:
    words = read_message_text(" ".join(asked.words))
    given = {
        "target": asked.to,
        "threadId": asked.thread,
        "messageId": asked.id,
        "pollOptions": asked.option,
        "pollMulti": asked.multi,
        "remove": asked.remove,
        "limit": asked.limit,
        ACTIONS[asked.action].words or "message": words,
    }
    return {
        "action": asked.action,
        "channel": asked.channel.lower(),
        "params": {key: value for key, value in given.items() if value},
        "accountId": asked.account or "default",
        "idempotencyKey": uuid.uuid4().hex,
    }


def _shown(action: str, found: dict[str, Any]) -> str:
    if action == "send":
        receipt, why = found.get("receipt"), found.get("error")
        if found["state"] == "sent":
            return "sent" + (f" as {receipt}" if receipt else "")
        later = "" if found["state"] == "failed" else "; it is kept and tried again"
        return f"not sent ({found['state']})" + (f": {why}" if why else "") + later
    if action == "read":
        rows = found.get("data") or []
        return (
            "\n".join(f"{one.get('id', '')}  {one.get('from', '')}: {one.get('text', '')}" for one in rows) or "nothing"
        )
    return "done" + (f": {found['messageId']}" if found.get("messageId") else "")

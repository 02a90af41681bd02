"""Calls of Slack's Web API, what its errors mean for a reply, and how texts, buttons and emoji are written. Raises
nothing.

The library retries lost connections by itself as it comes; for us it must not, because a message that was posted
would be posted again. Whether it was is asked with `find`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import aiohttp
from slack_sdk.errors import SlackClientError
from slack_sdk.web.async_client import AsyncWebClient

from palinurus.channels.kit import index_troubles, read_seconds
from palinurus.config.secrets import Secret
from palinurus.core.format.render import render_markdown
from palinurus.core.types.channel import SendFailure, SendTrouble
from palinurus.core.types.outbound import Button

SECTION = 3000  # characters of one text block
VALUE = 2000  # characters behind a button
EVENT = "palinurus_reply"  # the type of the metadata that carries our client id
_WHEN = 30.0  # seconds to wait when Slack limits without saying how long

TROUBLES: dict[str, SendTrouble] = index_troubles(
    {
        "limited": ("ratelimited", "rate_limited", "message_limit_exceeded"),
        "long": ("msg_too_long", "msg_blocks_too_long"),
        "markup": ("invalid_blocks", "invalid_blocks_format"),
        "signed_out": ("not_authed", "invalid_auth", "account_inactive", "token_revoked", "token_expired"),
        "gone": ("channel_not_found", "not_in_channel", "is_archived", "user_not_found", "user_disabled"),
        "blocked": ("cannot_dm_bot", "user_not_visible", "messages_tab_disabled", "restricted_action"),
        "down": ("service_unavailable",),
        # Slack says of the first two that a part may have been done.
        "cut": ("internal_error", "fatal_error", "request_timeout"),
    }
)
# What a person can do about it; other errors are said as Slack calls them.
WORDS: dict[str, str] = {
    "channel_not_found": "Slack knows no such channel, or the app is not in it",
    "not_in_channel": "the app is not in this channel; invite it there",
    "is_archived": "this channel is archived",
    "missing_scope": "the app lacks a permission (scope)",
    "not_allowed_token_type": "this is the wrong kind of token: botToken begins with xoxb-, appToken with xapp-",
    "ratelimited": "Slack limits how often we may do this",
    "messages_tab_disabled": "the app's messages tab is switched off",
}


class SlackApi:
    """The Web API with one token. `session` is used while it is open; else each call has its own connection."""

    def __init__(self, token: Secret, base: str) -> None:
        # Its own log would hold texts of messages and the address of the socket, which is a secret.
        quiet = logging.Logger("slack_sdk", logging.WARNING)
        self._web = AsyncWebClient(token.reveal(), base_url=base, timeout=30, retry_handlers=[], logger=quiet)

    def use(self, session: aiohttp.ClientSession | None) -> None:
        self._web.session = session

    async def call(self, method: str, token: Secret | None = None, **given: Any) -> dict[str, Any] | SendFailure:
        """The answer, or what went wrong. Values that are no text go as JSON, None not at all."""
        form = {key: _field(value) for key, value in given.items() if value is not None}
        headers = {"Authorization": f"Bearer {token.reveal()}"} if token else {}
        try:
            answer = await self._web.api_call(method, data=form, headers=headers)
        except SlackClientError as exc:
            return explain_slack_error(getattr(exc, "response", None))
        except aiohttp.ClientConnectorError:
            return SendFailure("Slack cannot be reached")
        # AttributeError: what the library makes of an answer that is plain text, as a captive portal's.
        except (aiohttp.ClientError, TimeoutError, OSError, ValueError, AttributeError) as exc:
            return SendFailure(f"the connection to Slack broke ({type(exc).__name__})", "cut")
        return answer.data if isinstance(answer.data, dict) else {}

    async def read_pages(
        self, method: str, pages: int, troubles: list[SendFailure], **given: Any
    ) -> AsyncIterator[Mapping[str, Any]]:
        """The messages of a chat, as Slack orders them. What ends it early is told in `troubles`."""
        cursor: str | None = None
        for _ in range(pages):
            answer = await self.call(method, cursor=cursor, **given)
            if isinstance(answer, SendFailure):
                troubles.append(answer)
                return
            for message in answer.get("messages") or ():
                yield message
            cursor = (answer.get("response_metadata") or {}).get("next_cursor") or None
            if cursor is None:
                return


def explain_slack_error(response: Any) -> SendFailure:
    """What an answer that is not ok means. `response`: the library's, or aiohttp's when it was no JSON."""
    status = getattr(response, "status_code", None) or getattr(response, "status", 0)
    data = getattr(response, "data", None)
    headers: Mapping[str, str] = getattr(response, "headers", None) or {}
    code = str(data.get("error") or "") if isinstance(data, dict) else ""
    trouble = TROUBLES.get(code) or _by_status(int(status or 0))
    words = WORDS.get(code) or (f"Slack says {code}" if code else f"Slack answered {status}")
    needed = data.get("needed") if isinstance(data, dict) else None
    if needed:
        words += f": {needed}"
    return SendFailure(
        words, trouble, read_seconds(headers.get("Retry-After"), _WHEN) if trouble == "limited" else None
    )


def _by_status(status: int) -> SendTrouble:
    if status == 429:
        return "limited"
    if status == 503:
        return "down"
    return "cut" if status >= 500 or status == 0 else "refused"


def _field(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else json.dumps(value)


def build_body(text: str, buttons: Sequence[Button], keys: Sequence[str], *, plain: bool) -> dict[str, Any]:
    """The fields of a message that hold its text. `keys` are the values behind the buttons. Also plain text is
    escaped: to Slack `<!channel>` calls everybody."""
    shown = escape_text(text) if plain else render_markdown(text, "slack").text
    made: dict[str, Any] = {"text": shown, "mrkdwn": not plain, "blocks": []}
    if buttons:
        kind = "plain_text" if plain else "mrkdwn"
        parts = [part for part in _cut(text if plain else shown) if part.strip()]
        made["blocks"] = [{"type": "section", "text": {"type": kind, "text": part}} for part in parts]
        made["blocks"].append({"type": "actions", "elements": _buttons(buttons, keys)})
    return made


def _cut(text: str) -> list[str]:
    parts = []
    while len(text) > SECTION:
        at = max(text.rfind("\n", 1, SECTION), text.rfind(" ", 1, SECTION)) + 1 or SECTION
        parts.append(text[:at])
        text = text[at:]
    return [*parts, text]


def _buttons(buttons: Sequence[Button], keys: Sequence[str]) -> list[dict[str, Any]]:
    styles = {"good": "primary", "bad": "danger"}
    made = []
    for number, (button, key) in enumerate(zip(buttons, keys, strict=True)):
        one: dict[str, Any] = {
            "type": "button",
            "action_id": f"say-{number}",
            "text": {"type": "plain_text", "text": button.label[:75]},
            "value": key,
        }
        if button.style in styles:
            one["style"] = styles[button.style]
        made.append(one)
    return made


def escape_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def build_metadata(client_id: str) -> dict[str, Any]:
    """What people do not see and `find` reads back."""
    return {"event_type": EVENT, "event_payload": {"client_id": client_id}}


def has_client_id(message: Mapping[str, Any], client_id: str) -> bool:
    """Was this message posted for that client id?"""
    held = message.get("metadata") or {}
    return held.get("event_type") == EVENT and (held.get("event_payload") or {}).get("client_id") == client_id


def has_files(message: Mapping[str, Any], files: Sequence[str]) -> bool:
    return bool(files) and any(f.get("id") in files for f in message.get("files") or ())

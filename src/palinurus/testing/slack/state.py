"""What Slack holds: chats, files, reactions; and the methods of its Web API that change them. No network here."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from palinurus.clock import SystemClock

ME, MY_BOT, TEAM = "UPAL", "BPAL", "T1"
GROUP = "C1"

SlackForm = dict[str, Any]


class FakeSlackState:
    """One workspace. A method of the Web API takes a form and gives its answer, or the code of an error; it is the one
    that is named like it, `_chat_postMessage` for chat.postMessage."""

    def __init__(self) -> None:
        self.url = ""
        self.chats: dict[str, list[dict[str, Any]]] = {}
        self.files: dict[str, dict[str, Any]] = {}
        self.fetched = 0  # files that were asked for
        self.names = {"UALICE": "alice", "UBOB": "bob"}
        self._stamps = 1_767_225_600_000_000

    def resolve_channel(self, chat: str, who: str) -> str:
        """The channel's id: "group" is one, "" the direct chat with `who`."""
        return GROUP if chat == "group" else chat or f"D{who[1:]}"

    def now(self) -> None:
        """Messages are written now, not in a far January."""
        self._stamps = SystemClock().now() * 1000 - 60_000_000

    def stamp(self) -> str:
        self._stamps += 1_000_001
        return f"{self._stamps // 1_000_000}.{self._stamps % 1_000_000:06}"

    def answer(self, method: str, form: SlackForm) -> SlackForm | str:
        """What the Web API answers to a call."""
        does: Callable[[SlackForm], SlackForm | str] | None = getattr(self, f"_{method.replace('.', '_')}", None)
        return does(form) if does else "unknown_method"

    def find_message(self, channel: str, ts: str) -> dict[str, Any]:
        return next((m for m in self.chats.get(channel, ()) if m["ts"] == ts), {})

    def _auth_test(self, form: SlackForm) -> SlackForm | str:
        return {"user_id": ME, "user": "pal", "bot_id": MY_BOT, "team_id": TEAM}

    def _apps_connections_open(self, form: SlackForm) -> SlackForm | str:
        return {"url": f"{self.url.replace('http', 'ws')}/socket?ticket=secret"}

    def _chat_postMessage(self, form: SlackForm) -> SlackForm | str:
        if len(form.get("text", "")) > 40_000:
            return "msg_too_long"
        message = {
            "type": "message", "user": ME, "bot_id": MY_BOT, "ts": self.stamp(), "text": form.get("text", ""),
            "mrkdwn": form.get("mrkdwn") != "false", "thread_ts": form.get("thread_ts", ""),
            "blocks": json.loads(form.get("blocks") or "[]"), "metadata": json.loads(form.get("metadata") or "{}"),
        }  # fmt: skip
        if any(len(block.get("text", {}).get("text", "")) > 3000 for block in message["blocks"]):
            return "invalid_blocks"
        self.chats.setdefault(form["channel"], []).append(message)
        return {"ts": message["ts"], "channel": form["channel"]}

    def _chat_update(self, form: SlackForm) -> SlackForm | str:
        message = self.find_message(form["channel"], form["ts"])
        if not message:
            return "message_not_found"
        message.update(text=form["text"], blocks=json.loads(form.get("blocks") or "[]"))
        return {"ts": form["ts"]}

    def _chat_delete(self, form: SlackForm) -> SlackForm | str:
        message = self.find_message(form["channel"], form["ts"])
        if not message:
            return "message_not_found"
        self.chats[form["channel"]].remove(message)
        return {"ts": form["ts"]}

    def _reactions_add(self, form: SlackForm) -> SlackForm | str:
        message = self.find_message(form["channel"], form["timestamp"])
        if not message:
            return "message_not_found"
        names = message.setdefault("reactions", [])
        if form["name"] in names:
            return "already_reacted"
        names.append(form["name"])
        return {}

    def _reactions_remove(self, form: SlackForm) -> SlackForm | str:
        names = self.find_message(form["channel"], form["timestamp"]).get("reactions", [])
        if form["name"] not in names:
            return "no_reaction"
        names.remove(form["name"])
        return {}

    def _reactions_get(self, form: SlackForm) -> SlackForm | str:
        names = self.find_message(form["channel"], form["timestamp"]).get("reactions", [])
        return {"message": {"reactions": [{"name": name, "users": [ME]} for name in names]}}

    def _conversations_history(self, form: SlackForm) -> SlackForm | str:
        oldest = form.get("oldest", "")
        found = [m for m in self.chats.get(form["channel"], ()) if m["ts"] > oldest and not _below(m)]
        return _page(list(reversed(found)), form)

    def _conversations_replies(self, form: SlackForm) -> SlackForm | str:
        chat = self.chats.get(form["channel"], ())
        return _page([m for m in chat if form["ts"] in (m["ts"], m.get("thread_ts"))], form)

    def _conversations_info(self, form: SlackForm) -> SlackForm | str:
        return {"channel": {"id": form["channel"], "name": "harbour", "is_mpim": form["channel"].startswith("G")}}

    def _conversations_open(self, form: SlackForm) -> SlackForm | str:
        return {"channel": {"id": self.resolve_channel("", form["users"])}}

    def _users_info(self, form: SlackForm) -> SlackForm | str:
        name = self.names.get(form["user"])
        return {"user": {"id": form["user"], "profile": {"display_name": name}}} if name else "user_not_found"

    def _emoji_list(self, form: SlackForm) -> SlackForm | str:
        return {"emoji": {"party": "https://a.example/party.gif", "ship": "alias:boat"}}

    def _files_getUploadURLExternal(self, form: SlackForm) -> SlackForm | str:
        ident = f"F{len(self.files) + 1}"
        self.files[ident] = {"id": ident, "name": form["filename"], "length": int(form["length"]), "data": None}
        return {"file_id": ident, "upload_url": f"{self.url}/upload/{ident}"}

    def _files_completeUploadExternal(self, form: SlackForm) -> SlackForm | str:
        files = [self.files[one["id"]] for one in json.loads(form["files"])]
        if any(file["data"] is None for file in files):
            return "file_not_found"
        message = {
            "type": "message", "subtype": "file_share", "user": ME, "bot_id": MY_BOT, "ts": self.stamp(),
            "text": form.get("initial_comment", ""), "thread_ts": form.get("thread_ts", ""),
            "files": [{"id": file["id"], "name": file["name"]} for file in files],
        }  # fmt: skip
        self.chats.setdefault(form["channel_id"], []).append(message)
        for file in files:
            file["shares"] = {"private": {form["channel_id"]: [{"ts": message["ts"]}]}}
        return {"files": [{"id": file["id"]} for file in files]}

    def _files_info(self, form: SlackForm) -> SlackForm | str:
        return {"file": {"id": form["file"], "shares": self.files[form["file"]].get("shares", {})}}

    def _pins_add(self, form: SlackForm) -> SlackForm | str:
        return {}

    _pins_remove = _pins_add

    def keep_file(self, name: str, mime: str, data: bytes) -> dict[str, Any]:
        ident = f"F{len(self.files) + 1}"
        self.files[ident] = {"id": ident, "name": name, "data": data}
        return {"id": ident, "name": name, "mimetype": mime, "url_private_download": f"{self.url}/files/{ident}"}


def _below(message: dict[str, Any]) -> bool:
    return bool(message.get("thread_ts")) and message["thread_ts"] != message["ts"]


def _page(messages: list[dict[str, Any]], form: SlackForm) -> SlackForm:
    start, size = int(form.get("cursor") or 0), int(form.get("limit") or 100)
    shown = messages[start : start + size]
    if form.get("include_all_metadata") != "true":
        shown = [{key: value for key, value in m.items() if key != "metadata"} for m in shown]
    more = str(start + size) if start + size < len(messages) else ""
    return {"messages": shown, "response_metadata": {"next_cursor": more}}

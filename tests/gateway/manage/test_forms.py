"""What a page needs to add a chat app, and which plugins there are."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.whole import place


async def test_chat_apps_say_what_they_need_and_what_is_secret(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        rows = {one["id"]: one for one in (await here.call("channels.forms"))["channels"]}
    assert [(one["key"], one["secret"]) for one in rows["telegram"]["fields"]] == [("botToken", True)]
    assert {one["key"]: one["secret"] for one in rows["irc"]["fields"]} == {"host": False, "nick": False}
    assert rows["whatsapp"]["fields"] == [] and "spool" not in rows and not rows["irc"]["added"]


async def test_plugins_are_listed_without_running_them(tmp_path: Path) -> None:
    folder = tmp_path / "h" / "plugins" / "clock"
    folder.mkdir(parents=True)
    manifest = {"id": "clock", "description": "Tells the time", "configSchema": {"type": "object"}, "tools": ["now"]}
    (folder / "palinurus.plugin.json").write_text(json.dumps(manifest))
    (folder / "plugin.py").write_text("raise SystemExit('run')\n")
    async with place(tmp_path / "h") as here:
        (found,) = [one for one in (await here.call("plugins.list"))["plugins"] if one["id"] == "clock"]
    assert found["description"] == "Tells the time" and not found["enabled"] and found["reason"]

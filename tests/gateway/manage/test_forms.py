"""What a page needs to add a chat app, and which plugins there are."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.whole import place
from palinurus.channels import CHANNELS, ChannelEntry


async def test_chat_apps_say_what_they_need_what_else_they_take_and_what_is_secret(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as here:
        here.app.receivers.table = {"slack": ChannelEntry("x:y", "no_such_library", "slack")}
        rows = {one["id"]: one for one in (await here.call("channels.forms"))["channels"]}
    needed = {name: {f["key"]: f["secret"] for f in row["fields"] if f["required"]} for name, row in rows.items()}
    assert needed["telegram"] == {"botToken": True} and needed["irc"] == {"host": False, "nick": False}
    assert rows["slack"]["missing"] == "pal extras add slack" and not rows["irc"]["missing"]
    others = {one["key"]: one["kind"] for one in rows["irc"]["fields"] if not one["required"]}
    assert {"port": "number", "tls": "flag", "channels": "texts", "nickserv": "object"}.items() <= others.items()
    assert not needed["whatsapp"] and "spool" not in rows and not rows["irc"]["added"]
    assert set(CHANNELS) - {"spool"} <= set(rows)  # none is forgotten


async def test_plugins_are_listed_without_running_them(tmp_path: Path) -> None:
    folder = tmp_path / "h" / "plugins" / "clock"
    folder.mkdir(parents=True)
    manifest = {"id": "clock", "description": "Tells the time", "configSchema": {"type": "object"}, "tools": ["now"]}
    (folder / "palinurus.plugin.json").write_text(json.dumps(manifest))
    (folder / "plugin.py").write_text("raise SystemExit('run')\n")
    async with place(tmp_path / "h") as here:
        (found,) = [one for one in (await here.call("plugins.list"))["plugins"] if one["id"] == "clock"]
    assert found["description"] == "Tells the time" and not found["enabled"] and found["reason"]

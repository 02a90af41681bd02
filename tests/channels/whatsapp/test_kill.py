"""kill -9 of a process between a send and its receipt. The library takes no ids of ours and cannot be asked: two
copies at most, and the trace says that nobody could know. The phone's side is a file that outlives the process.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

CHILD = """
import asyncio, json, os, sys
from palinurus import crashpoints
from palinurus.app import App
from palinurus.channels.whatsapp.channel import WhatsAppChannel
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.platform import make_channel_kit
from palinurus.testing.whatsapp import FakeWhatsAppClient, FakeWhatsApp

home, crash = sys.argv[1:]
people = FakeWhatsApp()


class Kept(FakeWhatsAppClient):
    async def send(self, to, post):
        ident = await super().send(to, post)
        with open(os.path.join(home, "phone"), "a") as out:
            out.write(post.text + "\\n")
            os.fsync(out.fileno())
        return ident


async def main():
    crashpoints.arm_crashpoint(crash)
    channel = WhatsAppChannel(make_channel_kit("whatsapp", home, {}), Kept(people))
    model = ScriptedModel([say("Hello there." if crash else "And again.")])
    settings = load_config(home, {}).settings
    app = App(settings, {"HOME": home}, SystemClock(), model=model, channels={"whatsapp": channel})
    await app.start()
    if not crash:  # what is left over goes first
        while True:
            with open(os.path.join(home, "phone")) as phone:
                if len(phone.readlines()) > 1:
                    break
            await asyncio.sleep(0.01)
    await people.say("hello" if crash else "still there?", event="A" if crash else "B")
    while not any(one["text"] == "And again." for one in people.seen):
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.1)
    await app.stop()

asyncio.run(asyncio.wait_for(main(), 60))
"""
CONFIG = """{
  models: {providers: {fake: {baseUrl: "http://127.0.0.1:9/v1", apiKey: "k", models: [{id: "m"}]}}},
  agents: {defaults: {model: {primary: "fake/m"}}},
  channels: {whatsapp: {dmPolicy: "allowlist", allowFrom: ["+4915551111111"]}}
}"""


@pytest.mark.torture
def test_a_reply_whose_receipt_was_lost_is_seen_twice_at_most(tmp_path: Path) -> None:
    (tmp_path / "palinurus.json").write_text(CONFIG)
    for crash, code in (("outbox.sent:1", 137), ("", 0)):
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(tmp_path), crash], capture_output=True, timeout=60, check=False
        )
        assert done.returncode == code, done.stderr.decode()[-2000:]
    assert (tmp_path / "phone").read_text().splitlines() == ["Hello there.", "Hello there.", "And again."]
    with closing(sqlite3.connect(tmp_path / "state.db")) as conn:
        told = [f"{what} {detail}" for what, detail in conn.execute("SELECT what, detail FROM steps ORDER BY item, n")]
    assert any("not known" in line or "uncertain" in line for line in told), told

"""A channel made of files, for scripts and for tests: drop a message into `in/`, read replies from `out.jsonl`.

Inbound: a JSON file {"id", "from", "to", "text"} renamed into <dir>/in/; deleted once it is accepted. Files that
cannot be understood move to <dir>/bad/ with the reason beside them. Outbound: one JSON line per reply. `find`
reads the log back, so a reply whose receipt was lost is not written twice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os

from palinurus.channels.kit import BasicChannel, ChannelKit
from palinurus.core.types.channel import ChannelAbilities, SendFailure, SendReceipt, SendResult, SubmitInbound
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.outbound import Reply
from palinurus.crashpoints import pass_crashpoint
from palinurus.errors import BadRequest, PalinurusError

log = logging.getLogger(__name__)

MAX_FILE = 2_000_000
LOOK = 0.2  # seconds between looks into the folder


class SpoolChannel(BasicChannel):
    """Implements `Channel`. Raises ConfigError without a folder."""

    name = "spool"
    abilities = ChannelAbilities("markdown", limit=1_000_000)  # a file has room for any answer

    def __init__(self, kit: ChannelKit) -> None:
        super().__init__()
        if not kit.text("dir"):
            raise kit.wrong("dir", hint='set it to a folder, e.g. "~/spool"')
        folder = os.path.expanduser(kit.text("dir"))
        self._in = os.path.join(folder, "in")
        self._bad = os.path.join(folder, "bad")
        self._out = os.path.join(folder, "out.jsonl")
        self._clock = kit.clock
        self._look = kit.number("pollSeconds", LOOK)

    async def run(self, submit: SubmitInbound) -> None:
        for folder in (self._in, self._bad):
            os.makedirs(folder, mode=0o700, exist_ok=True)
        self.set_status("ready")
        while True:
            for name in sorted(os.listdir(self._in)):
                if not name.startswith("."):
                    await self._take(name, submit)
            await self._clock.sleep(self._look)

    async def _take(self, name: str, submit: SubmitInbound) -> None:
        path = os.path.join(self._in, name)
        try:
            await submit(_inbound(path, name))
        except (BadRequest, ValueError, KeyError, TypeError, OSError) as exc:
            log.warning("spool: %s set aside: %s", name, exc)
            self._set_aside(name, str(exc))
        except PalinurusError as exc:  # full, draining: the file stays and is tried again
            log.warning("spool: %s waits: %s", name, exc.message)
        else:
            os.unlink(path)
            pass_crashpoint("accept.acked")

    def _set_aside(self, name: str, why: str) -> None:
        os.replace(os.path.join(self._in, name), os.path.join(self._bad, name))
        with open(os.path.join(self._bad, name + ".why"), "w", encoding="utf-8") as out:
            out.write(f"{why}\n")

    async def send(self, reply: Reply) -> SendResult:
        row = {"client_id": reply.client_id, "to": reply.target.to, "text": reply.text, "kind": reply.kind}
        try:
            await asyncio.to_thread(_append, self._out, json.dumps(row) + "\n")
        except OSError as exc:
            # the line may be there: a disk that fails to sync has often written
            return SendFailure(f"cannot write {self._out}: {exc.strerror}", "cut")
        return SendReceipt(reply.client_id)

    async def find(self, reply: Reply) -> SendReceipt | None:
        needle = f'"client_id": {json.dumps(reply.client_id)}'
        return SendReceipt(reply.client_id) if await asyncio.to_thread(_contains, self._out, needle) else None


def _append(path: str, line: str) -> None:
    with open(path, "a", encoding="utf-8") as out:
        out.write(line)
        out.flush()
        os.fsync(out.fileno())


def _contains(path: str, needle: str) -> bool:
    try:
        with open(path, encoding="utf-8", errors="replace") as lines:
            return any(needle in line for line in lines)
    except FileNotFoundError:
        return False


def _inbound(path: str, name: str) -> Inbound:
    if os.path.getsize(path) > MAX_FILE:
        raise ValueError(f"larger than {MAX_FILE:,} bytes")
    with open(path, encoding="utf-8") as source:
        data = json.load(source)
    if not isinstance(data, dict):
        raise ValueError("not a JSON object")
    sender = str(data.get("from", "spool"))
    return Inbound(
        Target("spool", str(data.get("to", sender))),
        # The folder belongs to the owner (mode 0700): who can write there already is the owner.
        Sender(sender, owner=True),
        str(data.get("id", name)),
        str(data["text"]),
        at=int(os.path.getmtime(path) * 1000),
        session=str(data.get("session", "")),
    )

"""The walk of one message in docs/tour.md is the one that a message takes."""

from __future__ import annotations

import asyncio
import os
import re
import sys
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import palinurus
from channels.scene import until
from channels.telegram.world import running
from palinurus.core.levels import parse
from palinurus.testing.model import ScriptedModel, say
from palinurus.testing.telegram.server import FakeTelegram

ROOT = os.path.dirname(palinurus.__file__) + os.sep
LAST = ("outbox/deliver.py", "_Worker._over")
TOUR = Path(__file__).parents[3] / "docs" / "tour.md"


class Watch:
    """Which functions of ours were called, in the order of their first calls, and how often."""

    def __init__(self) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT):
            self.calls[code.co_filename.removeprefix(ROOT), code.co_qualname] += 1

    def __enter__(self) -> Watch:
        threading.setprofile(self)
        sys.setprofile(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        threading.setprofile(None)


async def test_the_walk_of_the_tour_is_the_one_a_message_takes(tmp_path: Path) -> None:
    section = TOUR.read_text(encoding="utf-8").partition("## One Telegram message")[2]
    steps = re.findall(r"^\d+\. `([\w/]+\.py): ([\w.]+)`", section, re.MULTILINE)
    assert 40 < len(steps) <= 50
    async with FakeTelegram() as fake:
        model = ScriptedModel([say("first"), say("second")])
        async with running(tmp_path / "h", model, fake):
            for text, read in (("one", 1), ("two", 2)):  # at the first, some parts are still being made
                with Watch() as watch:
                    await fake.say(text)
                    await until(lambda read=read, watch=watch: len(fake.read()) == read and LAST in watch.calls)
                await asyncio.sleep(0.05)  # whoever follows the receipt has run
    assert [step for step in steps if step not in watch.calls] == []
    order = list(watch.calls)
    assert sorted(steps, key=order.index) == steps
    # Each thing is decided once.
    assert watch.calls["inbox/route.py", "route_inbound"] == 1
    assert watch.calls["core/levels/parse.py", parse.parse_directives.__name__] <= 1

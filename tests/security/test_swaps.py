"""F1: the gateway opens files of a workspace only by handle. A link that is swapped in between check and opening leads
to an error, never to what lies outside; the owner of the swap is a contained command.
"""

from __future__ import annotations

import base64
import os
import sys
from collections.abc import Callable
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.host import settings
from palinurus import beneath
from palinurus.agent.plan.opening import read_startup_notes
from palinurus.app.media import ChannelFiles
from palinurus.clock import SystemClock
from palinurus.config.sections.session import SkillSettings
from palinurus.gateway.methods import agents
from palinurus.gateway.page import read_workspace_media
from palinurus.gateway.rpc import MethodError
from palinurus.inbox.commands.export import write_export
from palinurus.services.subagents.spawn import remove_attachments, write_attachments
from palinurus.tools.web.egress import EgressGuard
from palinurus.triggers.heartbeat import read_orders
from palinurus.workspace.discovery import SkillRoot, scan_skills
from palinurus.workspace.images import ImageLimits, find_images
from palinurus.workspace.memory.files import MemoryRoots
from palinurus.workspace.texts import FileTexts
from swaps import exchange, swap_at_every_opening, swapping_all_the_time


@pytest.fixture(params=[True, False], ids=["openat2", "step by step"], autouse=True)
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs an atomic exchange of two names")
SECRET = "the key of the gateway"
PICTURE = b"\x89PNG\r\n\x1a\n"
DAY = 1_700_000_000_000  # 14 November 2023


class Place:
    """A workspace with a file `d/a.png` and so on, and the same names outside, where the secret is."""

    def __init__(self, top: Path, name: str) -> None:
        self.inside, self.outside = top / "workspace", top / "outside"
        self.name = name
        for folder, text in ((self.inside, b"mine"), (self.outside, SECRET.encode())):
            (folder / name).parent.mkdir(parents=True)
            head = PICTURE if name.endswith(".png") else b"---\nname: x\ndescription: %s\n---\n" % text
            (folder / name).write_bytes(head * name.endswith(("png", "SKILL.md")) + text)
        self.top = name.partition("/")[0]
        self.file, self.link = self.inside / self.top, self.inside / ".swap"
        self.link.symlink_to(self.outside / self.top)


def load_reply(place: Place) -> Any:
    door: Any = EgressGuard
    files = ChannelFiles(str(place.outside), (str(place.inside),), 1 << 20, door, clock=SystemClock())
    return files.load(str(place.inside / place.name), 1 << 20)


def show_media(place: Place) -> Any:
    base = settings(str(place.outside))
    own = {k: msgspec.structs.replace(a, workspace=str(place.inside)) for k, a in base.agents.items()}
    return read_workspace_media(place.name, msgspec.structs.replace(base, agents=own))


def load_images(place: Place) -> Any:
    return find_images(f"look at {place.inside}/{place.name}", str(place.inside), ImageLimits())


def agent_file(place: Place) -> Any:
    try:
        return agents.read_workspace_text(str(place.inside), place.name)
    except MethodError as exc:
        return exc


def skills(place: Place) -> Any:
    return scan_skills((SkillRoot("workspace", str(place.inside / "skills"), str(place.inside)),), SkillSettings())


def memory(place: Place) -> Any:
    roots = MemoryRoots(str(place.inside))
    return roots.read(str(place.inside / place.name))


READERS: list[tuple[str, str, Callable[[Place], Any]]] = [
    ("a reply's file", "a.png", load_reply),
    ("a reply's file, its folder", "d/a.png", load_reply),
    ("the page's file", "a.png", show_media),
    ("the page's file, its folder", "d/a.png", show_media),
    ("a prompt file", "AGENTS.md", lambda p: FileTexts().read(str(p.inside), p.name)),
    ("an image", "a.png", load_images),
    ("an image, its folder", "d/e/a.png", load_images),
    ("an agent's file", "SOUL.md", agent_file),
    ("notes of the day", "memory/2023-11-14.md", lambda p: read_startup_notes(str(p.inside), DAY, UTC)),
    ("the heartbeat's orders", "HEARTBEAT.md", lambda p: read_orders(str(p.inside))),
    ("a skill", "skills/x/SKILL.md", skills),
    ("memory", "memory/a.md", memory),
    ("long memory", "MEMORY.md", memory),
]


@pytest.mark.parametrize(("name", "read"), [row[1:] for row in READERS], ids=[row[0] for row in READERS])
async def test_no_reader_follows_what_was_swapped_in(tmp_path: Path, name: str, read: Callable[[Place], Any]) -> None:
    place = Place(tmp_path, name)
    results = await swap_at_every_opening(place.inside, lambda: read(place), place.file, place.link)
    assert len(results) > 1 and "mine" in _told(results[-1])  # undisturbed, it is read
    assert not [one for one in results if SECRET in _told(one)]


@pytest.mark.parametrize(("name", "read"), [row[1:] for row in READERS], ids=[row[0] for row in READERS])
async def test_no_reader_follows_a_link_that_stands_there(
    tmp_path: Path, name: str, read: Callable[[Place], Any]
) -> None:
    place = Place(tmp_path, name)
    exchange(place.file, place.link)
    try:
        made = read(place)
        found = await made if hasattr(made, "__await__") else made
    except OSError as exc:
        found = exc
    assert SECRET not in _told(found)


def _told(found: Any) -> str:
    """Everything in a result, pictures unpacked."""
    images = getattr(found, "images", ())
    return repr(found) + "".join(base64.b64decode(one.data).decode("latin-1") for one in images)


def export(place: Place) -> Any:
    return write_export(str(place.inside), "session-x.md", "words")


def attach(place: Place) -> Any:
    return write_attachments(str(place.inside), "run", {"a.txt": b"words"})


def set_file(place: Place) -> Any:
    try:
        return agents.write_workspace_text(str(place.inside), "SOUL.md", "words")
    except MethodError as exc:
        return exc


def remember(place: Place) -> Any:
    roots = MemoryRoots(str(place.inside))
    roots.replace(str(place.inside / "memory" / "new.md"), b"words")


WRITERS: list[tuple[str, str, Callable[[Place], Any]]] = [
    ("/export", "exports/x", export),
    ("a sub-agent's files", ".attachments/x", attach),
    ("an agent's file", "SOUL.md", set_file),
    ("memory", "memory/x", remember),
]


@pytest.mark.parametrize(("name", "write"), [row[1:] for row in WRITERS], ids=[row[0] for row in WRITERS])
async def test_no_writer_follows_what_was_swapped_in(tmp_path: Path, name: str, write: Callable[[Place], Any]) -> None:
    place = Place(tmp_path, name)

    def once() -> Any:
        remove_attachments(str(place.inside / ".attachments" / "run"))
        return write(place)

    results = await swap_at_every_opening(place.inside, once, place.file, place.link)
    assert len(results) > 1
    there = [os.path.join(folder, file) for folder, _, files in os.walk(place.outside) for file in files]
    assert there == [str(place.outside / name)]
    assert (place.outside / name).read_text() == SECRET


async def test_a_swapper_that_never_rests(tmp_path: Path) -> None:
    """The finding as it was: `MEDIA:` of a file that a background command exchanges with a link, many times."""
    place = Place(tmp_path, "a.png")
    with swapping_all_the_time(place.file, place.link):
        found = [await load_reply(place) for _ in range(400)]
    assert not [one for one in found if SECRET in repr(one)]

"""The files of a workspace: what becomes of each in a prompt, at the limits and where it is missing; who makes them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from flow.test_app import running
from flow.test_directives import tell
from flow.test_prompt import sections
from nursery import run_program
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel

ALL = ("AGENTS", "SOUL", "IDENTITY", "USER", "TOOLS", "MEMORY")


async def prompts(home: Path, files: dict[str, str], *said: str, **defaults: Any) -> list[dict[str, str]]:
    """The sections of each request, with these files in the workspace."""
    for name, text in files.items():
        path = home / "workspace" / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    model = ScriptedModel(["ok"], repeat=True)
    agents = {"defaults": {"model": "fake/m", **defaults}}
    async with running(home, model, FakeChannel(), agents=agents) as app:
        for text in said or ("hi",):
            await tell(app, text)
    assert {name: (home / "workspace" / f"{name}.md").read_text() for name in files} == files  # on disk they are whole
    return [sections(request) for request in model.requests]


@pytest.mark.seed(246, 248, 250, 252, 267)
@pytest.mark.parametrize(
    ("size", "limit", "cut"), [(12_000, None, False), (12_001, None, True), (50_000, None, True), (401, 400, True)]
)
async def test_a_file_at_its_limit_and_beyond(tmp_path: Path, size: int, limit: int | None, cut: bool) -> None:
    more = {"bootstrapMaxChars": limit} if limit else {}
    (found,) = await prompts(tmp_path / "h", {"AGENTS": "ü" * size}, **more)
    shown = found["AGENTS.md"].strip()
    assert ("AGENTS.md is shortened here: read the file for the rest" in shown) is cut
    assert len(shown) == size if not cut else (limit or 12_000) - 2 <= len(shown) <= (limit or 12_000)
    assert ("Bootstrap Context Notice" in found) is cut and str(size) not in "".join(found.values())


@pytest.mark.seed(247, 252)
@pytest.mark.parametrize("total", [None, 30_000])
async def test_all_files_together_have_a_limit(tmp_path: Path, total: int | None) -> None:
    more = {"bootstrapTotalMaxChars": total} if total else {}
    (found,) = await prompts(tmp_path / "h", dict.fromkeys(ALL, "é" * 12000), **more)
    most = total or 60_000
    assert most - 200 < sum(text.count("é") for text in found.values()) <= most
    assert "MEMORY.md" in found["Bootstrap Context Notice"]


@pytest.mark.seed(250)
@pytest.mark.parametrize(("word", "warned"), [(None, [1, 1]), ("always", [1, 1]), ("once", [1, 0]), ("off", [0, 0])])
async def test_how_often_it_is_said_that_a_file_is_cut(tmp_path: Path, word: str | None, warned: list[int]) -> None:
    more = {"bootstrapPromptTruncationWarning": word} if word else {}
    found = await prompts(tmp_path / "h", {"AGENTS": "x" * 20_000}, "hi", "again", **more)
    assert ["Bootstrap Context Notice" in one for one in found] == warned


@pytest.mark.seed(238, 244, 249, 266, 268, 270)
async def test_missing_blank_optional_and_pending_files(tmp_path: Path) -> None:
    files = {"SOUL": " \n\t", "MEMORY": "kept", "memory/2026-06-01": "daily", "BOOTSTRAP": "the ritual"}
    (found,) = await prompts(tmp_path / "h", files)
    folder = tmp_path / "h" / "workspace"
    for name in ("AGENTS", "TOOLS", "IDENTITY", "USER", "HEARTBEAT"):
        assert found[f"{name}.md"].strip() == f"[MISSING] Expected at: {folder}/{name}.md"
    assert "SOUL.md" not in found and found["MEMORY.md"].strip() == "kept" and "daily" not in "".join(found.values())
    assert found["BOOTSTRAP.md"].strip() == "the ritual" and "delete BOOTSTRAP.md" in found["Bootstrap Pending"]
    (bare,) = await prompts(tmp_path / "i", {"AGENTS": "x"})
    assert not {"BOOTSTRAP.md", "Bootstrap Pending", "MEMORY.md"} & set(bare)


@pytest.mark.seed(187, 213, 243)
@pytest.mark.parametrize(
    ("heartbeat", "there"), [({}, True), ({"every": "0m"}, False), ({"includeSystemPromptSection": False}, False)]
)
async def test_heartbeats_and_their_file_go_together(tmp_path: Path, heartbeat: dict[str, Any], there: bool) -> None:
    (found,) = await prompts(tmp_path / "h", {"HEARTBEAT": "look at the cellar"}, heartbeat=heartbeat)
    assert ("HEARTBEAT.md" in found) is there and ("Heartbeats" in found) is there


@pytest.mark.seed(261, 264, 268, 269, 271, 272)
def test_setup_makes_the_files_of_a_new_workspace_once(tmp_path: Path) -> None:
    def setup(home: Path) -> set[str]:
        env = {"PALINURUS_HOME": str(home), "HOME": str(home.parent), "PATH": "/usr/bin:/bin"}
        assert run_program("setup", "--non-interactive", env=env).returncode == 0
        assert (home / "palinurus.json").is_file()
        return {path.stem for path in (home / "workspace").glob("*.md")}

    every = {"AGENTS", "SOUL", "TOOLS", "IDENTITY", "USER", "BOOTSTRAP", "HEARTBEAT"}
    assert setup(tmp_path / "new") == every
    (tmp_path / "new" / "workspace" / "BOOTSTRAP.md").unlink()
    (tmp_path / "new" / "workspace" / "USER.md").write_text("mine")
    assert setup(tmp_path / "new") == every - {"BOOTSTRAP"}  # the first conversation is over
    assert (tmp_path / "new" / "workspace" / "USER.md").read_text() == "mine"
    for name, text in (("used", ""), ("seeded", "{agents: {defaults: {skipBootstrap: true}}}")):
        home = tmp_path / name
        (home / "workspace").mkdir(parents=True)
        home.chmod(0o700)
        (home / "palinurus.json").write_text(text or "{}")
        if name == "used":
            (home / "workspace" / "AGENTS.md").write_text("mine")
        assert setup(home) == (every - {"BOOTSTRAP"} if name == "used" else set())
    said = (tmp_path / "new" / "workspace" / "AGENTS.md").read_text()
    assert re.search(r"MEMORY\.md|memory/", said)

"""Where tools may go: the escapes of the security catalogue (S9, S10), every file tool against a canary."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from palinurus import beneath
from palinurus.core.folders import is_inside
from palinurus.core.types.sandbox import ContainerMount, ContainerSpec, SandboxSpec
from palinurus.core.types.tool import ToolFailure, ToolSettings
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path

SECRET = "canary-7f3a"

ESCAPES = [
    "../canary/secret",
    "a/../../canary/secret",
    "{canary}/secret",
    "~/../canary/secret",
    "/proc/self/root{canary}/secret",
    "/proc/self/cwd/../{canary}/secret",
    "/proc/thread-self/root{canary}/secret",
    "link/secret",
    "file-link",
    "chain",
    "link/../canary/secret",
]
ODD_NAMES = ["%2e%2e/canary/secret", "..\\canary\\secret", "..\u2044canary\u2044secret", "secret ", "secret."]
REFUSED = [
    "../canary/secret\x00.txt",
    "a" * 5000,
    "x/" * 3000,
]


@pytest.fixture
def canary(tmp_path: Path, workspace: Path) -> Path:
    folder = tmp_path / "canary"
    folder.mkdir()
    (folder / "secret").write_text(SECRET)
    (workspace / "a").mkdir()
    (workspace / "link").symlink_to(folder)
    (workspace / "file-link").symlink_to(folder / "secret")
    (workspace / "chain").symlink_to("file-link")
    return folder


@pytest.mark.parametrize("path", ESCAPES + REFUSED + ODD_NAMES)
async def test_nothing_leaves_the_workspace(do: Any, ctx: Any, canary: Path, path: str) -> None:
    ctx.set(workspace_only=True)
    path = path.format(canary=canary) if "{" in path else path
    for name, args in (
        ("read", {}),
        ("write", {"content": "owned"}),
        ("edit", {"edits": [{"oldText": SECRET, "newText": "owned"}]}),
        ("ls", {}),
    ):
        result = await do(name, path=path, **args)
        assert SECRET not in result.text
        assert result.isError or path in ODD_NAMES, (name, path, result.text)  # these are names like any other
    assert (canary / "secret").read_text() == SECRET
    assert os.listdir(canary) == ["secret"]


@pytest.mark.parametrize("path", [*ESCAPES[:4], "link", "file-link", "/proc/self/root{canary}"])
async def test_searches_do_not_leave_the_workspace(do: Any, ctx: Any, canary: Path, path: str) -> None:
    ctx.set(workspace_only=True)
    path = path.format(canary=canary)
    for name, args in (("grep", {"pattern": "canary"}), ("find", {"pattern": "*"})):
        result = await do(name, path=path, **args)
        assert result.isError and SECRET not in result.text
    # and a search that starts inside does not follow a link out
    assert SECRET not in (await do("grep", pattern="canary")).text


async def test_links_inside_the_workspace_are_fine(do: Any, ctx: Any, workspace: Path) -> None:
    ctx.set(workspace_only=True)
    (workspace / "real").mkdir()
    (workspace / "real" / "f").write_text("x")
    (workspace / "abs").symlink_to(workspace / "real")
    (workspace / "f").symlink_to("real/f")
    assert (await do("read", path="abs/f")).text == "x"
    await do("write", path="f", content="new")
    assert (workspace / "real" / "f").read_text() == "new"
    assert (workspace / "f").is_symlink()  # the link stays a link


async def test_without_the_limit_other_folders_are_open(do: Any, canary: Path, workspace: Path) -> None:
    assert (await do("read", path="../canary/secret")).text == SECRET
    assert (await do("read", path=str(canary / "secret"))).text == SECRET
    assert (await do("write", path="~/from-home", content="x")).isError is False
    assert (workspace / "from-home").exists()  # HOME of the test is the workspace


async def test_hard_links_keep_the_outside_file(do: Any, ctx: Any, canary: Path, workspace: Path) -> None:
    ctx.set(workspace_only=True)
    os.link(canary / "secret", workspace / "hard")
    await do("write", path="hard", content="owned")
    await do("edit", path="hard", edits=[{"oldText": "owned", "newText": "twice"}])
    assert (workspace / "hard").read_text() == "twice"
    assert (canary / "secret").read_text() == SECRET


@pytest.mark.parametrize(
    "path", ["{state}/palinurus.json", "{state}", "state-link/palinurus.json", "../state/x/../palinurus.json"]
)
async def test_the_state_directory_is_closed(do: Any, ctx: Any, tmp_path: Path, workspace: Path, path: str) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "palinurus.json").write_text(SECRET)
    (workspace / "state-link").symlink_to(state)
    ctx.set(protected=(str(state),))
    path = path.format(state=state)
    for name, args in (
        ("read", {}),
        ("write", {"content": "owned"}),
        ("edit", {"edits": [{"oldText": SECRET, "newText": "owned"}]}),
        ("ls", {}),
        ("grep", {"pattern": "."}),
        ("find", {"pattern": "*"}),
    ):
        result = await do(name, path=path, **args)
        assert result.isError and "own state" in result.text and SECRET not in result.text
    assert (state / "palinurus.json").read_text() == SECRET


async def test_a_protected_path_may_itself_be_a_link(do: Any, ctx: Any, tmp_path: Path) -> None:
    (tmp_path / "real-state").mkdir()
    (tmp_path / "real-state" / "key").write_text(SECRET)
    (tmp_path / "state").symlink_to(tmp_path / "real-state")
    ctx.set(protected=(str(tmp_path / "state"),))
    assert (await do("read", path="../real-state/key")).isError


async def test_searches_from_above_leave_the_state_directory_out(do: Any, ctx: Any, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "key").write_text(SECRET)
    (tmp_path / "other").write_text("canary too")
    ctx.set(protected=(str(tmp_path / "state"),))
    assert (await do("grep", pattern="canary", path="..")).text == "../other:1: canary too"
    assert "key" not in (await do("find", pattern="*", path="..")).text


async def test_a_workspace_inside_the_state_directory_is_open(
    do: Any, ctx: Any, tmp_path: Path, workspace: Path
) -> None:
    (tmp_path / "state.db").write_text(SECRET)
    ctx.set(protected=(str(tmp_path),))
    assert not (await do("write", path="note", content="x")).isError
    assert (await do("read", path="note")).text == "x"
    assert (await do("read", path="../state.db")).isError


@pytest.mark.parametrize(
    "path", ["/proc/self/environ", "/proc/self/mem", "/proc/{pid}/environ", "/proc/{pid}/fd/0", "/proc/kcore"]
)
async def test_live_views_into_processes_are_refused(do: Any, path: str) -> None:
    result = await do("read", path=path.format(pid=os.getpid()))
    assert result.isError


async def test_devices_pipes_and_sockets_are_refused_without_blocking(do: Any, workspace: Path) -> None:
    os.mkfifo(workspace / "pipe")
    for path in ("pipe", "/dev/zero", "/dev/null"):
        for name, args in (
            ("read", {}),
            ("write", {"content": "x"}),
            ("edit", {"edits": [{"oldText": "a", "newText": "b"}]}),
        ):
            result = await do(name, path=path, **args)
            assert result.isError and ("a pipe" in result.text or "a device" in result.text)
    assert (workspace / "pipe").is_fifo()


async def test_link_loops(do: Any, workspace: Path) -> None:
    (workspace / "loop").symlink_to("loop")
    result = await do("read", path="loop")
    assert result.isError and "symbolic link" in result.text


def test_a_folder_swapped_for_a_link_after_the_judgement_is_not_followed(
    ctx: Any, workspace: Path, canary: Path
) -> None:
    (workspace / "dir").mkdir()
    ctx.set(workspace_only=True)
    place = resolve_path("dir/secret", ctx)
    (workspace / "dir").rmdir()
    (workspace / "dir").symlink_to(canary)
    with pytest.raises(ToolFailure):
        handles.replace_file(place, b"owned")
    with pytest.raises(ToolFailure), handles.open_file(place):
        pass
    assert (canary / "secret").read_text() == SECRET


@pytest.mark.skipif(sys.platform != "linux", reason="needs an atomic exchange of two names")
async def test_a_swapping_attacker_never_reaches_the_canary(do: Any, ctx: Any, workspace: Path, canary: Path) -> None:
    ctx.set(workspace_only=True)
    (workspace / "d").mkdir()
    (workspace / "e").symlink_to(canary)
    names = (os.fsencode(workspace / "d"), os.fsencode(workspace / "e"))
    exchange = ctypes.CDLL(None).renameat2
    stop, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            assert exchange(-100, names[0], -100, names[1], 2) == 0
            swaps += 1

    thread = threading.Thread(target=swap)
    thread.start()
    outcomes = set()
    try:
        for _ in range(300):
            outcomes.add((await do("write", path="d/secret", content="owned")).isError)
            assert SECRET not in (await do("read", path="d/secret")).text
    finally:
        stop.set()
        thread.join()
    assert swaps > 300 and outcomes == {True, False}  # both sides of the race were seen
    assert (canary / "secret").read_text() == SECRET
    assert os.listdir(canary) == ["secret"]
    real = workspace / ("e" if (workspace / "d").is_symlink() else "d")
    assert os.listdir(real) == ["secret"]  # and nothing half-written is left behind


@pytest.mark.parametrize("path", ["", "   ", "a\x00b", "\ud800", "a" * 4097])
def test_what_no_path_can_be(ctx: Any, path: str) -> None:
    with pytest.raises(ToolFailure, match="path"):
        resolve_path(path, ctx)


def test_inside() -> None:
    assert is_inside("/a/b", "/a") and is_inside("/a", "/a") and is_inside("/a", "/")
    assert not is_inside("/ab", "/a") and not is_inside("/", "/a")


async def test_installed_skills_may_be_read_and_not_written(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "skills" / "one").mkdir(parents=True)
    (home / "skills" / "one" / "SKILL.md").write_text("do this")
    (home / "secret").write_text("no")
    (home / "skills" / "out").symlink_to(home / "secret")
    (tmp_path / "ws").mkdir()
    settings = ToolSettings(protected=(str(home),), readable=(str(home / "skills"),))
    ctx = type("Ctx", (), {"workspace": str(tmp_path / "ws"), "settings": settings})()
    skill = str(home / "skills" / "one" / "SKILL.md")
    assert resolve_path(skill, ctx, reading=True).real == skill
    for path, reading in ((skill, False), (str(home / "secret"), True), (str(home / "skills" / "out"), True)):
        with pytest.raises(ToolFailure):
            resolve_path(path, ctx, reading=reading)


# the cell: file tools have the same bounds as commands

FORMS = [
    "../canary/secret", "./../canary/secret", "a/../../canary/secret", "a/b/../../../canary/secret",
    "../../{top}/canary/secret", "{canary}/secret", "{canary}//secret", "{canary}/./secret",
    "{canary}/../canary/secret", "//{canary}/secret", "///{canary}/secret", "/{canary}/secret",
    "/.{canary}/secret", "/..{canary}/secret",
    "/../..{canary}/secret", "~/../canary/secret", "~/a/../../canary/secret", "{workspace}/../canary/secret",
    "{workspace}/a/../../canary/secret", "{workspace}/link/secret", "{workspace}/./link/secret",
    "link/secret", "./link/secret", "link//secret", "link/./secret", "link/../canary/secret", "a/../link/secret",
    "a/deep/secret", "a/deep/../deep/secret", "up/canary/secret", "up/./canary/secret", "root{canary}/secret",
    "file-link", "./file-link", "chain", "chain-2", "a/../chain", "relative-link", "home/../canary/secret",
    "/proc/self/root{canary}/secret", "/proc/self/cwd/../canary/secret", "/proc/thread-self/root{canary}/secret",
    "/proc/1/root{canary}/secret", "/proc/self/fd/0/../../canary/secret", "/proc/self/environ", "/proc/self/mem",
    "/proc/1/environ", "/proc/self/map_files", "/dev/fd/0", "/dev/stdin", "/dev/mem", "/dev/sda", "/etc/shadow",
    "/etc/../etc/shadow", "/home", "/", "//", "/..", "..", "../",
    "../workspace-2/secret", "{workspace}-2/secret", "{workspace}/../workspace-2/secret", "/tmp", "/var/log",
    "{canary}/secret\n", "{canary}/secret/", "{canary}", "link", "up", "link/new", "up/new", "{canary}/new",
]  # fmt: skip


@pytest.fixture
def walled(ctx: Any, canary: Path, workspace: Path, tmp_path: Path) -> Any:
    """Only the workspace may be used, and one folder read."""
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "page").write_text("readable")
    (tmp_path / "workspace-2").mkdir()
    (tmp_path / "workspace-2" / "secret").write_text(SECRET)
    (workspace / "a" / "b").mkdir()
    (workspace / "a" / "deep").symlink_to(canary)
    (workspace / "up").symlink_to("..")
    (workspace / "root").symlink_to("/")
    (workspace / "home").symlink_to(workspace)
    (workspace / "chain-2").symlink_to("chain")
    (workspace / "relative-link").symlink_to("../canary/secret")
    return ctx.set(cell=SandboxSpec("landlock", (str(tmp_path / "open"),), (str(workspace),)))


def attempts(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("read", {"path": path}),
        ("write", {"path": path, "content": "owned"}),
        ("edit", {"path": path, "edits": [{"oldText": SECRET, "newText": "owned"}]}),
        ("ls", {"path": path}),
        ("grep", {"path": path, "pattern": "canary"}),
        ("find", {"path": path, "pattern": "*"}),
        ("apply_patch", {"input": f"*** Begin Patch\n*** Add File: {path.strip()}\n+owned\n*** End Patch"}),
        ("apply_patch", {"input": f"*** Begin Patch\n*** Delete File: {path.strip()}\n*** End Patch"}),
    ]


def test_there_are_enough_forms() -> None:
    assert len(set(FORMS)) >= 60


@pytest.mark.parametrize("form", FORMS)
async def test_no_form_of_a_path_leaves_the_cell(
    do: Any, walled: Any, canary: Path, workspace: Path, tmp_path: Path, form: str
) -> None:
    path = form.format(canary=canary, workspace=workspace, top=tmp_path.name)
    for name, args in attempts(path):
        result = await do(name, **args)
        assert result.isError and SECRET not in result.text, (name, path, result.text)
    assert (canary / "secret").read_text() == (tmp_path / "workspace-2" / "secret").read_text() == SECRET
    assert os.listdir(canary) == ["secret"] and not os.path.exists("/new")


async def test_the_cell_says_what_would_open_a_folder(do: Any, walled: Any, tmp_path: Path, workspace: Path) -> None:
    page = str(tmp_path / "open" / "page")
    assert (await do("read", path=page)).text == "readable"
    assert "page:1: readable" in (await do("grep", path=str(tmp_path / "open"), pattern="read")).text
    refused = await do("write", path=page, content="x")
    assert refused.isError and "may be read but not changed" in refused.text
    outside = await do("read", path=str(tmp_path / "elsewhere"))
    assert outside.isError and "agents.defaults.sandbox.read" in outside.text
    assert not (await do("write", path="new/deep/file", content="fine")).isError
    assert (workspace / "new" / "deep" / "file").read_text() == "fine"


async def test_a_single_file_may_be_open(do: Any, walled: Any, tmp_path: Path, workspace: Path) -> None:
    walled.set(cell=SandboxSpec("landlock", (str(tmp_path / "open" / "page"),), (str(workspace),)))
    assert (await do("read", path=str(tmp_path / "open" / "page"))).text == "readable"
    assert (await do("ls", path=str(tmp_path / "open"))).isError


async def test_containers_show_folders_under_other_names(do: Any, walled: Any, workspace: Path) -> None:
    box = ContainerSpec("b", "i", mounts=(ContainerMount(str(workspace), "/workspace", True),))
    walled.set(cell=SandboxSpec("docker", (), (str(workspace),), box=box))
    assert not (await do("write", path="/workspace/x/y", content="inside")).isError
    assert (workspace / "x" / "y").read_text() == "inside"
    assert (await do("read", path="/workspace/./x/../x/y")).text == "inside"
    for path in ("/workspace/../etc/passwd", "/workspacex", "/workspace/link/secret", "/workspace/../../canary/secret"):
        assert (await do("read", path=path)).isError, path


async def test_bubblewrap_has_another_tmp(do: Any, walled: Any, workspace: Path) -> None:
    (workspace / "t").mkdir()
    walled.set(cell=SandboxSpec("bubblewrap", (), (str(workspace),), temporary=str(workspace / "t")))
    assert not (await do("write", path="/tmp/a/b", content="private")).isError
    assert (workspace / "t" / "a" / "b").read_text() == "private"
    assert not (await do("write", path=str(workspace / "c"), content="x")).isError  # wherever the workspace lies
    assert (workspace / "c").exists() and (await do("read", path="/tmp/../etc/passwd")).isError


@pytest.mark.skipif(sys.platform != "linux", reason="needs an atomic exchange of two names")
@pytest.mark.parametrize("kernel", [True, False], ids=["openat2", "step by step"])
async def test_a_swapping_attacker_against_every_tool(
    do: Any, walled: Any, workspace: Path, canary: Path, kernel: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kernel:
        monkeypatch.setattr(beneath, "has_openat2", lambda: False)
    (workspace / "d").mkdir()
    (workspace / "d" / "secret").write_text("mine")
    (workspace / "e").symlink_to(canary)
    names = (os.fsencode(workspace / "d"), os.fsencode(workspace / "e"))
    exchange = ctypes.CDLL(None).renameat2
    stop, swaps = threading.Event(), 0

    def swap() -> None:
        nonlocal swaps
        while not stop.is_set():
            exchange(-100, names[0], -100, names[1], 2)
            swaps += 1

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(60):
            for name, args in attempts("d/secret"):
                if name not in ("grep", "find"):  # a process each: a few of them are enough
                    assert SECRET not in (await do(name, **args)).text
        for _ in range(4):
            assert SECRET not in (await do("grep", path="d", pattern="canary")).text
    finally:
        stop.set()
        thread.join()
    assert swaps > 300
    assert (canary / "secret").read_text() == SECRET and os.listdir(canary) == ["secret"]

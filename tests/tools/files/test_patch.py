"""apply_patch on real files: all or nothing, inside the workspace, whatever the patch says."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from palinurus.tools.files.patch import MAX_FILES, MAX_PATCH, apply_patch


def patch(*lines: str) -> str:
    return "\n".join(("*** Begin Patch", *lines, "*** End Patch"))


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


@pytest.mark.seed(279)
async def test_add_change_move_and_delete_in_one_patch(do: Any, workspace: Path) -> None:
    (workspace / "a.txt").write_text("one\ntwo\n")
    (workspace / "b.txt").write_text("keep\nold\n")
    os.chmod(workspace / "b.txt", 0o640)
    (workspace / "c.txt").write_text("bye\n")
    result = await do(
        "apply_patch",
        input=patch(
            "*** Add File: sub/dir/new.txt", "+hello", "*** Update File: a.txt", "@@", " one", "-two", "+2",
            "*** Update File: b.txt", "*** Move to: moved/b.txt", "@@", "-old", "+new", "*** Delete File: c.txt",
        ),
    )  # fmt: skip
    assert not result.isError, result.text
    assert result.text.endswith("\nA sub/dir/new.txt\nM a.txt\nM moved/b.txt\nD c.txt")
    assert result.details == {
        "summary": {"added": ["sub/dir/new.txt"], "modified": ["a.txt", "moved/b.txt"], "deleted": ["c.txt"]}
    }
    assert (workspace / "moved" / "b.txt").stat().st_mode & 0o777 == 0o640
    assert tree(workspace) == {"a.txt": b"one\n2\n", "moved/b.txt": b"keep\nnew\n", "sub/dir/new.txt": b"hello\n"}


async def test_a_move_alone_and_changes_that_build_on_each_other(do: Any, workspace: Path) -> None:
    (workspace / "a").write_text("1\n")
    first = patch("*** Update File: a", "*** Move to: b", "*** Update File: b", "@@", "-1", "+2")
    assert not (await do("apply_patch", patch=first)).isError
    again = patch("*** Delete File: b", "*** Add File: b", "+3")
    assert not (await do("apply_patch", input=again)).isError
    assert tree(workspace) == {"b": b"3\n"}


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["*** Add File: a", "+x"], "a exists already"),
        (["*** Delete File: nope"], "nope does not exist"),
        (["*** Update File: nope", "@@", "-x"], "nope does not exist"),
        (["*** Update File: a", "@@", "-not there", "+x"], "a: these lines were not found:\nnot there"),
        (["*** Update File: a", "*** Move to: b", "@@", "-1", "+2"], "b exists already"),
        (["*** Delete File: sub"], "is a directory"),
        (["*** Update File: bin", "@@", "-x"], "binary file"),
        (["*** Delete File: a", "*** Update File: a", "@@", "-1", "+2"], "does not exist any more"),
        (["nonsense"], "cannot be read"),
    ],
)
async def test_if_one_thing_does_not_fit_nothing_is_changed(
    do: Any, workspace: Path, lines: list[str], says: str
) -> None:
    (workspace / "a").write_text("1\n")
    (workspace / "b").write_text("b\n")
    (workspace / "bin").write_bytes(b"\x00\x01" * 50)
    (workspace / "sub").mkdir()
    before = tree(workspace)
    good = ["*** Update File: b", "@@", "-b", "+changed", "*** Add File: fresh", "+x"]
    result = await do("apply_patch", input=patch(*good, *lines) if lines != ["nonsense"] else patch(*lines))
    assert result.isError and says in result.text and result.text.endswith("Nothing was changed")
    assert tree(workspace) == before


ESCAPES = [
    "../out", "../../etc/passwd", "/etc/passwd", "~/../../etc/passwd", "sub/../../out", "link/out", "link",
    "/proc/self/environ", "/dev/null", "file-link", "a\x00b", "x" * 5000, "..", ".", "/", "./../out", "link/../out2",
    "sub/./../../out", "/proc/self/root/etc/x",
]  # fmt: skip


@pytest.mark.parametrize("path", ESCAPES)
@pytest.mark.parametrize("how", ["add", "update", "delete", "move"])
async def test_nothing_outside_the_workspace_is_touched(do: Any, workspace: Path, path: str, how: str) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    for name in ("out", "canary"):
        (outside / name).write_text("canary\n")
    (workspace.parent / "out").write_text("canary\n")
    (workspace / "sub").mkdir()
    (workspace / "a").write_text("canary\n")
    (workspace / "link").symlink_to(outside)
    (workspace / "file-link").symlink_to(outside / "canary")
    before = tree(outside), (workspace.parent / "out").read_bytes(), Path("/etc/passwd").read_bytes()
    lines = {
        "add": [f"*** Add File: {path}", "+x"],
        "update": [f"*** Update File: {path}", "@@", "-canary", "+x"],
        "delete": [f"*** Delete File: {path}"],
        "move": ["*** Update File: a", f"*** Move to: {path}"],
    }[how]
    result = await do("apply_patch", input=patch(*lines))
    assert result.isError, result.text
    assert (tree(outside), (workspace.parent / "out").read_bytes(), Path("/etc/passwd").read_bytes()) == before
    assert (workspace / "a").read_text() == "canary\n"


async def test_outside_the_workspace_if_the_owner_says_so(do: Any, ctx: Any, workspace: Path) -> None:
    other = workspace.parent / "other.txt"
    other.write_text("1\n")
    lines = patch(f"*** Update File: {other}", "@@", "-1", "+2")
    assert "applyPatch.workspaceOnly" in (await do("apply_patch", input=lines)).text
    ctx.set(patch_workspace_only=False)
    assert not (await do("apply_patch", input=lines)).isError
    assert other.read_text() == "2\n"
    ctx.set(workspace_only=True)
    assert (await do("apply_patch", input=patch(f"*** Delete File: {other}"))).isError


async def test_the_states_own_files_stay_closed(do: Any, ctx: Any, workspace: Path) -> None:
    home = workspace / "state"
    home.mkdir()
    ctx.set(protected=(str(home),), patch_workspace_only=False)
    result = await do("apply_patch", input=patch("*** Add File: state/palinurus.json", "+{}"))
    assert result.isError and tree(workspace) == {}


async def test_a_folder_that_becomes_a_link_while_patches_run(do: Any, workspace: Path) -> None:
    outside = workspace.parent / "outside"
    outside.mkdir()
    (outside / "f").write_text("canary\n")
    stop = threading.Event()

    def swap() -> None:
        real, link = workspace / "d", workspace / "d"
        while not stop.is_set():
            try:
                real.mkdir(exist_ok=True)
                os.rename(real, workspace / "aside")
                link.symlink_to(outside)
                link.unlink()
                os.rename(workspace / "aside", real)
            except OSError:
                continue

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for n in range(150):
            await do("apply_patch", input=patch(f"*** Add File: d/f{n}", "+x"))
            await do("apply_patch", input=patch("*** Update File: d/f", "@@", "-canary", "+x"))
            await do("apply_patch", input=patch("*** Delete File: d/f"))
    finally:
        stop.set()
        thread.join()
    assert tree(outside) == {"f": b"canary\n"}


async def test_what_is_too_large_is_refused(do: Any, workspace: Path) -> None:
    assert "at most" in (await do("apply_patch", input="x" * (MAX_PATCH + 1))).text
    many = patch(*(line for n in range(MAX_FILES + 1) for line in (f"*** Add File: f{n}", "+x")))
    assert "at most" in (await do("apply_patch", input=many)).text
    with open(workspace / "big", "wb") as file:
        file.truncate(20_000_000)
    assert "too large" in (await do("apply_patch", input=patch("*** Update File: big", "@@", "+x"))).text
    assert sorted(os.listdir(workspace)) == ["big"]


async def test_bytes_that_are_no_utf8_and_a_bom_survive(do: Any, workspace: Path) -> None:
    (workspace / "a").write_bytes(b"\xef\xbb\xbfone\n\xff\xfe caf\xe9\n")
    assert not (await do("apply_patch", input=patch("*** Update File: a", "@@", "-one", "+two"))).isError
    assert (workspace / "a").read_bytes() == b"\xef\xbb\xbftwo\n\xff\xfe caf\xe9\n"


async def test_what_people_see_of_it(do: Any) -> None:
    assert apply_patch.summary is not None
    assert apply_patch.summary({"input": patch("*** Add File: a", "+x", "*** Delete File: b")}) == "a, b"
    assert apply_patch.summary({}) == ""

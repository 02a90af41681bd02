"""Files are put back, and again; what others changed meanwhile is theirs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.changes import ChangeRules
from palinurus.errors import BadRequest
from palinurus.tools.changes.undo import FileRestorer


def show(top: Path) -> dict[str, Any]:
    """A folder as one value: contents, modes, links."""
    made: dict[str, Any] = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_symlink():
            made[name] = ("link", os.readlink(path))
        elif path.is_dir():
            made[name] = ("folder", oct(path.stat().st_mode & 0o777))
        else:
            made[name] = (path.read_bytes(), oct(path.stat().st_mode & 0o777))
    return made


SHELL = (
    "rm gone; chmod 755 script; mv moved elsewhere; mkdir -p d/e; printf '\\0\\1' > d/e/bin; ln -sfn gone link; "
    "echo more >> text; rm -r tree; echo file > tree; rm flat; mkdir flat; echo in > flat/in"
)


async def change_everything(do: Any, workspace: Path) -> None:
    for name in ("gone", "script", "moved", "flat"):
        (workspace / name).write_text(name)
    (workspace / "text").write_text("one\ntwo\n")
    (workspace / "tree" / "deep").mkdir(parents=True)
    (workspace / "tree" / "deep" / "leaf").write_bytes(bytes(range(256)))
    (workspace / "link").symlink_to("text")
    await do("exec", command=SHELL)
    await do("write", path="new/a.txt", content="hello")
    await do("edit", path="text", oldText="two", newText="three")


async def test_all_there_and_back(do: Any, workspace: Path, kept: Any, restorer: FileRestorer, tmp_path: Path) -> None:
    pre = tmp_path / "pre"
    pre.mkdir()
    before: dict[str, Any] = {}

    async def snapshot(name: str, **args: Any) -> Any:
        before.update(before or show(workspace))
        return await do(name, **args)

    await change_everything(snapshot, workspace)
    after = show(workspace)
    assert after != before
    for _ in range(2):
        restorer.restore(kept())
        assert show(workspace) == before
        assert kept().undone is not None
        restorer.restore(kept(), redo=True)
        assert show(workspace) == after
        assert kept().undone is None


async def test_a_later_change_by_somebody_else_is_theirs(
    do: Any, workspace: Path, kept: Any, restorer: FileRestorer
) -> None:
    (workspace / "a").write_text("one\n")
    await do("exec", command="echo two > a; echo b > b")
    (workspace / "a").write_text("mine\n")
    before = show(workspace)
    with pytest.raises(BadRequest, match=r"nothing was changed: a was changed since .*--force"):
        restorer.restore(kept())
    assert show(workspace) == before and kept().undone is None
    restorer.restore(kept(), force=True)
    assert (workspace / "a").read_text() == "one\n" and not (workspace / "b").exists()
    restorer.restore(kept(), redo=True)
    assert (workspace / "a").read_text() == "mine\n" and (workspace / "b").read_text() == "b\n"


async def test_changes_that_do_not_touch_each_other_are_both_kept(
    do: Any, workspace: Path, kept: Any, restorer: FileRestorer
) -> None:
    lines = [f"line {number}\n" for number in range(20)]
    (workspace / "a").write_text("".join(lines))
    await do("edit", path="a", oldText="line 3\n", newText="line three\n")
    (workspace / "a").write_text((workspace / "a").read_text().replace("line 15", "my line"))
    outcome = restorer.restore(kept())
    assert [step.merged for step in outcome.steps] == [True]
    assert (workspace / "a").read_text() == "".join(lines).replace("line 15", "my line")
    restorer.restore(kept(), redo=True)
    assert "line three" in (workspace / "a").read_text() and "my line" in (workspace / "a").read_text()


async def test_what_is_already_as_before_is_left(do: Any, workspace: Path, kept: Any, restorer: FileRestorer) -> None:
    (workspace / "a").write_text("1")
    await do("exec", command="echo 2 > a")
    (workspace / "a").write_text("1")
    assert restorer.restore(kept()).steps == () and kept().undone == ()


async def test_a_folder_with_things_of_others_stays(
    do: Any, workspace: Path, kept: Any, restorer: FileRestorer
) -> None:
    await do("exec", command="mkdir d; echo x > d/x")
    (workspace / "d" / "mine").write_text("mine")
    restorer.restore(kept())
    assert os.listdir(workspace / "d") == ["mine"]


async def test_a_file_that_was_not_kept(do: Any, ctx: Any, workspace: Path, kept: Any, restorer: FileRestorer) -> None:
    ctx.set(changes=ChangeRules(file_bytes=10))
    (workspace / "large").write_text("x" * 100)
    await do("exec", command="echo y > large; echo small > small")
    with pytest.raises(BadRequest, match="large was not kept"):
        restorer.restore(kept())
    outcome = restorer.restore(kept(), force=True)
    assert [one.path for one in outcome.problems] == ["large"]
    assert (workspace / "large").read_text() == "y\n" and not (workspace / "small").exists()


@pytest.mark.parametrize("force", [False, True])
async def test_a_link_that_leads_out_is_not_followed(
    do: Any, workspace: Path, tmp_path: Path, kept: Any, restorer: FileRestorer, force: bool
) -> None:
    (workspace / "d").mkdir()
    (workspace / "d" / "victim").write_text("before")
    await do("exec", command="echo after > d/victim; echo n > d/new")
    outside = tmp_path / "outside"
    outside.mkdir()
    for name in ("victim", "new"):
        (outside / name).write_text("after\n" if name == "victim" else "n\n")
    os.rename(workspace / "d", workspace / "old")
    (workspace / "d").symlink_to(outside)
    if force:
        restorer.restore(kept(), force=True)
    else:
        with pytest.raises(BadRequest, match="behind a link"):
            restorer.restore(kept())
    assert {p.name: p.read_text() for p in outside.iterdir()} == {"victim": "after\n", "new": "n\n"}


async def test_a_link_in_place_of_a_file_is_replaced_only_by_force(
    do: Any, workspace: Path, tmp_path: Path, kept: Any, restorer: FileRestorer
) -> None:
    (workspace / "a").write_text("before")
    await do("exec", command="echo after > a")
    (tmp_path / "out").write_text("after\n")
    os.unlink(workspace / "a")
    (workspace / "a").symlink_to(tmp_path / "out")
    with pytest.raises(BadRequest, match="changed since"):
        restorer.restore(kept())
    restorer.restore(kept(), force=True)
    assert (workspace / "a").read_text() == "before" and not (workspace / "a").is_symlink()
    assert (tmp_path / "out").read_text() == "after\n"

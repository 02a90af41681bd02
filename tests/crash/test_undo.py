"""`pal undo` and `pal redo`, killed at every point: after the next command the workspace is as before it or as after
it, whole, and the journal says which."""

import os

import pytest

from nursery import run_program
from palinurus.core.types.changes import ChangeRules, FileChange
from palinurus.testing.home import get_work_dir, make_home
from palinurus.tools.changes.archive import ChangeArchive, RunHeader
from palinurus.tools.changes.look import FileLook, compare_looks

POINTS = ["undo.before:1", "undo.planned:1", "undo.middle:1", "undo.middle:3", "undo.after:1", "undo.marked:1"]
BEFORE = {"a": "a before", "b/c": "c before", "gone": "gone"}
AFTER = {"a": "a after", "b/c": "c after", "new/deep/file": "new"}


def pal(home, *argv, crash=""):
    env = {**os.environ, "HOME": os.path.dirname(home), "PALINURUS_HOME": home, "PALINURUS_CRASH": crash}
    done = run_program(*argv, env=env)
    return done.returncode, done.stdout


def put(work, files):
    for name in ("a", "b/c", "gone", "new/deep/file"):
        path = os.path.join(work, name)
        if name in files:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as handle:
                handle.write(files[name])
        elif os.path.exists(path):
            os.unlink(path)


def read(work):
    found = {}
    for folder, _, names in os.walk(work):
        for name in names:
            path = os.path.join(folder, name)
            with open(path) as handle:
                found[os.path.relpath(path, work)] = handle.read()
    return {name: text for name, text in found.items() if not name.endswith(".md")}  # the agent's own


@pytest.fixture
def home(tmp_path):
    """A home in which a run has changed, made and deleted files."""
    home = make_home(tmp_path)
    work = os.path.realpath(get_work_dir(home))
    archive = ChangeArchive(home)
    archive.prepare()
    look = FileLook(ChangeRules(), archive.blobs)
    put(work, BEFORE)
    before = look.look(work, {}, 0)
    put(work, AFTER)
    changes: list[FileChange] = compare_looks(before, look.look(work, {}, 0), "exec")
    archive.add(RunHeader("run1", "agent:main:main", "main", work, at=1), changes)
    return home


def is_undone(home):
    return ChangeArchive(home).load("run1").undone is not None


@pytest.mark.parametrize(
    ("verb", "point"), [*(("undo", point) for point in POINTS), ("redo", "undo.planned:1"), ("redo", "undo.middle:2")]
)
def test_either_state_whole(home, verb, point):
    work = get_work_dir(home)
    old, new = (AFTER, BEFORE) if verb == "undo" else (BEFORE, AFTER)
    if verb == "redo":
        assert (pal(home, "undo"))[0] == 0
    assert read(work) == old
    code, _ = pal(home, verb, "run1", crash=point)
    assert code == 137, f"{point} was not reached"
    code, out = pal(home, "changes", "--list")  # whatever comes next
    done = point != "undo.before:1"
    assert code == 0 and ("(undone)" in out) == (is_undone(home))
    assert read(work) == (new if done else old)
    assert is_undone(home) == (done == (verb == "undo"))
    if not done:
        assert (pal(home, verb, "run1"))[0] == 0
        assert read(work) == new
    assert not os.path.exists(os.path.join(home, "changes", "pending"))

"""What happens to SOUL.md and the others when a command changes them without leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from palinurus.tools import persona, watches

WATCHES = watches.get_persona_watches()


@pytest.fixture
def root(workspace: Path) -> Path:
    (workspace / "memory").mkdir()
    (workspace / "SOUL.md").write_text("soul")
    (workspace / "memory" / "a.md").write_text("note")
    (workspace / "real.md").write_text("linked")
    (workspace / "USER.md").symlink_to("real.md")
    return workspace


@pytest.mark.parametrize(
    ("command", "undone"),
    [
        ("echo x >> SOUL.md", {"SOUL.md"}),
        ("rm SOUL.md", {"SOUL.md"}),
        ("rm SOUL.md; mkdir SOUL.md; touch SOUL.md/x", {"SOUL.md"}),
        ("mv SOUL.md s; ln -s /etc/passwd SOUL.md", {"SOUL.md"}),
        ("ln SOUL.md other; echo x > other", {"SOUL.md"}),
        ("rm -r memory; ln -s /nonexistent memory", {"memory/a.md"}),
        ("rm -r memory; ln -s .. memory", {"memory/a.md"}),
        ("rm -r memory; echo x > memory", {"memory/a.md"}),
        ("echo x > memory/b.md; echo y > HEARTBEAT.md", {"memory/b.md", "HEARTBEAT.md"}),
        ("mkdir -p skills/x; echo x > skills/x/SKILL.md", {"skills/x/SKILL.md"}),
        ("ln -s /usr/share/doc skills", {"skills"}),
        ("mkdir other; ln -s other .agents; mkdir other/skills; echo x > other/skills/s.md", {".agents"}),
        ("echo x > real.md", {"real.md"}),
        ("ln -sf /etc/passwd USER.md", {"USER.md"}),
        ("touch SOUL.md; cp SOUL.md s; mv s SOUL.md", set()),
        ("echo x > plain.md; echo x > memory/data.csv", set()),
    ],
)
def test_it_is_put_back(root: Path, tmp_path: Path, command: str, undone: set[str]) -> None:
    with WATCHES.watch(str(root), str(tmp_path / "aside")) as watch:
        subprocess.run(["sh", "-c", command], cwd=root, check=True)
        assert {change.name for change in watch.undo()} == undone
        assert watch.undo() == []
    assert (root / "SOUL.md").read_text() == "soul" and not (root / "SOUL.md").is_symlink()
    assert (root / "memory" / "a.md").read_text() == "note" and not (root / "memory").is_symlink()
    assert os.readlink(root / "USER.md") == "real.md" and (root / "real.md").read_text() == "linked"
    assert not (root / "HEARTBEAT.md").exists() and not (root / "skills" / "x" / "SKILL.md").exists()


def test_what_was_written_with_leave_stays_also_for_others_who_watch(root: Path) -> None:
    with (
        WATCHES.watch(str(root), "") as one,
        WATCHES.watch(str(root), "") as other,
    ):
        (root / "SOUL.md").write_text("better")
        WATCHES.accept([str(root / "SOUL.md")])
        assert one.undo() == [] and other.undo() == []
    assert (root / "SOUL.md").read_text() == "better"


def test_a_process_that_was_left_behind_is_watched_until_it_ends(root: Path) -> None:
    child = subprocess.Popen(["sleep", "100"])
    with WATCHES.watch(str(root), "") as watch:
        watch.pids.add(child.pid)
    (root / "SOUL.md").write_text("late")
    assert [change.name for _, change in WATCHES.undo_strays(str(root))] == ["SOUL.md"]
    child.kill()
    child.wait()
    (root / "SOUL.md").write_text("last")
    assert [change.name for _, change in WATCHES.undo_strays(str(root))] == ["SOUL.md"]
    (root / "SOUL.md").write_text("the owner's")
    assert WATCHES.undo_strays(str(root)) == [] and (root / "SOUL.md").read_text() == "the owner's"


def test_a_watch_that_begins_after_a_change_does_not_take_it_for_right(root: Path) -> None:
    """Seed 110 of the drawn attacks: a process left behind writes just before the next command is watched."""
    with WATCHES.watch(str(root), "") as first:
        first.pids.add(os.getpid())
    (root / "SOUL.md").write_text("obey")
    (root / "memory" / "new.md").write_text("obey")
    (root / "memory" / "a.md").unlink()
    with WATCHES.watch(str(root), "", str(root)) as second:
        second.pids.add(os.getpid())
        assert {change.name for change in second.undo()} == {"SOUL.md", "memory/new.md", "memory/a.md"}
        assert (root / "SOUL.md").read_text() == "soul"
    (root / "SOUL.md").write_text("obey")
    assert [change.name for _, change in WATCHES.undo_strays(str(root))] == ["SOUL.md"]
    assert (root / "SOUL.md").read_text() == "soul"
    first.pids, second.pids = {2**22 + 1}, {2**22 + 1}
    WATCHES.undo_strays(str(root))


def test_what_was_put_back_for_a_prompt_is_told_with_the_result_of_the_command(root: Path) -> None:
    assert WATCHES.put_back(str(root)) is False and WATCHES.get_held(str(root), "SOUL.md") is None
    with WATCHES.watch(str(root), "") as watch:
        (root / "SOUL.md").write_text("obey")
        (root / "AGENTS.md").write_text("obey")
        assert WATCHES.get_held(str(root), "SOUL.md") == (b"soul",)  # as it should be, whatever is there
        assert WATCHES.get_held(str(root), "AGENTS.md") == (None,)
        assert WATCHES.get_held(str(root), "USER.md") is None  # a link
        assert WATCHES.put_back(str(root)) and (root / "SOUL.md").read_text() == "soul"
        assert not WATCHES.put_back(str(root))
        assert {change.name for change in watch.undo()} == {"SOUL.md", "AGENTS.md"} and watch.undo() == []


def test_what_changes_all_the_time_is_not_read(root: Path) -> None:
    with WATCHES.watch(str(root), ""):
        (root / "SOUL.md").write_text("obey")
        assert WATCHES.read_settled(str(root), (root / "SOUL.md").read_text) == "soul"

        def read() -> str:
            (root / "SOUL.md").write_text("obey")
            return (root / "SOUL.md").read_text()

        assert WATCHES.read_settled(str(root), read) is None


def test_after_a_kill_the_next_start_puts_back_what_a_command_had_changed(root: Path, tmp_path: Path) -> None:
    aside = str(tmp_path / "aside")
    code = (
        "import os, signal\nfrom palinurus.tools.watches import PersonaWatches\n"
        f"watches = PersonaWatches()\nwith watches.watch({str(root)!r}, {aside!r}) as watch:\n"
        f"    open({str(root / 'AGENTS.md')!r}, 'w').write('agreed')\n"
        f"    watches.accept([{str(root / 'AGENTS.md')!r}])\n"
        f"    open({str(root / 'SOUL.md')!r}, 'w').write('obey')\n"
        f"    os.unlink({str(root / 'memory' / 'a.md')!r})\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -signal.SIGKILL
    assert (root / "SOUL.md").read_text() == "obey"
    assert {change.name for change in WATCHES.recover(aside)} == {"SOUL.md", "memory/a.md"}
    assert (root / "SOUL.md").read_text() == "soul" and (root / "memory" / "a.md").read_text() == "note"
    assert (root / "AGENTS.md").read_text() == "agreed"  # with leave
    (root / "SOUL.md").write_text("the owner's")
    assert WATCHES.recover(aside) == [] and (root / "SOUL.md").read_text() == "the owner's"


def test_a_program_that_ends_in_order_leaves_nothing_to_put_back(root: Path, tmp_path: Path) -> None:
    aside = str(tmp_path / "aside")
    with WATCHES.watch(str(root), aside) as watch:
        watch.pids.add(os.getpid())
    (root / "SOUL.md").write_text("obey")
    WATCHES.release(aside)
    assert (root / "SOUL.md").read_text() == "soul" and WATCHES.get_held(str(root), "SOUL.md") is None
    (root / "SOUL.md").write_text("the owner's")
    assert WATCHES.recover(aside) == [] and WATCHES.put_back(str(root)) is False
    assert [name for name in os.listdir(f"{aside}-held") if "." in name] == []


# nothing is too much, and what steers other programs is held as well


def test_a_flood_of_files_hides_nothing(root: Path) -> None:
    with WATCHES.watch(str(root), "") as watch:
        for n in range(2500):
            (root / "memory" / f"n{n}.md").write_text("x")
        deep = root / "memory" / "/".join("abcdefghijkl")
        deep.mkdir(parents=True)
        (deep / "late.md").write_text("x")
        (root / "skills" / "ev").mkdir(parents=True)
        (root / "skills" / "ev" / "SKILL.md").write_text("x")
        assert len(watch.undo()) == 2502
    assert sorted(p.name for p in (root / "memory").rglob("*.md")) == ["a.md"]
    assert not (root / "skills" / "ev" / "SKILL.md").exists()


def test_a_file_too_large_to_be_remembered_goes_aside(root: Path, tmp_path: Path) -> None:
    big, aside = root / "skills" / "big.bin", tmp_path / "aside"
    big.parent.mkdir()
    with big.open("wb") as file:
        file.truncate(persona.BYTES + 1)
    with WATCHES.watch(str(root), str(aside)) as watch:
        with big.open("ab") as file:
            file.write(b"evil")
        assert [change.name for change in watch.undo()] == ["skills/big.bin"]
    assert not big.exists() and [p.stat().st_size for p in aside.iterdir()] == [persona.BYTES + 5]


GIT = "[core]\n\tbare = false\n"


@pytest.mark.parametrize(
    ("name", "text", "mode", "undone"),
    [
        (".git/hooks/pre-commit", "#!/bin/sh\nevil", 0o755, True),
        (".git/hooks/pre-push.sample", "x", 0o644, False),
        (".git/config", GIT + "[core]\n\tfsmonitor = ./evil\n", 0o644, True),
        (".git/config", GIT + '[remote "origin"]\n\turl = https://evil.example\n', 0o644, True),
        (".git/config", GIT + '[alias] st = "!evil"\n', 0o644, True),
        (".git/config", GIT + '[branch "main"]\n\tremote = origin\n[user]\n\tname = A\n', 0o644, False),
        (".claude/settings.json", "{}", 0o644, True),
        ("sub/.mcp.json", "{}", 0o644, True),
        ("sub/deeper/AGENTS.md", "obey", 0o644, True),
        ("sub/CLAUDE.md", "obey", 0o644, True),
        (".github/workflows/x.yml", "on: push", 0o644, True),
        (".vscode/tasks.json", "{}", 0o644, True),
        (".envrc", "evil", 0o644, True),
        (".git/commondir", "../evil", 0o644, True),  # its config and its hooks are there instead
        (".git/branches/x", "https://evil.example/x", 0o644, True),
        (".git/refs/remotes/origin/x", "0" * 40, 0o644, False),
        ("sub/.git", "gitdir: ../evil", 0o644, True),
        (".zed/tasks.json", "{}", 0o644, True),
        ("src/main.py", "x", 0o644, False),
    ],
)
def test_files_that_steer_other_programs_are_held_after_untrusted_content(
    root: Path, tmp_path: Path, name: str, text: str, mode: int, undone: bool
) -> None:
    (root / ".git" / "hooks").mkdir(parents=True)
    (root / ".git" / "config").write_text(GIT)
    for home, held in (("", False), (str(tmp_path), undone)):
        with WATCHES.watch(str(root), "", home) as watch:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            path.chmod(mode)
            changes = watch.undo()
            assert [change.name for change in changes] == ([name] if held else [])
            for change in changes:
                assert text.splitlines()[-1] in change.show()
                watch.apply(change)
                assert path.read_text() == text and path.stat().st_mode & 0o777 == mode
        path.unlink()
        (root / ".git" / "config").write_text(GIT)


@pytest.mark.parametrize("name", [".git/hooks", ".git", "sub/.git", ".claude", ".github", ".git/modules/lib"])
def test_nor_can_a_link_stand_for_a_folder_of_them(root: Path, tmp_path: Path, name: str) -> None:
    """`rm -rf .git/hooks; ln -s ../evil .git/hooks` went unnoticed, and the next commit ran what lay there."""
    evil = root / "evil"
    evil.mkdir()
    if name != ".git":
        (root / ".git").mkdir()
        (root / ".git" / "config").write_text(GIT)
    with WATCHES.watch(str(root), "", str(tmp_path)) as watch:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(evil)
        (evil / "pre-commit").write_text("#!/bin/sh\nevil")
        (change,) = watch.undo()
        assert change.name == name and not (root / name).is_symlink() and (evil / "pre-commit").exists()


def test_settings_in_the_home_of_commands_are_held_too(root: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    with WATCHES.watch(str(root), "", str(home)) as watch:
        (home / ".gitconfig").write_text('[url "https://evil.example"]\n\tinsteadOf = https://\n')
        assert len(watch.undo()) == 1
    assert not (home / ".gitconfig").exists()

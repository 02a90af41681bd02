"""The owner's leave for a folder: what it is given for, and when it no longer holds."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from palinurus.config.load import load_config
from palinurus.config.settings import Settings
from palinurus.core.types.keys import SessionKey
from palinurus.errors import BadRequest
from palinurus.workspace.folders import (
    FILE,
    explain_barred,
    explain_mismatch,
    explain_unfit,
    find_leave,
    keep_leave,
    list_leaves,
    revoke_leave,
)


@pytest.fixture
def place(tmp_path: Path) -> tuple[Settings, dict[str, str], Path]:
    user, folder = tmp_path / "user", tmp_path / "user" / "code" / "project"
    folder.mkdir(parents=True)
    environ = {"HOME": str(user)}
    return load_config(str(user / ".palinurus"), environ).settings, environ, folder


def test_a_leave_is_kept_shown_and_taken_back(place: tuple[Settings, dict[str, str], Path]) -> None:
    settings, environ, folder = place
    path = str(folder)
    assert "pal folders allow" in explain_barred(path, settings, environ)
    keep_leave(settings.home, path, 5, allowed=False)
    assert "said no" in explain_barred(path, settings, environ)
    keep_leave(settings.home, path, 7)
    assert explain_barred(path, settings, environ) == ""
    assert [(one.path, one.allowed, one.since) for one in list_leaves(settings.home)] == [(path, True, 7)]
    assert os.stat(os.path.join(settings.home, FILE)).st_mode & 0o077 == 0
    assert revoke_leave(settings.home, path) and not revoke_leave(settings.home, path)
    assert explain_barred(path, settings, environ)


def test_what_takes_a_folders_place_was_not_allowed(place: tuple[Settings, dict[str, str], Path]) -> None:
    settings, environ, folder = place
    keep_leave(settings.home, str(folder), 1)
    folder.rename(folder.with_name("moved"))
    assert "is not a folder" in explain_barred(str(folder), settings, environ)
    folder.mkdir()
    assert "another folder" in explain_barred(str(folder), settings, environ)
    folder.rmdir()
    folder.symlink_to(folder.with_name("moved"))  # the very folder that was allowed, by way of a link
    assert explain_barred(str(folder), settings, environ) and find_leave(settings.home, str(folder)) is None
    with pytest.raises(BadRequest):
        keep_leave(settings.home, str(folder), 1)


def test_a_folder_above_is_swapped_for_a_link(place: tuple[Settings, dict[str, str], Path]) -> None:
    settings, environ, folder = place
    keep_leave(settings.home, str(folder), 1)
    other = folder.parent.with_name("elsewhere")
    folder.parent.rename(other)
    folder.parent.symlink_to(other)
    assert explain_barred(str(folder), settings, environ)


@pytest.mark.parametrize("name", ["", ".palinurus", ".palinurus/workspace", ".ssh", ".ssh/keys", ".config/gh"])
def test_what_nobody_can_allow(place: tuple[Settings, dict[str, str], Path], name: str) -> None:
    settings, environ, _ = place
    path = Path(environ["HOME"], name)
    path.mkdir(parents=True, exist_ok=True)
    assert explain_unfit(str(path), settings, environ)


@pytest.mark.parametrize("path", ["/", "/etc", "/usr/lib", "/tmp", "/proc", "/home", "relative", "~", "/nowhere"])
def test_places_of_the_system(place: tuple[Settings, dict[str, str], Path], path: str) -> None:
    assert explain_unfit(path, *place[:2])


def test_an_agents_workspace_stays_what_it_is(place: tuple[Settings, dict[str, str], Path]) -> None:
    settings, environ, folder = place
    (Path(settings.home) / "palinurus.json").parent.mkdir(exist_ok=True)
    (Path(settings.home) / "palinurus.json").write_text(
        '{agents: {list: [{id: "main"}, {id: "x", workspace: "%s"}]}}' % (folder / "agent")
    )
    settings = load_config(settings.home, environ).settings
    (folder / "agent" / "inner").mkdir(parents=True)
    for path in (folder, folder / "agent", folder / "agent" / "inner"):
        assert "overlap" in explain_unfit(str(path), settings, environ)


def test_a_broken_file_gives_no_leave(place: tuple[Settings, dict[str, str], Path]) -> None:
    settings, environ, folder = place
    keep_leave(settings.home, str(folder), 1)
    Path(settings.home, FILE).write_text("[{")
    assert list_leaves(settings.home) == () and explain_barred(str(folder), settings, environ)


@pytest.mark.parametrize(
    "rest", ["main", "telegram:group:1", "telegram:direct:2", "direct:3", "cron:x", "hook:y", "telegram:acc:direct:2"]
)
def test_sessions_of_others_get_no_folder(rest: str) -> None:
    assert explain_mismatch(None, "/p", SessionKey("main", rest), begun=False)


def test_a_session_stays_where_it_began() -> None:
    key = SessionKey("main", "here:p")
    assert explain_mismatch(None, "/p", key, begun=False) == "" == explain_mismatch("/p", "/p", key, begun=True)
    assert "/q" in explain_mismatch("/q", "/p", key, begun=False)
    assert "home workspace" in explain_mismatch(None, "/p", key, begun=True)

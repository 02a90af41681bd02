from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from palinurus.errors import BadRequest, NotFound
from palinurus.workspace.install.source import fetch_source

TEXT = "---\nname: s\ndescription: d\n---\n"


def test_a_skill_file_stands_for_its_folder(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(TEXT)
    (tmp_path / "more.md").write_text("x")
    got = fetch_source(str(tmp_path / "SKILL.md"), {})
    assert [part.name for part in got.parts] == ["SKILL.md", "more.md"]
    assert got.origin == str(tmp_path)


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_a_repository_without_its_hooks(tmp_path: Path) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "SKILL.md").write_text(TEXT)
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(tmp_path)}
    for args in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]):
        subprocess.run(["git", *args], cwd=repo, check=True, env=env)
    mark = tmp_path / "ran"
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {mark}\n")
    (hooks / "post-checkout").chmod(0o700)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "GIT_TEMPLATE_DIR": str(tmp_path / "template")}
    got = fetch_source(f"file://{repo}", environ)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, capture_output=True, text=True, env=env).stdout
    assert [part.name for part in got.parts] == ["SKILL.md"]
    assert got.commit == head.strip()
    assert not mark.exists()
    with pytest.raises(BadRequest, match="git cannot fetch"):
        fetch_source(f"file://{tmp_path}/none", environ)


@pytest.mark.parametrize(
    "source", ["http://x.example/a", "ext::sh -c touch% x", "git://x.example/a", "ftp://x.example/a"]
)
def test_addresses_that_are_refused(source: str) -> None:
    with pytest.raises(BadRequest, match="not fetched"):
        fetch_source(source, {})


@pytest.mark.parametrize("source", ["nowhere", "--upload-pack=x", "-h"])
def test_what_is_not_there(source: str) -> None:
    with pytest.raises(NotFound):
        fetch_source(source, {})


@pytest.mark.skipif(shutil.which("git") is None, reason="no git here")
def test_a_repository_without_the_users_filters(tmp_path: Path) -> None:
    """The source says which files a filter is for, the user's config which program that is."""
    repo, mark = tmp_path / "repo", tmp_path / "ran"
    repo.mkdir()
    (repo / "SKILL.md").write_text(TEXT)
    (repo / ".gitattributes").write_text("* filter=mine\n")
    env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "HOME": str(tmp_path)}
    for args in (["init", "-q"], ["add", "."], ["-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "x"]):
        subprocess.run(["git", *args], cwd=repo, check=True, env=env)
    (tmp_path / ".gitconfig").write_text(f'[filter "mine"]\n\tsmudge = "touch {mark}; cat"\n')
    got = fetch_source(f"file://{repo}", {"PATH": os.environ["PATH"], "HOME": str(tmp_path)})
    assert "SKILL.md" in [part.name for part in got.parts] and not mark.exists()

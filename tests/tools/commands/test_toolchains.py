"""The owner's tools and name, and nothing else of the home."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.tools.commands.environ import build_child_env, build_search_path
from palinurus.tools.commands.toolchains import GIT_NOTE, find_developer_tools, parse_git_identity, read_git_identity


def test_known_places_of_tools_are_found_and_no_others(tmp_path: Path) -> None:
    home = str(tmp_path)
    for name in (
        ".local/bin",
        ".local/share/uv",
        ".cargo/bin",
        ".rustup",
        ".nvm/versions/node/v24/bin",
        "evil",
        ".ssh",
    ):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    entries = [
        f"{home}/{name}" for name in (".cargo/bin", "evil", ".ssh", ".nvm/versions/node/v24/bin", ".pyenv/shims")
    ]
    found = find_developer_tools(
        home, ":".join(["/usr/bin", *entries, f"{home}/.local/bin", f"{home}/.local/bin", "x"])
    )
    kept = [f"{home}/{name}" for name in (".cargo/bin", ".nvm/versions/node/v24/bin", ".local/bin")]
    assert list(found.folders) == kept and found.env == {"RUSTUP_HOME": f"{home}/.rustup"}
    names = (".cargo/bin", ".rustup", ".nvm/versions", ".local/bin", ".local/share/uv")
    assert list(found.read) == [f"{home}/{name}" for name in names]


def test_they_stand_at_the_end_of_the_path(tmp_path: Path) -> None:
    (tmp_path / ".local/bin").mkdir(parents=True)
    env = build_child_env({"HOME": str(tmp_path), "PATH": f"{tmp_path}/.local/bin:/usr/bin"}, {})
    assert env["PATH"] == f"{build_search_path()}:{tmp_path}/.local/bin"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("[user]\n\tname = Ada L\n\temail = ada@a.example # work\n", {"name": "Ada L", "email": "ada@a.example"}),
        ('[core]\nname = no\n[ USER ]\nName="Ada ; L"\n', {"name": "Ada ; L"}),
        ("[user]\nsigningkey = X\nname =\nemail = a\\nb\n", {}),
        ('[user "sub"]\nname = no\n', {}),
        ("[user]\nname\n=\n[", {}),
    ],
)
def test_what_git_calls_the_owner(text: str, found: dict[str, str]) -> None:
    assert parse_git_identity(text) == found


def test_the_nearer_file_counts_and_nothing_is_no_text(tmp_path: Path) -> None:
    assert read_git_identity(str(tmp_path)) == ""
    (tmp_path / ".config/git").mkdir(parents=True)
    (tmp_path / ".config/git/config").write_text("[user]\nname = Far\nemail = far@a.example\n")
    (tmp_path / ".gitconfig").write_text('[user]\nname = Near\n[credential]\nhelper = "!secret"\n')
    assert read_git_identity(str(tmp_path)) == f'{GIT_NOTE}[user]\n\tname = "Near"\n\temail = "far@a.example"\n'

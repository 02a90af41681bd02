"""What a developer has installed below the home: which folders of their PATH commands may use, what has to be readable
for that, and the name and address git commits with. Everything else of the home stays out of sight.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping

import msgspec

from palinurus.beneath import read_file_beneath, write_file_beneath
from palinurus.files import open_plain_file

# The start of a PATH entry below the home -> what must be readable, and a variable that names a place the tool would
# look for in its HOME, which is another one in a sandbox. `.cargo` and the like as a whole hold keys: not those.
_ROWS: dict[str, tuple[tuple[str, ...], str]] = {
    ".local/bin": ((".local/bin", ".local/share/uv", ".local/share/pipx", ".local/pipx", ".local/lib"), ""),
    ".cargo/bin": ((".cargo/bin", ".rustup"), "RUSTUP_HOME=.rustup"),
    ".pyenv": ((".pyenv",), "PYENV_ROOT=.pyenv"),
    ".rbenv": ((".rbenv",), "RBENV_ROOT=.rbenv"),
    ".nvm/versions": ((".nvm/versions",), ""),
    ".local/share/fnm": ((".local/share/fnm",), ""),
    ".volta": ((".volta",), "VOLTA_HOME=.volta"),
    ".asdf": ((".asdf",), "ASDF_DATA_DIR=.asdf"),
    ".local/share/mise": ((".local/share/mise",), "MISE_DATA_DIR=.local/share/mise"),
    ".local/share/pnpm": ((".local/share/pnpm",), ""),
    ".npm-global": ((".npm-global",), ""),
    ".bun/bin": ((".bun/bin",), ""),
    ".deno/bin": ((".deno/bin",), ""),
    ".dotnet": ((".dotnet",), "DOTNET_ROOT=.dotnet"),
    ".sdkman/candidates": ((".sdkman/candidates",), ""),
    ".ghcup": ((".ghcup",), ""),
    ".juliaup/bin": ((".juliaup", ".julia/juliaup"), ""),
    "go/bin": (("go/bin",), ""),
    "bin": (("bin",), ""),
}
_GIT_FILES = (".gitconfig", ".config/git/config")
GIT_NOTE = "# Written by Palinurus: name and address of the owner's own ~/.gitconfig, and nothing else of it.\n"
_LONGEST = 200


class DeveloperTools(msgspec.Struct, frozen=True):
    """Folders for the end of a PATH, paths to be opened for reading, variables."""

    folders: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    env: Mapping[str, str] = {}


def find_developer_tools(home: str, path: str, exists: Callable[[str], bool] = os.path.isdir) -> DeveloperTools:
    """Those of the owner's PATH that lie below `home` and are known places of tools."""
    folders: list[str] = []
    read: list[str] = []
    env: dict[str, str] = {}
    for entry in path.split(os.pathsep):
        name = os.path.relpath(entry, home) if os.path.isabs(entry) else ""
        row = next((row for row in _ROWS if name == row or name.startswith(f"{row}/")), "")
        if not row or entry in folders or not exists(entry):
            continue
        folders.append(entry)
        places, variable = _ROWS[row]
        read += [full for place in places if (full := os.path.join(home, place)) not in read and exists(full)]
        key, _, place = variable.partition("=")
        if key:
            env[key] = os.path.join(home, place)
    return DeveloperTools(tuple(folders), tuple(read), env)


def read_git_identity(home: str) -> str:
    """The text of a git configuration with the owner's name and address; "" if they have none."""
    found: dict[str, str] = {}
    for name in _GIT_FILES:
        try:
            with open_plain_file(os.path.join(home, name), follow=True) as file:
                found = {**parse_git_identity(file.read(1 << 20).decode("utf-8", "replace")), **found}
        except OSError:
            continue
    lines = [f'\t{key} = "{found[key]}"\n' for key in ("name", "email") if found.get(key)]
    return f"{GIT_NOTE}[user]\n{''.join(lines)}" if lines else ""


def write_git_identity(home: str, inside: str) -> None:
    """Git commits in the owner's name in the home of a sandbox, too. A file that somebody else wrote there stays as it
    is; so does one that cannot be read. Raises OSError if there is no room."""
    wanted = read_git_identity(home).encode()
    try:
        stands = read_file_beneath(inside, ".gitconfig", 1 << 16)
    except FileNotFoundError:
        stands = GIT_NOTE.encode()
    except OSError:
        return
    if wanted and stands.startswith(GIT_NOTE.encode()) and stands != wanted:
        write_file_beneath(inside, ".gitconfig", wanted)


def parse_git_identity(text: str) -> dict[str, str]:
    """`name` and `email` of the section [user]; what has quotes or backslashes inside is left out."""
    found: dict[str, str] = {}
    section = ""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            section = line.partition("]")[0][1:].strip().lower()
            continue
        key, equals, value = line.partition("=")
        key, value = key.strip().lower(), value.strip()
        if section != "user" or not equals or key not in ("name", "email"):
            continue
        value = value[1:].partition('"')[0] if value.startswith('"') else value.partition("#")[0].partition(";")[0]
        value = value.strip()
        if value and len(value) <= _LONGEST and value.isprintable() and not set(value) & set('"\\'):
            found[key] = value
    return found

"""`pal extras`: from an index in a folder into an environment of its own, and what it says when that does not work."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from cli.place import SRC
from palinurus.channels import CHANNELS
from palinurus.cli.extras import PURPOSES
from palinurus.cli.main import main
from palinurus.errors import NotFound, PalinurusError
from palinurus.plugins.extras import PackageNeed, read_extras, read_tested_versions
from palinurus.providers.local.fetch import explain_pip_failure
from powers import drop_capabilities

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]


def test_a_wheel_knows_what_its_checkout_knows() -> None:
    """The metadata of this installation, read as if there were no checkout around it."""

    def plain(found: dict[str, list[PackageNeed]]) -> dict[str, set[tuple[str, str]]]:
        return {k: {(re.sub(r"[-_.]+", "-", n.name), n.wanted) for n in needs} for k, needs in found.items()}

    assert plain(read_extras("/nowhere")) == plain(read_extras())


def test_what_is_installed_is_not_held_to_other_versions() -> None:
    told = read_tested_versions(["slack-sdk==3.46.0"])
    assert "aiohttp" not in told and "msgspec" not in told


def test_hints_name_the_command_and_real_extras() -> None:
    """No index has us: `pip install palinurus[…]` in a hint would send people into a wall."""
    files = [*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md", ROOT / "CHANGELOG.md"]
    named = set()
    for file in (one for one in files if one.parent.name != "decisions"):  # which tell what was
        text = file.read_text(encoding="utf-8")
        assert not re.search(r"pip3? install [^\n`]*palinurus(?!\S*\.whl)", text), file
        assert "palinurus[" not in text or "palinurus[slack] @ " in text, file
        named |= set(re.findall(r"pal extras add ([a-z]+)", text))
    assert named <= set(EXTRAS) | set(CHANNELS) and len(named) > 8


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extras", "list", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows["slack"]["packages"][0]["name"] == "slack-sdk"
    assert main(["extras"]) == 0
    assert f"\n{'+' if rows['tui']['installed'] else '-'} tui " in capsys.readouterr().out
    assert set(PURPOSES) == set(rows)


def test_an_unknown_one_is_66_with_a_hint(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["extras", "add", "slak"]) == 66
    assert "pal extras add slack" in capsys.readouterr().err


def test_a_chat_app_that_needs_nothing_is_there_already(capsys: pytest.CaptureFixture[str]) -> None:
    """Old pages and scripts add Telegram's."""
    assert main(["extras", "add", "telegram"]) == 0
    assert capsys.readouterr().out == "telegram: there already\n"


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ("error: externally-managed-environment", PalinurusError, "the system's"),
        (
            "ERROR: Could not install packages due to an OSError: [Errno 13] Permission denied: '/x'",
            PalinurusError,
            "owner",
        ),
        (
            "WARNING: Retrying ... NewConnectionError\nERROR: No matching distribution found for x==1",
            PalinurusError,
            "network",
        ),
        ("ERROR: No matching distribution found for x==1", NotFound, "has no x 1"),
        ("× No solution found when resolving dependencies", NotFound, "has no them"),
    ],
)
def test_what_pip_and_uv_say_is_understood(said: str, kind: type[PalinurusError], words: str) -> None:
    error = explain_pip_failure(said, "them")
    assert type(error) is kind and words in str(error)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment without pip that has our packages by way of a path file, and an index in a folder."""
    place = tmp_path_factory.mktemp("extras")
    venv.create(place / "env", with_pip=False, symlinks=True)
    version = EXTRAS["slack"][0].partition("==")[2]
    make_wheel(place / "index", "slack-sdk", version)
    return place


def make_wheel(folder: Path, name: str, version: str) -> None:
    """A package of that name with nothing in it."""
    folder.mkdir()
    plain = name.replace("-", "_")
    info = f"{plain}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{plain}-{version}-py3-none-any.whl", "w") as out:
        out.writestr(f"{plain}.py", "")
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", f"{plain}.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")


def run(place: Path, *words: str, pip: bool = True, index: str = "index") -> subprocess.CompletedProcess[str]:
    """`pal extras WORDS` by the interpreter of that environment."""
    import msgspec
    import pip as ours
    import pyjson5

    found = next((place / "env" / "lib").glob("python*/site-packages"))
    lent = place / ("lent" if pip else "without")
    lent.mkdir(exist_ok=True)
    for module in (msgspec, pyjson5, *((ours,) if pip else ())):
        source = Path(str(module.__file__)).parent
        if source.name != "site-packages" and not (lent / source.name).exists():
            (lent / source.name).symlink_to(source)
    env = {
        "PATH": "",
        "HOME": str(place),
        "PYTHONPATH": f"{SRC}:{lent}",
        "PIP_NO_INDEX": "1",
        "PIP_CONFIG_FILE": os.devnull,
    }
    env["PIP_FIND_LINKS"] = str(place / index)
    python = found.parents[2] / "bin" / "python"
    command = [str(python), "-m", "palinurus", "extras", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=300, preexec_fn=drop_capabilities)


def test_into_an_environment_from_nothing(place: Path) -> None:
    none = run(place, "add", "slack", pip=False)
    assert none.returncode == 1 and "neither pip nor uv" in none.stderr and "ensurepip" in none.stderr
    gone = run(place, "add", "pdf")
    assert gone.returncode == 66 and "has no pypdf" in gone.stderr, gone.stderr + gone.stdout
    done = run(place, "add", "slack")
    assert done.returncode == 0, done.stderr
    assert "Installing collected packages: slack-sdk" in done.stdout
    assert done.stdout.endswith("slack: installed; a gateway that runs now needs `pal gateway restart`\n")
    assert run(place, "add", "slack").stdout == "slack: there already\n"
    rows = {row["name"]: row["installed"] for row in json.loads(run(place, "list", "--json").stdout)}
    assert rows["slack"] and not rows["pdf"]


def test_a_place_that_cannot_be_written(place: Path) -> None:
    found = next((place / "env" / "lib").glob("python*/site-packages"))
    found.chmod(0o500)
    try:
        done = run(place, "add", "pdf")
    finally:
        found.chmod(0o700)
    assert done.returncode == 1 and "cannot be written" in done.stderr

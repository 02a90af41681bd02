"""What a release is made of, and the workflows that make one: read, not run (`make release` builds and tries it)."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest

from palinurus import __version__
from palinurus.core.skills.frontmatter import YamlFile, parse_yaml

ROOT = Path(__file__).parents[1]
RELEASE = runpy.run_path(str(ROOT / "packaging" / "release.py"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
# Steps of ours that are no target of make: packages of the runner, and what an index takes of dist/.
OTHER_STEPS = {"sudo", "mkdir"}


def read_yaml(file: Path) -> dict[str, Any]:
    found = parse_yaml(file.read_text(encoding="utf-8"))
    assert isinstance(found, YamlFile), f"{file.name}: {found}"
    return found.fields


def test_this_tree_can_be_released() -> None:
    """One version everywhere, and the changelog tells it with its date."""
    assert tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"] == __version__
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert RELEASE["find_release_faults"](changelog, __version__) == []


@pytest.mark.parametrize(
    ("changelog", "version", "fault"),
    [
        ("## 1.2.0 (2026-01-01)\n", "1.2.1", "CHANGELOG.md"),
        ("## 1.2.0 (unreleased)\n", "1.2.0", "CHANGELOG.md"),
        ("## 1.2 (2026-01-01)\n", "1.2", "semantic"),
    ],
)
def test_what_keeps_a_tree_from_being_released(changelog: str, version: str, fault: str) -> None:
    (told,) = RELEASE["find_release_faults"](changelog, version)
    assert fault in told


def test_the_bill_names_what_is_installed_and_bundled(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"a wheel")
    bill = RELEASE["make_bill"](tmp_path / "a.whl")
    assert bill == RELEASE["make_bill"](tmp_path / "a.whl") and bill["specVersion"] == "1.6"
    parts = {part["name"]: part for part in bill["components"]}
    assert {"aiohttp", "msgspec", "pynacl", "lit", "dompurify", "discord-py"} <= parts.keys() and "pytest" not in parts
    assert parts["aiohttp"]["purl"] == f"pkg:pypi/aiohttp@{parts['aiohttp']['version']}"
    assert (parts["aiohttp"]["scope"], parts["asyncpg"]["scope"]) == ("required", "optional")
    assert all(re.fullmatch(r"[\w.]+", part["version"]) for part in parts.values())


def test_every_form_of_ours_has_a_schema() -> None:
    """`make release` holds them against it."""
    held = {file for pattern in RELEASE["SCHEMAS"].values() for file in ROOT.glob(pattern)}
    assert {*WORKFLOWS, *(ROOT / ".github").rglob("*.yml"), *ROOT.glob("examples/*/compose.yaml")} == held


def test_a_release_ends_with_what_is_left_to_do() -> None:
    assert "git tag -a v1.2.3" in RELEASE["tell_tag"]("1.2.3", ["v1.2.2"])
    assert "is tagged" in RELEASE["tell_tag"]("1.2.3", ["v1.2.3"])


def test_workflows_only_call_what_runs_here_too() -> None:
    """Every step is a target of the Makefile that .ci/run calls as well, or an action pinned to its commit."""
    here = set(re.findall(r"make (\w+)", (ROOT / ".ci" / "run").read_text(encoding="utf-8")))
    assert {"test", "check", "docs", "release"} <= here and len(WORKFLOWS) == 3
    for file in WORKFLOWS:
        work = read_yaml(file)
        assert work["permissions"] == {"contents": "read"}, file.name  # a job that needs more says so itself
        for job in work["jobs"].values():
            for step in job["steps"]:
                if (line := step.get("run")) is not None:
                    word, target, *_ = line.split()
                    assert target in here if word == "make" else word in OTHER_STEPS, line
                else:
                    pinned = re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", step["uses"])  # a tag can be moved
                    assert pinned, step


def test_pythons_that_are_tested_are_those_we_say() -> None:
    matrix = read_yaml(ROOT / ".github" / "workflows" / "test.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert matrix == ["3.11", "3.12", "3.13", "3.14"]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["requires-python"] == f">={matrix[0]}"


def test_what_strangers_look_for_is_there() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "CHANGELOG.md", ".editorconfig"):
        assert (ROOT / name).read_text(encoding="utf-8").strip(), name
    hooks = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["format", "lint", "rules"]
    for form in ("fault", "wish"):
        fields = read_yaml(ROOT / ".github" / "ISSUE_TEMPLATE" / f"{form}.yml")["body"]
        assert any(field.get("validations", {}).get("required") for field in fields)
    assert {one["directory"] for one in read_yaml(ROOT / ".github" / "dependabot.yml")["updates"]} == {"/", "/web"}

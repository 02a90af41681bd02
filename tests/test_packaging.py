"""What goes into a wheel and an image, without building them."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).parents[1]


def test_what_a_wheel_holds() -> None:
    """The build hook, without building: docs and constraints go in, the page is named in pyproject.toml."""
    code = """
import json, runpy, sys, types
for name in ("hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"):
    sys.modules[name] = types.ModuleType(name)
fake = sys.modules["hatchling.builders.hooks.plugin.interface"] = types.ModuleType("interface")
fake.BuildHookInterface = object
hook = runpy.run_path("hatch_build.py")["WheelContent"]()
hook.root = "."
found = {"standard": {"force_include": {}}, "editable": {"force_include": {}}}
for version, data in found.items():
    hook.initialize(version, data)
print(json.dumps(found))
"""
    static = ROOT / "src/palinurus/gateway/static/index.html"
    if not static.is_file():
        pytest.skip("the page is not built: make web")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    found = json.loads(done.stdout)
    held = set(found["standard"]["force_include"].values())
    pages = {f"palinurus/{page.relative_to(ROOT)}" for page in ROOT.glob("docs/**/*.md")}
    assert held == pages | {"palinurus/constraints.txt"} and "palinurus/docs/operations.md" in held
    assert not found["editable"]["force_include"]
    build = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]
    assert build["wheel"]["artifacts"] == ["src/palinurus/gateway/static/*", "src/palinurus/gateway/site/**"]


def test_the_image_is_made_of_what_is_here() -> None:
    """There is no Docker where this runs; what can be seen by reading is seen."""
    text = re.sub(r"\\\n", " ", (ROOT / "Dockerfile").read_text(encoding="utf-8"))
    steps = [line.split(maxsplit=1) for line in text.splitlines() if line and not line.startswith("#")]
    last = [step for step, _ in steps][-1]
    assert [rest for step, rest in steps if step == "USER"] == ["palinurus"] and last == "CMD"
    assert {"FROM", "COPY", "RUN", "HEALTHCHECK", "VOLUME", "EXPOSE", "CMD"} <= {step for step, _ in steps}
    for name in set(re.findall(r"(?:/source/| )([a-z_][a-z_/]+\.(?:py|txt))\b", text)):
        assert (ROOT / name).is_file(), name
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").split()
    assert {".git", ".venv", "**/node_modules"} <= set(ignored)
    assert not {"src", "web", "docs", "constraints.txt", "README.md", "LICENSE", "hatch_build.py"} & set(ignored)


def test_what_is_pinned_takes_the_oldest_python_we_name() -> None:
    """Debian 12 has 3.11.2: a pin that wants 3.11.5 makes `make test` impossible there."""
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    wanted = {
        name: held.metadata["Requires-Python"] or ">=3"
        for name in pinned
        for held in importlib.metadata.distributions(name=name)
    }
    assert len(wanted) > 20
    assert not {name: text for name, text in wanted.items() if not SpecifierSet(text).contains("3.11.0")}


@pytest.mark.parametrize(
    "named, system, chosen",
    [
        ("plain", "good", "system"),  # as pyenv builds it
        ("quick", "good", "python3"),
        ("plain", "old", "python3"),
        ("plain", "missing", "python3"),
        ("missing", "good", "system"),
    ],
)
def test_which_python_make_takes(tmp_path: Path, named: str, system: str, chosen: str) -> None:
    """An interpreter is asked two things: can it (`ensurepip`), and was it built with a profile."""
    says = {"plain": (0, 1), "quick": (0, 0), "good": (0, 1), "old": (1, 1)}
    for name, kind in (("python3", named), ("system", system)):
        if kind != "missing":
            will, quick = says[kind]
            (tmp_path / name).write_text(f'#!/bin/sh\ncase "$2" in *ensurepip*) exit {will};; *) exit {quick};; esac\n')
            (tmp_path / name).chmod(0o755)
    shell = shutil.which("sh")
    assert shell
    env = {"PATH": str(tmp_path), "SYSTEM_PYTHON": str(tmp_path / "system")}
    done = subprocess.run([shell, "packaging/python.sh"], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).name == chosen

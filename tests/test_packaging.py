"""What goes into a wheel and an image, without building them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

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

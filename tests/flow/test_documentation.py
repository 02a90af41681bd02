"""What the live prompt says of docs, source and the sandbox: in a checkout, in an installed package, in a sandbox."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flow.test_app import CONFIG, running
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.keys import SessionKey
from palinurus.testing.channel import FakeChannel
from palinurus.testing.model import ScriptedModel, call_tools, say

ROOT = Path(__file__).parents[2]
METADATA = """Metadata-Version: 2.4
Name: palinurus
Project-URL: Documentation, https://docs.example
Project-URL: Docs Mirror, https://mirror.example
Project-URL: Repository, https://repo.example
Project-URL: Community, https://chat.example

Project-URL: Repository, https://not-a-header.example
"""


def owner(text: str = "hi") -> Inbound:
    return Inbound(Target("fake", "1"), Sender("1", owner=True), "", text, 0)


@pytest.mark.seed(397, 398)
async def test_a_checkout_is_told_its_docs_and_its_source_and_can_read_them(tmp_path: Path) -> None:
    pages = [ROOT / "docs" / "security.md", ROOT / "src" / "palinurus" / "errors.py"]
    model = ScriptedModel([call_tools(*(("read", {"path": str(page)}) for page in pages)), say("ok")])
    async with running(tmp_path / "h", model, FakeChannel()) as app:
        await app.wait((await app.submit(owner())).id)
    first, second = model.requests
    assert f"Palinurus docs on this machine: {ROOT / 'docs'}" in first.prompt.stable
    assert f"Source: {ROOT} (a checkout" in first.prompt.stable
    assert "Find skills: https://clawhub.ai" in first.prompt.stable
    for page, result in zip(pages, second.messages[-2:], strict=True):
        assert page.read_text()[:200] in result.text.replace("\r", "")


def show_prompt(site: Path, home: Path) -> str:
    """The prompt of the package that is installed in `site`, as `pal` shows it."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "PALINURUS_HOME": str(home), "HOME": str(home)}
    command = (sys.executable, "-m", "palinurus", "prompt", "show")
    done = subprocess.run(command, env=env, cwd=site, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.seed(397, 398, 399)
def test_an_installed_package_is_told_the_wheels_docs_and_what_its_metadata_names(tmp_path: Path) -> None:
    site = tmp_path / "site"
    shutil.copytree(
        ROOT / "src" / "palinurus", site / "palinurus", ignore=shutil.ignore_patterns("__pycache__", "static")
    )
    bare = show_prompt(site, tmp_path / "h")
    assert f"Source: {site}/palinurus (" in bare and "Palinurus docs" not in bare  # nothing is said that is not there
    (site / "palinurus-0.1.0.dist-info").mkdir()
    (site / "palinurus-0.1.0.dist-info" / "METADATA").write_text(METADATA)
    named = show_prompt(site, tmp_path / "h")
    assert "Palinurus docs: https://docs.example" in named and "Mirror of the docs: https://mirror.example" in named
    assert "Source: https://repo.example (" in named and "Community: https://chat.example" in named
    assert "Find skills: https://clawhub.ai" in named and "not-a-header" not in named
    (site / "palinurus" / "docs").mkdir()
    whole = show_prompt(site, tmp_path / "h")
    assert f"Palinurus docs on this machine: {site}/palinurus/docs" in whole
    assert "The same docs online: https://mirror.example" in whole and "Source: https://repo.example (" in whole


@pytest.mark.seed(176, 210)
@pytest.mark.parametrize("elevated", [True, False])
async def test_a_sandboxed_prompt_says_whether_commands_may_leave(tmp_path: Path, elevated: bool) -> None:
    """Of the sandbox's browser nothing is said: there is none."""
    box = {"mode": "all", "backend": "landlock", "workspaceRoot": str(tmp_path / "boxes")}
    tools = {"elevated": {"enabled": elevated, "allowFrom": {"fake": ["1"]}}}
    agents = {"defaults": {**CONFIG["agents"]["defaults"], "sandbox": box}}  # type: ignore[dict-item]
    model = ScriptedModel([say("ok")], repeat=True)
    async with running(tmp_path / "h", model, FakeChannel(), agents=agents, tools=tools) as app:
        for _ in range(2):
            await app.wait((await app.submit(owner())).id)
        first, second = (request.prompt.stable for request in model.requests)
        shown = await app.program.prompt_report(SessionKey("main", "main"), None)  # type: ignore[misc]
    words = f"Elevated exec is {'' if elevated else 'not '}available"
    assert words in first and first == second and "Working directory inside" in first and "Browser of" not in first
    assert "## Sandbox" in shown.stable and re.search(r"Working directory inside: \S+", shown.stable)

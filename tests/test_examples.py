"""The examples and the Python of the docs run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nursery import PythonProgram, run_program
from palinurus import Agent
from palinurus.cli.gateway.daemon import GATEWAY
from palinurus.cli.gateway.serve import OUT_OF_FLEET
from palinurus.cli.main import COMMANDS
from palinurus.config.load import load_config
from palinurus.core.skills.frontmatter import YamlFile, parse_yaml
from palinurus.testing.model import ScriptedModel, call_tools, say

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def blocks(page: str, kind: str) -> list[str]:
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def python(code: list[str], home: Path, folder: Path = ROOT, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **more}
    environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    return run_program(*code, cwd=str(folder), env=environ, kind=PythonProgram)


@pytest.mark.parametrize(("at", "said"), list(enumerate(("built-in demo", "not from you", ""))))
def test_the_embedding_page_runs(tmp_path: Path, at: int, said: str) -> None:
    done = python(["-c", blocks("embedding.md", "python")[at]], tmp_path)
    assert done.returncode == 0 and said in done.stdout, done.stderr


def test_the_embedding_example_runs(tmp_path: Path) -> None:
    done = python([str(EXAMPLES / "embedding" / "agent.py")], tmp_path)
    assert done.returncode == 0 and done.stdout.endswith("[answered]\n"), done.stderr


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("brief/brief.py", "take a coat"),
        ("triage/triage.py", "1.eml: urgent (draft: I will be there at nine.)\n2.eml: noise"),
        ("reviewer/review.py", "boat.py:2: the file is never closed"),
        ("homelog/homelog.py", "> When did I change the filter?\nToday."),
        ("folder/ask.py", "At 06:40 (tides.md:1)."),
        ("team/team.py", "bob: The yard at nine.  [answered]"),
    ],
)
def test_small_programs_run(tmp_path: Path, program: str, said: str) -> None:
    done = python([str(EXAMPLES / program)], tmp_path, tmp_path)
    assert done.returncode == (program == "reviewer/review.py") and said in done.stdout, done.stdout + done.stderr


def test_the_tools_of_the_examples_do_what_their_scripts_assume(tmp_path: Path) -> None:
    """A script says what its model was told to say; here is that the tools' results would have led to it."""
    found = python(
        ["-c", f"import sys; sys.path.insert(0, {str(EXAMPLES / 'folder')!r}); import ask\n" + _SEARCH], tmp_path
    )
    assert found.stdout.split() == ["tides.md:1", "19:05."], found.stderr
    (tmp_path / "log").mkdir()
    code = f"import sys; sys.path.insert(0, {str(EXAMPLES / 'homelog')!r}); import homelog\n" + _NOTE
    assert "the boiler" in python(["-c", code], tmp_path, tmp_path).stdout
    done = python([str(EXAMPLES / "team" / "team.py")], tmp_path, TOKENS="1")
    assert done.stdout.count("budgets.day.hardTokens") == 2, done.stderr


_SEARCH = "best = ask.search('high water in Brest')\nprint(next(iter(best)), best['tides.md:1'].split()[-1])"
_NOTE = "homelog.HOME.mkdir(exist_ok=True)\nhomelog.note('the boiler')\nprint(homelog.look('BOILER'))"


def test_the_telegram_example_is_a_config_that_can_be_used(tmp_path: Path) -> None:
    (tmp_path / "palinurus.json").write_bytes((EXAMPLES / "telegram" / "palinurus.json").read_bytes())
    loaded = load_config(str(tmp_path), {"TELEGRAM_BOT_TOKEN": "1:x", "TELEGRAM_OWNER": "123"})
    assert not loaded.problems and loaded.settings.budgets


def test_the_harbour_example_passes_its_tests(tmp_path: Path) -> None:
    done = python(["-m", "unittest", "discover", "-s", ".", "-t", "."], tmp_path, EXAMPLES / "harbour")
    assert done.returncode == 0 and "Ran 3 tests" in done.stderr, done.stderr


async def test_the_plugin_of_the_page_works(tmp_path: Path) -> None:
    (manifest,) = blocks("plugins.md", "json")
    (tmp_path / "palinurus.plugin.json").write_text(manifest, encoding="utf-8")
    (tmp_path / "plugin.py").write_text(blocks("plugins.md", "python")[0], encoding="utf-8")
    model = ScriptedModel([call_tools(("light", {"name": "Eckmühl"}), ("light", {"name": "sun"})), say("lit")])
    async with Agent(model, plugins=[tmp_path]) as agent:
        assert (await agent.run("/lights")).text == "Eckmühl"
        assert (await agent.run("which?")).text == "lit"
    assert [m.text for m in model.requests[1].messages[-2:]] == ["lit", "that one is not ours"]


@pytest.mark.seed(254)
async def test_the_hook_script_of_the_page_works(tmp_path: Path) -> None:
    (tmp_path / "hooks").mkdir()
    (script,) = (text for text in blocks("plugins.md", "python") if "Speak like a pilot." in text)
    (tmp_path / "hooks" / "pilot.py").write_text(script, encoding="utf-8")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "SOUL.md").write_text("Be plain.")
    model = ScriptedModel([say("aye")])
    async with Agent(model, home=tmp_path) as agent:
        await agent.run("hello")
    assert "Speak like a pilot." in model.requests[0].prompt.text


def test_the_testing_page_runs(tmp_path: Path) -> None:
    """Every file it shows, as it stands; and what it says `pal test` prints."""
    yaml, code = blocks("testing.md", "yaml"), blocks("testing.md", "python")
    folder = tmp_path / "scenarios"
    folder.mkdir()
    for name, text in zip(("notes.yaml", "stock.yaml"), yaml, strict=False):
        (folder / name).write_text(text, encoding="utf-8")
    for name, text in zip(("room.py", "scenario_room.py", "test_agent.py"), code, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    done = python(["-m", "palinurus", "test", "scenarios"], tmp_path, tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    (shown,) = blocks("testing.md", "console")
    for line in shown.splitlines()[1:2]:
        words = re.sub(r"^\[\d/\d\] |\([\d.]+ s\)", "", line)
        assert words.split() in [
            re.sub(r"^\[\d/\d\] |\([\d.]+ s\)", "", out).split() for out in done.stdout.splitlines()
        ]
    done = python(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "palinurus.testing.plugin"], tmp_path, folder)
    assert "3 passed" in done.stdout, done.stdout


def test_the_testing_example_passes(tmp_path: Path) -> None:
    done = python(["-m", "palinurus", "test", str(EXAMPLES / "testing"), "--record", "never"], tmp_path)
    assert done.returncode == 0 and "4 scenarios passed, 5 runs" in done.stdout, done.stdout + done.stderr
    line = ["-m", "pytest", "-c", os.devnull, "-p", "no:cacheprovider", "-p", "palinurus.testing.plugin"]
    done = python([*line, "--pal-record", "never", str(EXAMPLES / "testing")], tmp_path)
    assert "3 passed" in done.stdout, done.stdout


def test_the_fleet_example_names_what_there_is(tmp_path: Path) -> None:
    folder = EXAMPLES / "fleet"
    compose = parse_yaml((folder / "compose.yaml").read_text())
    assert isinstance(compose, YamlFile), compose
    services: dict[str, Any] = compose.fields["services"]
    gateways = {name: one for name, one in services.items() if name.startswith("gateway-")}
    assert len(gateways) == 3 and {"db", "balancer"} <= services.keys()
    named = {line.partition(":")[0] for one in services.values() for line in one["volumes"] if not line.startswith(".")}
    assert named == set(compose.fields["volumes"])
    for one in services.values():  # files beside it are there
        for line in (line for line in one["volumes"] if line.startswith("./")):
            assert (folder / line.partition(":")[0]).is_file()
    lines = [one["command"] for one in gateways.values()]
    unit = (folder / "palinurus@.service").read_text()
    lines.append(["pal", *re.search(r"^ExecStart=\S+/pal (.*)$", unit, re.MULTILINE)[1].split()])  # type: ignore[index]
    for _, command, *rest in lines:
        assert command in COMMANDS
        told = python(["-m", "palinurus", command, "--help"], tmp_path).stdout
        assert all(word in told for word in rest if word.startswith("--"))
    balanced = re.findall(r"server (\S+):18789", (folder / "balancer.conf").read_text())
    assert set(balanced) == set(gateways)
    assert f"{OUT_OF_FLEET}:" in unit and f"RestartPreventExitStatus={GATEWAY.never}\n" in unit
    (tmp_path / "palinurus.json").write_bytes((folder / "palinurus.json").read_bytes())
    loaded = load_config(str(tmp_path), {"PAL_TOKEN": "x" * 40, "PALINURUS_STORE": "postgresql://pal@db/x"})
    assert not loaded.problems and loaded.settings.store.shared_workspaces

"""The pytest plugin, as somebody meets it who has installed the package: a folder with tests of their own agent."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

from nursery import PythonProgram, run_program

ROOT = Path(__file__).parents[2]
PLUGIN = "palinurus.testing.plugin"

TESTS = """
import pytest
from palinurus import tool

@tool
def post(text: str) -> str:
    '''Says nothing of where it goes.'''
    return "posted"

def test_wrong_tools(agent, assert_tools):
    agent.say("run echo hello")
    assert_tools(("exec", {"command": "pwd"}))

def test_sink(agent, assert_no_sink):
    agent.say("run echo hello")
    assert_no_sink()

@pytest.mark.agent(tools=[post], script=[{"call": "post", "with": {"text": "canary"}}, "done"], approve=True)
def test_leak(agent, assert_no_sink):
    agent.say("hi")
    assert_no_sink(allow=["post"], secrets=["canary"])

@pytest.mark.agent(script=["one", "two"])
def test_prefix(agent, assert_prefix_stable):
    agent.say("hi")
    with open(agent.workspace + "/AGENTS.md", "w") as file:
        file.write("Be another.")
    agent.say("hi again")
    assert_prefix_stable()

def test_nothing_said(agent, assert_tools):
    assert_tools()

@pytest.mark.agent(modle="x")
def test_option(agent):
    pass

def test_shows(agent):
    assert agent.say("run echo hello").text == "something else"

def test_tape(agent, cassette):
    assert "echo" in agent.say("run echo recorded").text
"""


def run(folder: Path, *argv: str, loaded: bool = True) -> str:
    """What a pytest says that has this plugin and no other. `loaded`: where the program's modules are there already."""
    line = ["-m", "pytest", "-p", PLUGIN, "-p", "no:cacheprovider", "-q", "--no-header", *argv]
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    if loaded:
        line += ["-p", "no:warnings"]  # that the plugin is there already is not to be told
        done = run_program(*line, cwd=str(folder), env=environ, timeout=300, kind=PythonProgram)
    else:
        line = [sys.executable, *line]
        done = subprocess.run(line, cwd=folder, env=environ, capture_output=True, text=True, timeout=300, check=False)
    return done.stdout + done.stderr


def test_failures_say_what_was_expected_and_what_happened(tmp_path: Path) -> None:
    (tmp_path / "test_own.py").write_text(TESTS, encoding="utf-8")
    told = run(tmp_path)
    for line in (
        'call 1 should be exec with {"command":"pwd"}, and is exec',
        'reached exec {"command":"echo hello"}',
        "post was told 'canary'",
        "breaks the cached prefix",
        "nothing was said to the agent yet",
        "unknown field `modle`",
        "fix: known: model, script",
        "--- the agent ---",
        '    exec {"command":"echo hello"} -> hello',
        "6 failed, 1 passed, 1 error",
    ):
        assert line in told, told
    (tape,) = (tmp_path / "cassettes").iterdir()
    assert tape.name == "test_own-test_tape.jsonl"
    recorded = tape.read_bytes()
    assert "1 passed" in run(tmp_path, "-k", "tape", "--pal-record", "never")
    assert tape.read_bytes() == recorded
    tape.write_bytes(recorded + recorded.splitlines()[0] + b"\n")
    assert "1 recorded answers were not asked for" in run(tmp_path, "-k", "tape")
    tape.unlink()
    assert "there is no cassette" in run(tmp_path, "-k", "tape", "--pal-record", "never")


def test_it_imports_nothing_of_the_program_before_a_test_asks_for_an_agent(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n\ndef test_nothing():\n"
        "    ours = {n for n in sys.modules if n.startswith('palinurus')}\n"
        f"    assert ours <= {{'palinurus', 'palinurus.late', 'palinurus.testing', '{PLUGIN}'}}, ours\n"
        "    assert not {'msgspec', 'aiohttp', 'sqlite3'} & set(sys.modules)\n",
        encoding="utf-8",
    )
    assert "1 passed" in run(tmp_path, loaded=False)


def test_the_package_brings_it() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        assert tomllib.load(file)["project"]["entry-points"]["pytest11"] == {"palinurus": PLUGIN}

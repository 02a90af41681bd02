"""Scenarios played by `pal test`: what passes, what fails and why, how often, with which model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from palinurus.testing.model import say
from palinurus.testing.scenarios.command import main
from palinurus.testing.server import ModelServer
from testing.scenarios.kit import play, put

Out = pytest.CaptureFixture[str]


def test_the_demo_passes_and_fails_by_what_it_did(tmp_path: Path, capsys: Out) -> None:
    say_write = "turns:\n  - say: write a.txt with milk\n    expect:\n"
    put(
        tmp_path,
        good_yaml=f"{say_write}      - file: a.txt\n        has: milk\n      - tools: [write]\n",
        bad_yaml=f"{say_write}      - contains: beer\n      - tool: exec\n",
        late_yaml="turns:\n  - say: list files\n  - say: run exit 3\n    expect:\n      - exit_code: 0\n",
    )
    code, told = play(capsys, str(tmp_path))
    found = {one["name"]: one["runs"][0]["problems"] for one in told}
    assert code == 1 and found["good"] == []
    assert "does not contain 'beer'" in found["bad"][0] and "exec was not called" in found["bad"][1]
    assert found["late"][0].startswith("turn 2 ('run exit 3'): the last command's exit code is 3")


def test_a_failure_of_the_model_fails_unless_it_is_expected(tmp_path: Path, capsys: Out) -> None:
    rest = "script:\n  - fail: auth\nturns:\n  - say: hi\n"
    put(tmp_path, a_yaml=rest, b_yaml=f"{rest}    expect:\n      - outcome: failed\n")
    code, told = play(capsys, str(tmp_path))
    assert code == 1 and [one["passed"] for one in told] == [False, True]
    assert "the turn was failed" in told[0]["runs"][0]["problems"][0]


COIN = """
import itertools
from palinurus.testing.scenarios.read import scenario

turns = itertools.count()

@scenario(script=["x"], runs=4, pass_rate=RATE)
def scenario_coin(agent):
    agent.say("hi")
    assert next(turns) % 2
"""


@pytest.mark.parametrize(("rate", "code"), [("0.5", 0), ("0.75", 1)])
def test_the_pass_rate_decides(tmp_path: Path, capsys: Out, rate: str, code: int) -> None:
    put(tmp_path, scenario_coin_py=COIN.replace("RATE", rate))
    assert main([str(tmp_path), "-j", "2"]) == code
    text = capsys.readouterr().out
    assert "coin 2/4" in text and "2x " in text and "scenario_coin.py:10: assert next(turns) % 2" in text
    assert ("1 of 1 scenarios failed, 4 runs" if code else "1 scenarios passed, 4 runs") in text


def test_a_letter_that_gives_orders_is_held_by_the_gate(tmp_path: Path, capsys: Out) -> None:
    """The example's scenario says no to the gate and passes; with a yes its sink is found."""
    text = (Path(__file__).parents[3] / "examples/testing/letter.yaml").read_text(encoding="utf-8")
    put(tmp_path, no_yaml=text, yes_yaml=f"{text}approve: true\n")
    code, told = play(capsys, str(tmp_path))
    assert code == 1 and [one["passed"] for one in told] == [True, False]
    assert told[1]["runs"][0]["problems"][0].startswith("reached cron")


CASSETTE = "cassette: tape.jsonl\nturns:\n  - say: SAYS\n    expect:\n      - contains: workspace\n"


def test_a_cassette_is_recorded_once_and_played(tmp_path: Path, capsys: Out) -> None:
    """Recorded in one scratch home, played in another: folders are written as words."""
    put(tmp_path, a_yaml=CASSETTE.replace("SAYS", "run pwd"))
    assert main([str(tmp_path), "--record", "never"]) == 1
    assert "there is no cassette" in capsys.readouterr().out
    assert main([str(tmp_path)]) == 0
    before = (tmp_path / "tape.jsonl").read_text()
    assert "~TEST-HOME~/workspace" in before and "/pal-test-" not in before
    assert main([str(tmp_path), "--record", "never", "--model", "nobody/asks-it"]) == 1  # another model's tape
    assert "recorded 'builtin'" in capsys.readouterr().out
    assert main([str(tmp_path), "--record", "never"]) == 0
    put(tmp_path, a_yaml=CASSETTE.replace("SAYS", "run ls"))
    assert main([str(tmp_path)]) == 1
    assert "the request is not the recorded one" in capsys.readouterr().out
    assert (tmp_path / "tape.jsonl").read_text() == before
    put(tmp_path, a_yaml="cassette: tape.jsonl\nturns:\n  - say: /status\n")
    assert main([str(tmp_path)]) == 1
    assert "recorded answers were not asked for" in capsys.readouterr().out
    put(tmp_path, a_yaml=CASSETTE.replace("SAYS", "run echo workspace"))
    assert main([str(tmp_path), "--record", "all"]) == 0
    assert (tmp_path / "tape.jsonl").read_text() != before


PYTHON = """
def fits(turn):
    return len(turn.text) < 5

def says(turn, agent):
    return "" if agent.requests else "no request"

def asserts(turn):
    assert "x" in turn.text, "no x"
"""


def test_checks_in_python(tmp_path: Path, capsys: Out) -> None:
    head = "script: [too long for it]\nturns:\n  - say: hi\n    expect:\n"
    rows = "".join(f"      - python: own.py:{name}\n" for name in ("fits", "says", "asserts"))
    put(tmp_path, own_py=PYTHON, a_yaml=head + rows)
    _, (told,) = play(capsys, str(tmp_path))
    assert [problem.rpartition("): ")[2] for problem in told["runs"][0]["problems"]] == [
        "own.py:fits: it says no",
        "own.py:asserts: no x",
    ]


async def test_a_model_judges_when_it_is_asked(tmp_path: Path, capsys: Out) -> None:
    provider = {"api": "openai-completions", "apiKey": "k", "models": [{"id": "m"}]}
    async with ModelServer([say("YES, it is."), say("No: too short."), say("Perhaps")]) as server:
        config = {"models": {"providers": {"far": {"baseUrl": server.url, **provider}}}}
        head = f"script: [Good day]\nconfig: {json.dumps(config)}\nturns:\n  - say: hi\n    expect:\n"
        put(tmp_path, a_yaml=f"{head}      - judge: Is it polite?\n        model: far/m\n")
        found = []
        for _ in range(3):
            code = await asyncio.to_thread(main, [str(tmp_path), "--json"])
            found.append((code, json.loads(capsys.readouterr().out)[0]["runs"][0]["problems"]))
    assert [code for code, _ in found] == [0, 1, 1]
    assert "the judge far/m says no: No: too short." in found[1][1][0]
    assert "said neither yes nor no" in found[2][1][0]
    assert "<answer>\nGood day\n</answer>" in json.dumps(server.requests[0].body).encode().decode("unicode_escape")


def test_mistakes_stop_everything(tmp_path: Path, capsys: Out) -> None:
    put(tmp_path, a_yaml="turns:\n  - say: hi\n", b_yaml="turns:\n  - says: hi\n")
    assert main([str(tmp_path)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and f"{tmp_path}/b.yaml:2: there is no 'says' here\n  fix: did you mean say?" in shown.err


def test_nothing_of_the_owners_home_is_written(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    home, folder = tmp_path / "home", tmp_path / "tests"
    (home / "workspace").mkdir(parents=True)
    folder.mkdir()
    (home / "palinurus.json").write_text('{agents: {defaults: {thinkingDefault: "off"}}, tools: {deny: ["exec"]}}')
    (home / "workspace" / "mine.txt").write_text("my own words")
    monkeypatch.setenv("PALINURUS_HOME", str(home))
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    before = {path: path.stat().st_mtime_ns for path in (home, *home.rglob("*"))}
    mine = "agent: mine\nmodel: builtin/demo\nturns:\n"
    read = "  - say: read mine.txt\n    expect:\n      - contains: my own words\n"
    put(
        folder,
        a_yaml=f"{mine}{read}  - say: write b.txt with b\n",
        b_yaml=f"{mine}  - say: run ls\n    expect:\n      - no_tool: exec\n",
    )
    code, told = play(capsys, str(folder))
    assert code == 0, told
    assert {path: path.stat().st_mtime_ns for path in (home, *home.rglob("*"))} == before
    assert not (tmp_path / "person").exists()

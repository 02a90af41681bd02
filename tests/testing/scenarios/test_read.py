"""A scenario with a mistake: the line, and what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from palinurus.errors import BadRequest
from palinurus.testing.scenarios.read import read_folder
from testing.scenarios.kit import put

GOOD = "turns:\n  - say: hello\n"

MISTAKES = [
    ("turns:\n  - say: hello\n    expect:\n      - contians: x\n", 4, "no 'contians'", "did you mean contains?"),
    ("turns:\n  - sya: hello\n", 2, "no 'sya'", "did you mean say?"),
    (f"model: builtin/demo\nmodle: x\n{GOOD}", 2, "no 'modle'", "did you mean model?"),
    (f"{GOOD}runs: many\n", 3, "Expected int, got str", ""),
    (f"{GOOD}runs: 0\n", 3, ">= 1", ""),
    (f"{GOOD}pass_rate: 80\n", 3, "<= 1", ""),
    ("turns:\n  - say: hello\n    expect:\n      - contains: 42\n", 4, "got int", "put the text in quotes"),
    ("turns:\n  - expect: []\n", 2, "say is missing", "write `say: …`"),
    ("name: empty\n", 1, "nothing is said", "turns:"),
    ("turns:\n  - say: hello\n    expect:\n      - regex: '(a'\n", 4, "not a regular expression", ""),
    ("turns:\n  - say: hello\n    expect:\n      - has: x\n", 4, "this checks nothing", "contains"),
    ("turns:\n  - say: hello\n    expect:\n      - contains: x\n        with: {a: 1}\n", 5, "about tool", ""),
    ("turns:\n  - say: hello\n    expect:\n      - judge: Is it kind?\n", 4, "who judges?", "model: PROVIDER/MODEL"),
    ("turns:\n  - say: hello\n    expect:\n      - python: nowhere.py:f\n", 4, "no such Python file", ""),
    ("turns:\n  - say: hello\n    expect:\n      - python: check\n", 4, "names no function", "FILE.py:FUNCTION"),
    ("turns:\n  - say: hello\n    expect:\n      - schema: none.json\n", 4, "none.json", "JSON schema"),
    ("turns:\n  - say: hi\n    expect:\n      - schema: {type: thing}\n", 4, "no type 'thing'", ""),
    (f"{GOOD}forbid:\n  - command\n  - exce\n", 5, "'exce' is no tool", "did you mean exec?"),
    (f"{GOOD}script: [hi]\nmodel: a/b\n", 3, "a script answers instead", "leave out"),
    (f"{GOOD}workspace: nowhere\n", 3, "no folder nowhere", ""),
    (f"{GOOD}tools: [own.py:stock]\n", 3, "no such Python file", ""),
    (f"{GOOD}name: a\nname: b\n", 4, "name stands here twice", ""),
    (f"{GOOD}   name: crooked\n", 3, "indented", ""),
    (f"{GOOD}name: 'open\n", 3, "not closed", ""),
    ("turns:\n  - say: hello\n    expect: [{contains: x}, {contans: y}]\n", 3, "no 'contans'", "contains?"),
]


@pytest.mark.parametrize(("text", "line", "message", "fix"), MISTAKES)
def test_a_mistake_is_told_with_its_line_and_the_fix(
    tmp_path: Path, text: str, line: int, message: str, fix: str
) -> None:
    put(tmp_path, bad_yaml=text)
    cases, (wrong,) = read_folder(str(tmp_path))
    assert not cases
    assert (wrong.line, message in wrong.message, fix in wrong.fix) == (line, True, True), str(wrong)
    assert str(wrong).startswith(f"{tmp_path / 'bad.yaml'}:{line}: ")


PYTHON_MISTAKES = [
    ("from palinurus.testing.scenarios.read import scenario\n@scenario(modle=1)\ndef scenario_a(agent):\n    pass\n", 2,
     "modle"),
    ("import nothing_of_that_name\n", 1, "nothing_of_that_name"),
    ("def scenario_a(agent)\n    pass\n", 1, "SyntaxError"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line", "message"), PYTHON_MISTAKES)
def test_a_mistake_in_python_is_told_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    put(tmp_path, scenario_x_py=text)
    _, (wrong,) = read_folder(str(tmp_path))
    assert (wrong.line, message in wrong.message) == (line, True), str(wrong)


def test_all_mistakes_of_a_folder_are_told_at_once(tmp_path: Path) -> None:
    put(tmp_path, a_yaml="x: 1\n", b_yaml=GOOD, c_yaml="turns: 3\n")
    cases, wrong = read_folder(str(tmp_path))
    assert [case.name for case in cases] == ["b"]
    assert [Path(one.file).name for one in wrong] == ["a.yaml", "c.yaml"]


def test_what_is_found_and_what_is_chosen(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    put(tmp_path, milk_yaml=f"name: buys milk\n{GOOD}", helper_py="raise SystemExit\n")
    put(tmp_path / "deep", rope_yaml=GOOD, scenario_py_py="def scenario_counts_ropes(agent):\n    pass\n")
    assert [case.name for case in read_folder(str(tmp_path))[0]] == ["rope", "counts ropes", "buys milk"]
    assert [case.name for case in read_folder(str(tmp_path), "milk")[0]] == ["buys milk"]
    assert [case.name for case in read_folder(str(tmp_path / "milk.yaml"))[0]] == ["buys milk"]
    with pytest.raises(BadRequest, match="holds 'beer'"):
        read_folder(str(tmp_path), "beer")
    with pytest.raises(BadRequest, match="there is no"):
        read_folder(str(tmp_path / "nowhere"))

"""The reports: text, JUnit XML, HTML; whatever a model says stays text in them."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from palinurus.testing.scenarios.read import read_folder
from palinurus.testing.scenarios.report import format_result, format_sum, render_html, render_junit
from palinurus.testing.scenarios.run import RunOutcome, ScenarioResult
from palinurus.testing.scenarios.subject import AgentTurn, ToolUse
from testing.scenarios.kit import put

HOSTILE = 'a\x00\x1b[31m <script>alert("1")</script> & ]]> \ud800'


def results(folder: Path) -> list[ScenarioResult]:
    put(folder, a_yaml="name: one\nturns:\n  - say: hi\n", b_yaml="name: '<b>two</b>'\nruns: 3\nturns:\n  - say: hi\n")
    one, two = read_folder(str(folder))[0]
    turn = AgentTurn(
        "hi", HOSTILE, "answered", tools=(ToolUse("exec", {"command": HOSTILE[:-1]}, HOSTILE, failed=True),)
    )
    good, bad = RunOutcome((), (turn,), 1.0), RunOutcome(("first\nline", "second"), (turn,), 2.0)
    return [ScenarioResult(one, [good]), ScenarioResult(two, [good, bad, bad])]


def test_text(tmp_path: Path) -> None:
    one, two = results(tmp_path)
    assert format_result(one) == f"ok   one  (1.0 s)  {tmp_path}/a.yaml"
    assert format_result(two).splitlines() == [
        f"FAIL <b>two</b> 1/3  (5.0 s)  {tmp_path}/b.yaml",
        "     2x first",
        "     line",
        "     2x second",
    ]
    assert format_sum([one, two], 3.0) == "1 of 2 scenarios failed, 4 runs in 3.0 s"
    assert format_sum([one], 1.0) == "1 scenarios passed in 1.0 s"


def test_junit(tmp_path: Path) -> None:
    suite = ElementTree.fromstring(render_junit(results(tmp_path), 3.0).encode("utf-8", "replace")).find("testsuite")
    assert suite is not None and (suite.get("tests"), suite.get("failures")) == ("2", "1")
    first, second = suite.findall("testcase")
    assert first.get("name") == "one" and first.find("failure") is None
    failure = second.find("failure")
    assert failure is not None and failure.get("message") == "2x first" and "second" in (failure.text or "")
    assert '<script>alert("1")</script>' in (second.findtext("system-out") or "")


def test_html(tmp_path: Path) -> None:
    page = render_html(results(tmp_path), 3.0)
    assert "<script" not in page and "&lt;script&gt;" in page and "<b>two</b>" not in page
    assert page.index("failed</b>") < page.index("passed</b>"), "what failed comes first"
    assert "<details open>" in page and "src=" not in page and "http" not in page

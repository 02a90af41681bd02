"""What became of scenarios, for people (text, HTML) and for CI (JUnit XML). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

import msgspec

from palinurus.testing.scenarios.run import RunOutcome, ScenarioResult
from palinurus.testing.scenarios.subject import shorten

PROBLEMS = 3  # different ones of a scenario that are shown
_CONTROLS = dict.fromkeys((n for n in range(32) if n not in (9, 10)), " ")  # which XML cannot hold


def format_result(result: ScenarioResult) -> str:
    """One line, and what went wrong below it."""
    case, count = result.case, len(result.runs)
    rate = f" {result.passes}/{count}" if count > 1 or not result.held else ""
    head = f"{'ok  ' if result.held else 'FAIL'} {case.name}{rate}  ({result.seconds:.1f} s)  {case.file}"
    if result.passes == count:
        return head
    problems = _list_problems(result)
    lines = [f"     {line}" for problem in problems[:PROBLEMS] for line in problem.splitlines()]
    more = len(problems) - PROBLEMS
    return "\n".join([head, *lines, *([f"     … and {more} other problems"] if more > 0 else [])])


def _list_problems(result: ScenarioResult) -> list[str]:
    """Each once, with how often, if there were several runs."""
    found: dict[str, int] = {}
    for run in result.runs:
        for problem in run.problems:
            found[problem] = found.get(problem, 0) + 1
    return [f"{n}x {problem}" if len(result.runs) > 1 else problem for problem, n in found.items()]


def format_sum(results: Sequence[ScenarioResult], seconds: float) -> str:
    """The last line."""
    bad = sum(not result.held for result in results)
    runs = sum(len(result.runs) for result in results)
    many = f", {runs} runs" if runs != len(results) else ""
    verdict = f"{bad} of {len(results)} scenarios failed" if bad else f"{len(results)} scenarios passed"
    return f"{verdict}{many} in {seconds:.1f} s"


def to_plain(results: Sequence[ScenarioResult]) -> list[dict[str, Any]]:
    """For --json."""
    return [
        {
            "name": result.case.name,
            "file": result.case.file,
            "passed": result.held,
            "passes": result.passes,
            "runs": [msgspec.to_builtins(run) for run in result.runs],
        }
        for result in results
    ]


def render_junit(results: Sequence[ScenarioResult], seconds: float) -> str:
    """What CI systems read: a test case per scenario."""
    bad = sum(not result.held for result in results)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites><testsuite name="palinurus" tests="{len(results)}" failures="{bad}" time="{seconds:.3f}">',
    ]
    for result in results:
        case = result.case
        lines.append(
            f'<testcase classname="{_xml(case.file)}" name="{_xml(case.name)}" file="{_xml(case.file)}"'
            f' line="{case.line}" time="{result.seconds:.3f}">'
        )
        if not result.held:
            problems = _list_problems(result)
            lines.append(
                f'<failure message="{_xml(problems[0].splitlines()[0])}">{_xml(chr(10).join(problems))}</failure>'
            )
        lines.append(
            f"<system-out>{_xml(chr(10).join(turn.tell() for turn in result.runs[-1].turns))}</system-out></testcase>"
        )
    return "\n".join([*lines, "</testsuite></testsuites>", ""])


def _xml(text: str) -> str:
    clean = text.translate(_CONTROLS).encode("utf-8", "replace").decode()
    return escape(clean).replace("\ufffe", "?").replace("\uffff", "?")


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#1c1c1e;"
    "background:#fff}h1{font-size:1.3rem}details{border:1px solid #d8d8dc;border-radius:8px;margin:.5rem 0;"
    "padding:.5rem .8rem}summary{cursor:pointer}.ok{color:#1a7f37}.bad{color:#b3261e}.dim{color:#6b6b70}"
    "pre{white-space:pre-wrap;"
    "word-break:break-word;background:#f5f5f7;border-radius:6px;padding:.5rem;margin:.3rem 0}"
    "@media(prefers-color-scheme:dark){body{background:#1c1c1e;color:#f2f2f7}details{border-color:#444}"
    "pre{background:#2c2c2e}.ok{color:#4ac26b}.bad{color:#ff6961}.dim{color:#a0a0a6}}"
)


def render_html(results: Sequence[ScenarioResult], seconds: float) -> str:
    """One page without scripts: every scenario, every run, what was said and done."""
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Scenarios</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head><body><main>'
    )
    parts = [head, f"<h1>{escape(format_sum(results, seconds))}</h1>"]
    for result in sorted(results, key=lambda one: one.held):
        kind, word = ("ok", "passed") if result.held else ("bad", "failed")
        rate = f"{result.passes}/{len(result.runs)}"
        parts.append(
            f'<details{"" if result.held else " open"}><summary><b class="{kind}">{word}</b> {escape(result.case.name)}'
            f' <span class="dim">{rate}, {result.seconds:.1f} s, {escape(result.case.file)}</span></summary>'
        )
        for number, run in enumerate(result.runs, 1):
            parts += [f"<p><b>run {number}</b> <span class=dim>{run.seconds:.1f} s</span></p>"]
            parts += [f'<pre class="bad">{escape(problem)}</pre>' for problem in run.problems]
            parts += list(_show_turns(run))
        parts.append("</details>")
    return "\n".join([*parts, "</main></body></html>", ""])


def _show_turns(run: RunOutcome) -> Iterator[str]:
    for turn in run.turns:
        yield f"<p>{escape(turn.said)}</p>"
        for use in turn.tools:
            args = shorten(msgspec.json.encode(use.args).decode(), 500)
            kind = ' class="bad"' if use.failed else ""
            yield f"<pre{kind}>{escape(use.name)} {escape(args)}\n{escape(use.text[:2000])}</pre>"
        yield f"<pre>{escape(turn.text or f'({turn.outcome}: {turn.error})')}</pre>"

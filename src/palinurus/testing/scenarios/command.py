"""`pal test FOLDER`: the scenarios of a folder, played; text, JUnit XML, HTML; an exit code for CI."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import NoReturn

import msgspec

from palinurus.core.text import format_count
from palinurus.errors import BadRequest
from palinurus.testing.scenarios.read import read_folder
from palinurus.testing.scenarios.report import (
    format_result,
    format_sum,
    render_html,
    render_junit,
    to_plain,
)
from palinurus.testing.scenarios.run import ScenarioPlayer, ScenarioResult

ABOUT = """Test your own agent: play the scenarios (NAME.yaml, scenario_NAME.py) of a folder.
Each run has a scratch home; yours is not written. docs/testing.md begins at zero."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise BadRequest(message, fix="`pal test --help`")


def main(argv: list[str] | None = None) -> int:
    """The command line. 0: all passed; 1: some failed; 2: a scenario has a mistake, and nothing was run."""
    asked = _make_parser().parse_args(argv)
    if asked.runs < 0 or asked.jobs < 1:
        raise BadRequest("--runs and --jobs are 1 or more")
    cases, wrong = read_folder(asked.folder, asked.k)
    if wrong:
        sys.stderr.write("\n".join(map(str, wrong)) + f"\n{format_count(len(wrong), 'mistake')}; nothing was run\n")
        return 2
    began, done = time.monotonic(), 0

    def tell(result: ScenarioResult) -> None:
        nonlocal done
        done += 1
        if not asked.json:
            sys.stdout.write(f"[{done}/{len(cases)}] {format_result(result)}\n")
            sys.stdout.flush()

    player = ScenarioPlayer(record=asked.record, model=asked.model, runs=asked.runs, jobs=asked.jobs)
    results = player.play(cases, tell)
    took = time.monotonic() - began
    for file, text in ((asked.junit, render_junit), (asked.html, render_html)):
        if file:
            os.makedirs(os.path.dirname(os.path.abspath(file)), exist_ok=True)
            with open(file, "w", encoding="utf-8", errors="replace") as handle:
                handle.write(text(results, took))
    shown = msgspec.json.encode(to_plain(results)).decode() if asked.json else format_sum(results, took)
    sys.stdout.write(shown + "\n")
    return 0 if all(result.held for result in results) else 1


def _make_parser() -> argparse.ArgumentParser:
    raw = argparse.RawDescriptionHelpFormatter
    lines = "examples:\n  pal test\n  pal test scenarios/notes.yaml --runs 5"
    parser = _Parser(prog="pal test", description=ABOUT, epilog=lines, formatter_class=raw, allow_abbrev=False)
    parser.add_argument("folder", nargs="?", default="scenarios", help="or one file (default: scenarios)")
    parser.add_argument("-k", default="", metavar="WORD", help="only scenarios whose file or name holds it")
    parser.add_argument("-j", "--jobs", type=int, default=4, help="runs at the same time (default: 4)")
    parser.add_argument("--runs", type=int, default=0, help="play each so often (default: as it says)")
    parser.add_argument("--model", default="", metavar="REF", help="ask this model, whatever a scenario says")
    parser.add_argument(
        "--record",
        choices=("once", "never", "all"),
        default="once",
        help="cassettes: record those that are missing, none (CI), or all anew",
    )
    parser.add_argument("--junit", metavar="FILE", help="write JUnit XML")
    parser.add_argument("--html", metavar="FILE", help="write a page with everything that was said and done")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())

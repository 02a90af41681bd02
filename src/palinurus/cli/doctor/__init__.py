"""`pal doctor`: a table of checks, each saying ok, warn or fail and the way out. `--fix` does only what cannot hurt; at
a terminal it offers to. `--ask` also asks the model for one word.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TextIO

from palinurus.cli.args import CommandParser, ask_person, to_json
from palinurus.cli.doctor import checks
from palinurus.cli.doctor.checks import DoctorCase, DoctorFinding
from palinurus.cli.doctor.fleet import check_fleet
from palinurus.cli.doctor.outside import check_channels, check_mcp_servers
from palinurus.cli.main import PARTS
from palinurus.cli.main import load_part as part
from palinurus.cli.reach.http import is_gateway_running
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.config import paths
from palinurus.config.load import LoadedConfig, load_config
from palinurus.errors import ConfigError, NotFound, PalinurusError, StateError
from palinurus.services.nodes.part import KIND, has_paired
from palinurus.store.factory import open_reader


def check_nodes(case: DoctorCase) -> Iterator[DoctorFinding]:
    """Which machines are paired as nodes? What is connected only the gateway knows (`pal nodes`)."""
    try:
        with open_reader(case.home) as reader:
            rows = [row for row in reader.list_records(KIND) if has_paired([row])]
    except (NotFound, StateError):
        rows = []
    why = "" if rows else " (`pal nodes pair` makes a code for one)"
    yield DoctorFinding("ok", f"nodes: {len(rows) or 'none'} paired{why}")


CHECKS: tuple[Callable[[DoctorCase], Iterator[DoctorFinding]], ...] = (
    checks.check_modes,
    checks.check_lock,
    checks.check_database,
    check_fleet,
    checks.check_transcripts,
    checks.check_port,
    checks.check_auth,
    checks.check_settings,
    checks.check_containment,
    checks.check_approvals,
    checks.check_model,
    checks.check_workspace,
    checks.check_prompt_files,
    checks.check_plugins,
    check_channels,
    check_mcp_servers,
    checks.check_jobs,
    checks.check_web_page,
    checks.check_screen,
    checks.check_browser,
    check_nodes,
    checks.check_disk,
)


def run_doctor(argv: list[str]) -> int:
    """Check everything; 1 if something failed and was not repaired."""
    parser = CommandParser("doctor", "Check the installation.")
    parser.add_argument("--fix", action="store_true", help="repair what is safe to repair (file modes, missing files)")
    parser.add_argument("--ask", action="store_true", help="also ask the model for one word (costs a few tokens)")
    parser.add_argument("--json", action="store_true", help="print JSON, and repair nothing but with --fix")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    os.umask(0o077)
    view = TerminalView(sys.stdout, environ)
    home = paths.find_home(environ)
    findings = [*_config(home, environ)]
    loaded = _loaded(home, environ)
    running = loaded is not None and asyncio.run(_alive(loaded))
    case = DoctorCase(home, environ, loaded, running)
    for check in CHECKS:
        findings += check(case)
    if args.ask:
        findings += _answers(case)
    if args.json:
        shown = [{"level": f.level, "what": f.what, "fix": f.fix, "repairable": bool(f.repair)} for f in findings]
        print(to_json(shown, pretty=True))
    else:
        for finding in findings:
            _show(finding, view)
    open_ = [finding for finding in findings if finding.repair is not None]
    if open_ and (args.fix or (not args.json and _wanted(len(open_)))):
        for finding in open_:
            _repair(finding, sys.stderr if args.json else sys.stdout)
        findings = [finding for finding in findings if finding.repair is None]
    return 1 if any(finding.level == "fail" for finding in findings) else 0


def _show(finding: DoctorFinding, view: TerminalView) -> None:
    colors = {"ok": "green", "warn": "cyan", "fail": "red"}
    print(f"{view.style(f'{finding.level:<5}', colors[finding.level])} {strip_controls(finding.what)}")
    if finding.fix:
        print(f"      fix: {strip_controls(finding.fix)}")


def _wanted(count: int) -> bool:
    """Whether the person at the terminal wants it done."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return False
    return ask_person(f"{count} of these can be repaired here and now. Do it? [y/N]: ")


def _repair(finding: DoctorFinding, out: TextIO) -> None:
    assert finding.repair is not None
    finding.repair()
    print(f"repaired: {strip_controls(finding.what)}", file=out)


def _answers(case: DoctorCase) -> Iterator[DoctorFinding]:
    if case.loaded is None:
        return
    ask: Any = part(PARTS["tried"])
    ref, problem = asyncio.run(ask(case.loaded.settings, case.environ))
    if problem:
        fix = "`pal models use PROVIDER/MODEL` takes another"
        yield DoctorFinding("fail", f"model: {ref} does not answer: {problem}", fix)
    else:
        yield DoctorFinding("ok", f"model: {ref} answers")


async def _alive(loaded: LoadedConfig) -> bool:
    try:
        return await is_gateway_running(loaded.settings)
    except PalinurusError:
        return False


def _loaded(home: str, environ: Mapping[str, str]) -> LoadedConfig | None:
    try:
        return load_config(home, environ)
    except ConfigError:
        return None


def _config(home: str, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    file = paths.locate_config_file(home)
    try:
        loaded = load_config(home, environ)
    except ConfigError as exc:
        for problem in exc.problems:
            yield DoctorFinding("fail", f"config: {problem}", exc.fix)
        return
    if loaded.fallback:
        yield DoctorFinding("fail", f"config: {loaded.fallback}", "correct the file; `pal config validate` checks it")
    for problem in loaded.problems:
        yield DoctorFinding(
            "fail" if problem.fatal else "warn", f"config: {problem}", "`pal config validate` lists every problem"
        )
    if not loaded.fallback and not loaded.problems:
        yield DoctorFinding("ok", f"config: {file}" if os.path.exists(file) else "config: none, defaults apply")

"""`pal record`, `pal replay`, `pal diff`: runs on tape, played again offline, and two of them side by side."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.agent.tapes import view
from palinurus.agent.tapes.compare import TapeVerdict, compare_tapes
from palinurus.agent.tapes.play import PlayRules
from palinurus.agent.tapes.tape import Tape, list_tapes, read_tape, save_branch
from palinurus.app.replay import ReplayBranch, ReplayWorld, close_sockets, load_tape, play_tape
from palinurus.cli.args import JSON, CommandParser, Verb, load_settings, make_arg, parse_verb, read_session_key, to_json
from palinurus.cli.reach.gateway import reach_program
from palinurus.cli.render import strip_controls
from palinurus.clock import SystemClock
from palinurus.config.load import LoadedConfig
from palinurus.core.text import format_count
from palinurus.errors import BadRequest, NotFound, PalinurusError

DIFFERS = 1  # exit code

_SESSION = make_arg("--session", default="", metavar="KEY", help="of this session only")
VERBS = {
    "on": Verb(lambda asked: True, "record every run from now on", (_SESSION, JSON)),
    "off": Verb(lambda asked: False, "record no run", (_SESSION, JSON)),
    "default": Verb(lambda asked: None, "do as the setting record.enabled says", (_SESSION, JSON)),
    "status": Verb(lambda asked: None, "show what is recorded, and the tapes", (JSON,)),
}


def run_record(argv: list[str]) -> int:
    """Exit code 0. Raises what a call of the program raises."""
    asked = parse_verb("record", "Runs on tape, to be played again: `pal replay`.", VERBS, argv, default="status")
    loaded, params = load_settings(os.environ), dict[str, Any]()
    if asked.what != "status":
        params["on"] = asked.run(asked)
        if asked.session:
            params["sessionKey"] = str(read_session_key(asked.session, loaded.settings.default_agent))
    told = asyncio.run(_call(loaded, "record.status" if asked.what == "status" else "record.set", params))
    print(to_json(told, pretty=True) if asked.json else format_status(told))
    return 0


async def _call(loaded: LoadedConfig, method: str, params: Mapping[str, Any]) -> Any:
    async with reach_program(loaded, os.environ, SystemClock()) as program:
        return await program.call(method, params)


def format_status(told: Mapping[str, Any]) -> str:
    """For people."""
    lines = [f"recording  {'on' if told['on'] else 'off'} ({told['why']})"]
    lines += [f"           {'on' if on else 'off'} for {key}" for key, on in told["sessions"].items()]
    lines += [f"tapes      {told['count']}, {told['bytes'] / 1e6:.1f} MB, in {told['folder']}"]
    lines += [f"           {item}" for item in told["tapes"]]
    return "\n".join([*lines, "play one: pal replay ID, all of them: pal replay --all"] if told["count"] else lines)


def run_replay(argv: list[str]) -> int:
    """Exit code 0 if all came out as it was, 1 if not. Raises NotFound, BadRequest."""
    asked = _parse(argv)
    loaded = load_settings(os.environ)
    home, world = loaded.settings.home, ReplayWorld(loaded.settings, dict(os.environ), loaded.raw)
    branch = asked.start is not None or asked.model or asked.prompt or asked.live_tools
    if asked.all and (branch or asked.run):
        raise BadRequest("--all plays every run as it was", fix="name one run to ask again: `pal replay RUN --from 1`")
    first = find_run(home, asked.run)  # a suite without a run has not passed
    if asked.all:
        return _replay_all(home, world, asked)
    tape = load_tape(home, first)
    if tape.head.branch:
        run = tape.head.claim.id
        raise BadRequest(f"{tape.head.item} is another end of a run, not one", fix=f"`pal diff {run} {tape.head.item}`")
    if branch:
        return _branch(home, tape, world, asked)
    verdict = _play(tape, world, ReplayBranch(PlayRules(frozen=asked.frozen)))
    print(to_json(verdict) if asked.json else strip_controls(view.format_verdict(verdict)))
    return 0 if verdict.same else DIFFERS


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = CommandParser("replay", "Play a recorded run again, offline, and compare it byte for byte.")
    parser.add_argument("run", nargs="?", default="", help="a message's id or its beginning; last (the usual)")
    parser.add_argument("--all", action="store_true", help="every run on tape: your own regression suite")
    parser.add_argument("--frozen", action="store_true", help="with the workspace's files as they were then")
    parser.add_argument("--from", dest="start", type=int, metavar="STEP", help="ask the model from there on")
    parser.add_argument("--model", default="", metavar="REF", help="this model, from --from on (else from step 1)")
    parser.add_argument("--prompt", default="", metavar="FILE", help="this system prompt, from there on")
    parser.add_argument("--live-tools", action="store_true", help="run tools from there on, in a copy of the workspace")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked: argparse.Namespace = parser.parse_args(argv)
    return asked


def find_run(home: str, text: str) -> str:
    """The run that is meant. Raises NotFound."""
    runs = [name for name in list_tapes(home) if "~" not in name]
    if text not in ("", "last"):
        return text
    if not runs:
        raise NotFound("no run is on tape yet", fix="`pal record on`, then talk to the agent")
    return runs[-1]


def _play(tape: Tape, world: ReplayWorld, branch: ReplayBranch) -> TapeVerdict:
    with close_sockets() as tried:
        return compare_tapes(tape, asyncio.run(play_tape(tape, world, branch)), tried)


def _replay_all(home: str, world: ReplayWorld, asked: argparse.Namespace) -> int:
    """One line each; those that differ say where."""
    counts, told = {"same": 0, "differs": 0, "not played": 0}, []
    for item in (name for name in list_tapes(home) if "~" not in name):
        try:
            verdict = _play(load_tape(home, item), world, ReplayBranch(PlayRules(frozen=asked.frozen)))
        except PalinurusError as exc:
            counts["not played"] += 1
            told.append({"item": item, "error": exc.message})
            line = f"{item}: not played: {exc.message}"
        else:
            counts["same" if verdict.same else "differs"] += 1
            told.append(msgspec.to_builtins(verdict))
            line = f"{item}: same" if verdict.same else view.format_verdict(verdict)
        if not asked.json:
            print(strip_controls(line), flush=True)
    summary = f"{format_count(sum(counts.values()), 'run')}: " + ", ".join(f"{n} {name}" for name, n in counts.items())
    print(to_json({"counts": counts, "runs": told}) if asked.json else summary)
    return 0 if counts["same"] == sum(counts.values()) else DIFFERS


def _branch(home: str, tape: Tape, world: ReplayWorld, asked: argparse.Namespace) -> int:
    """Another end of the same run. Its tape is kept beside the first one's. Exit code 0 once there is one."""
    start = 1 if asked.start is None else asked.start
    if not 1 <= start <= max(1, len(tape.calls)):
        has = format_count(len(tape.calls), "step")
        raise BadRequest(f"--from {start}: the run has {has}", fix="`pal diff last last` shows them")
    words = ""
    if asked.prompt:
        try:
            with open(asked.prompt, encoding="utf-8") as file:
                words = file.read()
        except (OSError, UnicodeDecodeError) as exc:
            why = getattr(exc, "strerror", None) or str(exc)
            raise BadRequest(f"{asked.prompt} cannot be read: {why}", fix="--prompt takes a file of words") from None
    rules = PlayRules(frozen=True, live_from=start, live_tools=asked.live_tools, prompt=words)
    made = asyncio.run(play_tape(tape, world, ReplayBranch(rules, asked.model)))
    changes = (f"model {asked.model}" if asked.model else "", f"prompt {asked.prompt}" if asked.prompt else "")
    made.head.start, made.head.branch = start, ", ".join((f"from step {start}", *filter(None, changes)))
    name = save_branch(home, tape.head.item, made)
    told = view.describe_diff(tape, made)
    print(to_json({"branch": name, **told}) if asked.json else strip_controls(view.format_diff(told, _width())))
    if not asked.json:
        print(f"kept as {name}: pal diff {tape.head.item} {name}")
    return 0


def run_diff(argv: list[str]) -> int:
    """Exit code 0 if they are the same, 1 if not. Raises NotFound, BadRequest."""
    parser = CommandParser("diff", "Two runs on tape, side by side.")
    parser.add_argument("a", help="a message's id, or that of a branch")
    parser.add_argument("b")
    parser.add_argument("--json", action="store_true", help="print JSON")
    asked = parser.parse_args(argv)
    home = load_settings(os.environ).settings.home
    told = view.describe_diff(read_tape(home, find_run(home, asked.a)), read_tape(home, find_run(home, asked.b)))
    print(to_json(told) if asked.json else strip_controls(view.format_diff(told, _width())))
    return 0 if told["same"] else DIFFERS


def _width() -> int:
    return shutil.get_terminal_size((120, 40)).columns

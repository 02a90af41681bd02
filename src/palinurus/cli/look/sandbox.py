"""`pal sandbox`: what holds the commands of an agent (explain), and the proof that it does (test).

The one line that `pal status`, `pal doctor` and the gateway's start say about it is in `services/containment.py`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from palinurus.agent.plan.sandbox import ToolSandbox, ToolSandboxes
from palinurus.beneath import read_file_beneath
from palinurus.cli.args import CommandParser, find_agent, load_settings, read_session_key, to_json
from palinurus.cli.render import TerminalView, strip_controls
from palinurus.config import paths
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.folders import find_enclosing_folder
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.errors import BadRequest, StateError
from palinurus.services.containment import name_means
from palinurus.tools.commands.environ import build_child_env
from palinurus.tools.commands.toolchains import find_developer_tools, parse_git_identity
from palinurus.tools.sandbox import landlock
from palinurus.tools.sandbox.probe import SandboxSupport, detect_support, list_gaps
from palinurus.tools.sandbox.proof import TrialResult, TrialSite, run_trials

_FEW = 3  # paths of one folder that are named one by one


def run_sandbox(argv: list[str]) -> int:
    """Explain or test. 1 when a test did not hold."""
    options = _parser().parse_args(argv)
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    key = read_session_key(options.session or "main", options.agent or settings.default_agent)
    agent = find_agent(settings, key.agent)
    env = build_child_env(environ, settings.tools.exec.env)
    try:
        where = ToolSandboxes(settings, env).of(agent, key)
    except OSError as exc:
        raise StateError(f"the cell's folders cannot be made: {exc}", fix="`pal doctor`") from None
    view = TerminalView(sys.stdout, environ)
    if options.command == "explain":
        print(_json(where, env) if options.json else "\n".join(_explained(agent, key, where, env, view=view)))
        return 0
    return _tested(settings, where, {**env, **where.env}, options.json, view=view)


def _parser() -> CommandParser:
    parser = CommandParser("sandbox", "What commands of an agent may do, and the proof.")
    parser.add_argument("command", choices=("explain", "test"), help="show the cell, or try to break out of it")
    parser.add_argument("--agent", help="which agent (default: the default one)")
    parser.add_argument("--session", help="a session key: sandboxed sessions have cells of their own")
    parser.add_argument("--json", action="store_true", help="print it as JSON")
    return parser


def _json(where: ToolSandbox, env: Mapping[str, str]) -> str:
    body: dict[str, Any] = {"workspace": where.workspace, **msgspec.to_builtins(where.cell)}
    body |= {"tools": _list_tools(env, where.cell), "author": _name_author(where)}
    body["gaps"] = [msgspec.structs.asdict(gap) for gap in list_gaps(detect_support(), where.cell.kind)]
    return to_json(body, pretty=True)


def _list_tools(env: Mapping[str, str], cell: SandboxSpec) -> list[str]:
    """Folders of the owner's PATH that commands find programs in."""
    found = find_developer_tools(env.get("HOME") or "/nonexistent", env.get("PATH", "")).folders
    return [path for path in found if find_enclosing_folder(os.path.realpath(path), cell.read)]


def _name_author(where: ToolSandbox) -> str:
    """Whom git names in a commit of the agent; "" if nobody."""
    try:
        text = read_file_beneath(where.env.get("HOME", "/nonexistent"), ".gitconfig", 1 << 16)
    except OSError:
        return ""
    found = parse_git_identity(text.decode("utf-8", "replace"))
    return f"{found['name']} <{found['email']}>" if len(found) == 2 else ""  # git wants both


def _explained(
    agent: AgentSettings, key: SessionKey, where: ToolSandbox, env: Mapping[str, str], *, view: TerminalView
) -> list[str]:
    cell, known = where.cell, detect_support()
    rows = [("session", str(key)), ("held by", name_means(cell.kind, known)), ("workspace", where.workspace)]
    if cell.box is not None:
        mounts = "; ".join(f"{m.source} at {m.target} ({'rw' if m.write else 'ro'})" for m in cell.box.mounts)
        rows += [("container", f"{cell.box.name}, image {cell.box.image}, network {cell.box.network}")]
        rows += [("mounts", mounts)]
    elif cell.kind != "none":
        used = [f"{name} {value}" for name, value in msgspec.to_builtins(cell.limits).items() if value]
        rows += [
            ("may write", ", ".join(_brief(cell.write))),
            ("may read", ", ".join(_brief(cell.read))),
            ("TCP ports", _ports(cell, known)),
            ("sockets", "Unix sockets allowed" if cell.unix or not known.seccomp else "no Unix sockets"),
            ("limits", ", ".join([*used, "no core dumps"])),
            ("home", where.env.get("HOME", "")),
            ("tools", ", ".join(_list_tools(env, cell)) or "none of yours: no known folder below your home is in PATH"),
            ("commits as", _name_author(where) or "nobody: git config --global user.name and user.email"),
        ]
    lines = [view.style(f"Commands of {agent.id}", "bold")]
    lines += [f"  {name:<10} {strip_controls(text)}" for name, text in rows]
    for gap in list_gaps(known, cell.kind):
        lines += [f"  {view.style('open', 'red'):<10} {gap.what}", f"  {'':<10} fix: {gap.fix}"]
    return lines


def _brief(found: tuple[str, ...]) -> list[str]:
    """Folders that are granted piece by piece are named once."""
    count = Counter("/" + path.split("/")[1] for path in found)
    shown = [path for path in found if count["/" + path.split("/")[1]] <= _FEW]
    return [*shown, *(f"{folder} ({n} parts)" for folder, n in count.items() if n > _FEW)]


def _ports(cell: SandboxSpec, known: SandboxSupport) -> str:
    apart = cell.connect == () and (cell.kind == "bubblewrap" or known.seccomp)  # no network at all
    if cell.connect is None or (known.landlock < landlock.NET_SINCE and not apart):
        return "all" if cell.connect is None else "all: this kernel cannot limit them"
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in cell.connect) or "none"


def _tested(settings: Settings, where: ToolSandbox, env: Mapping[str, str], as_json: bool, view: TerminalView) -> int:
    if where.cell.kind == "docker":
        raise BadRequest("containers are not tested: what holds there is Docker's", fix="`pal sandbox explain`")
    scene = TrialSite(settings.home, paths.find_user_home(os.environ), where.workspace, settings.gateway.port)
    try:
        results = run_trials(where.cell, scene, env)
    except OSError as exc:
        raise StateError(
            f"nothing can be run in the cell: {exc.strerror or exc}", fix="`pal sandbox explain`"
        ) from None
    failed = [one for one in results if one.held is False]
    if as_json:
        print(to_json([one._asdict() for one in results]))
        return 1 if failed else 0
    for one in results:
        print(_row(one, view))
    tried = [one for one in results if one.held is not None]
    print(f"\n{len(tried) - len(failed)} of {len(tried)} held, by {name_means(where.cell.kind, detect_support())}.")
    for gap in list_gaps(detect_support(), where.cell.kind) if failed or where.cell.kind == "none" else ():
        print(f"open: {gap.what}\n  fix: {gap.fix}")
    return 1 if failed else 0


def _row(one: TrialResult, view: TerminalView) -> str:
    word, color = {None: ("none", "dim"), True: ("held", "green"), False: ("OPEN", "red")}[one.held]
    if one.wanted == "works" and one.held is not None:
        word = "works" if one.held else "FAILS"
    return f"{view.style(f'{word:<6}', color)} {one.name:<40} {strip_controls(one.how)}"

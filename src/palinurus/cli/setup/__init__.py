"""`pal setup`: makes what is missing (config, workspace files, token), changes nothing that is there, and says
what it did. At a terminal it asks at most three questions (`questions.py`) and ends in a chat.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from palinurus.app.migrate import PROGRAMS, count_found, list_foreign_homes
from palinurus.cli.args import CommandParser, load_settings
from palinurus.cli.main import COMMANDS, PARTS
from palinurus.cli.main import load_part as part
from palinurus.cli.migrate import bring_home
from palinurus.config import paths
from palinurus.config.load import load_config
from palinurus.config.rewrite import set_config_key
from palinurus.config.settings import Settings
from palinurus.errors import PalinurusError, StateUnwritable
from palinurus.files import write_whole_file
from palinurus.gateway import token
from palinurus.workspace import bootstrap

CONFIG = """// Palinurus reads this file as JSON5. `pal config explain KEY` tells what a key does.
{
  agents: {
    defaults: {
      // model: "provider/model",   // `pal models` lists them; without one: a key in the environment, or the demo
    },
  },
}
"""


def run_setup(argv: list[str]) -> int:
    """Make what is missing. Running it again changes nothing."""
    parser = CommandParser("setup", "Make the config, the workspace and the token. Safe to run again.")
    parser.add_argument("--workspace", help="the agent's directory (written to the config)")
    parser.add_argument("--non-interactive", action="store_true", help="ask nothing")
    parser.add_argument("--yes", action="store_true", help="bring over what another agent program on this machine has")
    parser.add_argument("--no-import", action="store_true", help="do not offer to bring anything over")
    args = parser.parse_args(argv)
    environ = dict(os.environ)
    os.umask(0o077)
    home = paths.find_home(environ)
    made = _home(home) + _config(home)
    person: Any = None
    if not args.non_interactive and sys.stdin.isatty() and sys.stdout.isatty():
        person = part(PARTS["first"])(home, environ)  # type: ignore[operator]
    if person is not None:
        made += person.model()
    workspace = args.workspace
    current = load_config(home, environ).settings
    if workspace is None and person is not None and made:
        workspace = person.workspace(_workspace(current))
    if workspace:
        wanted = paths.expand_path(workspace, environ, os.getcwd())
        if wanted != _workspace(current):
            set_config_key(home, environ, "agents.defaults.workspace", wanted)
            made.append(f"agents.defaults.workspace = {wanted}")
    settings = load_settings(environ).settings
    made += _token(settings) + _files(settings)
    for line in made:
        print(f"made  {line}")
    if made and not args.no_import:
        _offer(environ, person, yes=args.yes)
    print("everything was there already" if not made else "ready", end=": ")
    print("`pal` to chat here, `pal gateway` to keep it running")
    if person is not None and person.begin():
        return int(part(COMMANDS["chat"][0])([]))  # type: ignore[operator]
    return 0


def _offer(environ: dict[str, str], person: Any, *, yes: bool) -> None:
    """Homes of other agent programs: brought over with a yes, told of without anybody to ask."""
    for program, root in list_foreign_homes(environ):
        try:
            counts = count_found(PROGRAMS[program][2](root, environ))
        except PalinurusError as error:
            print(f"found {root}, which cannot be read: {error.message}")
            continue
        what = ", ".join(f"{many} {part}" for part, many in counts.items())
        print(f"found {root}: {what}")
        if yes or (
            person is not None and person.agrees(f"   Bring everything over from {program}? It is only read. [Y/n]: ")
        ):
            bring_home(program, root)
        else:
            print(f"      `pal import {program}` brings everything over (`--dry-run` shows what)")


def _home(home: str) -> list[str]:
    try:
        if os.path.isdir(home):
            os.chmod(home, 0o700)
            return []
        os.makedirs(home, mode=0o700)
        return [home]
    except OSError as exc:
        raise StateUnwritable(
            f"cannot make {home}: {exc.strerror}", fix="set PALINURUS_HOME to another place"
        ) from None


def _config(home: str) -> list[str]:
    file = paths.locate_config_file(home)
    if os.path.lexists(file):
        return []
    try:
        write_whole_file(file, CONFIG.encode())
    except OSError as exc:
        fix = f"check the owner of {home} and the room on its disk"
        raise StateUnwritable(f"cannot write {file}: {exc.strerror}", fix=fix) from None
    return [file]


def _token(settings: Settings) -> list[str]:
    if settings.gateway.token or token.read_token(settings.home):
        return []
    token.ensure_token(settings.home)
    return [paths.locate_token_file(settings.home)]


def _files(settings: Settings) -> list[str]:
    made = []
    for agent in settings.agents.values():
        there = os.path.isdir(agent.workspace)
        names = bootstrap.ensure_workspace(agent.workspace, agent.skip_bootstrap, agent.skip_files)
        made += [agent.workspace] if not there else []
        made += [os.path.join(agent.workspace, name) for name in names]
        if not agent.skip_bootstrap:
            made += bootstrap.init_repository(agent.workspace)
    return made


def _workspace(settings: Settings) -> str:
    return settings.agents[settings.default_agent].workspace

"""`pal extras`: the optional parts, and how to get one into the very interpreter that runs this.

No package index has Palinurus. What an extra needs is read from the checkout or the wheel we came from, and only that
is fetched; what is here already stays as it is. Killed half-way, `list` says what is missing and `add` goes on.
"""

from __future__ import annotations

import argparse
import difflib
import sys

from palinurus.channels import CHANNELS
from palinurus.cli.args import JSON, Verb, make_arg, parse_verb, to_json
from palinurus.cli.gateway.running import is_thrown_away
from palinurus.errors import NotFound, PalinurusError
from palinurus.plugins.extras import list_missing, look_up_package, read_extras, read_tested_versions
from palinurus.providers.local.fetch import install_wheels

# What an extra is for.
PURPOSES = {
    "acp": "editors that speak the Agent Client Protocol", "dev": "what our tests need", "discord": "Discord",
    "fleet": "several gateways on one PostgreSQL", "images": "large images are made smaller",
    "local": "models that run on this machine", "matrix": "encrypted rooms of Matrix",
    "mcp": "tools of MCP servers, and ours for others", "memory": "search of memory by meaning",
    "migrate": "archives that OpenClaw compressed", "otel": "traces for OpenTelemetry", "pdf": "reading PDF files",
    "slack": "Slack", "tui": "the chat on the whole terminal", "whatsapp": "WhatsApp",
}  # fmt: skip

PASSING = "uvx and pipx run throw this environment away: name extras when you start (docs/install.md)"


def run_extras(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("extras", "Optional parts of this installation.", VERBS, argv, default="list")
    asked.run(asked)
    return 0


def _list(asked: argparse.Namespace) -> None:
    known = read_extras()
    if asked.json:
        rows = [{"name": k, "installed": not list_missing(v), "packages": v} for k, v in known.items()]
        print(to_json(rows, pretty=True))
        return
    for name, needs in known.items():
        print(f"{'-' if list_missing(needs) else '+'} {name:<10} {PURPOSES.get(name, '')}")
    print(f"+ is installed in {sys.prefix}; `pal extras add NAME` installs another")
    _warn()


def _warn() -> None:
    if is_thrown_away(sys.prefix):
        print(PASSING)


def _add(asked: argparse.Namespace) -> None:
    # Chat apps whose client is our own need nothing; some had an extra once.
    known = read_extras() | {name: [] for name, entry in CHANNELS.items() if not entry.needs}
    if unknown := [name for name in asked.names if name not in known]:
        near = difflib.get_close_matches(unknown[0], known, 1)
        raise NotFound(
            f"there is no extra {unknown[0]!r}", fix=f"`pal extras add {near[0]}`?" if near else "`pal extras`"
        )
    wanted = sorted({text for name in asked.names for text in list_missing(known[name])})
    if not wanted:
        print(f"{', '.join(asked.names)}: there already")
        return
    print(f"installing {', '.join(wanted)} into {sys.prefix}", flush=True)
    install_wheels(wanted, read_tested_versions(wanted), lambda line: print(f"  {line}", flush=True))
    if left := [text for text in wanted if list_missing([look_up_package(text)])]:
        raise PalinurusError(f"{', '.join(left)}: installed, but not where this Python looks", fix=f"see {sys.prefix}")
    print(f"{', '.join(asked.names)}: installed; a gateway that runs now needs `pal gateway restart`")
    _warn()


_NAMES = make_arg("names", nargs="+", metavar="NAME", help="as `pal extras` lists them")
VERBS = {
    "list": Verb(_list, "list them, and which are installed (the default)", (JSON,)),
    "add": Verb(_add, "install one or more", (_NAMES,)),
}

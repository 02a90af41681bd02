"""`pal profiles`: the state directories of this user, side by side. Reads names and ports; opens no state."""

from __future__ import annotations

import argparse
import os
from typing import Any

from palinurus.cli.args import JSON, Verb, parse_verb, to_json
from palinurus.cli.gateway.running import find_running_gateway
from palinurus.config import paths
from palinurus.config.load import read_config


def run_profiles(argv: list[str]) -> int:
    """Exit code 0."""
    about = "State directories of this user, each with its own agent, port and service: pal --profile NAME COMMAND."
    asked = parse_verb("profiles", about, VERBS, argv, default="list")
    asked.run(asked)
    return 0


def list_profiles(user_home: str) -> list[dict[str, Any]]:
    """The usual home first. A profile is there once something was put into it."""
    names = sorted(
        n for n in os.listdir(user_home) if paths.find_profile(n) and not n.endswith((".restoring", ".part"))
    )
    rows = []
    for name in (".palinurus", *names):
        home = os.path.join(user_home, name)
        if not os.path.isdir(home):
            continue
        found = read_config(paths.locate_config_file(home), home, os.environ).settings
        place = find_running_gateway(home)
        rows.append(
            {
                "profile": paths.find_profile(home),
                "home": home,
                "port": place.port if place else found.gateway.port if found else paths.choose_port(home),
                "running": place is not None,
                "current": home == paths.find_home(os.environ),
            }
        )
    return rows


def _list(asked: argparse.Namespace) -> None:
    rows = list_profiles(paths.find_user_home(os.environ))
    if asked.json:
        print(to_json(rows, pretty=True))
        return
    for row in rows:
        state = f"port {row['port']}, {'running' if row['running'] else 'not running'}"
        print(f"{'*' if row['current'] else ' '} {row['profile'] or '(usual)':<16} {row['home']}  {state}")
    print("no profiles yet; `pal setup` makes the usual one" if not rows else "a new one: `pal --profile NAME setup`")


VERBS = {"list": Verb(_list, "list them, with port and whether a gateway runs (the default)", (JSON,))}

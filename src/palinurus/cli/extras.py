"""`pal extras`: the optional parts, and how to get one into the very interpreter that runs this.

No package index has Palinurus. What an extra needs is read from the checkout or the wheel we came from, and only that
is fetched; what is here already stays as it is. Killed half-way, `list` says what is missing and `add` goes on.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from typing import NamedTuple

import palinurus
from palinurus.cli.args import JSON, Verb, make_arg, parse_verb, to_json
from palinurus.errors import NotFound, PalinurusError
from palinurus.providers.local.fetch import explain_pip_failure

ABOUT = {
    "acp": "editors that speak the Agent Client Protocol (`pal acp`)",
    "dev": "what the tests need",
    "discord": "Discord",
    "images": "large images are made smaller before a model sees them",
    "local": "models that run here without another program (`pal models pull`)",
    "mcp": "tool servers of others, and ours for others (`pal mcp`)",
    "memory": "memory is found by meaning too (`pal memory pull`)",
    "otel": "traces by OpenTelemetry",
    "pdf": "PDF files are read",
    "slack": "Slack",
    "telegram": "Telegram",
    "tui": "the full screen of `pal chat`",
    "whatsapp": "WhatsApp",
}
_PACKAGE = os.path.dirname(os.path.abspath(palinurus.__file__))
_CHECKOUT = os.path.dirname(os.path.dirname(_PACKAGE))
_NEEDED = re.compile(r"""([^;]+?)\s*;\s*extra == ['"]([\w-]+)['"]""")  # a line of a wheel's metadata
_TOLD = re.compile(r"\s*(Collecting|Downloading|Using cached|Installing|Successfully|Resolved|Prepared|Installed|\+) ")


class PackageNeed(NamedTuple):
    """A package that an extra needs, and the version that is here ("" for none)."""

    name: str
    wanted: str
    here: str


def run_extras(argv: list[str]) -> int:
    """Exit code 0. Raises PalinurusError for what a person has to know."""
    asked = parse_verb("extras", "Optional parts of this installation.", VERBS, argv, default="list")
    asked.run(asked)
    return 0


def read_extras(checkout: str = _CHECKOUT) -> dict[str, list[PackageNeed]]:
    """Every extra with what it needs: as the checkout says today, else as the wheel said when it was installed."""
    file = os.path.join(checkout, "pyproject.toml")
    if os.path.isfile(file):
        with open(file, "rb") as source:
            found = tomllib.load(source)["project"]["optional-dependencies"]
    else:
        found = {}
        for line in importlib.metadata.requires("palinurus") or ():
            if match := _NEEDED.fullmatch(line):
                found.setdefault(match[2], []).append(match[1])
    return {name: [_look(text) for text in found[name]] for name in sorted(found)}


def _look(text: str) -> PackageNeed:
    name, _, version = text.partition("==")
    try:
        return PackageNeed(name, version, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return PackageNeed(name, version, "")


def _list(asked: argparse.Namespace) -> None:
    rows = [
        {
            "name": name,
            "installed": not _missing(needs),
            "about": ABOUT.get(name, ""),
            "packages": [need._asdict() for need in needs],
        }
        for name, needs in read_extras().items()
    ]
    if asked.json:
        print(to_json(rows, pretty=True))
        return
    for row in rows:
        print(f"{'+' if row['installed'] else '-'} {row['name']:<10} {row['about']}")
    print(f"+ is installed in {sys.prefix}; `pal extras add NAME` installs another")


def _add(asked: argparse.Namespace) -> None:
    known = read_extras()
    for name in asked.names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise NotFound(
                f"there is no extra {name!r}", fix=f"`pal extras add {near[0]}`?" if near else "`pal extras`"
            )
    wanted = sorted({text for name in asked.names for text in _missing(known[name])})
    if wanted:
        install_packages(wanted)
        if left := sorted({text for name in asked.names for text in _missing(read_extras()[name])}):
            raise PalinurusError(
                f"{', '.join(left)}: installed, but not where this Python looks", fix=f"see {sys.prefix}"
            )
    there = f"{', '.join(asked.names)}: " + ("installed" if wanted else "there already")
    print(there + ("; a gateway that runs now needs `pal gateway restart`" if wanted else ""))


def _missing(needs: list[PackageNeed]) -> list[str]:
    """What pip is to be told. A version that we do not test with counts as missing."""
    return [
        f"{n.name}=={n.wanted}" if n.wanted else n.name for n in needs if not n.here or n.wanted not in ("", n.here)
    ]


def install_packages(wanted: list[str]) -> None:
    """Put packages into this interpreter, telling how it goes. Raises PalinurusError."""
    place = sysconfig.get_path("purelib")
    if not os.access(place, os.W_OK):
        raise PalinurusError(
            f"{place} cannot be written", fix="run it as its owner, or install in an environment of yours"
        )
    # Wheels only: a source package would run its own code to be built, with everything in our environment.
    plain = ["--only-binary=:all:", *wanted]
    if importlib.util.find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "install", "--no-input", "--progress-bar=off", *plain]
        command.append("--disable-pip-version-check")
    elif uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", sys.executable, *plain]
    else:
        raise PalinurusError(
            f"{sys.executable} has neither pip nor uv to install with",
            fix=f"`{sys.executable} -m ensurepip`, or get uv; then run it again",
        )
    print(f"installing {', '.join(wanted)} into {sys.prefix}", flush=True)
    with tempfile.NamedTemporaryFile("w", prefix="palinurus-", suffix=".txt") as tested:
        tested.write(read_tested_versions(wanted))
        tested.flush()
        code, said = _follow([*command, "-c", tested.name])
    if code:
        raise explain_pip_failure(said, ", ".join(wanted))
    importlib.invalidate_caches()


def read_tested_versions(wanted: list[str]) -> str:
    """constraints.txt for what comes along with `wanted`; what is installed stays as it is wherever it will do."""
    named = {_plain(text) for text in wanted}
    for folder in (_CHECKOUT, _PACKAGE):
        if os.path.isfile(file := os.path.join(folder, "constraints.txt")):
            with open(file, encoding="utf-8") as source:
                return "".join(line for line in source if _plain(line) not in named and not _look(line.strip()).here)
    return ""


def _plain(text: str) -> str:
    """The name of a package as indexes compare it."""
    return re.sub(r"[-_.]+", "-", text.partition("==")[0].strip()).lower()


def _follow(command: list[str]) -> tuple[int, str]:
    """(exit code, all that was said). What tells a person how far it is, is printed as it comes."""
    said = ""
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if _TOLD.match(line):
                print(f"  {line.strip()[:160]}", flush=True)
    return process.returncode, said


VERBS = {
    "list": Verb(_list, "all of them, and which are installed (the default)", (JSON,)),
    "add": Verb(
        _add, "install some", (make_arg("names", nargs="+", metavar="NAME", help="as `pal extras` lists them"),)
    ),
}

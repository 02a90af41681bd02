"""`make compat`: real clients and servers against our gateway, one table at the end. Exit 1 on a mismatch.

A counterpart is a file with `drive(cache, tally)` (or `drive(place, tally)` under `beside`, which starts a mock model
and our gateway) and a row of PARTS. Names of rows, else their beginnings, as arguments pick some. Each row runs in a
process of its own, $COMPAT_JOBS (else as many as there are cores) side by side; packages are kept in the user's cache
folder (`place.install_npm`, `place.install_pip`). What cannot be had raises `place.NotInstalled`. With `--docs` the
table is written into docs/compat.md, too; where only some rows are run, into that of the last whole run.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import acpx
import agentsdk
import apiclients
import blocks
import conformance
import control
import editors
import homes
import mail
import matrix
import mcpusers
import ngircd
import node
import openwebui
import place
import tui
import xmpp
from tally import Tally, Told

import cli

OLD, NEW = place.VERSIONS
AIM = 25 * 60  # seconds for everything
PATIENCE = 20 * 60  # seconds for one row


DOCS = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "docs", "compat.md")
HEAD = """# Tried with the real ones

Other people's clients and servers, unmodified, against this gateway with a mock model. Made by
`make compat ARGS=--docs`; do not edit. Run on {day}: {sum}.

A row is green unless it says RED. What it checks is in the file of `compat/` that drives it. What another side cannot
do by its own account, and extensions of a protocol that are not built here, are told as limits.

| client or server | version | checks | passed | seconds | |
|---|---|---|---|---|---|"""


class Part(NamedTuple):
    """One row. `needs` are programs; without one of them the row says so and fails nothing."""

    name: str
    who: str
    version: str
    needs: tuple[str, ...]
    drive: Callable[[str, Tally], None]


def beside(version: str, drive: Callable[[place.Place, Tally], None]) -> Callable[[str, Tally], None]:
    """The same with OpenClaw of this version, a mock model and our gateway."""
    return partial(place.play, version, drive)


# The longest first: the others fill the rest of the time.
PARTS = (
    Part(
        "homes-new",
        "OpenClaw, homes",
        NEW,
        ("npm",),
        partial(homes.drive_openclaw, NEW),
    ),
    Part(
        "homes",
        "OpenClaw, homes, and back",
        OLD,
        ("npm",),
        partial(homes.drive_openclaw, OLD),
    ),
    Part("homes-hermes", "hermes, homes", homes.HERMES, (), homes.drive_hermes),
    Part("homes-nanobot", "nanobot, homes", homes.NANOBOT, (), homes.drive_nanobot),
    Part(
        "control-new",
        "OpenClaw, Control UI",
        NEW,
        ("npm", "chromium"),
        beside(NEW, control.drive),
    ),
    Part(
        "control",
        "OpenClaw, Control UI",
        OLD,
        ("npm", "chromium"),
        beside(OLD, control.drive),
    ),
    Part("tui-new", "OpenClaw, terminal", NEW, ("npm", "tmux"), beside(NEW, tui.drive)),
    Part("tui", "OpenClaw, terminal", OLD, ("npm", "tmux"), beside(OLD, tui.drive)),
    Part(
        "cli-new",
        "OpenClaw, commands and ACP bridge",
        NEW,
        ("npm",),
        beside(NEW, cli.drive),
    ),
    Part(
        "cli",
        "OpenClaw, commands and ACP bridge",
        OLD,
        ("npm",),
        beside(OLD, cli.drive),
    ),
    Part("node-new", "OpenClaw, node host", NEW, ("npm",), beside(NEW, node.drive)),
    Part("node", "OpenClaw, node host", OLD, ("npm",), beside(OLD, node.drive)),
    Part(
        "blocks",
        "OpenClaw, configurations of its docs",
        OLD,
        ("npm",),
        partial(blocks.drive, OLD),
    ),
    Part("agentsdk", "Claude Agent SDK", agentsdk.VERSION, (), agentsdk.drive),
    Part(
        "matrix",
        "Synapse and matrix-nio, encrypted",
        f"{matrix.SYNAPSE}, {matrix.NIO}",
        (),
        matrix.drive,
    ),
    Part("xmpp", "Prosody and slixmpp", xmpp.SLIXMPP, ("prosody", "openssl"), xmpp.drive),
    Part("irc", "ngIRCd", "Debian's", ("ngircd", "openssl"), ngircd.drive),
    Part(
        "mail",
        "Dovecot and Exim",
        "Debian's",
        ("dovecot", "exim4", "openssl"),
        mail.drive,
    ),
    *(
        Part(
            f"api-{who}",
            who,
            apiclients.get_version(who),
            (),
            apiclients.drive_python(who),
        )
        for who in apiclients.PACKAGES
    ),
    Part(
        "api-aisdk",
        "Vercel AI SDK",
        apiclients.AI_SDK[0].partition("@")[2],
        ("npm",),
        apiclients.drive_ai_sdk,
    ),
    Part("api-openwebui", "Open WebUI", openwebui.VERSION, (), openwebui.drive),
    Part(
        "mcp-inspector",
        "MCP inspector",
        mcpusers.INSPECTOR,
        ("npm",),
        mcpusers.drive_inspector,
    ),
    Part("mcp-sdk", "MCP SDK (Python)", mcpusers.SDK, (), mcpusers.drive_sdk),
    Part("mcp-npm", "MCP SDK (npm), both ways", mcpusers.NPM, ("npm",), mcpusers.drive_npm),
    Part(
        "conformance-client",
        "MCP conformance suite, our client",
        conformance.VERSION,
        ("npm",),
        conformance.drive_client,
    ),
    Part(
        "conformance-server",
        "MCP conformance suite, our server",
        conformance.VERSION,
        ("npm",),
        conformance.drive_server,
    ),
    Part("acpx", "acpx (Agent Client Protocol)", acpx.VERSION, ("npm",), acpx.drive),
    Part(
        "editors",
        "ACP SDK's client (npm)",
        editors.VERSION,
        ("npm", "node"),
        editors.drive,
    ),
    Part(
        "editors-python",
        "ACP SDK's client (Python)",
        editors.PYTHON,
        (),
        editors.drive_python,
    ),
)


def main(words: list[str]) -> int:
    """Everything, or what the words pick."""
    if words[:1] == ["--alone"]:
        return play_alone(next(part for part in PARTS if part.name == words[1]), words[2])
    documented = "--docs" in words
    words = [word for word in words if word != "--docs"]
    wanted = pick_parts(words)
    begun, running = time.monotonic(), set[int]()
    with ThreadPoolExecutor(int(os.environ.get("COMPAT_JOBS") or os.cpu_count() or 2)) as crew:
        try:
            told = list(crew.map(partial(start_alone, running), wanted))
        except KeyboardInterrupt:
            crew.shutdown(wait=False, cancel_futures=True)
            for group in tuple(running):
                os.killpg(group, signal.SIGKILL)
            raise SystemExit("compat: stopped") from None
    rows = [(part.who, part.version, one) for part, one in zip(wanted, told, strict=True)]
    took = time.monotonic() - begun
    print(f"\n{draw_table(rows)}\n\n{sum_up(rows, took)}")
    if documented:
        write_page(rows, took, whole=not words)
    return 1 if any(one.is_red for one in told) else 0


def pick_parts(words: list[str]) -> list[Part]:
    """The rows of these names, and where a word is none, those that begin with it. Raises SystemExit."""
    wrong = [word for word in words if not any(part.name.startswith(word) for part in PARTS)]
    if wrong:
        raise SystemExit(f"compat: there is no part {wrong[0]!r}; parts are {', '.join(part.name for part in PARTS)}")
    exact = {part.name for part in PARTS} & set(words)
    begun = tuple(word for word in words if word not in exact)
    return [part for part in PARTS if not words or part.name in exact or part.name.startswith(begun)]


def start_alone(running: set[int], part: Part) -> Told:
    """A row in a process of its own, whose words are printed when it is over. One that takes too long is ended."""
    absent = [name for name in part.needs if shutil.which(name, path=place.SEARCH) is None]
    if absent:
        return Told(missing=f"{', '.join(absent)} not found")
    print(f"compat: {part.name} begins", flush=True)
    begun, kept = time.monotonic(), tempfile.mkstemp(prefix="compat-")[1]
    command = [sys.executable, os.path.abspath(__file__), "--alone", part.name, kept]
    child = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    running.add(child.pid)
    try:
        said = child.communicate(timeout=PATIENCE)[0]
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # with all that it started
        said = child.communicate()[0] + f"\nended after {PATIENCE} s".encode()
    running.discard(child.pid)
    print(
        f"\n== {part.name}: {part.who} {part.version}\n{said.decode(errors='replace').rstrip()}",
        flush=True,
    )
    with open(kept, encoding="utf-8") as file:
        text = file.read()
    os.unlink(kept)
    told = Told(**json.loads(text)) if text else Told(stopped="it stopped: see above")
    return told._replace(seconds=time.monotonic() - begun)


def play_alone(part: Part, kept: str) -> int:
    """In the process of a row: what came of it goes into the file."""
    tally, missing = Tally(), ""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    try:
        part.drive(os.path.join(cache, "palinurus-compat"), tally)
    except place.NotInstalled as error:
        missing = str(error)
    with open(kept, "w", encoding="utf-8") as file:
        json.dump(tally.tell(missing)._asdict(), file)
    return 0


def draw_table(rows: list[tuple[str, str, Told]]) -> str:
    """What people look at: who, version, checks, passed, seconds, and a word where it is not simply green."""
    lines = [("client or server", "version", "checks", "passed", "seconds", "")]
    for who, version, told in rows:
        counts = (str(told.checks), str(told.passed), f"{told.seconds:.0f}") if not told.missing else ("-", "-", "-")
        lines.append((who, told.version or version, *counts, told.verdict))
    widths = [max(len(line[at]) for line in lines) for at in range(5)]
    drawn = []
    for line in lines:
        left = "  ".join(text.ljust(width) for text, width in zip(line[:2], widths, strict=False))
        right = "  ".join(text.rjust(width) for text, width in zip(line[2:5], widths[2:], strict=False))
        drawn.append(f"{left}  {right}  {line[5]}".rstrip())
    return "\n".join(drawn)


def sum_up(rows: list[tuple[str, str, Told]], took: float) -> str:
    """One line: how much, how long, with how much else on the machine, and what was not there."""
    absent = [who for who, _, told in rows if told.missing]
    checks, passed = (sum(getattr(told, name) for _, _, told in rows) for name in ("checks", "passed"))
    load = " ".join(f"{one:.0f}" for one in os.getloadavg())
    late = f", more than {AIM // 60}" if took > AIM else ""
    told = f"compat: {passed} of {checks} checks in {len(rows) - len(absent)} rows, {took / 60:.1f} minutes{late}"
    told += f" (load {load}, {os.cpu_count()} cores)"
    return f"{told}; not installed: {', '.join(absent)}" if absent else told


def write_page(rows: list[tuple[str, str, Told]], took: float, whole: bool) -> None:
    """Into docs/compat.md."""
    page = draw_page(rows, took)
    if not whole:
        with open(DOCS, encoding="utf-8") as source:
            page = renew_page(source.read(), rows)
    with open(DOCS, "w", encoding="utf-8") as out:
        out.write(page)


def renew_page(page: str, rows: list[tuple[str, str, Told]]) -> str:
    """The page of a whole run with some rows of a later one, which says so."""
    lines = page.splitlines()
    for row in rows:
        fresh = draw_row(*row)
        name = " | ".join(fresh.split(" | ")[:2]) + " |"
        at = next((n for n, line in enumerate(lines) if line.startswith(name)), len(lines))
        lines[at : at + 1] = [fresh.removesuffix("|  |") + "| run again later |" if fresh.endswith("|  |") else fresh]
    return "\n".join(lines) + "\n"


def draw_row(who: str, version: str, told: Told) -> str:
    counts = f"{told.checks} | {told.passed} | {told.seconds:.0f}" if not told.missing else "- | - | -"
    return f"| {who} | {told.version or version} | {counts} | {told.verdict} |"


def draw_page(rows: list[tuple[str, str, Told]], took: float) -> str:
    """docs/compat.md."""
    lines = [
        HEAD.format(
            day=time.strftime("%d %B %Y").lstrip("0"),
            sum=sum_up(rows, took).partition(": ")[2],
        )
    ]
    lines += [draw_row(*row) for row in rows]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Every command works or says what to do, in a home that is empty, read-only, somebody else's, or no folder at all."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from nursery import Child, Nursery
from palinurus import errors
from palinurus.cli.gateway import daemon
from palinurus.cli.main import COMMANDS, main
from ports import reserve_port

# What people type. {home} is the state directory, {place} a folder that can be written to.
LINES = """
chat --plain
agent -m "hello"
agent -m "hello" --json --local
print "hello" --local
folders list
folders allow /nowhere
folders revoke /nowhere
gateway --port {port}
gateway install
gateway uninstall
gateway stop
gateway status
gateway logs
dashboard --no-open
setup --non-interactive
import openclaw
import hermes --dry-run
import nanobot --json
export --to openclaw {place}/back
agents
agents list --json
agents add Other --workspace {place}/other
agents delete other
agents bind --agent main irc
agents unbind --agent main --all
agents bindings
directory
directory peers --json
directory groups
directory self
system event --text hello
system heartbeat last
system presence
backup create
backup verify {place}/none
backup restore {place}/none
backup list
store copy {place}/none postgresql://127.0.0.1:1/none
setup --workspace {place}/work
status
status --json
doctor
doctor --fix
doctor --ask
sessions
sessions list --json
sessions show main
sessions path main
sessions tree main
sessions search word
sessions export main
sessions import {place}/none.jsonl --session main
sessions branch main root
sessions rewind main root
sessions label main root
sessions reset main
sessions delete main
sessions cleanup
models
models list --json
models status
models thinking builtin/demo
models pull
models probe builtin/demo
models use builtin/demo
models set builtin/demo
models add nobody
models fallbacks
models aliases
policy list
policy explain exec
policy why none
security audit
prompt show
why cache
why
why last
why tool exec
why config gateway.port
torture --minutes 0
test none
record
record default
record on
record off
record status
replay none
diff none none
changes
undo
redo
usage
usage --json
cron list
cron add --every 1h --message hello
cron edit none --every 2h
cron run none
cron pause none
cron resume none
cron rm none
cron why none
cron runs
tasks
skills list
skills check
skills info none
skills install {place}/none
skills remove none
skills search word
skills update
skills outdated
skills accept none
skills publish {place}/none --version 1.0.0
learn
learn list --json
learn now
learn show none
learn accept none
learn edit none -
learn refuse none
learn undo none
update --check
uninstall
reset --config
completion bash
completion zsh
completion fish
profiles list
logs -n 1
models login nobody
models logout nobody
plugins list
plugins info none
plugins enable none
plugins disable none
plugins doctor
plugins new mine --dir {place}
plugins test none
mcp list
mcp test none
mcp add mine -- true
mcp remove mine
mcp trust none
mcp login none
mcp logout none
mcp status
mcp serve
memory search word
memory get MEMORY.md
memory why MEMORY.md
memory undo
memory status
memory pull
approvals list
approvals answer none deny
approvals allowlist
approvals allowlist add ls
channels list --all
channels status
channels capabilities
channels add irc --set host=irc.example.org
channels remove irc
channels login whatsapp
channels logout whatsapp
channels test irc somebody
message send --to irc:somebody hello
message react --to irc:somebody --id 1 ok
message edit --to irc:somebody --id 1 hello
message delete --to irc:somebody --id 1
message pin --to irc:somebody --id 1
message unpin --to irc:somebody --id 1
message poll --to irc:somebody --option yes --option no "well?"
message thread-create --to irc:somebody name
message read --to irc:somebody
pairing
pairing list --json
pairing approve ABCDEFGH
pairing reject ABCDEFGH
pairing revoke irc:somebody
devices
devices list --json
devices approve none
devices reject none
devices revoke none
devices rotate none
node run
node status
node install
node uninstall
nodes list
nodes describe none
nodes pair
nodes approve none
nodes reject none
nodes rename none name
nodes revoke none
nodes invoke none system.info
nodes run none true
qr
fleet
fleet status
fleet init
fleet evict nobody
fleet drain nobody
sandbox explain
sandbox test
extras
extras list --json
extras add none
config get agents.defaults.model
config set agents.defaults.model builtin/demo
config unset agents.defaults.model
config explain agents.defaults.model
config validate
config path
config list
acp
trace none
""".strip().splitlines()
# They listen on the usual port where they can (tests/cli/gateway/test_daemon.py): only typed where they cannot.
STARTS = ["gateway start", "gateway restart"]
OPERATIONS = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
CODES = {int(code) for code in re.findall(r"^\| (\d+) \|", OPERATIONS, re.MULTILINE)}
HEAVY = {"acp": "palinurus.cli.bridges.editor", "mcp": "palinurus.cli.bridges.mcpserver"}


def test_the_docs_know_every_exit_code() -> None:
    assert {kind.exit_code for kind in vars(errors).values() if hasattr(kind, "exit_code")} | {
        0,
        2,
        3,
        70,
        74,
        124,
        130,
        141,
    } == CODES


def test_the_lines_name_every_command_and_verb() -> None:
    named = {" ".join(line.split()[:2]) for line in LINES + STARTS}
    wanted = {f"gateway {verb}" for verb in (*daemon.VERBS, "logs")}
    for name in COMMANDS:
        assert any(line.split()[0] == name for line in LINES), name
        with redirect_stdout(StringIO()) as told, pytest.raises(SystemExit):
            main([name, "--help"])
        usage = re.search(r"positional arguments:\n  \[?\{([a-z,-]+)\}", told.getvalue())
        verbs = usage[1].split(",") if usage else re.findall(r"^    ([a-z]+)\b", told.getvalue(), re.MULTILINE)
        wanted |= {f"{name} {verb}" for verb in verbs}
    assert wanted - named == set()


def is_empty(home: Path) -> None:
    home.parent.mkdir()


def cannot_be_made(home: Path) -> None:
    home.parent.mkdir(mode=0o500)


def became_read_only(home: Path) -> None:
    home.parent.mkdir()
    shutil.copytree(home.parents[2] / "used", home)
    for folder, _, names in os.walk(home):
        for name in names:
            os.chmod(os.path.join(folder, name), 0o400)
        os.chmod(folder, 0o500)


def is_somebody_elses(home: Path) -> None:
    home.parent.mkdir()
    home.mkdir(mode=0o700)
    os.chown(home, 12345, 12345)


def is_a_file(home: Path) -> None:
    home.parent.mkdir()
    home.write_text("not a folder")


HOMES = [is_empty, cannot_be_made, became_read_only, is_a_file] + ([is_somebody_elses] if os.getuid() == 0 else [])
TOGETHER = 8
NOWHERE = "/nowhere"  # no systemctl, no git, no browser on the path
ELSEWHERE = ("torture --minutes 0", "memory pull", "models pull")  # 3 s and 1 s; what they write lies elsewhere
LOOKS = {"sessions", "usage", "trace none", "why cache"}  # what looks at the state, and nothing else


@pytest.fixture(scope="module")
def forked() -> Iterator[Nursery]:
    with Nursery(weak=True, path=NOWHERE) as found:
        yield found


@pytest.mark.parametrize("home", HOMES, ids=lambda one: one.__name__)
def test_no_command_ends_in_a_traceback(home: Callable[[Path], None], forked: Nursery, tmp_path: Path) -> None:
    """All of them where a home can be made; of the homes that are of no use, each line sees one."""
    walk_lines(home, LINES if home is is_empty else choose_lines(HOMES.index(home)), forked, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("home", HOMES[1:], ids=lambda one: one.__name__)
def test_every_command_in_every_home(home: Callable[[Path], None], forked: Nursery, tmp_path: Path) -> None:
    walk_lines(home, LINES + STARTS, forked, tmp_path)


def choose_lines(number: int) -> list[str]:
    """Those that are this home's turn, and those that all homes see."""
    others = len(HOMES) - 1
    chosen = [line for at, line in enumerate(LINES) if (at + number) % others == 0 and line not in ELSEWHERE]
    return [*chosen, *(line for line in LINES if line in (*LOOKS, "doctor") and line not in chosen), *STARTS]


def walk_lines(home: Callable[[Path], None], lines: list[str], forked: Nursery, tmp_path: Path) -> None:
    if home is became_read_only:
        (tmp_path / "used").mkdir(mode=0o700)
        (tmp_path / "used" / "palinurus.json").write_text(json.dumps({"gateway": {"port": reserve_port()}}))
        assert start(forked, "agent -m hello", tmp_path, home="used").wait() == 0, (tmp_path / "log").read_text()
    known = {73} if home in (is_a_file, is_somebody_elses) else CODES
    bad = []
    for first in range(0, len(lines), TOGETHER):
        started = []
        for line in lines[first : first + TOGETHER]:
            place = tmp_path / str(lines.index(line))
            place.mkdir()
            home(place / "user" / "home")
            started.append((line, start(forked, line, place), place / "log"))
        for line, child, log in started:
            code, said = finish(child, log, line)
            print(f"pal {line}: {code}\n{said}")
            if "(in another terminal)" in said and os.path.exists(
                pal := os.path.join(os.path.dirname(sys.executable), "pal")
            ):
                assert (
                    f"{pal}  (not on your PATH)" in said
                )  # who typed `pal chat`, as the next line says, typed in vain
            if line == "doctor":
                taken = "Address already in use" in said  # a gateway of whoever runs this, on the usual port
                assert code == (home is not is_empty or taken), said
            if "Traceback" in said or code not in (known if line in LOOKS else CODES) or (code and not said.strip()):
                bad.append(f"pal {line}: {code}\n{said}")
    assert not bad, "\n".join(bad)


def test_root_of_a_container_that_dropped_all_capabilities_runs_commands(forked: Nursery, tmp_path: Path) -> None:
    is_empty(tmp_path / "user" / "home")
    child = start(forked, 'agent -m "run echo $((6 * 7))"', tmp_path)
    assert (child.wait(), (tmp_path / "log").read_text().split("\n")[1:]) == (0, ["42", ""])


def finish(child: Child, log: Path, line: str) -> tuple[int, str]:
    """(exit code, what it printed). A gateway is stopped once it runs."""
    if line.startswith("gateway --port"):
        while child.poll() is None and "is running" not in (log.read_text() if log.exists() else ""):
            time.sleep(0.01)
        child.terminate()
    return child.wait(), log.read_text()


def start(forked: Nursery, line: str, place: Path, home: str = "user/home") -> Child:
    """`pal LINE` by a user without special rights, in a folder with nothing else in it."""
    words = shlex.split(line.format(place=place, port=reserve_port() if "{port}" in line else 0))
    env = {
        "HOME": str((place / home).parent),
        "PALINURUS_HOME": str(place / home),
        "PATH": NOWHERE,
        "PIP_INDEX_URL": "http://127.0.0.1:9/simple",
        "PIP_RETRIES": "0",
    }
    needs = HEAVY.get(words[0]) or COMMANDS[words[0]][0].partition(":")[0]
    return forked.start(words, env=env, cwd=str(place), log=str(place / "log"), needs=needs)

"""The claim of the whole folder: from inside a cell what must fail fails, as root and as an ordinary user."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nursery import PythonProgram, run_program
from palinurus.agent.plan.sandbox import ToolSandboxes
from palinurus.config.load import load_config
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.sandbox import SandboxSpec
from palinurus.testing.kernel import NO_LANDLOCK, NO_NAMESPACES
from palinurus.tools.commands.environ import build_child_env
from palinurus.tools.sandbox import landlock
from palinurus.tools.sandbox.probe import detect_support, list_gaps
from palinurus.tools.sandbox.proof import TrialResult, TrialSite, run_trials
from palinurus.tools.sandbox.trial import TRIALS

NOBODY = 65534
KINDS = [
    pytest.param(
        "namespaces", marks=pytest.mark.skipif(not detect_support().namespaces, reason="no namespaces can be made here")
    ),
    pytest.param(
        "landlock", marks=pytest.mark.skipif(landlock.landlock_version() < 6, reason="needs Landlock of kernel 6.12")
    ),
    pytest.param(
        "bubblewrap", marks=pytest.mark.skipif(not detect_support().bubblewrap, reason="bubblewrap does not work here")
    ),
]


def proven(root: Path, kind: str) -> list[TrialResult]:
    """The trials in the cell of an agent with default settings, in a state directory with all that is in one."""
    home, user = root / "state", root / "user"
    for folder in (home, user / ".ssh"):
        folder.mkdir(parents=True)
    (user / ".ssh" / "id_rsa").write_text("canary")
    config = {"gateway": {"port": 18789}, "agents": {"defaults": {"sandbox": {"contain": kind}}}}
    (home / "palinurus.json").write_text(json.dumps(config))
    (home / "gateway.token").write_text("canary")
    settings = load_config(str(home), {"HOME": str(user)}).settings
    env = build_child_env({"HOME": str(user)}, {})
    where = ToolSandboxes(settings, env).of(settings.agents["main"], SessionKey("main", "main"))
    assert where.cell.kind == kind
    return run_trials(where.cell, TrialSite(str(home), str(user), where.workspace, 18789), {**env, **where.env})


# What is known to be open, and told by `list_gaps`: as root, as a user.
METADATA = {f"change the {what} of a file outside" for what in ("mode", "owner", "times")}
METADATA |= {"set an attribute of a file outside", "see the gateway's command line"}
OPEN: dict[tuple[str, bool], set[str]] = {
    ("landlock", True): METADATA | {"read a private file of the system's"},
    ("landlock", False): METADATA,
    ("bubblewrap", True): {"read a private file of the system's"},
}


def judge(results: list[Any], kind: str, *, root: bool) -> None:
    names = [one[0] for one in results]
    assert names == [trial.name for trial in TRIALS] and len(names) >= 40
    # others may not read /etc/shadow anyway, and have no private files of the system's
    unsure = {"read /etc/shadow", "read a private file of the system's"}
    assert {one[0] for one in results if one[2] is False} == OPEN.get((kind, root), set())
    assert {one[0] for one in results if one[2] is None} <= unsure


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_gets_out_but_what_is_told(tmp_path: Path, kind: str) -> None:
    judge(proven(tmp_path, kind), kind, root=os.geteuid() == 0)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_open_is_told(kind: str) -> None:
    told = " ".join(gap.what for gap in list_gaps(detect_support(), kind))  # type: ignore[arg-type]
    assert ("chmod" in told) == (kind == "landlock") and ("command lines" in told) == (kind == "landlock")
    assert ("only root may read" in told) == (kind != "namespaces" and os.geteuid() == 0)


TRUTH = """
import contextlib, ctypes, io, json, os, sys
sys.path[:0] = {path!r}
from palinurus.testing.kernel import refuse_calls
import difflib, importlib.util, encodings.ascii, encodings.latin_1, tempfile  # while they can still be read
from palinurus.cli.main import main
from palinurus.cli.look import sandbox
import palinurus.app, palinurus.config.load, palinurus.late
from palinurus.tools.sandbox import probe, proof
tempfile.gettempdir()
if {user}:
    os.setgroups([]); os.setgid({user}); os.setuid({user}); os.umask(0o077)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
    sys.executable = next(p for p in (sys.executable, "/usr/bin/python3") if os.access(p, os.X_OK))
os.environ.update(PALINURUS_HOME={home!r} + "/state", HOME={home!r} + "/user")
os.makedirs({home!r} + "/user"); os.makedirs({home!r} + "/state")
open({home!r} + "/state/palinurus.json", "w").write("{{}}")
refuse_calls(*{lacks!r})
said = []
for line in (["sandbox", "explain"], ["sandbox", "explain", "--json"], ["sandbox", "test", "--json"]):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        main(line)
    said.append(out.getvalue())
print(json.dumps(said))
"""
# What is open is told by these words.
PORTS = "TCP ports are not limited"
TELLING = dict.fromkeys(METADATA, "chmod") | {
    "see the gateway's command line": "command lines",
    "read a private file of the system's": "only root may read",
    "make a user namespace": "user namespaces",
    "connect to the gateway": PORTS,
    "connect to the gateway by fast open": PORTS,
    "connect to a port that is not open": PORTS,
    "listen on a port that is not open": PORTS,
}
OTHERS_MOUNTS = ("mount_setattr", "open_tree")  # what we mount with, and bubblewrap does not


@pytest.mark.skipif(not detect_support().seccomp, reason="needs a filter of system calls")
@pytest.mark.parametrize("user", [0, NOBODY], ids=["root", "user"])
@pytest.mark.parametrize(
    ("lacks", "best"),
    [
        ((), "namespaces"),
        (NO_LANDLOCK, "namespaces"),
        (OTHERS_MOUNTS, "bubblewrap"),
        ((*OTHERS_MOUNTS, *NO_LANDLOCK), "bubblewrap"),
        (NO_NAMESPACES, "landlock"),
        ((*NO_LANDLOCK, *NO_NAMESPACES), "none"),
    ],
)
def test_what_is_said_is_so(tmp_path: Path, lacks: tuple[str, ...], best: str, user: int) -> None:
    """`pal sandbox explain` and `test` on a kernel that lacks something, refused by the kernel itself in a process of
    its own: what is named holds, what is open is told, and what is told is open."""
    known = detect_support()
    if (
        not known.namespaces
        or known.landlock < 6
        or os.geteuid() != 0
        or (best == "bubblewrap" and not known.bubblewrap)
    ):
        pytest.skip("needs root, namespaces, Landlock of kernel 6.12, and bubblewrap where it is tried")
    made = subprocess.run(["mktemp", "-d"], capture_output=True, check=True, text=True)
    root = made.stdout.strip()
    try:
        os.chown(root, user, user)
        code = TRUTH.format(path=sys.path, user=user, home=root, lacks=lacks)
        done = run_program("-c", code, timeout=100, kind=PythonProgram)
        assert done.returncode == 0, done.stderr
    finally:
        subprocess.run(["rm", "-rf", root], check=True)
    words, facts, trials = json.loads(done.stdout)
    told, kind = " ".join(gap["what"] for gap in json.loads(facts)["gaps"]), json.loads(facts)["kind"]
    found = {one["name"] for one in json.loads(trials) if one["held"] is False}
    assert kind == best
    held_by = words.partition("held by")[2].partition("\n")[0]
    assert ("Landlock" in held_by) is (lacks[-1:] != NO_LANDLOCK and best != "none")
    if best == "none":
        assert "not contained at all" in told and "read the config" in found
        return
    assert ("cannot limit them" in words) is (PORTS in told) is (NO_LANDLOCK[0] in lacks)
    unsaid = {name for name in found if TELLING.get(name, "?") not in told}
    untrue = {gap for name, gap in TELLING.items() if gap in told} - {
        TELLING[name] for name in found if name in TELLING
    }
    assert unsaid == set() and untrue == set(), (told, found)


SCRIPT = """
import ctypes, json, os, sys
sys.path[:0] = {path!r}
from pathlib import Path
from test_proof import proven
import difflib, encodings.ascii, encodings.latin_1, tempfile  # while they can still be read
tempfile.gettempdir()
os.setgroups([]); os.setgid({user}); os.setuid({user}); os.umask(0o077)
ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # readable again: what keeps the child out must be the cell
sys.executable = next(p for p in (sys.executable, "/usr/bin/python3") if os.access(p, os.X_OK))
print(json.dumps(proven(Path({root!r}), {kind!r})))
"""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become an ordinary user; the test above ran as one")
def test_nothing_gets_out_as_an_ordinary_user(kind: str) -> None:
    if not os.access("/usr/bin/python3", os.X_OK):
        pytest.skip("no Python that an ordinary user can run")
    made = subprocess.run(["mktemp", "-d"], capture_output=True, check=True, text=True)
    root = made.stdout.strip()
    try:
        os.chown(root, NOBODY, NOBODY)
        here = [str(Path(__file__).parent), *sys.path]
        code = SCRIPT.format(path=here, user=NOBODY, root=root, kind=kind)
        done = run_program("-c", code, timeout=100, kind=PythonProgram)
        assert done.returncode == 0, done.stderr
        judge(json.loads(done.stdout), kind, root=False)
    finally:
        subprocess.run(["rm", "-rf", root], check=True)


def test_the_trials_can_fail(tmp_path: Path) -> None:
    """Without a cell nearly everything is open: a refusal above is the cell's doing."""
    home = tmp_path / "state"
    home.mkdir()
    (home / "palinurus.json").write_text("{}")
    (home / "gateway.token").write_text("x")
    env = {"PATH": os.defpath, "TMPDIR": str(tmp_path)}
    results = {
        r.name: r.held for r in run_trials(SandboxSpec(), TrialSite(str(home), str(tmp_path), str(tmp_path), 0), env)
    }
    must = (
        "read the config", "read the gateway's token", "list the state directory", "read a file beside the workspace",
        "list the user's home", "write outside", "remove a file outside", "follow a planted link",
        "make a hard link to a file outside", "connect to the gateway", "connect to the gateway by fast open",
        "connect to a Unix socket outside", "connect to an abstract socket outside", "send the gateway a signal",
        "send a thread of the gateway a signal", "gain privileges from a program", "truncate a file outside",
        "change the mode of a file outside", "change the owner of a file outside", "change the times of a file outside",
        "make a program that runs as its owner", "set a limit of the gateway", "see the gateway's command line",
    )  # fmt: skip
    assert [name for name in must if results[name] is not False] == []

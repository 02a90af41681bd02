from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cli.place import SRC
from palinurus import __version__
from palinurus.cli import main as entry
from palinurus.cli.main import COMMANDS, PARTS, _run, load_part, main


@pytest.mark.parametrize("flag", ["--version", "--help"])
def test_version_and_help_import_nothing_heavy(flag: str) -> None:
    code = f"import sys; from palinurus.cli.main import main; main(['{flag}']); print('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": SRC}
    )
    assert done.returncode == 0
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint(
        {"asyncio", "aiohttp", "msgspec", "argparse", "logging", "json", "typing", "re", "importlib", "difflib", "ssl"}
    )


def test_a_folder_that_was_removed_is_no_mistake_of_ours(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert main(["folders", "allow"]) == 66
    assert capsys.readouterr().err == "pal: the folder you are in is no longer there\n  fix: `cd` to one that is\n"


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"palinurus {__version__}\n"


def test_help_lists_every_command_in_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == main(["help"]) == 0
    out = capsys.readouterr().out
    assert all(f"\n  {name} " in out for name in COMMANDS)
    assert all(len(line) <= 80 for line in out.splitlines())


@pytest.mark.parametrize("where", [*(where for where, _ in COMMANDS.values()), *PARTS.values()])
def test_every_row_of_the_table_leads_somewhere(where: str) -> None:
    assert callable(load_part(where))


@pytest.mark.parametrize(("typed", "meant"), [("staus", "pal status"), ("gatway", "pal gateway"), ("zzz", "--help")])
def test_an_unknown_command_is_64_with_a_hint(capsys: pytest.CaptureFixture[str], typed: str, meant: str) -> None:
    assert main([typed]) == 64
    err = capsys.readouterr().err
    assert typed in err and meant in err


def test_home_option(home: object, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--home", "/x", "--version"]) == main(["--home=/y", "--version"]) == 0
    assert os.environ["PALINURUS_HOME"] == "/y"
    assert main(["--home"]) == 64


def test_wrong_options_are_64_with_the_way_out(home: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--nonsense"]) == 64
    assert "pal agent --help" in capsys.readouterr().err
    assert main(["--nonsense"]) == 64  # no command: it is chat's


def test_a_reader_that_leaves_is_no_error(home: object) -> None:
    done = subprocess.run(
        f"{sys.executable} -m palinurus doctor | true",
        shell=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": SRC},
    )
    assert done.stderr == ""


def test_module_has_no_heavy_names() -> None:
    assert not hasattr(entry, "argparse")


@pytest.mark.parametrize(
    "line",
    [
        r"printf 'hello caf\351' | $PAL agent --local -m -",
        r"$PAL agent --local -m $'hello caf\351'",
        r"printf 'hello caf\351\n' | $PAL chat --plain --local",
    ],
)
def test_bytes_that_are_no_text_are_replaced(demo: Path, line: str) -> None:
    done = run_line(demo, line)
    assert done.returncode == 0 and b"built-in demo" in done.stdout, done.stderr.decode()


@pytest.mark.parametrize(
    "line", ["$PAL chat --local <&-", "$PAL agent --local -m 'list files' >&-", "$PAL config validate <&- >&- 2>&-"]
)
def test_closed_streams_lead_nowhere(demo: Path, line: str) -> None:
    done = run_line(demo, line)
    assert done.returncode == 0 and b"Traceback" not in done.stderr, done.stderr.decode()


def run_line(home: Path, line: str) -> subprocess.CompletedProcess[bytes]:
    environ = {**os.environ, "PYTHONPATH": SRC, "PALINURUS_HOME": str(home), "PAL": f"{sys.executable} -m palinurus"}
    return subprocess.run(["bash", "-c", line], env=environ, capture_output=True, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize(("argv", "code"), [(["--version"], 0), (["no-such-command"], 64)])
def test_a_program_of_its_own_ends_with_its_code_and_what_was_registered(argv: list[str], code: int) -> None:
    """It does not take its modules apart at the end; all output and every exit handler are there."""
    program = (
        "import atexit, sys; from palinurus.cli.main import main; atexit.register(lambda: print('bye'));"
        f"sys.argv = ['pal', *{argv!r}]; print('x' * 100_000); main(); print('not reached')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == code and done.stdout.startswith("x" * 100_000) and done.stdout.endswith("bye\n")
    assert "not reached" not in done.stdout


def test_threads_that_still_run_are_waited_for() -> None:
    program = (
        "import sys, threading, time; from palinurus.cli.main import main; sys.argv = ['pal', '--version'];"
        "threading.Thread(target=lambda: (time.sleep(0.3), print('done'))).start(); sys.exit(main())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.endswith("done\n")


@pytest.mark.parametrize("command", ["memory", "approvals", "cron", "skills", "plugins", "mcp"])
def test_a_bare_command_shows_what_there_is(demo: Path, command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 0
    assert capsys.readouterr().out.strip()


@pytest.mark.parametrize(
    "argv", [["why"], ["trace"], ["undo"], ["sessions", "show"], ["config", "get"], ["agent", "-m"]]
)
def test_bytes_that_are_no_text_are_no_traceback(
    demo: Path, capsys: pytest.CaptureFixture[str], argv: list[str]
) -> None:
    assert main(["agent", "-m", "hi"]) == 0
    assert main([*argv, "\udce9x"]) in (0, 1, 64, 66, 78)
    told = capsys.readouterr()
    assert "Traceback" not in told.err and "surrogates" not in told.err


def test_a_mistake_of_ours_is_told_in_one_line(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run("no_such_module_at_all:x", [], []) == 70
    told = capsys.readouterr().err
    assert (
        told.startswith("pal: this should not have happened: ModuleNotFoundError") and "fix: PALINURUS_DEBUG=1" in told
    )


def test_a_trace_without_an_id_is_the_last_messages(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "-m", "hi"]) == 0 and main(["trace", "--json"]) == 0
    assert '"outcome":"answered"' in capsys.readouterr().out


def test_the_config_lists_what_is_set_and_speaks_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    (home / "palinurus.json").write_text(
        '{"gateway": {"auth": {"token": "secret-of-mine"}}, "tools": {"deny": ["exec"]}}'
    )
    assert main(["config"]) == 0
    told = capsys.readouterr().out
    assert 'tools.deny = ["exec"]' in told and "secret-of-mine" not in told
    for argv in (["explain", "tools.deny"], ["validate"], ["path"], ["list"]):
        assert main(["config", *argv, "--json"]) == 0
        json.loads(capsys.readouterr().out)
    assert main(["doctor", "--json"]) in (0, 1)
    assert {"level", "what", "fix", "repairable"} == set(json.loads(capsys.readouterr().out)[0])


def test_json_of_a_line_that_has_none_of_its_own_holds_what_it_says(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["config", "set", "agents.defaults.permissionMode", "ask", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True and told["said"][0].startswith('agents.defaults.permissionMode = "ask"')
    assert main(["cron", "rm", "nope", "--json"]) == 66
    seen = capsys.readouterr()
    told = json.loads(seen.out)
    assert told["ok"] is False and told["said"] == [] and told["code"] == 66 and "no job is called 'nope'" in seen.err


@pytest.mark.parametrize(
    ("line", "code"), [("sessions show nope", 66), ("backup lst", 64), ("nope", 64), ("models auth", 2), ("tasks", 69)]
)
def test_an_error_is_json_where_json_was_asked_for(
    home: Path, line: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*line.split(), "--json"]) == code
    seen = capsys.readouterr()
    told = json.loads(seen.out)
    assert told["ok"] is False and told["code"] == code
    assert seen.err == f"pal: {told['error']}\n" + (f"  fix: {told['fix']}\n" if told["fix"] else "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
def test_output_that_finds_no_room_is_not_blamed_on_the_home(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(io.FileIO(full, "w", closefd=False))))
    assert main(["profiles"]) == 74
    assert "pal: what is printed cannot be written: No space left" in capsys.readouterr().err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("line", ["--version", "--help", "status --help", "config path", "sessions show nope --json"])
def test_output_that_nobody_takes_ends_no_line_in_a_traceback(home: Path, line: str, unbuffered: str) -> None:
    """`pal --help | head -1` and `pal --version > FILE` on a full disk did."""
    environ = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    reads, writes = os.pipe()
    os.close(reads)
    for taker, code in ((os.open("/dev/full", os.O_WRONLY), 74), (writes, 141)):
        done = subprocess.run(
            [sys.executable, "-m", "palinurus", *line.split()], env=environ, stdout=taker, stderr=subprocess.PIPE
        )
        os.close(taker)
        assert (done.returncode, b"Traceback" in done.stderr, b"ignored" in done.stderr) == (code, False, False)


@pytest.mark.parametrize(
    ("line", "said", "fix"),
    [
        ("approvals lst", "there is no `pal approvals lst`", "did you mean `pal approvals list`?"),
        ("backup xyz", "there is no `pal backup xyz`", "use one of: create, verify, restore, list"),
        ("backup", "`pal backup` needs one of: create, verify, restore, list", "`pal backup --help`"),
        ("completion tcsh", "there is no `pal completion tcsh`", "use one of: bash, zsh, fish"),
        ("sessions list --jsn", "`pal sessions list` has no option --jsn", "did you mean --json?"),
        ("sessions list main", "`pal sessions list` has no use for main", "`pal sessions list --help`"),
        ("sessions export x --format pdf", "--format cannot be 'pdf'", "use one of: jsonl, json, markdown, html"),
        ("logs --level loud", "--level cannot be 'loud'", "use one of: silent, fatal, error, warn, info, debug, trace"),
        ("logs --xyz", "`pal logs` has no option --xyz", "`pal logs --help`"),
        (
            "system heartbeat",
            "`pal system heartbeat` needs one of: last, enable, disable",
            "`pal system heartbeat --help`",
        ),
        ("sessions show", "`pal sessions show` needs KEY", "`pal sessions show --help`"),
        ("sessions show x --limit many", "--limit needs a number, not 'many'", "`pal sessions show --help`"),
        ("sessions show x --limit", "--limit needs a value", "`pal sessions show --help`"),
    ],
)
def test_a_wrong_line_says_what_is_wrong_and_what_may_be_meant(
    line: str, said: str, fix: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    assert main(line.split()) == 64
    assert capsys.readouterr().err == f"pal: {said}\n  fix: {fix}\n"


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("channels login none-such", 66, "there is no channel 'none-such'"),
        ("channels login telegrm", 66, "did you mean 'telegram'?"),
        ("backup restore nowhere.palbackup", 66, "there is no file nowhere.palbackup"),
        ("skills accept none-such", 66, "no skill 'none-such' was installed by `pal skills`"),
        ("skills update", 0, "nothing to update"),
        ("models probe none-such", 66, "unknown model 'none-such'\n  fix: `pal models` lists what can be used"),
        ("models thinking none-such", 66, "unknown model 'none-such'\n  fix: `pal models` lists what can be used"),
        ("profiles", 0, "no profiles yet"),
        ("cron runs", 0, "no job has run yet"),
        ("mcp", 0, "`pal mcp add NAME …` adds one"),
        ("extras", 0, "slack      Slack"),
    ],
)
def test_what_is_missing_is_what_is_named(
    line: str,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert main(line.split()) == code
    told = capsys.readouterr()
    assert said in told.out + told.err

"""`pal sandbox`: the cell in words, and the proof."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.cli.main import main
from palinurus.config.load import load_config
from palinurus.services.containment import describe_containment
from palinurus.tools.sandbox.probe import SandboxSupport, detect_support

contained = pytest.mark.skipif(detect_support().landlock < 6, reason="needs Landlock of kernel 6.12")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "state"
    folder.mkdir(mode=0o700)
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("PALINURUS_HOME", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return folder


def configure(home: Path, **box: Any) -> None:
    (home / "palinurus.json").write_text(json.dumps({"agents": {"defaults": {"sandbox": box}}}))


@contained
def test_explain(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(home, contain="landlock", read=["/srv"], connect=[443, "8000-8010"])
    assert main(["sandbox", "explain"]) == 0
    out = capsys.readouterr().out
    for words in ("Landlock", str(home / "workspace"), "/srv", "443, 8000-8010", "no Unix sockets", "files 4096"):
        assert words in out, words
    assert main(["sandbox", "explain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["kind"] == "landlock" and told["connect"] == [[443, 443], [8000, 8010]] and "gaps" in told


@contained
def test_explain_names_the_owners_tools_and_who_commits(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(home, contain="landlock")
    assert main(["sandbox", "explain"]) == 0
    out = capsys.readouterr().out
    assert "commits as nobody" in out and "none of yours" in out
    user = home.parent / "user"
    (user / ".local/bin").mkdir(parents=True)
    (user / ".gitconfig").write_text("[user]\nname = Ada\nemail = ada@a.example\nsigningkey = 4711\n")
    monkeypatch.setenv("PATH", f"/usr/bin:{user}/.local/bin:{user}/.ssh")
    assert main(["sandbox", "explain", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["tools"] == [f"{user}/.local/bin"] and told["author"] == "Ada <ada@a.example>"


def test_explain_a_container(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(home, mode="non-main", docker={"image": "some/image"})
    assert main(["sandbox", "explain", "--session", "telegram:group:1"]) == 0
    out = capsys.readouterr().out
    assert "a Docker container" in out and "some/image" in out and "/workspace (rw)" in out
    assert main(["sandbox", "test", "--session", "telegram:group:1"]) == 64
    assert "not tested" in capsys.readouterr().err


@pytest.mark.skipif(not detect_support().namespaces, reason="no namespaces can be made here")
def test_the_test_shows_what_held(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(home, contain="namespaces")
    assert main(["sandbox", "test"]) == 0
    out = capsys.readouterr().out
    assert "held   read the config" in out and "works  write in the workspace" in out and "OPEN" not in out
    assert main(["sandbox", "test", "--json"]) == 0
    assert {one["held"] for one in json.loads(capsys.readouterr().out)} <= {True, None}


def test_the_test_shows_what_is_open(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(home, contain="off")
    assert main(["sandbox", "test"]) == 1
    out = capsys.readouterr().out
    assert "OPEN   read the config" in out and "open: commands are not contained at all" in out and "fix:" in out


@pytest.mark.parametrize("argv", [["sandbox"], ["sandbox", "explain", "--agent", "nobody"], ["sandbox", "x"]])
def test_wrong_lines(home: Path, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) != 0
    assert "fix:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("have", "contain", "contained", "says"),
    [
        (SandboxSupport(7, True, True, True), "auto", True, "bubblewrap"),
        (SandboxSupport(7, True, True), "auto", True, "Landlock"),
        (SandboxSupport(), "auto", False, "exec asks first"),
        (SandboxSupport(7, True, True), "off", False, "switched off"),
    ],
)
def test_the_line_for_status_and_doctor(
    home: Path, have: SandboxSupport, contain: str, contained: bool, says: str
) -> None:
    configure(home, contain=contain)
    agent = load_config(str(home), {"HOME": "/x"}).settings.agents["main"]
    held = describe_containment(agent, have)
    assert held.contained == contained and says in held.what
    assert bool(held.gaps) == (have == SandboxSupport() or (contained and not have.bubblewrap))


def test_doctor_and_status_say_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    configure(home, contain="off")
    main(["doctor"])
    assert "warn  commands of main: not contained: switched off" in capsys.readouterr().out
    main(["status"])
    assert "not contained" in capsys.readouterr().out

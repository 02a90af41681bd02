"""`pal record`, `pal replay`, `pal diff` as typed, on runs of a fake provider: another end of a run from a
step on, with another model, another prompt, tools that run; and what docs/replay.md shows."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from palinurus.testing.home import get_work_dir, make_home, make_provider_entry
from palinurus.testing.model import call_tools, say
from palinurus.testing.server import ModelServer

Pal = Callable[..., subprocess.CompletedProcess[str]]
PAGE = (Path(__file__).parents[3] / "docs" / "replay.md").read_text(encoding="utf-8")
READ, WRITE = ("read", {"path": "a.txt"}), ("write", {"path": "b.txt", "content": "two"})


@pytest.fixture
def taped(home: Path, tmp_path: Path, server: ModelServer, pal: Pal) -> tuple[str, Path]:
    """A run of three model calls is on tape: its id, and the workspace. Then the file that it read was changed."""
    other = {"other": make_provider_entry(server.url, model="text")}
    extra = {"record": {"enabled": True}, "models": {"providers": other}}
    make_home(tmp_path, extra, {"a.txt": "one\n"}, url=server.url)
    server.add(call_tools(READ), call_tools(WRITE), say("Both are done."))
    assert pal("agent", "-m", "read a.txt, write b.txt").stdout == "Both are done.\n"
    work = Path(get_work_dir(str(home)))
    (work / "a.txt").write_text("changed since\n")
    (work / "b.txt").unlink()
    (item,) = json.loads(pal("record", "--json").stdout)["tapes"]
    return item, work


def tell(server: ModelServer) -> tuple[str, list[Any]]:
    """The system prompt and the conversation of the last request."""
    first, *rest = server.requests[-1].body["messages"]
    assert first["role"] in ("system", "developer")
    return first["content"], rest


def test_the_recorded_run_is_played_without_its_provider(
    taped: tuple[str, Path], server: ModelServer, pal: Pal
) -> None:
    item, work = taped
    asked = len(server.requests)
    for words in ((), ("last",), (item[:20],)):
        done = pal("replay", *words)
        assert done.returncode == 0 and "same: it came out byte for byte" in done.stdout, done
    assert len(server.requests) == asked == 3
    assert not (work / "b.txt").exists()  # its tools were not run
    all_of_them = pal("replay", "--all")
    assert all_of_them.stdout.endswith("1 run: 1 same, 0 differs, 0 not played\n") and not all_of_them.returncode


def test_another_end_from_a_step_on(taped: tuple[str, Path], server: ModelServer, pal: Pal) -> None:
    """What came before it is the tape's, also where the world is another now."""
    item, work = taped
    server.add(say("Another end."))
    done = pal("replay", item, "--from", "3")
    assert done.returncode == 0 and "Another end." in done.stdout, done
    assert f"kept as {item}~1: pal diff {item} {item}~1" in done.stdout
    assert len(server.requests) == 4
    _, talk = tell(server)
    assert [m["role"] for m in talk] == ["user", "assistant", "tool", "assistant", "tool"]
    assert talk[2]["content"] == "one\n" and not (work / "b.txt").exists()
    # and the two side by side
    told = pal("diff", item, f"{item}~1")
    assert told.returncode == 1 and "Both are done." in told.stdout and "Another end." in told.stdout, told
    assert "from step 3" in told.stdout and re.search(r"^≠ transcript line ", told.stdout, re.MULTILINE)
    same = pal("diff", item, item)
    assert same.returncode == 0 and same.stdout.endswith("\nsame\n")
    data = json.loads(pal("diff", item, f"{item}~1", "--json").stdout)
    assert [row["same"] for row in data["steps"]] == [True, True, False]
    # a branch is not the run: the regression suite does not play it
    assert "1 run: 1 same" in pal("replay", "--all").stdout
    server.add(say("A third one."))
    assert f"kept as {item}~2" in pal("replay", item, "--from", "3").stdout


def test_another_model_and_another_prompt(
    taped: tuple[str, Path], server: ModelServer, pal: Pal, tmp_path: Path
) -> None:
    item, _ = taped
    usual, _ = tell(server)
    server.add(say("As somebody else."))
    done = pal("replay", item, "--from", "2", "--model", "other/text")
    assert done.returncode == 0 and "As somebody else." in done.stdout and "other/text" in done.stdout, done
    assert server.requests[-1].body["model"] == "text" and len(tell(server)[1]) == 3
    data = json.loads(pal("diff", item, f"{item}~1", "--json").stdout)
    assert [row["b"] and row["b"]["model"] for row in data["steps"]] == ["fake/model", "other/text", None]
    assert data["differences"][0]["step"] == 2 and data["steps"][0]["same"]
    words = tmp_path / "prompt.md"
    words.write_text("You are a pirate.")
    server.add(say("Arr."))
    done = pal("replay", item, "--prompt", str(words))
    assert done.returncode == 0 and "Arr." in done.stdout, done
    prompt, talk = tell(server)
    assert prompt == "You are a pirate." != usual and len(talk) == 1  # from the first call on
    assert server.requests[-1].body["model"] == "model"


def test_tools_run_in_a_copy_or_not_at_all(taped: tuple[str, Path], server: ModelServer, pal: Pal) -> None:
    item, work = taped
    new = ("write", {"path": "c.txt", "content": "three"})
    server.add(call_tools(new, READ), say("Hm."))
    assert pal("replay", item, "--from", "2").returncode == 0
    results = [m["content"] for m in tell(server)[1] if m["role"] == "tool"]
    assert "not on the tape" in results[1] and results[2] == "one\n"  # what is on the tape is answered from it
    server.add(call_tools(new, READ), call_tools(("ls", {})), say("Done."))
    done = pal("replay", item, "--from", "2", "--live-tools")
    assert done.returncode == 0 and "Done." in done.stdout, done
    results = [m["content"] for m in tell(server)[1] if m["role"] == "tool"]
    assert "c.txt" in results[1] and results[2] == "changed since\n" and "c.txt" in results[3]
    assert not (work / "c.txt").exists()


def test_what_cannot_be_done_is_said(
    taped: tuple[str, Path], server: ModelServer, pal: Pal, tmp_path: Path, home: Path
) -> None:
    item, tapes = taped[0], home / "tapes"
    server.add(say("Another end."))
    pal("replay", item, "--from", "3")
    shutil.copy(tapes / f"{item}.jsonl.gz", tapes / f"{item}z.jsonl.gz")
    asked = len(server.requests)
    for words, told in {
        (item, "--from", "9"): "the run has 3 steps\n  fix: `pal diff last last` shows them",
        (item, "--from", "0"): "the run has 3 steps",
        (item, "--prompt", str(tmp_path / "none.md")): "cannot be read",
        (item, "--model", "nobody/knows-it"): "nobody/knows-it",
        ("zzz",): "no tape",
        (f"{item}~1",): f"another end of a run, not one\n  fix: `pal diff {item} {item}~1`",
        (item[:5],): f"more than one run on tape begins with '{item[:5]}'\n  fix: the latest are {item}, {item}z",
        ("--all", "--from", "1"): "--all plays every run as it was",
        ("--all", item): "--all plays every run as it was",
    }.items():
        done = pal("replay", *words)
        assert done.returncode not in (0, 1), (words, done)
        assert told in done.stdout + done.stderr and "Traceback" not in done.stderr, (words, done)
    assert len(server.requests) == asked


def test_a_suite_without_a_run_has_not_passed(home: Path, pal: Pal) -> None:
    done = pal("replay", "--all")
    assert done.returncode == 66 and "no run is on tape yet\n  fix: " in done.stderr, done


def test_the_page(demo: Path, pal: Pal) -> None:
    """The commands of docs/replay.md, and what it says of a changed AGENTS.md."""
    blocks = re.findall(r"```(?:console)?\n(.*?)```", PAGE, re.DOTALL)
    lines = re.findall(r"^\$ pal (.*)$", blocks[0], re.MULTILINE)
    assert len(lines) == 4
    for line in lines:
        words = [word.strip('"') for word in re.findall(r'"[^"]*"|\S+', line)]
        done = pal(*words)
        assert done.returncode == 0, (line, done)
    assert "1 run: 1 same" in done.stdout
    agents = Path(demo, "workspace", "AGENTS.md")
    agents.write_text(agents.read_text().rstrip("\n") + " Always answer in Latin.\n")
    done = pal("replay", "--all")
    assert done.returncode == 1
    for line in blocks[1].splitlines():
        assert line.strip().partition("…")[2] or line.strip() in done.stdout, done.stdout
        assert line.rpartition("…")[2].strip() in done.stdout, done.stdout
    assert pal("replay", "--frozen").returncode == 0


def test_every_option_of_the_page_exists(pal: Pal) -> None:
    told = "".join(pal(verb, "--help").stdout for verb in ("record", "replay", "diff"))
    named = set(re.findall(r"--[a-z][a-z-]+", PAGE)) - {"--session"}
    assert named and not [option for option in named if option not in told]
    assert "--session" in pal("record", "on", "--help").stdout
    assert all(verb in told for verb in ("on", "off", "default", "status"))

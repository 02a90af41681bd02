"""`pal -p`: what goes in and comes out, as text, JSON and a stream, with the built-in demo and the whole program."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nursery import Program
from palinurus.cli.headless import make_parser, run_print
from palinurus.cli.main import main
from palinurus.core.types.messages import UserMessage
from palinurus.errors import BadRequest, NotFound
from palinurus.sessions.transcript import read_transcript


def ask(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    """The result object of a run."""
    assert main(["-p", *argv, "--output-format", "json", "--local"]) == code
    return json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def nothing_piped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with open(os.devnull, encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        yield


def test_text(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["-p", "list files"]) == 0
    told = capsys.readouterr()
    assert "AGENTS.md" in told.out and told.err == ""


def test_it_works_in_this_folder_like_pal_agent(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "app.py").write_text("print(1)")
    monkeypatch.chdir(folder)
    assert "app.py" not in ask(capsys, "list files")["result"]  # nobody allowed it yet
    assert "app.py" in ask(capsys, "list files", "--here")["result"]
    assert "app.py" in ask(capsys, "list files")["result"]  # from now on
    assert "app.py" not in ask(capsys, "list files", "--home-workspace")["result"]
    monkeypatch.chdir(tmp_path)
    assert "app.py" in ask(capsys, "list files", "-C", str(folder))["result"]
    assert "app.py" in ask(capsys, "list files", "--continue")["result"]  # the session has its folder


def test_json_has_what_the_sdk_reads(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ask(capsys, "list files")
    assert (told["type"], told["subtype"], told["is_error"], told["num_turns"]) == ("result", "success", False, 2)
    assert "AGENTS.md" in told["result"] and told["total_cost_usd"] == 0.0 and told["permission_denials"] == []
    assert set(told["usage"]) == {
        "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
    }  # fmt: skip
    assert told["duration_ms"] >= told["duration_api_ms"] >= 0


def test_every_call_is_a_session_unless_one_is_named(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = ask(capsys, "hi"), ask(capsys, "hi")
    assert first["session_id"] != second["session_id"]
    assert ask(capsys, "hi", "--continue")["session_id"] == second["session_id"]
    assert ask(capsys, "hi", f"--resume={first['session_id']}")["session_id"] == first["session_id"]
    assert ask(capsys, "hi", "--session-id=my-own")["session_id"] == "my-own"
    assert ask(capsys, "hi", "--session", "notes")["session_id"] == "agent:main:notes"
    with pytest.raises(NotFound, match="there is no session"):
        run_print(["x", "--resume", "nope", "--local"])
    with pytest.raises(NotFound, match="to continue"):
        run_print(["x", "--continue", "--agent", "other", "--local"])


def test_what_is_piped_in_is_content(
    demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    piped = tmp_path / "log"
    piped.write_bytes(b"caf\xe9 ``` ignore all\n" * 5)
    with piped.open(encoding="utf-8", errors="replace") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        ask(capsys, "what went wrong?", "--session", "piped")
    (file,) = (demo / "agents" / "main" / "sessions").glob("*.jsonl")
    said = next(m for m in read_transcript(str(file)).messages() if isinstance(m, UserMessage))
    assert said.text.startswith("what went wrong?\n\n````\n") and said.text.endswith("\n````")


def test_the_prompt_may_come_by_the_pipe(
    demo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("list files"))
    assert main(["-p"]) == 0 and "AGENTS.md" in capsys.readouterr().out


def test_plan_mode_and_lists_of_tools_hold(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ask(capsys, "write a.txt with x", "--permission-mode", "plan")
    assert [one["tool_name"] for one in told["permission_denials"]] == ["write"]
    assert told["permission_denials"][0]["tool_input"]["path"] == "a.txt"
    ask(capsys, "write a.txt with x", "--disallowedTools", "Write,Bash")
    ask(capsys, "write a.txt with x", "--allowed-tools", "Read")
    assert not (demo / "workspace" / "a.txt").exists()
    ask(capsys, "write a.txt with x", "--allowed-tools", "Write", "--permission-mode", "bypassPermissions")
    assert (demo / "workspace" / "a.txt").exists()


def test_who_is_not_there_to_answer_is_told_what_was_not_done(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ask(capsys, "write a.txt with x", "--permission-mode", "ask")
    assert [one["tool_name"] for one in told["permission_denials"]] == ["write"]


def test_limits_and_failures_have_codes(demo: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = ask(capsys, "list files", "--max-turns", "1", code=1)
    assert (told["subtype"], told["is_error"]) == ("error_max_turns", True) and "1 model calls" in told["errors"][0]
    assert ask(capsys, "hi", "--model", "nobody/nothing", code=1)["is_error"]
    told = ask(capsys, "run sleep 60", "--timeout", "0.2", code=124)
    assert told["errors"] == ["stopped: the time limit was reached"]


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        ([""], "nothing to answer"),
        (["x", "--permission-mode", "god"], "no permission mode"),
        (["x", "--allowedTools", "Bash(git:*)"], "only a whole tool"),
        (["x", "--continue", "--resume", "a"], "exclude each other"),
        (["--input-format", "stream-json"], "needs --output-format"),
        (["x", "--json-schema", "{"], "not JSON"),
        (["x", "--mcp-config", "{}"], "has no option --mcp-config"),
    ],
)
def test_wrong_lines(demo: Path, argv: list[str], word: str) -> None:
    with pytest.raises(BadRequest, match=word):
        run_print(argv)


def test_every_option_is_told_in_a_sentence() -> None:
    assert all(action.help for action in make_parser()._actions)


def test_a_program_talks_in_both_directions(demo: Path) -> None:
    """As the SDK does it: initialize, a message, a question in between, an answer, the end of input."""
    argv = ["--home", str(demo), "--output-format", "stream-json"]
    argv += ["--input-format", "stream-json", "--verbose", "--permission-prompt-tool", "stdio"]
    child = Program(*argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdin is not None and child.stdout is not None

    def tell(**frame: Any) -> None:
        assert child.stdin is not None
        child.stdin.write(json.dumps(frame) + "\n")
        child.stdin.flush()

    def hear(kind: str) -> Any:
        assert child.stdout is not None
        while (frame := json.loads(child.stdout.readline()))["type"] != kind:
            pass
        return frame

    try:
        tell(type="control_request", request_id="1", request={"subtype": "initialize"})
        assert hear("control_response")["response"]["subtype"] == "success"
        tell(type="control_request", request_id="2", request={"subtype": "initialize", "hooks": {"Stop": [1]}})
        assert hear("control_response")["response"]["error"] == "pal does not serve hooks of the SDK"
        tell(type="user", message={"role": "user", "content": [{"type": "text", "text": "write a.txt with x"}]})
        asked = hear("control_request")
        assert asked["request"]["subtype"] == "can_use_tool" and asked["request"]["tool_name"] == "write"
        allow = {"behavior": "allow", "updatedInput": asked["request"]["input"]}
        said = {"subtype": "success", "request_id": asked["request_id"], "response": allow}
        tell(type="control_response", response=said)
        assert hear("result")["subtype"] == "success" and (demo / "workspace" / "a.txt").exists()
        tell(type="user", message={"role": "user", "content": "write b.txt with x"})
        asked = hear("control_request")
        changed = {"behavior": "allow", "updatedInput": {"path": "c.txt", "content": "y"}}
        said = {"subtype": "success", "request_id": asked["request_id"], "response": changed}
        tell(type="control_response", response=said)
        assert len(hear("result")["permission_denials"]) == 1
        assert not {"b.txt", "c.txt"} & {path.name for path in (demo / "workspace").iterdir()}
        child.stdin.close()
        assert child.wait(30) == 0
    finally:
        child.kill()
        child.stdout.close()

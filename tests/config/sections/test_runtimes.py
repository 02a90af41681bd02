"""Which program does whose runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from configs import read_settings
from palinurus.config.load import load_config
from palinurus.config.sections.runtimes import RuntimeSettings


def settings(home: Path, **body: Any) -> RuntimeSettings:
    (home / "palinurus.json").write_text(json.dumps(body))
    return load_config(str(home), {}).settings.runtimes


def test_without_a_word_the_providers_of_these_names_are_programs_and_nothing_else_is(tmp_path: Path) -> None:
    found = settings(tmp_path)
    assert found.choose_program("main", "codex", "gpt-5.5") == "codex"
    assert found.choose_program("main", "claude-cli", "opus") == "claude-cli"
    assert found.choose_program("main", "openai", "gpt-5.5") == "" == found.choose_program("main", "anthropic", "opus")
    assert found.programs["codex"].command == ("codex", "app-server")
    assert found.programs["claude-cli"].command == ("claude",)


def test_agents_and_models_name_programs_and_a_program_does_only_what_its_maker_sells(tmp_path: Path) -> None:
    found = settings(
        tmp_path,
        agents={
            "defaults": {
                "agentRuntime": {"id": "codex"},
                "models": {"anthropic/opus": {"agentRuntime": {"id": "claude-cli"}}},
            },
            "list": [
                {"id": "main"},
                {"id": "own", "agentRuntime": {"id": "auto"}},
                {"id": "c", "agentRuntime": {"id": "claude-cli"}},
            ],
        },
        models={"providers": {"acme": {"baseUrl": "http://x/v1", "agentRuntime": {"id": "codex"}}}},
    )
    assert found.choose_program("main", "openai", "gpt-5.5") == "codex"
    assert found.choose_program("main", "anthropic", "opus") == "claude-cli"
    assert found.choose_program("main", "anthropic", "haiku") == ""
    assert (
        found.choose_program("c", "anthropic", "haiku") == "claude-cli"
        and found.choose_program("c", "openai", "gpt-5.5") == ""
    )
    assert found.choose_program("main", "acme", "m") == "codex"
    assert found.choose_program("own", "openai", "gpt-5.5") == ""


def test_an_agents_own_word_for_a_model_goes_before_everybodys(tmp_path: Path) -> None:
    ann = {"id": "ann", "models": {"openai/x": {"agentRuntime": {"id": "codex"}}}}
    found = settings(tmp_path, agents={"list": [ann, {"id": "bob"}]})
    assert [found.choose_program(who, "openai", "x") for who in ("ann", "bob")] == ["codex", ""]


def test_a_list_of_models_without_a_word_takes_none_away_and_our_own_loop_is_a_word(tmp_path: Path) -> None:
    codex = {"agentRuntime": {"id": "codex"}}
    ann = {"id": "ann", "models": {"openai/x": {"agentRuntime": {"id": "palinurus"}}}}
    found = settings(
        tmp_path,
        agents={"defaults": {"models": {"openai/x": codex, "openai": codex}}, "list": [ann, {"id": "bob"}]},
        models={"providers": {"openai": {"baseUrl": "http://x/v1", "models": [{"id": "x"}]}}},
    )
    assert [found.choose_program(who, "openai", "x") for who in ("ann", "bob")] == ["", "codex"]
    assert found.choose_program("ann", "openai", "y") == "codex"


def test_a_program_that_there_is_not_is_told() -> None:
    models = {"openai/x": {"agentRuntime": {"id": "codx"}}, "openai/y": {"agentRuntime": {"id": "auto"}}}
    findings = read_settings({"agents": {"defaults": {"models": models}}})[1]
    assert [(one.path, one.hint, one.fatal) for one in findings] == [(("agents",), "did you mean 'codex'?", False)]


def test_a_backend_is_configured_and_words_it_does_not_know_count_as_not_written(tmp_path: Path) -> None:
    server = {"command": "/opt/codex", "approvalPolicy": "never", "sandbox": "read-only"}
    found = settings(
        tmp_path,
        agents={
            "defaults": {
                "cliBackends": {
                    "codex": {"args": ["serve"], "sandbox": "whatever", "env": {"K": "s3cret"}},
                    "claude-cli": {"permissionMode": "plan", "mcpConfig": "m.json"},
                }
            }
        },
        plugins={"entries": {"codex": {"config": {"appServer": server}}}},
    )
    codex, claude = found.programs["codex"], found.programs["claude-cli"]
    assert codex.command == ("/opt/codex", "serve") and codex.approval == "never" and codex.sandbox == ""
    assert codex.env["K"].reveal() == "s3cret" and "s3cret" not in repr(found)
    assert (claude.permission, claude.mcp) == ("plan", "m.json")


def test_a_backend_that_speaks_acp_does_all_runs_of_the_agents_that_name_it(tmp_path: Path) -> None:
    backends = {
        "gemini": {"protocol": "acp", "command": "gemini", "args": ["--acp"]},
        "other": {"command": "other"},
        "broken": {"protocol": "acp"},
    }
    found = settings(
        tmp_path,
        agents={
            "defaults": {"cliBackends": backends},
            "list": [
                {"id": "main"},
                {"id": "g", "runtime": {"type": "acp", "acp": {"agent": "gemini"}}},
                {"id": "b", "agentRuntime": {"id": "broken"}},
            ],
        },
    )
    assert found.programs["gemini"].command == ("gemini", "--acp") and found.programs["gemini"].kind == "acp"
    assert set(found.programs) == {"codex", "claude-cli", "gemini"}
    assert found.choose_program("g", "openai", "gpt-5.5") == "gemini" == found.choose_program("g", "builtin", "demo")
    assert found.choose_program("main", "openai", "x") == "" == found.choose_program("b", "openai", "x")

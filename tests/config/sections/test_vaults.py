"""References to secrets lead to variables, to files of the owner's, and to programs."""

import json
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import judge_config, load_config
from palinurus.config.settings import Settings

CANARY = "canary-1618033"
ENV = {"HOME": "/nowhere", "KEY": CANARY, "OTHER": "not-passed"}


def read(provider: dict[str, Any], ident: str, name: str = "p", **more: Any) -> tuple[Settings, list[str]]:
    """The settings of a provider and of a channel whose secrets are references; and what was wrong."""
    source = provider.get("source", "env")
    told = {"source": source, "provider": name, "id": ident}
    raw = {
        "secrets": {"providers": {name: provider} if provider else {}, **more},
        "models": {"providers": {"x": {"apiKey": told}}},
        "channels": {"telegram": {"botToken": told}},
        "mcp": {"servers": {"m": {"url": "http://a.example", "headers": {"Authorization": told}}}},
    }
    found = judge_config(json.dumps(raw), "f", "/h", ENV)
    assert found.settings is not None and CANARY not in repr(found.settings) + repr(found.problems)
    return found.settings, [problem.message for problem in found.problems]


def list_secrets(settings: Settings) -> set[str]:
    return {
        settings.providers["x"].api_key.reveal(),
        settings.channels["telegram"]["botToken"].reveal(),
        settings.mcp.servers["m"].headers["Authorization"].reveal(),
    }


def write(tmp_path: Path, text: str, mode: int = 0o600) -> str:
    file = tmp_path / "secret"
    file.write_text(text)
    file.chmod(mode)
    return str(file)


def test_a_variable() -> None:
    settings, wrong = read({"source": "env"}, "KEY")
    assert (list_secrets(settings), wrong) == ({CANARY}, [])
    settings, wrong = read({"source": "env", "allowlist": ["ELSE"]}, "KEY")
    assert list_secrets(settings) == {""} and wrong[0] == "secrets.providers.p does not allow KEY"


def test_a_file(tmp_path: Path) -> None:
    file = write(tmp_path, json.dumps({"a": {"b/c": CANARY}}))
    settings, wrong = read({"source": "file", "path": file}, "/a/b~1c")
    assert (list_secrets(settings), wrong) == ({CANARY}, [])
    file = write(tmp_path, CANARY + "\n")
    settings, wrong = read({"source": "file", "path": file, "mode": "singleValue"}, "value")
    assert (list_secrets(settings), wrong) == ({CANARY}, [])


def test_the_usual_provider_of_a_source(tmp_path: Path) -> None:
    file = write(tmp_path, CANARY)
    body = {
        "providers": {"main": {"source": "file", "path": file, "mode": "singleValue"}},
        "defaults": {"file": "main"},
    }
    raw = {"secrets": body, "models": {"providers": {"x": {"apiKey": {"source": "file", "id": "value"}}}}}
    settings = judge_config(json.dumps(raw), "f", "/h", ENV).settings
    assert settings is not None and settings.providers["x"].api_key.reveal() == CANARY


@pytest.mark.parametrize(
    ("text", "mode", "why"),
    [
        (json.dumps({"a": CANARY}), 0o644, "is open to others"),
        (json.dumps({"b": CANARY}), 0o600, "has no text at /a"),
        ("{" + CANARY, 0o600, "cannot be read as json"),
    ],
)
def test_a_file_that_is_not_used(tmp_path: Path, text: str, mode: int, why: str) -> None:
    settings, wrong = read({"source": "file", "path": write(tmp_path, text, mode)}, "/a")
    assert list_secrets(settings) == {""} and why in wrong[0]


def test_a_program(tmp_path: Path) -> None:
    script = (
        '#!/bin/sh\nread ask\n[ -z "$OTHER" ] || exit 3\n'
        'case "$ask" in *\'"ids":["a/b"]\'*) echo "{\\"values\\": {\\"a/b\\": \\"$KEY\\"}}";; esac\n'
    )
    file = write(tmp_path, script, 0o700)
    settings, wrong = read({"source": "exec", "command": file, "passEnv": ["KEY"]}, "a/b")
    assert (list_secrets(settings), wrong) == ({CANARY}, [])


@pytest.mark.parametrize(
    ("script", "mode", "why"),
    [
        ("#!/bin/sh\necho canary-1618033; exit 4\n", 0o700, "failed with exit code 4"),
        ("#!/bin/sh\nexec sleep 30\n", 0o700, "did not answer"),
        ("#!/bin/sh\necho '{}'\n", 0o700, "knows no x"),
        ("#!/bin/sh\necho hello\n", 0o777, "can be changed by others"),
    ],
)
def test_a_program_that_is_no_help(tmp_path: Path, script: str, mode: int, why: str) -> None:
    told = {"source": "exec", "command": write(tmp_path, script, mode), "timeoutMs": 300}
    settings, wrong = read(told, "x")
    assert list_secrets(settings) == {""} and why in wrong[0]


def test_only_json_and_only_from_there_if_that_is_said(tmp_path: Path) -> None:
    told = {"source": "exec", "command": write(tmp_path, f"#!/bin/sh\necho {CANARY}\n", 0o700)}
    settings, wrong = read({**told, "trustedDirs": [str(tmp_path)]}, "x")
    assert (list_secrets(settings), wrong) == ({CANARY}, [])
    settings, wrong = read({**told, "jsonOnly": True}, "x")
    assert list_secrets(settings) == {""} and "knows no x" in wrong[0]
    for folders in ([str(tmp_path / "other")], [], {}):
        settings, wrong = read({**told, "trustedDirs": folders}, "x")
        assert list_secrets(settings) == {""} and any("is in none of trustedDirs" in text for text in wrong)


def test_a_provider_that_is_not_there() -> None:
    settings, wrong = read({}, "x", name="nobody")
    assert (list_secrets(settings) == {""} and "is not set" in wrong[0]) or "has no" in wrong[0]


@pytest.mark.parametrize(
    ("rules", "profile", "found"),
    [
        ({"enabled": True}, "echo hello; export OPENAI_API_KEY=from-shell OTHER=x", "from-shell"),
        ({"enabled": False}, "export OPENAI_API_KEY=from-shell", ""),
        ({"enabled": True, "timeoutMs": 200}, "sleep 60; export OPENAI_API_KEY=from-shell", ""),
        ({"enabled": True, "timeoutMs": 59_000}, "sleep 0.3; export OPENAI_API_KEY=slow", "slow"),
    ],
)
def test_keys_come_from_the_login_shell_where_the_config_says_so(
    tmp_path: Path, rules: dict[str, Any], profile: str, found: str
) -> None:
    (tmp_path / ".profile").write_text(profile + "\n")
    config = {
        "env": {"shellEnv": rules},
        "models": {"providers": {"p": {"baseUrl": "http://a.example", "apiKey": "${OPENAI_API_KEY:-none}"}}},
    }
    (tmp_path / "palinurus.json").write_text(json.dumps(config))
    environ = {"HOME": str(tmp_path), "SHELL": "/bin/sh", "PATH": "/usr/bin:/bin"}
    made = load_config(str(tmp_path), environ).settings
    assert made.providers["p"].api_key.reveal() == (found or "none")
    assert {name: one.reveal() for name, one in made.env.items()} == ({"OPENAI_API_KEY": found} if found else {})
    assert found not in repr(made) or not found
    own = load_config(str(tmp_path), {**environ, "OPENAI_API_KEY": "mine"}).settings
    assert own.providers["p"].api_key.reveal() == "mine" and not own.env  # the environment goes before it

import json
from pathlib import Path

import pytest

from palinurus.cli.config import run_config
from palinurus.cli.main import main
from palinurus.errors import BadRequest, ConfigError, NotFound

CANARY = "canary-3010299"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PALINURUS_HOME", str(tmp_path))
    return tmp_path


def write(home: Path, text: str) -> str:
    (home / "palinurus.json").write_text(text)
    return str(home / "palinurus.json")


Out = pytest.CaptureFixture[str]


def test_path(home: Path, capsys: Out) -> None:
    assert run_config(["path"]) == 0
    assert capsys.readouterr().out == f"{home}/palinurus.json\n"


def test_set_get_unset(home: Path, capsys: Out) -> None:
    assert run_config(["set", "gateway.port", "81"]) == 0
    assert capsys.readouterr().out == f"gateway.port = 81 ({home}/palinurus.json:3)\nneeds a restart of the gateway\n"
    assert run_config(["get", "gateway.port"]) == 0
    assert capsys.readouterr().out == "81\n"
    assert run_config(["unset", "gateway.port"]) == 0
    assert "gateway.port removed" in capsys.readouterr().out
    run_config(["get", "gateway.port"])
    assert capsys.readouterr().out == "18789\n"


@pytest.mark.parametrize(
    ("key", "text", "stored"),
    [
        ("agents.defaults.model", "openai/gpt-5.4", "openai/gpt-5.4"),
        ("agents.defaults.model", "{primary: 'a/b'}", {"primary": "a/b"}),
        ("tools.deny", "['exec']", ["exec"]),
        ("tools.fs.workspaceOnly", "true", True),
        ("gateway.auth.token", "123456", "123456"),
        ("agents.defaults.timeFormat", "24", "24"),
        ("session.mainKey", "true", "true"),
        ("channels.telegram.allowFrom", "[1]", [1]),
        ("session.mainKey", "", ""),
    ],
)
def test_values_are_json5_or_text(home: Path, key: str, text: str, stored: object) -> None:
    run_config(["set", key, text])
    found = json.loads((home / "palinurus.json").read_text())
    for part in key.split("."):
        found = found[part]
    assert found == stored


def test_json_value_is_strict(home: Path) -> None:
    with pytest.raises(BadRequest, match="is not JSON5"):
        run_config(["set", "agents.defaults.model", "openai/gpt", "--json-value"])
    with pytest.raises(ConfigError):
        run_config(["set", "session.mainKey", "5", "--json-value"])
    with pytest.raises(BadRequest) as caught:
        run_config(["set", "gateway.auth.token", CANARY, "--json-value"])
    assert CANARY not in str(caught.value)


def test_secrets_are_masked_unless_asked_for(home: Path, capsys: Out) -> None:
    run_config(["set", "gateway.auth.token", CANARY])
    for words in (
        ["get", "gateway.auth.token"],
        ["get", "gateway", "--json"],
        ["explain", "gateway.auth"],
        ["validate"],
    ):
        assert run_config(words) == 0
    assert CANARY not in capsys.readouterr().out
    run_config(["get", "gateway.auth.token", "--reveal"])
    assert capsys.readouterr().out == CANARY + "\n"


def test_get_json(home: Path, capsys: Out) -> None:
    write(home, "{session: {mainKey: 'é'}}")
    run_config(["get", "session.mainKey"])
    assert capsys.readouterr().out == "é\n"
    run_config(["get", "session", "--json"])
    assert json.loads(capsys.readouterr().out) == {"mainKey": "é"}


def test_get_what_is_not_there(home: Path) -> None:
    with pytest.raises(NotFound, match="is not set"):
        run_config(["get", "agents.defaults.contextTokens"])
    with pytest.raises(NotFound, match="did you mean 'gateway'"):
        run_config(["get", "gatway"])


def test_explain(home: Path, capsys: Out) -> None:
    file = write(home, "{\n gateway: {\n  bind: 'lan', prot: 1}}")
    assert run_config(["explain", "gateway.bind"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[:4] == [
        "gateway.bind",
        '  value:  "lan"',
        f"  from:   {file}:3",
        "  change: needs a restart of the gateway",
    ]
    run_config(["explain", "gateway.prot"])
    assert "problem: gateway.prot: unknown key" in capsys.readouterr().out
    run_config(["explain", "tools.exec.timeoutSec"])
    out = capsys.readouterr().out
    assert "value:  1800" in out
    assert "from:   default" in out
    assert "applies by itself" in out


def test_explain_of_a_section_lists_its_keys_with_the_values_in_force(home: Path, capsys: Out) -> None:
    write(home, "{agents: {defaults: {heartbeat: {target: 'last'}}}, gateway: {auth: {token: 'canary-3010299'}}}")
    run_config(["explain", "agents.defaults.heartbeat"])
    told = capsys.readouterr().out
    assert 'every = "30m"' in told and 'target = "last"' in told and "(none)" not in told
    assert "How often the agent looks by itself" in told
    run_config(["explain", "tools.exec"])
    assert "backgroundMs = 10000" in capsys.readouterr().out
    run_config(["explain", "gateway.auth"])
    assert CANARY not in (told := capsys.readouterr().out) and "token" in told


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("agents.defaults.heartbeat.every", '"30m"'),
        ("gateway.handshakeTimeoutMs", "15000"),
        ("tools.exec.cleanupMs", "1800000"),
        ("session.maintenance.pruneAfter", '"30d"'),
        ("session.mainKey", '"main"'),
        ("agents.defaults.subagents.archiveAfterMinutes", "60"),
    ],
)
def test_explain_says_the_value_in_force_as_it_would_be_written(home: Path, capsys: Out, key: str, value: str) -> None:
    run_config(["explain", key])
    assert f"  value:  {value}\n  from:   default\n" in capsys.readouterr().out
    run_config(["set", key, value])  # what is shown can be written


@pytest.mark.parametrize(("key", "hint"), [("nope.key", "nope"), ("sesion.scope", "did you mean 'session'")])
def test_a_key_that_is_not_known_is_not_written(home: Path, key: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=hint):
        run_config(["set", key, "1"])
    assert not (home / "palinurus.json").exists()


def test_validate(home: Path, capsys: Out) -> None:
    assert run_config(["validate"]) == 0
    assert "not there, defaults apply" in capsys.readouterr().out
    file = write(home, "{gateway: {prot: 1}}")
    assert run_config(["validate"]) == 0
    out = capsys.readouterr().out
    assert out == f"warning: gateway.prot: unknown key ({file}:1); did you mean 'port'?\n{file}: 0 errors, 1 warning\n"
    write(home, "{gateway: {\nport: 'x',\nmode: 'y'}}")
    assert run_config(["validate"]) == 1
    out = capsys.readouterr().out
    assert f"error: gateway.port: expected a whole number, got a text ({file}:2)" in out
    assert f"({file}:3)" in out
    assert out.endswith("2 errors, 0 warnings\n")
    write(home, "{}")
    assert run_config(["validate"]) == 0
    assert capsys.readouterr().out == f"{file}: valid\n"


def test_validate_judges_the_file_not_its_last_good_copy(home: Path, capsys: Out) -> None:
    write(home, "{gateway: {port: 5}}")
    run_config(["get", "gateway.port"])
    write(home, "{")
    assert run_config(["validate"]) == 1
    capsys.readouterr()
    assert run_config(["get", "gateway.port"]) == 0
    shown = capsys.readouterr()
    assert shown.out == "5\n"
    assert "last good copy" in shown.err


@pytest.mark.parametrize("line", ["agent -m hello", "models", "setup --non-interactive", "config get gateway.port"])
def test_a_command_says_once_that_the_file_is_not_what_counts(home: Path, line: str, capsys: Out) -> None:
    """`pal setup` said that everything is there, `pal agent` answered, and neither said a word."""
    write(home, "{gateway: {port: 5}}")
    run_config(["get", "gateway.port"])
    write(home, "{")
    capsys.readouterr()
    assert main(line.split()) == 0
    shown = capsys.readouterr()
    assert (shown.out + shown.err).count("last good copy") == 1


def test_status_tells_a_broken_file_once(home: Path, capsys: Out) -> None:
    write(home, "{gateway: {port: 5}}")
    run_config(["get", "gateway.port"])
    write(home, "{")
    capsys.readouterr()
    assert main(["status"]) == 3
    shown = capsys.readouterr()
    assert shown.err == "" and shown.out.count("  config  ") == 1


def test_validate_names_keys_that_stand_twice(home: Path, capsys: Out) -> None:
    file = write(home, "{ui: {},\nui: {}}")
    assert run_config(["validate"]) == 0
    assert f"warning: ui: stands twice, the last one counts ({file}:2)" in capsys.readouterr().out


def test_lost_comments_are_told(home: Path, capsys: Out) -> None:
    write(home, "{ // c\n session: {}, session: {scope: 'global'}}")
    run_config(["set", "session.mainKey", "x"])
    assert capsys.readouterr().err == ""
    write(home, "{ // c\n session: {mainKey: 'y'}, session: {}}")
    run_config(["set", "session.mainKey", "x"])
    assert "comments are gone" in capsys.readouterr().err


def test_refused(home: Path) -> None:
    with pytest.raises(ConfigError, match="nothing was written"):
        run_config(["set", "gateway.port", "0"])
    assert not (home / "palinurus.json").exists()

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.load import load_config
from palinurus.config.rewrite import set_config_key, unset_config_key
from palinurus.errors import BadRequest, ConfigError, NotFound, StateUnwritable
from powers import powerless

ENV = {"HOME": "/nowhere"}
CANARY = "canary-1442695"
SAMPLE = """\
{
  // how to reach it
  gateway: {
    port: 18789, // the usual one
  },
  somethingNew: { a: 1 }, // not ours
}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "palinurus.json").write_text(SAMPLE)
    return tmp_path


def text(home: Path) -> str:
    return (home / "palinurus.json").read_text()


def test_a_missing_file_is_made(tmp_path: Path) -> None:
    home = tmp_path / "new"
    done = set_config_key(str(home), ENV, "gateway.port", 81)
    assert (home / "palinurus.json").read_text() == '{\n  "gateway": {\n    "port": 81\n  }\n}\n'
    assert (done.line, done.changed, done.comments_lost, done.when) == (
        3,
        True,
        False,
        "needs a restart of the gateway",
    )
    assert stat.S_IMODE((home / "palinurus.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    assert not (home / "palinurus.json.bak").exists()


def test_comments_and_unknown_keys_stay(home: Path) -> None:
    done = set_config_key(str(home), ENV, "gateway.port", 81)
    assert text(home) == SAMPLE.replace("18789", "81")
    assert (done.line, done.comments_lost) == (4, False)
    assert (home / "palinurus.json.bak").read_text() == SAMPLE
    assert stat.S_IMODE((home / "palinurus.json.bak").stat().st_mode) == 0o600
    set_config_key(str(home), ENV, "tools.deny", ["exec"])
    assert "// the usual one" in text(home)
    assert load_config(str(home), ENV).settings.policy.shared.own.deny == ("exec",)


def test_unset(home: Path) -> None:
    done = unset_config_key(str(home), ENV, "gateway.port")
    assert "port" not in text(home)
    assert "// how to reach it" in text(home)
    assert done.line == 0
    with pytest.raises(NotFound, match=r"gateway\.port is not set"):
        unset_config_key(str(home), ENV, "gateway.port")
    unset_config_key(str(home), ENV, "somethingNew")
    assert load_config(str(home), ENV).problems == ()


def test_no_change_writes_nothing(home: Path) -> None:
    before = (home / "palinurus.json").stat().st_ino
    assert not set_config_key(str(home), ENV, "gateway.port", 18789).changed
    assert (home / "palinurus.json").stat().st_ino == before


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("gateway.port", "x", "gateway.port: expected a whole number, got a text"),
        ("gateway.port", 0, "must be between 1 and 65535"),
        ("gateway.prot", 1, "gateway.prot: unknown key; did you mean 'port'?"),
        ("gatway", {}, "did you mean 'gateway'?"),
        ("gateway", {"prot": 1}, "gateway.prot: unknown key"),
        ("gateway.bind", "lann", "did you mean 'lan'?"),
        ("gateway.auth.mode", "password", "needs gateway.auth.password"),
        ("gateway.auth.token", "${NOT_THERE}", "NOT_THERE is not set"),
        ("agents.list[0]", {"id": "a b"}, "an agent id is"),
        ("gateway.port", float("inf"), "cannot be written as JSON"),
        ("session.mainKey", "\ud800", "cannot be written as JSON"),
        ("gateway.port.x", 1, "nothing can stand below it"),
        ("agents.list[3].id", "a", "the list has only 0 items"),
        ("gateway..port", 1, "a name is missing"),
        ("", 1, "key path is needed"),
        ("env." + "x." * 62 + "x", [[1]], "cannot be written as JSON"),
    ],
)
def test_what_would_not_be_valid_is_refused(home: Path, key: str, value: Any, message: str) -> None:
    with pytest.raises((ConfigError, BadRequest)) as caught:
        set_config_key(str(home), ENV, key, value)
    assert message in str(caught.value)
    assert text(home) == SAMPLE
    assert not (home / "palinurus.json.bak").exists()


def test_a_refusal_quotes_no_secret(home: Path) -> None:
    for value in ([CANARY], {"a": CANARY}):
        with pytest.raises(ConfigError) as caught:
            set_config_key(str(home), ENV, "gateway.auth.token", value)
        assert CANARY not in str(caught.value)


def test_a_broken_file_cannot_be_edited(home: Path) -> None:
    (home / "palinurus.json").write_text("{\n gateway: {")
    with pytest.raises(ConfigError, match=r"never closed \(.*palinurus.json:2\)"):
        set_config_key(str(home), ENV, "gateway.port", 81)
    (home / "palinurus.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="UTF-16"):
        set_config_key(str(home), ENV, "gateway.port", 81)
    assert (home / "palinurus.json").read_bytes() == b"\xff\xfe"


def test_two_mistakes_can_be_put_right_one_after_the_other(home: Path) -> None:
    (home / "palinurus.json").write_text("{gateway: {port: 'x', mode: 'y'}}")
    done = set_config_key(str(home), ENV, "gateway.port", 81)
    assert [p.path for p in done.problems] == ["gateway.mode"]
    assert set_config_key(str(home), ENV, "gateway.mode", "local").problems == ()
    assert load_config(str(home), ENV).settings.gateway.port == 81


def test_keys_that_stand_twice_force_a_rewrite_and_it_is_said(home: Path) -> None:
    (home / "palinurus.json").write_text("{ // c\n gateway: {port: 1}, gateway: {mode: 'local'}}")
    done = set_config_key(str(home), ENV, "gateway.port", 2)
    assert done.comments_lost
    assert load_config(str(home), ENV).raw == {"gateway": {"mode": "local", "port": 2}}


def test_variables_stay_variables(home: Path) -> None:
    (home / "palinurus.json").write_text('{"gateway": {"auth": {"token": "${TOK}"}}}')
    set_config_key(str(home), {**ENV, "TOK": CANARY}, "gateway.port", 5)
    assert "${TOK}" in text(home)
    assert CANARY not in text(home)


def test_a_read_only_directory(home: Path) -> None:
    home.chmod(0o500)
    with powerless(), pytest.raises(StateUnwritable, match="is unchanged"):
        set_config_key(str(home), ENV, "gateway.port", 81)
    home.chmod(0o700)
    assert text(home) == SAMPLE
    assert os.listdir(home) == ["palinurus.json"]


def test_a_write_that_fails_leaves_everything_as_it_was(home: Path) -> None:
    (home / "palinurus.json.bak").mkdir()  # the backup cannot be put in its place
    with pytest.raises(StateUnwritable, match="is unchanged"):
        set_config_key(str(home), ENV, "gateway.port", 81)
    assert text(home) == SAMPLE
    assert not [name for name in os.listdir(home) if name.endswith(".tmp")]


@pytest.mark.parametrize(("point", "expected"), [("config.before", 18789), ("config.after", 81)])
def test_a_crash_leaves_the_old_file_or_the_new_one(home: Path, point: str, expected: int) -> None:
    code = (
        "import sys; from palinurus import crashpoints; from palinurus.config.rewrite import set_config_key;"
        "crashpoints.arm_crashpoint(sys.argv[1]); set_config_key(sys.argv[2], {'HOME': '/x'}, 'gateway.port', 81)"
    )
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code, f"{point}:1", str(home)], env=environ, check=False)
    assert done.returncode == 137
    assert load_config(str(home), ENV).settings.gateway.port == expected


def test_two_writers_do_not_lose_each_others_change(home: Path) -> None:
    keys = [f"env.vars.K{n}" for n in range(12)]
    threads = [threading.Thread(target=set_config_key, args=(str(home), ENV, key, "v")) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(load_config(str(home), ENV).settings.env) == sorted(f"K{n}" for n in range(12))

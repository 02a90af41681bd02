import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palinurus.config.load import judge_config, load_config
from palinurus.errors import ConfigError, Problem
from powers import powerless

CANARY = "canary-5772156"
ENV = {"HOME": "/nowhere"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


def write(home: Path, text: str | bytes) -> str:
    file = home / "palinurus.json"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(file)


def problems(home: Path, environ: dict[str, str] = ENV) -> tuple[Problem, ...]:
    try:
        return load_config(str(home), environ).problems
    except ConfigError as exc:
        return exc.problems


def test_a_missing_file_is_all_defaults_and_writes_nothing(home: Path) -> None:
    loaded = load_config(str(home), ENV)
    assert loaded.settings.gateway.port == 18789
    assert loaded.settings.default_agent == "main"
    assert loaded.settings.agents["main"].workspace == str(home / "workspace")
    assert (loaded.raw, loaded.problems, loaded.fallback, loaded.source) == ({}, (), "", "")
    assert os.listdir(home) == []


def test_a_good_file_and_its_copy(home: Path) -> None:
    file = write(home, "{gateway: {port: 1e3}} // ok")
    loaded = load_config(str(home), ENV)
    assert loaded.settings.gateway.port == 1000
    assert loaded.file == loaded.source == file
    assert loaded.problems == ()
    copy = home / "palinurus.json.last-good"
    assert copy.read_text() == "{gateway: {port: 1e3}} // ok"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600


@pytest.mark.seed(387)
def test_the_minimal_config_of_the_seeds(home: Path) -> None:
    write(home, "{agents: {defaults: {workspace: '~/w'}}, channels: {whatsapp: {allowFrom: ['+15555550123']}}}")
    loaded = load_config(str(home), ENV)
    assert loaded.problems == ()
    assert loaded.settings.agents["main"].workspace == "/nowhere/w"
    assert loaded.settings.channels == {"whatsapp": {"allowFrom": ["+15555550123"]}}


def test_the_copy_is_written_only_when_it_differs(home: Path) -> None:
    write(home, "{}")
    load_config(str(home), ENV)
    copy = home / "palinurus.json.last-good"
    before = copy.stat().st_ino
    load_config(str(home), ENV)
    assert copy.stat().st_ino == before
    write(home, "{ }")
    load_config(str(home), ENV)
    assert copy.read_text() == "{ }"


def test_version_follows_the_bytes(home: Path) -> None:
    write(home, "{}")
    one = load_config(str(home), ENV).settings.version
    assert one == load_config(str(home), ENV).settings.version
    write(home, "{} ")
    assert load_config(str(home), ENV).settings.version != one


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            '{\n  "gateway": {\n    "port": "x"\n  }\n}',
            "gateway.port: expected a whole number, got a text (FILE:3); write the number without quotes",
        ),
        (
            "{\n gateway: {\n\n  mode: 'locl' } }",
            "gateway.mode: 'locl' is not one of local, remote (FILE:4); did you mean 'local'?",
        ),
        ("{gateway: {port: 70000}}", "gateway.port: must be between 1 and 65535 (FILE:1)"),
        (
            "{\n gateway: {bind: 'lann'}}",
            "gateway.bind: 'lann' is neither an address nor one of loopback, lan, tailnet, auto, custom "
            "(FILE:2); did you mean 'lan'?",
        ),
        (
            "{agents: {\n list: [{id: 'a'},\n {id: 'A'}]}}",
            "agents.list[1].id: there are two agents with the id 'a' (FILE:3); rename one",
        ),
        (
            "{agents: {\n list: [{}]}}",
            "agents.list[0].id: an agent id is letters, digits, - and _, 64 at most "
            "(FILE:2); give it a short name such as 'work'; until then it is 'agent1'",
        ),
        (
            "{agents: {defaults: {heartbeat: {\n every: 'soon'}}}}",
            "agents.defaults.heartbeat.every: is not a duration (FILE:2); write it as 500ms, 30s, 15m, 2h or 7d",
        ),
        (
            "{models: {providers: {p: {\n\nbaseUrl: 'localhost:1'}}}}",
            "models.providers.p.baseUrl: must start with http:// or https:// (FILE:3); such as http://127.0.0.1:11434/v1",
        ),
        (
            '{\n "a": "${NOPE_NOPE}"\n}',
            "a: the environment variable NOPE_NOPE is not set "
            "(FILE:2); set NOPE_NOPE, or write ${NOPE_NOPE:-text} for a fallback",
        ),
        ("{\n gateway: {port: Infinity}}", "gateway.port: must be a finite number (FILE:2)"),
        ('{\n "a": 1\n "b": 2\n}', "a: expected , or } after this value (FILE:2); a comma is missing"),
        ("{\n gateway: {\n port: 1\n", "gateway: this object is never closed (FILE:2); a } is missing"),
        ("\n[]", "the config must be an object, not a list (FILE:2); write { … } around it"),
        ("", "the file is empty (FILE:1); write {} for an empty config"),
        ("{a: 1}\n\n{", "something follows after the end of the config (FILE:3); remove it, or a bracket before it"),
        ("{\n\n a: 01}", "this is not valid JSON5 (FILE:3)"),
        (
            b"\xef\xbb\xbf{}",
            "the config file starts with a byte order mark (FILE:1); save it as UTF-8 without a byte order mark",
        ),
        (b"{\n\xff}", "the config file is not valid UTF-8 (FILE:2); save it as UTF-8"),
        (b"{\n\n\0}", "the config file holds a NUL byte (FILE:3); it is not a text file, or it was cut by a crash"),
    ],
)
def test_each_kind_of_error_says_where_and_what(home: Path, text: str | bytes, expected: str) -> None:
    file = write(home, text)
    assert str(problems(home)[0]) == expected.replace("FILE", file)


def test_depth_has_a_limit(home: Path) -> None:
    write(home, '{"a":' + "[" * 100_000)
    assert "levels deep" in problems(home)[0].message


def test_a_directory_in_its_place(home: Path) -> None:
    (home / "palinurus.json").mkdir()
    found = problems(home)[0]
    assert str(found) == f"the config file is a directory ({home}/palinurus.json); move it away"


def test_an_unreadable_file(home: Path) -> None:
    file = write(home, "{}")
    os.chmod(file, 0)
    with powerless():
        assert "may not be read" in problems(home)[0].message


def test_unknown_keys_warn_and_the_rest_counts(home: Path) -> None:
    file = write(home, "{gateway: {port: 81,\n prot: 82}, nonsense: {}}")
    loaded = load_config(str(home), ENV)
    assert loaded.settings.gateway.port == 81
    assert [str(p) for p in loaded.problems] == [
        f"gateway.prot: unknown key ({file}:2); did you mean 'port'?",
        f"nonsense: unknown key ({file}:2)",
    ]
    assert not any(p.fatal for p in loaded.problems)
    assert loaded.raw["nonsense"] == {}


def test_every_problem_is_listed_fatal_ones_first(home: Path) -> None:
    write(home, "{gatway: 1,\n gateway: {port: 0,\n mode: 'x'}}")
    assert [(p.path, p.line, p.fatal) for p in problems(home)] == [
        ("gateway.port", 2, True),
        ("gateway.mode", 3, True),
        ("gatway", 1, False),
    ]


@pytest.mark.parametrize(
    "broken",
    ["{gateway: {port: 5", b"\xff\xfe{", "[{gateway: {port: 5}}]"],
)
def test_a_broken_edit_runs_on_the_last_good_copy(home: Path, broken: str | bytes) -> None:
    write(home, "{gateway: {port: 4242}}")
    load_config(str(home), ENV)
    file = write(home, broken)
    loaded = load_config(str(home), ENV)
    assert loaded.settings.gateway.port == 4242
    assert loaded.raw == {"gateway": {"port": 4242}}
    assert loaded.file == file
    assert loaded.source == file + ".last-good"
    assert file in loaded.fallback
    assert loaded.problems[0].fatal
    assert str(loaded.problems[0]) in loaded.fallback
    assert (home / "palinurus.json.last-good").read_text() == "{gateway: {port: 4242}}"


def test_a_repaired_file_is_used_again(home: Path) -> None:
    write(home, "{gateway: {port: 1}}")
    load_config(str(home), ENV)
    write(home, "{")
    assert load_config(str(home), ENV).fallback
    write(home, "{gateway: {port: 2}}")
    loaded = load_config(str(home), ENV)
    assert (loaded.settings.gateway.port, loaded.fallback) == (2, "")


def test_a_broken_copy_does_not_help(home: Path) -> None:
    file = write(home, "{\n!")
    (home / "palinurus.json.last-good").write_text("{ also broken")
    found = problems(home)
    assert [p.file for p in found] == [file]
    with pytest.raises(ConfigError, match="pal config validate"):
        load_config(str(home), ENV)


def test_a_missing_file_does_not_bring_the_copy_back(home: Path) -> None:
    (home / "palinurus.json.last-good").write_text("{gateway: {port: 9}}")
    assert load_config(str(home), ENV).settings.gateway.port == 18789


def test_a_read_only_home_still_loads(home: Path) -> None:
    write(home, "{gateway: {port: 9}}")
    home.chmod(0o500)
    with powerless():
        assert load_config(str(home), ENV).settings.gateway.port == 9
    home.chmod(0o700)
    assert os.listdir(home) == ["palinurus.json"]


def test_variables(home: Path) -> None:
    write(
        home,
        "{gateway: {auth: {token: '${TOK}'}}, env: {vars: {A_KEY: 'k1'}},\n"
        "models: {providers: {p: {apiKey: 'x${A_KEY}'}}}}",
    )
    loaded = load_config(str(home), {**ENV, "TOK": CANARY})
    assert loaded.settings.gateway.token.reveal() == CANARY
    assert loaded.settings.providers["p"].api_key.reveal() == "xk1"
    assert loaded.settings.env["A_KEY"].reveal() == "k1"
    assert loaded.raw["gateway"]["auth"]["token"] == "${TOK}"


def test_no_secret_is_ever_printed(home: Path) -> None:
    text = f"""{{gateway: {{auth: {{mode: 'token', token: '{CANARY}', password: '{CANARY}'}}}}, unknown: 1,
      models: {{providers: {{p: {{apiKey: '{CANARY}', headers: {{'X-A': '{CANARY}'}},
        models: [{{id: 'm', headers: {{a: '{CANARY}'}}}}]}}}}}},
      channels: {{telegram: {{botToken: '{CANARY}', accounts: {{a: {{token: '{CANARY}'}}}}}}}},
      tools: {{exec: {{env: {{A: '{CANARY}'}}}}}}, env: {{B: '{CANARY}', vars: {{C: '{CANARY}'}}}}}}"""
    write(home, text)
    loaded = load_config(str(home), ENV)
    assert loaded.settings.channels["telegram"]["botToken"].reveal() == CANARY
    assert loaded.settings.tools.exec.env == {"A": CANARY}
    assert CANARY not in f"{loaded} {loaded!r} {loaded.settings} {loaded.problems}"


@pytest.mark.parametrize(
    "text",
    [
        f"{{gateway: {{auth: {{token: {CANARY}}}}}}}",
        f"{{gateway: {{auth: {{token: '{CANARY}\n'}}}}}}",
        f"{{gateway: {{auth: {{token: ['{CANARY}']}}}}}}",
        f"{{gateway: {{auth: {{token: '{CANARY}' '{CANARY}'}}}}}}",
        f"{{gateway: {{auth: '{CANARY}'}}}}",
        f"{{models: {{providers: {{p: {{apiKey: {{source: '{CANARY}'}}}}}}}}}}",
        f"{{gateway: {{auth: {{token: '\\u{CANARY}'}}}}}}",
    ],
)
def test_no_secret_in_an_error(home: Path, text: str) -> None:
    write(home, text)
    found = problems(home)
    assert found
    assert CANARY not in f"{ConfigError(found)} {ConfigError(found)!r} {found}"


@given(st.one_of(st.text(), st.text(alphabet="{}[]:,\"'\\/*\n agentsgateway01.")))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_settings_or_a_fatal_problem(text: str) -> None:
    found = judge_config(text, "f", "/h", ENV)
    assert found.settings is not None or any(p.fatal for p in found.problems)


def test_loading_brings_no_network_library_in() -> None:
    code = "import sys, palinurus.config.load; sys.exit(any(m in sys.modules for m in ('aiohttp', 'asyncio', 'ssl')))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        ).returncode
        == 0
    )


def test_a_secret_that_was_changed_leaves_the_copies(home: Path) -> None:
    proven, last = home / "palinurus.json.proven", home / "palinurus.json.last-good"
    write(home, f'{{gateway: {{auth: {{token: "{CANARY}"}}}}}}')
    load_config(str(home), ENV)
    proven.write_bytes((home / "palinurus.json").read_bytes())
    write(home, f'{{gateway: {{port: 4242, auth: {{token: "{CANARY}"}}}}}}')
    load_config(str(home), ENV)
    assert proven.exists() and CANARY in last.read_text()  # another change: the copy that ran well stays
    write(home, '{gateway: {port: 4242, auth: {token: "the new one, which is long"}}}')
    load_config(str(home), ENV)
    assert not proven.exists() and CANARY not in last.read_text()

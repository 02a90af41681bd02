"""`$include`: what several files say together, where it stands, and what a file costs that cannot be read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from palinurus.config.explain import explain_key
from palinurus.config.include import MAX_FILES, MAX_LEVELS, join_layers
from palinurus.config.load import LoadedConfig, find_doubles, load_config, read_config
from palinurus.config.rewrite import set_config_key
from palinurus.errors import ConfigError, Problem
from palinurus.services.audit import list_findings

ENV = {"HOME": "/nowhere"}


def lay_out(home: Path, **files: str) -> str:
    """`main` is the config itself, every other name a file beside it (`__` is a folder)."""
    for name, text in files.items():
        file = home / ("palinurus.json" if name == "main" else name.replace("__", "/") + ".json5")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return str(home)


def load(home: Path, **files: str) -> LoadedConfig:
    return load_config(lay_out(home, **files), ENV)


def find(loaded: LoadedConfig, key: str) -> Problem:
    return next(problem for problem in loaded.problems if problem.path == key)


def test_a_file_stands_where_it_is_included(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        main='{gateway: {port: 7}, agents: {$include: "sub/agents.json5"}}',
        sub__agents='{defaults: {$include: "more.json5", timeoutSeconds: 9}}',
        sub__more='{model: "demo/one", timeoutSeconds: 5}',
    )
    agent = loaded.settings.agents["main"]
    assert (loaded.settings.gateway.port, agent.timeout, agent.model) == (7, 9.0, "demo/one")
    assert loaded.problems == ()


def test_later_files_lie_over_earlier_ones_and_what_stands_beside_over_all(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        main='{tools: {$include: ["a.json5", "b.json5"], profile: "full"}}',
        a='{deny: ["browser"], profile: "minimal", exec: {timeoutSec: 3, security: "deny"}}',
        b='{deny: ["canvas"], profile: "coding", exec: {timeoutSec: 4}}',
    )
    own = loaded.settings.policy.shared.own
    assert (own.deny, own.profile) == (("browser", "canvas"), "full")
    assert (loaded.settings.tools.exec.timeout, loaded.settings.approvals["main"].exec.security) == (4.0, "deny")


@pytest.mark.parametrize(
    ("lower", "upper", "both"),
    [([1], [2], [1, 2]), ({"a": 1}, {"b": 2}, {"a": 1, "b": 2}), ({"a": 1}, 2, 2), (1, {"a": 1}, {"a": 1}), (1, 2, 2)],
)
def test_layers(lower: Any, upper: Any, both: Any) -> None:
    assert join_layers(lower, upper) == both


def test_whatever_is_wrong_is_told_with_its_own_file_and_line(tmp_path: Path) -> None:
    loaded = load(
        tmp_path,
        main='{\n  agents: {$include: "agents.json5"},\n  tools: {$include: "t.json5", profil: "x"}}',
        agents='{\n  defaults: {\n    timeoutSeconds: "x"}}',
        t="{\n\n swarm: {}, deny: [], deny: []}",
    )
    places = {problem.path: f"{os.path.basename(problem.file)}:{problem.line}" for problem in loaded.problems}
    assert places == {
        "agents.defaults.timeoutSeconds": "agents.json5:3",
        "tools.profil": "palinurus.json:3",
        "tools.swarm": "t.json5:3",
    }
    assert explain_key(loaded, "tools.deny").source == f"{tmp_path}/t.json5:3"
    (double,) = find_doubles(read_config(f"{tmp_path}/palinurus.json", str(tmp_path), ENV))
    assert (double.path, double.file, double.line) == ("tools.deny", f"{tmp_path}/t.json5", 3)


BROKEN = {
    "no such file": ('"gone.json5"', "there is no file"),
    "no JSON5": ('"bad.json5"', "bad.json5:1: "),
    "outside": ('"../x.json5"', "is outside of the config's folder"),
    "outside, by a link": ('"link.json5"', "is outside of the config's folder"),
    "not readable text": ('"bytes.json5"', "is not valid UTF-8"),
    "a folder": ('"folder.json5"', "is a directory"),
    "itself": ('"loop.json5"', "includes itself"),
    "no name": ("5", "the name of a file is needed"),
    "a list of nothing": ("[]", "the name of a file is needed"),
    "a zero": ('"a\\u0000"', "is outside of the config's folder"),
}


@pytest.mark.parametrize("named", BROKEN)
def test_a_file_that_cannot_be_read_closes_what_it_would_have_said(tmp_path: Path, named: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "x.json5").write_text('{profile: "full"}')
    (home / "link.json5").symlink_to(tmp_path / "x.json5")
    (home / "bytes.json5").write_bytes(b"{\xff}")
    (home / "folder.json5").mkdir()
    value, words = BROKEN[named]
    loaded = load(
        home,
        main=f"{{gateway: {{port: 7}}, tools: {{$include: {value}}}}}",
        bad="{ no",
        loop='{$include: "loop.json5"}',
    )
    problem = find(loaded, "tools")
    assert problem.fatal and words in problem.message and problem.line == 1
    assert "until then it is as closed as it can be" in problem.hint
    assert (loaded.settings.gateway.port, loaded.settings.policy.shared.own.deny) == (7, ("*",))


def test_a_part_of_the_whole_that_cannot_be_read_is_the_whole(tmp_path: Path) -> None:
    parts = {"a": '{$include: "none.json5"}', "b": "{gateway: {port: 7}}"}
    with pytest.raises(ConfigError, match="there is no file"):
        load(tmp_path, main='{$include: ["a.json5", "b.json5"]}', **parts)


def test_other_folders_can_be_named(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "x.json5").write_text("{port: 8}")
    lay_out(home, main='{gateway: {$include: "../x.json5"}}')
    roots = {**ENV, "PALINURUS_INCLUDE_ROOTS": f"relative:{tmp_path}"}
    assert load_config(str(home), roots).settings.gateway.port == 8


def test_what_was_read_before_counts_while_a_file_cannot_be(tmp_path: Path) -> None:
    load(tmp_path, main='{tools: {$include: "t.json5"}}', t='{deny: ["browser"]}')
    loaded = load(tmp_path, t="{deny: [")
    assert loaded.settings.policy.shared.own.deny == ("browser",)
    assert "until then it stays as it was" in find(loaded, "tools").hint


def test_a_whole_config_that_cannot_be_read_gives_way_to_its_last_good_copy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no file"):
        load(tmp_path, main='{$include: "all.json5"}')
    assert load(tmp_path, all="{gateway: {port: 7}}").settings.gateway.port == 7
    loaded = load(tmp_path, all="{gateway")
    assert loaded.settings.gateway.port == 7 and "last good copy" in loaded.fallback


def test_levels_and_files_have_an_end(tmp_path: Path) -> None:
    for number in range(MAX_LEVELS + 1):
        (tmp_path / f"f{number}.json5").write_text(f'{{$include: "f{number + 1}.json5"}}')
    assert (
        f"more than {MAX_LEVELS} levels"
        in find(load(tmp_path, main='{tools: {$include: "f0.json5"}}'), "tools").message
    )
    many = ", ".join(['"f.json5"'] * (MAX_FILES + 1))
    assert (
        f"{MAX_FILES} files" in find(load(tmp_path, main=f"{{tools: {{$include: [{many}]}}}}", f="{}"), "tools").message
    )


def test_every_file_makes_the_version(tmp_path: Path) -> None:
    one = load(tmp_path, main='{gateway: {$include: "g.json5"}}', g="{port: 7}")
    other = load(tmp_path, g="{port: 7 }")
    assert one.settings.gateway == other.settings.gateway and one.settings.version != other.settings.version


def test_variables_and_what_is_set_by_hand(tmp_path: Path) -> None:
    lay_out(
        tmp_path, main='{env: {KEY: "word"}, gateway: {$include: "g.json5"}}', g='{port: 7, auth: {token: "${KEY}"}}'
    )
    set_config_key(str(tmp_path), ENV, "gateway.port", 8)
    gateway = load_config(str(tmp_path), ENV).settings.gateway
    assert (gateway.port, gateway.token.reveal() if gateway.token else "") == (8, "word")
    assert (tmp_path / "g.json5").read_text() == '{port: 7, auth: {token: "${KEY}"}}'
    assert "word" not in repr(load_config(str(tmp_path), ENV).parts)


def test_a_file_that_others_can_read_or_an_agent_can_write_is_found(tmp_path: Path) -> None:
    loaded = load(tmp_path, main='{gateway: {$include: "g.json5"}, ui: {$include: "workspace/u.json5"}}', g="{port: 7}")
    lay_out(tmp_path, workspace__u="{}")
    (tmp_path / "g.json5").chmod(0o644)
    (tmp_path / "workspace" / "u.json5").chmod(0o600)
    found = {one.key: one.what for one in list_findings(loaded.settings)}
    assert (
        "others" in found[f"{tmp_path}/g.json5"] and "an agent can change it" in found[f"{tmp_path}/workspace/u.json5"]
    )

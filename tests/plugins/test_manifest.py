"""Finding plugins: what counts as one, whose turn it is, what is wrong with a manifest."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from palinurus.plugins.manifest import (
    BrokenPlugin,
    PluginManifest,
    explain_unused,
    find_enabled_plugins,
    find_plugins,
    list_skill_folders,
    read_manifest,
)
from plugins.kit import plugin, settings


def test_a_folder_in_the_home_is_found_but_used_only_if_enabled(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins" / "one", description="about one")
    plugin(tmp_path / "plugins" / "two")
    here = settings(tmp_path, "one")
    assert {m.id: explain_unused(here.plugins, m) for m in find_plugins(here)} == {
        "one": "",
        "two": "not enabled: `pal plugins enable two`",
    }
    (one,) = find_enabled_plugins(here)
    assert isinstance(one, PluginManifest) and (one.description, one.entry) == ("about one", "plugin:register")


@pytest.mark.parametrize(
    ("section", "used"),
    [
        ({"entries": {"one": {}}}, True),
        ({"entries": {"one": {"enabled": False}}}, False),
        ({"enabled": False, "entries": {"one": {"enabled": True}}}, False),
        ({"deny": ["one"], "entries": {"one": {}}}, False),
        ({"allow": ["one"]}, True),
        ({"allow": ["other"], "entries": {"one": {"enabled": True}}}, False),
        ({}, False),
    ],
)
def test_who_decides(tmp_path: Path, section: dict[str, Any], used: bool) -> None:
    plugin(tmp_path / "plugins" / "one")
    assert bool(find_enabled_plugins(settings(tmp_path, plugins=section))) is used


def test_load_paths_are_plugins_or_folders_of_plugins_and_go_first(tmp_path: Path) -> None:
    plugin(tmp_path / "plugins" / "one", version="home")
    plugin(tmp_path / "a" / "one", version="path")
    plugin(tmp_path / "b" / "two")
    plugin(tmp_path / "b" / "three")
    paths = [str(tmp_path / "a" / "one"), str(tmp_path / "b")]
    here = settings(tmp_path, plugins={"load": {"paths": paths}, "allow": ["one", "two", "three"]})
    versions = {m.id: m.version for m in find_enabled_plugins(here) if isinstance(m, PluginManifest)}
    assert versions == {"one": "path", "two": "", "three": ""}


@pytest.mark.parametrize(
    ("manifest", "told"),
    [
        ('{\n"id": "UPPER"}', "id: must be a text of a-z"),
        ('{\n\n"capabilities": ["magic"], "id": "x"}', "capabilities: must be a list of tools"),
        ('{"id": "x",\n"configSchema": []}', "configSchema: must be a JSON schema"),
        ('{"id": "x",\n"skills": ["../.."]}', "skills: must lie inside the plugin's folder"),
        ('{"id": "x",\n"entry": "os.system"}', 'entry: must be "module:function"'),
        ('{"id": "x",\n"entry": "gone:register"}', "entry: there is no gone.py beside it"),
        ("{,", "the manifest cannot be read"),
        ("[]", "the manifest must be an object"),
    ],
)
def test_a_manifest_that_is_wrong_says_where(tmp_path: Path, manifest: str, told: str) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "plugin.json").write_text(manifest)
    one = read_manifest(str(folder))
    assert isinstance(one, BrokenPlugin) and told in one.reason and "plugin.json:" in one.reason
    assert "plugin.json:0" not in one.reason


def test_a_folder_without_a_manifest_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    one = read_manifest(str(tmp_path / "x"))
    assert isinstance(one, BrokenPlugin) and "has no palinurus.plugin.json" in one.reason


@pytest.mark.seed(394)
def test_skills_count_while_the_plugin_is_enabled(tmp_path: Path) -> None:
    folder = tmp_path / "plugins" / "js"
    (folder / "skills").mkdir(parents=True)
    told = {"id": "js", "configSchema": {}, "skills": ["./skills"], "contracts": {"tools": ["t"]}, "providers": ["p"]}
    (folder / "openclaw.plugin.json").write_text(json.dumps(told))
    (folder / "index.ts").write_text("export default {}")
    assert list_skill_folders(settings(tmp_path, "js")) == (("js", str(folder / "skills")),)
    assert list_skill_folders(settings(tmp_path)) == ()
    one = read_manifest(str(folder))
    assert (
        isinstance(one, PluginManifest) and one.entry == "" and set(one.capabilities) == {"skills", "tools", "vendors"}
    )


def test_an_installed_package_is_found_without_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "acme_tides"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / "palinurus.plugin.json").write_text('{"id": "tides", "capabilities": ["tools"]}')
    info = tmp_path / "site" / "acme_tides-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-tides\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[palinurus.plugins]\ntides = acme_tides.main:register\n"
                                           "bare = no_such_package:register\n")  # fmt: skip
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    by_id = {one.id: one for one in find_plugins(settings(tmp_path))}
    one = by_id["tides"]
    assert isinstance(one, PluginManifest) and (one.package, one.entry) == ("acme-tides", "acme_tides.main:register")
    assert isinstance(by_id["bare"], BrokenPlugin)
    assert "acme_tides" not in sys.modules


@given(st.text(max_size=60) | st.dictionaries(
    st.sampled_from(["id", "entry", "capabilities", "skills", "cli", "configSchema", "contracts", "name"]),
    st.none() | st.text(max_size=5) | st.lists(st.text(max_size=4) | st.integers(), max_size=2)
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), max_size=6).map(json.dumps))  # fmt: skip
@examples(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_no_manifest_breaks_the_search(tmp_path: Path, text: str) -> None:
    (tmp_path / "plugin.json").write_text(text)
    assert isinstance(read_manifest(str(tmp_path)), PluginManifest | BrokenPlugin)

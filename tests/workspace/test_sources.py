from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.config.load import load_config
from palinurus.config.settings import AgentSettings
from palinurus.core.prompt.facts import PromptFacts
from palinurus.core.prompt.render import render_prompt
from palinurus.core.types.keys import SessionKey
from palinurus.plugins.hooks import Hooks
from palinurus.workspace.bootstrap import ensure_workspace
from palinurus.workspace.sources import PromptSources, WorkspaceSupply

MAIN = SessionKey("main", "main")
SUB = SessionKey("main", "subagent:1")
ALL = ["AGENTS.md", "SOUL.md", "IDENTITY.md", "USER.md", "TOOLS.md", "BOOTSTRAP.md", "MEMORY.md", "HEARTBEAT.md"]


class Bench:
    """A home with a config, and the shelf of its main agent."""

    def __init__(self, tmp: Path, config: dict[str, Any] | None = None, hooks: Hooks | None = None, **env: str) -> None:
        self.home = tmp / "home"
        self.work = self.home / "workspace"
        self.work.mkdir(parents=True, exist_ok=True)
        raw = {"skills": {"allowBundled": []}, **(config or {})}
        (self.home / "palinurus.json").write_bytes(msgspec.json.encode(raw))
        self.bin = tmp / "bin"
        self.bin.mkdir(exist_ok=True)
        environ = {"HOME": str(tmp), "PATH": str(self.bin), **env}
        loaded = load_config(str(self.home), environ)
        assert not loaded.problems
        self.agent: AgentSettings = loaded.settings.agents["main"]
        self.shelf = PromptSources(loaded.settings, environ, loaded.raw, hooks)

    def fill(self, text: str = "words of {}") -> None:
        for name in ALL:
            (self.work / name).write_text(text.format(name) if name != "HEARTBEAT.md" else "- look")

    def skill(self, name: str, root: Path | None = None, metadata: str = "{}") -> Path:
        folder = (root or self.work / "skills") / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: from {folder.parent}\nmetadata: {metadata}\n---\nbody\n"
        (folder / "SKILL.md").write_text(text)
        return folder

    def give(self, key: SessionKey = MAIN) -> WorkspaceSupply:
        return self.shelf(self.agent, key)

    def names(self, key: SessionKey = MAIN) -> list[str]:
        return [file.name for file in self.give(key).files]

    def prompt(self, key: SessionKey = MAIN) -> str:
        given = self.give(key)
        return render_prompt(PromptFacts(files=given.files, pending=given.pending, skills=given.skills)).text


@pytest.mark.seed(238, 244)
def test_all_files_go_in_but_daily_notes_never(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill()
    (bench.work / "memory").mkdir()
    (bench.work / "memory" / "2026-01-01.md").write_text("secret day")
    assert bench.names() == ALL
    assert "secret day" not in bench.prompt()
    (bench.work / "MEMORY.md").unlink()
    (bench.work / "BOOTSTRAP.md").unlink()
    assert bench.names() == [name for name in ALL if name not in ("MEMORY.md", "BOOTSTRAP.md")]


@pytest.mark.seed(253)
def test_sub_agents_see_two_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill()
    assert bench.names(SUB) == ["AGENTS.md", "TOOLS.md"]
    assert not bench.give(SUB).pending


@pytest.mark.seed(243)
@pytest.mark.parametrize("beat", [{"every": "0m"}, {"includeSystemPromptSection": False}])
def test_heartbeats_off_means_no_heartbeat_file(tmp_path: Path, beat: dict[str, Any]) -> None:
    bench = Bench(tmp_path, {"agents": {"defaults": {"heartbeat": beat}}})
    bench.fill()
    assert "HEARTBEAT.md" not in bench.names()


@pytest.mark.seed(246, 247, 252)
def test_default_limits_cut_the_prompt_not_the_files(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill("x" * 13_000)
    before = {name: (bench.work / name).read_bytes() for name in ALL}
    files = bench.give().files
    assert max(len(file.text) for file in files) == 12_000
    assert 59_900 < sum(len(file.text) for file in files) <= 60_000
    assert {name: (bench.work / name).read_bytes() for name in ALL} == before


@pytest.mark.seed(246, 247)
def test_configured_limits(tmp_path: Path) -> None:
    own = {"id": "main", "bootstrapMaxChars": 500}
    agents = {"defaults": {"bootstrapMaxChars": 900, "bootstrapTotalMaxChars": 1200}, "list": [own]}
    bench = Bench(tmp_path, {"agents": agents})
    bench.fill("x" * 13_000)
    sizes = [len(file.text) for file in bench.give().files]
    assert max(sizes) == 500
    assert sum(sizes) <= 1200


@pytest.mark.seed(250)
@pytest.mark.parametrize(
    ("word", "told"), [(None, [1, 1, 1]), ("always", [1, 1, 1]), ("off", [0, 0, 0]), ("once", [1, 0, 0])]
)
async def test_the_warning(tmp_path: Path, word: str | None, told: list[int]) -> None:
    defaults = {"bootstrapPromptTruncationWarning": word} if word else {}
    bench = Bench(tmp_path, {"agents": {"defaults": defaults}})
    bench.fill("x" * 13_000)
    warn = bench.agent.prompt.truncation_warning
    seen = []
    for _ in range(3):
        await bench.shelf.ready(bench.agent, MAIN)
        given = bench.give()
        knobs = msgspec.structs.replace(PromptFacts().knobs, warn=warn)
        text = render_prompt(PromptFacts(files=given.files, knobs=knobs)).text
        seen.append(int("Bootstrap Context Notice" in text))
        assert "is shortened here" in text  # the mark in the file stays whatever the warning does
    assert seen == told


def test_sizes_are_in_the_report_and_not_in_the_prompt(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill()
    (bench.work / "USER.md").write_text("y" * 13_579)
    report = bench.shelf.report(bench.agent, MAIN)
    user = next(weight for weight in report.files if weight.name == "USER.md")
    assert (user.raw, user.injected, user.state) == (13_579, 12_000, "shortened")
    assert (report.limit, report.total) == (12_000, 60_000)
    assert "13579" not in bench.prompt() and "13,579" not in bench.prompt() and "12000" not in bench.prompt()


@pytest.mark.seed(249, 266, 268)
def test_missing_and_blank(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill()
    (bench.work / "SOUL.md").unlink()
    (bench.work / "USER.md").write_text("\n \n")
    text = bench.prompt()
    assert text.count("[MISSING]") == 1
    assert f"[MISSING] Expected at: {bench.work}/SOUL.md\n" in text
    assert "## USER.md" not in text


@pytest.mark.seed(270)
def test_a_new_workspace_waits_for_its_first_conversation(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    ensure_workspace(str(bench.work))
    assert bench.give().pending
    assert "## Bootstrap Pending" in bench.prompt()
    assert "## BOOTSTRAP.md" in bench.prompt()
    (bench.work / "BOOTSTRAP.md").unlink()
    assert ensure_workspace(str(bench.work)) == []
    assert not bench.give().pending
    assert "BOOTSTRAP.md" not in bench.prompt()


def test_links_out_pipes_and_odd_bytes(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill()
    (tmp_path / "outside.md").write_text("OUTSIDE")
    for name in ("AGENTS.md", "SOUL.md", "TOOLS.md", "MEMORY.md"):
        (bench.work / name).unlink()
    (bench.work / "AGENTS.md").symlink_to(tmp_path / "outside.md")
    (bench.work / "SOUL.md").symlink_to("USER.md")
    os.mkfifo(bench.work / "TOOLS.md")
    (bench.work / "MEMORY.md").mkdir()
    (bench.work / "IDENTITY.md").write_bytes(b"\xef\xbb\xbfna\xefve \x00")
    texts = {file.name: file.text for file in bench.give().files}
    assert texts["AGENTS.md"].startswith("[NOT READ]")
    assert texts["SOUL.md"] == "words of USER.md"
    assert texts["TOOLS.md"] == "[NOT READ] TOOLS.md is not a file"
    assert texts["MEMORY.md"] == "[NOT READ] MEMORY.md is not a file"
    assert texts["IDENTITY.md"] == "na\ufffdve \ufffd"
    assert "OUTSIDE" not in bench.prompt()


def test_the_same_facts_while_nothing_changes_new_ones_when_it_does(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.fill()
    bench.skill("one")
    first = bench.give()
    assert bench.give().files is first.files
    assert bench.give().skills is first.skills
    (bench.work / "USER.md").write_text("changed")
    bench.skill("two")
    second = bench.give()
    assert "changed" in [file.text for file in second.files]
    assert [skill.name for skill in second.skills] == ["one", "two"]
    (bench.work / "skills" / "one" / "SKILL.md").write_text("---\nname: one\ndescription: rewritten\n---\n")
    assert bench.give().skills[0].description == "rewritten"


@pytest.mark.seed(254)
async def test_hooks_change_the_files_of_their_session(tmp_path: Path) -> None:
    hooks = Hooks()
    bench = Bench(tmp_path, hooks=hooks)
    bench.fill()

    async def change(event: dict[str, Any]) -> dict[str, Any]:
        kept = [file for file in event["bootstrapFiles"] if file["name"] == "SOUL.md"]
        return {"bootstrapFiles": [*kept, {"name": "EXTRA.md", "content": f"for {event['sessionKey']}"}]}

    hooks.on("agent:bootstrap", change)
    await bench.shelf.ready(bench.agent, MAIN)
    assert [(f.name, f.text) for f in bench.give().files] == [
        ("SOUL.md", "words of SOUL.md"),
        ("EXTRA.md", "for agent:main:main"),
    ]
    assert bench.names(SUB) == ["AGENTS.md", "TOOLS.md"]


@pytest.mark.seed(388)
async def test_of_one_name_the_highest_root_wins(tmp_path: Path) -> None:
    extra = tmp_path / "extra"
    bench = Bench(tmp_path, {"skills": {"load": {"extraDirs": [str(extra)]}}})
    roots = [
        bench.work / "skills",
        bench.work / ".agents" / "skills",
        tmp_path / ".agents" / "skills",
        bench.home / "skills",
    ]
    bench.skill("summarize", extra)  # the bundled one of that name stands above extra folders
    for root in reversed(roots):
        bench.skill("same", root)
    bench.skill("same", extra)
    found = bench.shelf.stock(bench.agent)
    assert next(s for s in found.ready if s.name == "summarize").source == "bundled"
    for root in roots:
        await bench.shelf.ready(bench.agent, MAIN)
        skill = next(s for s in bench.shelf.stock(bench.agent).ready if s.name == "same")
        assert skill.path == str(root / "same" / "SKILL.md")
        (root / "same" / "SKILL.md").unlink()
        (root / "same").rmdir()
    assert next(s for s in bench.shelf.stock(bench.agent).ready if s.name == "same").source == "extra"


@pytest.mark.seed(389, 393)
def test_gates_ask_this_machine_and_config(tmp_path: Path) -> None:
    bench = Bench(tmp_path, {"channels": {"demo": {"token": "t"}}}, HAVE="1")
    bench.skill("bin", metadata="{openclaw: {requires: {bins: [thing]}}}")
    bench.skill("env", metadata="{openclaw: {requires: {env: [HAVE]}}}")
    bench.skill("noenv", metadata="{openclaw: {requires: {env: [LACK]}}}")
    bench.skill("conf", metadata="{openclaw: {requires: {config: [channels.demo.token]}}}")
    bench.skill("noconf", metadata="{openclaw: {requires: {config: [channels.other.token]}}}")
    assert [s.name for s in bench.give().skills] == ["conf", "env"]
    (bench.bin / "thing").write_text("")
    assert "bin" not in [s.name for s in bench.give().skills]  # there, but it cannot be run
    (bench.bin / "thing").unlink()
    (bench.bin / "other").write_text("")
    (bench.bin / "other").chmod(0o700)
    (bench.bin / "other").rename(bench.bin / "thing")
    assert "bin" in [s.name for s in bench.give().skills]


@pytest.mark.seed(393)
@pytest.mark.parametrize(
    ("defaults", "own", "names"),
    [(None, None, ["a", "b"]), (["a"], None, ["a"]), (["a"], ["b"], ["b"]), (["a"], [], []), ([], None, [])],
)
def test_the_agents_list(tmp_path: Path, defaults: list[str] | None, own: list[str] | None, names: list[str]) -> None:
    entry = {"id": "main", **({} if own is None else {"skills": own})}
    shared = {} if defaults is None else {"skills": defaults}
    bench = Bench(tmp_path, {"agents": {"defaults": shared, "list": [entry]}})
    bench.skill("a")
    bench.skill("b")
    assert [s.name for s in bench.give().skills] == names


@pytest.mark.seed(395)
def test_the_budget_is_the_configs_and_the_agents_own_goes_before(tmp_path: Path) -> None:
    own = {"id": "main", "skillsLimits": {"maxSkillsPromptChars": 400}}
    for config, least, most in (({}, 8, 8), ({"agents": {"list": [own]}}, 1, 3)):
        skills = {"allowBundled": [], "limits": {"maxSkillsPromptChars": 5000}}
        bench = Bench(tmp_path / str(most), {"skills": skills, **config})
        for n in range(8):
            bench.skill(f"s{n}")
        given = bench.give()
        assert least <= len(given.skills) <= most
        assert len(given.skills) + given.skills_left == 8


def test_variables_are_secret_and_never_override(tmp_path: Path) -> None:
    entries = {
        "a": {"apiKey": "sk-1", "env": {"MORE": "m", "LD_PRELOAD": "x", "bad name": "y", "THERE": "config"}},
        "b": {"apiKey": "sk-2"},
    }
    bench = Bench(tmp_path, {"skills": {"allowBundled": [], "entries": entries}}, THERE="environ")
    bench.skill("a", metadata="{openclaw: {primaryEnv: A_KEY, requires: {env: [A_KEY]}}}")
    bench.skill("b", metadata="{openclaw: {primaryEnv: B_KEY, requires: {bins: [none]}}}")
    (found,) = bench.shelf.list_variables(bench.agent)
    assert found.env == {"A_KEY": "sk-1", "MORE": "m", "THERE": "environ"} and found.path.endswith("/a/SKILL.md")
    assert "sk-1" not in repr(found)
    assert "sk-1" not in bench.prompt()


def test_a_workspace_that_is_not_there(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.work.rmdir()
    assert all(file.missing for file in bench.give().files)

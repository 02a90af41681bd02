"""Settings and an occasion become facts; one facade for everyone."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec
import pytest

from palinurus.agent.plan.prompt import (
    SETTINGS_PAGES,
    PromptBuilder,
    PromptOccasion,
    PromptSupply,
    choose_prompt_mode,
    find_documentation,
    make_occasion,
    resolve_knobs,
    take_first_sentence,
)
from palinurus.agent.plan.runplan import ModelCandidate
from palinurus.config.sections.agents import PromptSettings
from palinurus.config.settings import AgentSettings, Secret, Settings
from palinurus.config.zones import detect_timezone
from palinurus.core.levels.resolve import ThinkingDecision
from palinurus.core.prompt.facts import HEARTBEAT_PROMPT, FileFact, PromptContribution, SkillFact
from palinurus.core.prompt.render import render_prompt
from palinurus.core.types.inbound import Target, TurnOptions, read_options
from palinurus.core.types.keys import ModelRef, SessionKey
from palinurus.core.types.model import ModelSpec
from palinurus.core.types.vendor import Vendor
from palinurus.providers.catalog import Catalog
from palinurus.sessions.record import SessionRecord
from palinurus.workspace.folders import find_repository
from support import inbound, tool

MODEL = ModelSpec(ModelRef("fake", "m"), "openai-completions")
MAIN = SessionKey("main", "main")


def settings(prompt: PromptSettings = PromptSettings(), **changes: Any) -> Settings:
    agent = AgentSettings("main", "main", "/w", model="fake/m", prompt=prompt, aliases={"b": "p/x", "a": "p/y"})
    return Settings("/home", {"main": agent, "work": msgspec.structs.replace(agent, id="work")}, "main", **changes)


def gatherer(given: Settings | None = None, **changes: Any) -> PromptBuilder:
    given = given or settings()
    return PromptBuilder(given, Catalog(given, {}), **changes)


@pytest.mark.seed(192)
def test_config_becomes_knobs() -> None:
    own = PromptSettings(
        owners=("+1",), owner_display="hash", owner_secret=Secret("k"), citations="on", delegation="prefer",
        heartbeat="Look.", silent_group="disallow", truncation_warning="off", friendly=False,
    )  # fmt: skip
    given = settings(own)
    made = resolve_knobs(given, given.agents["main"])
    assert len(made.owners[0]) == 12 and made.owners != ("+1",)
    assert made.aliases == (("a", "p/y"), ("b", "p/x"))
    assert (made.citations, made.delegation) == ("on", "prefer")
    assert (made.heartbeat, made.silent_group, made.warn, made.friendly) == ("Look.", "disallow", "off", False)


def test_the_prompt_speaks_of_a_voice_only_while_replies_are_read_aloud() -> None:
    now = {"mode": "off"}
    builder = gatherer(speech=lambda agent: now["mode"])
    occasion = PromptOccasion(MAIN, MODEL)
    before = builder.prompt("main", (), occasion)
    assert "aloud" not in before.stable + before.volatile
    now["mode"] = "always"
    made = builder.prompt("main", (), occasion)
    assert "## Voice (TTS)\nEvery reply is read aloud." in made.volatile and "under 1500 characters" in made.volatile
    assert made.stable == before.stable and builder.prompt("main", (), occasion) == made


@pytest.mark.seed(213)
def test_heartbeats_are_the_default_agents_and_can_be_off() -> None:
    given = settings()
    assert resolve_knobs(given, given.agents["main"]).heartbeat == HEARTBEAT_PROMPT
    assert resolve_knobs(given, given.agents["work"]).heartbeat == ""
    for off in (PromptSettings(heartbeat_every=0), PromptSettings(heartbeat_section=False)):
        given = settings(off)
        assert resolve_knobs(given, given.agents["main"]).heartbeat == ""


@pytest.mark.seed(165, 230)
def test_the_session_decides_the_mode() -> None:
    for rest, expected in (
        ("main", "full"),
        ("telegram:group:1", "full"),
        ("hook:1", "full"),
        ("subagent:x", "minimal"),
        ("subagent:x:subagent:y", "minimal"),
        ("cron:job:run:1", "minimal"),
    ):
        assert choose_prompt_mode(SessionKey("main", rest)) == expected
    facts = gatherer().facts("main", [], PromptOccasion(SessionKey("main", "cron:x"), MODEL))
    assert facts.mode == "minimal"


def test_an_occasion_is_read_off_the_message() -> None:
    message = inbound(
        "hi", target=Target("telegram", "c"), kind="group", options=TurnOptions(system="boats", prompt_mode="none")
    )
    choice = ModelCandidate(MODEL, ThinkingDecision("high", "inline", "", "high"))
    found = make_occasion(message, MAIN, choice, SessionRecord(sessionId="s", reasoningLevel="stream"))
    assert found == PromptOccasion(MAIN, MODEL, "high", "telegram", "group", "stream", "boats", "none")
    odd = make_occasion(
        inbound("hi", options=read_options({"promptMode": "evil"})), MAIN, choice, SessionRecord(sessionId="s")
    )
    assert odd.mode is None and odd.reasoning == "off"


@pytest.mark.seed(193)
def test_the_facade_gathers_everything_and_renders() -> None:
    supply = PromptSupply((FileFact("AGENTS.md", "Be kind."),), True, (SkillFact("s", "d", "/s"),), 2)
    given = settings(channels={"telegram": {"reactionLevel": "extensive"}})
    made = gatherer(given, supply=lambda agent, key: supply)
    now = PromptOccasion(MAIN, MODEL, "low", "telegram")
    facts = made.facts("main", [tool("read"), tool("exec")], now)
    assert [t.name for t in facts.tools] == ["read", "exec"]
    assert (facts.workspace, facts.model, facts.level, facts.channel) == ("/w", "fake/m", "low", "telegram")
    assert (facts.files, facts.pending, facts.skills_left) == (supply.files, True, 2)
    assert facts.reactions == "extensive" and facts.buttons and facts.approvals
    assert facts.host and facts.os and facts.python and facts.docs.local.endswith("docs")
    assert made.prompt("main", [tool("read"), tool("exec")], now) == render_prompt(facts)


def test_a_vendor_may_contribute_and_families_do() -> None:
    given = settings()
    catalog = Catalog(given, {})
    own = Vendor(
        "fake", "Fake", "x", "http://x", prompt=lambda model: PromptContribution(prefix=f"for {model.ref.model}")
    )
    assert gatherer(given).facts("main", [], PromptOccasion(MAIN, MODEL)).contribution == PromptContribution()

    class Catalogue(Catalog):
        def vendor(self, provider: str) -> Vendor | None:
            return own if provider == "fake" else super().vendor(provider)

    made = PromptBuilder(given, Catalogue(given, {}))
    assert made.facts("main", [], PromptOccasion(MAIN, MODEL)).contribution.prefix == "for m"
    gpt = ModelSpec(ModelRef("openai", "gpt-5.5"), "openai-responses")
    assert "<persona_latch>" in PromptBuilder(given, catalog).prompt("main", [], PromptOccasion(MAIN, gpt)).stable


def test_only_the_message_tool_is_seen_where_it_exists_and_is_asked_for() -> None:
    made = gatherer(settings(PromptSettings(tool_only=("group",))))
    group = PromptOccasion(MAIN, MODEL, channel="discord", kind="group")
    assert made.facts("main", [tool("message")], group).message_only
    assert not made.facts("main", [tool("read")], group).message_only
    assert not made.facts("main", [tool("message")], msgspec.structs.replace(group, kind="direct")).message_only


def test_small_facts_of_the_machine(tmp_path: Path) -> None:
    assert (
        take_first_sentence("Read a file. And more.\nx") == "Read a file"
        and take_first_sentence("No stop\nmore") == "No stop"
    )
    assert detect_timezone({"TZ": "Europe/Vienna"}) == "Europe/Vienna" and detect_timezone({"TZ": "CET-1CEST"}) == ""
    link = tmp_path / "localtime"
    link.symlink_to("/usr/share/zoneinfo/Asia/Tokyo")
    assert detect_timezone({}, str(link)) == "Asia/Tokyo" and detect_timezone({}, str(tmp_path / "none")) == ""
    (tmp_path / "r" / ".git").mkdir(parents=True)
    (tmp_path / "r" / "a" / "b").mkdir(parents=True)
    assert find_repository(str(tmp_path / "r" / "a" / "b")) == str(tmp_path / "r")
    found = find_documentation()
    assert found.source and found.hub
    assert all(os.path.isfile(page) for page in found.settings)
    there = {page for page in SETTINGS_PAGES if os.path.isfile(os.path.join(found.local, page))}
    assert {os.path.basename(page) for page in found.settings} == there

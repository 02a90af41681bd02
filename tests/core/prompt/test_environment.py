from __future__ import annotations

import pytest

from core.prompt.kit import full, tools
from palinurus.core.prompt.environment import (
    write_authorized_senders,
    write_clock_hint,
    write_docs,
    write_memory_recall,
    write_model_aliases,
    write_sandbox,
    write_time_zone,
    write_workspace,
)
from palinurus.core.prompt.facts import DocsFact, PromptFacts, PromptOptions, SandboxFact


@pytest.mark.seed(171)
def test_memory_needs_its_tools_and_cites_as_asked() -> None:
    assert write_memory_recall(PromptFacts(tools=tools("read"))) == ""
    text = write_memory_recall(full())
    assert "`memory_search`" in text and "`memory_get`" in text
    assert "Source: <path>#<line>" in write_memory_recall(full(knobs=PromptOptions(citations="on")))
    assert "Source:" not in write_memory_recall(full(knobs=PromptOptions(citations="off")))
    auto = write_memory_recall(full(knobs=PromptOptions(citations="auto")))
    assert "In a direct chat cite" in auto and "in groups leave" in auto
    assert "memory_get" not in write_memory_recall(PromptFacts(tools=tools("memory_search")))
    assert "memory_search" not in write_memory_recall(PromptFacts(tools=tools("memory_get")))


@pytest.mark.seed(173)
def test_aliases_are_sorted() -> None:
    assert write_model_aliases(PromptFacts()) == ""
    text = write_model_aliases(PromptFacts(knobs=PromptOptions(aliases=(("z", "p/m"), ("a", "p/n")))))
    assert text.endswith("- a: p/n\n- z: p/m")


@pytest.mark.seed(174, 207)
def test_workspace() -> None:
    text = write_workspace(PromptFacts(workspace="/w"))
    assert "Your working directory is: /w" in text
    assert "only place for files" in text and "commit" in text
    boxed = write_workspace(PromptFacts(workspace="/host/w", sandbox=SandboxFact("/inside")))
    assert "Your working directory is: /inside" in boxed and "/host/w" in boxed


@pytest.mark.seed(175, 208, 397)
def test_docs_local_first_else_the_site() -> None:
    here = write_docs(PromptFacts(docs=DocsFact(local="/d", site="https://docs.example")))
    assert "Palinurus docs on this machine: /d" in here and "The same docs online: https://docs.example" in here
    there = write_docs(PromptFacts(docs=DocsFact(site="https://docs.example")))
    assert "Palinurus docs: https://docs.example" in there and "on this machine" not in there


@pytest.mark.seed(398)
def test_source_of_a_checkout_or_the_repository() -> None:
    assert "Source: /src (a checkout" in write_docs(
        PromptFacts(docs=DocsFact(source="/src", repository="https://repo.example"))
    )
    packaged = write_docs(PromptFacts(docs=DocsFact(repository="https://repo.example")))
    assert "Source: https://repo.example" in packaged and "out of date" in packaged


@pytest.mark.seed(399)
def test_mirror_community_and_hub() -> None:
    named = DocsFact(mirror="https://m.example", community="https://c.example", hub="https://h.example")
    text = write_docs(PromptFacts(docs=named))
    assert "https://m.example" in text and "Community: https://c.example" in text
    assert "Find skills: https://h.example" in text
    assert "http" not in write_docs(PromptFacts())


@pytest.mark.seed(400)
def test_docs_first_and_status_by_itself() -> None:
    text = write_docs(full())
    assert "read the docs first" in text and "run `pal status` yourself" in text
    assert "ask the person only if you lack access" in text
    assert "docs first" not in write_docs(PromptFacts()) and "pal status" not in write_docs(PromptFacts())


@pytest.mark.seed(401)
def test_config_questions_go_to_the_schema_then_to_the_pages() -> None:
    text = write_docs(full())
    assert text.index("config.schema.lookup") < text.index("docs/configuration.md")
    assert "docs/configuration-reference.md" in text
    assert "config.schema.lookup" not in write_docs(PromptFacts(tools=tools("read")))
    assert "`pal config explain PATH`" in write_docs(PromptFacts(tools=tools("read")))
    assert ".md" not in write_docs(PromptFacts(docs=DocsFact(local="/d", source="/s")))  # no page that nobody has seen


@pytest.mark.seed(176, 210)
def test_sandbox() -> None:
    assert write_sandbox(PromptFacts()) == ""
    text = write_sandbox(PromptFacts(sandbox=SandboxFact("/w", "ro", "/agent", elevated=True, browser="http://b")))
    assert "inside: /w" in text and "access ro, seen at /agent" in text and "http://b" in text
    assert "Elevated exec is available" in text
    assert "Elevated exec is not available" in write_sandbox(PromptFacts(sandbox=SandboxFact("/w")))


@pytest.mark.seed(177)
def test_senders() -> None:
    assert write_authorized_senders(PromptFacts()) == ""
    assert "Allowlisted: +1, +2." in write_authorized_senders(PromptFacts(knobs=PromptOptions(owners=("+1", "+2"))))


@pytest.mark.seed(178, 211, 256)
def test_time_zone_and_no_clock() -> None:
    assert write_time_zone(PromptFacts(timezone="Asia/Tokyo")) == "## Current Date & Time\nTime zone: Asia/Tokyo"
    assert write_time_zone(PromptFacts()) == ""
    assert "`session_status`" in write_clock_hint(full())
    assert write_clock_hint(PromptFacts()) == ""

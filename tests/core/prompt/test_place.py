from __future__ import annotations

import pytest

from core.prompt.kit import full, tools
from palinurus.core.prompt.facts import Docs, Facts, Sandbox
from palinurus.core.prompt.knobs import Knobs
from palinurus.core.prompt.place import aliases, clock, docs, memory, sandbox, senders, when, workspace


@pytest.mark.seed(171)
def test_memory_needs_its_tools_and_cites_as_asked() -> None:
    assert memory(Facts(tools=tools("read"))) == ""
    text = memory(full())
    assert "`memory_search`" in text and "`memory_get`" in text
    assert "Source: <path>#<line>" in memory(full(knobs=Knobs(citations="on")))
    assert "Source:" not in memory(full(knobs=Knobs(citations="off")))
    auto = memory(full(knobs=Knobs(citations="auto")))
    assert "In a direct chat cite" in auto and "in groups leave" in auto
    assert "memory_get" not in memory(Facts(tools=tools("memory_search")))
    assert "memory_search" not in memory(Facts(tools=tools("memory_get")))


@pytest.mark.seed(173)
def test_aliases_are_sorted() -> None:
    assert aliases(Facts()) == ""
    text = aliases(Facts(knobs=Knobs(aliases=(("z", "p/m"), ("a", "p/n")))))
    assert text.endswith("- a: p/n\n- z: p/m")


@pytest.mark.seed(174, 207)
def test_workspace() -> None:
    text = workspace(Facts(workspace="/w"))
    assert "Your working directory is: /w" in text
    assert "only place for files" in text and "commit" in text
    boxed = workspace(Facts(workspace="/host/w", sandbox=Sandbox("/inside")))
    assert "Your working directory is: /inside" in boxed and "/host/w" in boxed


@pytest.mark.seed(175, 208, 397)
def test_docs_local_first_else_the_site() -> None:
    here = docs(Facts(docs=Docs(local="/d", site="https://docs.example")))
    assert "Palinurus docs on this machine: /d" in here and "The same docs online: https://docs.example" in here
    there = docs(Facts(docs=Docs(site="https://docs.example")))
    assert "Palinurus docs: https://docs.example" in there and "on this machine" not in there


@pytest.mark.seed(398)
def test_source_of_a_checkout_or_the_repository() -> None:
    assert "Source: /src (a checkout" in docs(Facts(docs=Docs(source="/src", repository="https://repo.example")))
    packaged = docs(Facts(docs=Docs(repository="https://repo.example")))
    assert "Source: https://repo.example" in packaged and "out of date" in packaged


@pytest.mark.seed(399)
def test_mirror_community_and_hub() -> None:
    named = Docs(mirror="https://m.example", community="https://c.example", hub="https://h.example")
    text = docs(Facts(docs=named))
    assert "https://m.example" in text and "Community: https://c.example" in text
    assert "Find skills: https://h.example" in text
    assert "http" not in docs(Facts())


@pytest.mark.seed(400)
def test_docs_first_and_status_by_itself() -> None:
    text = docs(Facts())
    assert "read the docs first" in text and "run `pal status` yourself" in text
    assert "ask the person only if you lack access" in text


@pytest.mark.seed(401)
def test_config_questions_go_to_the_schema_then_to_the_pages() -> None:
    text = docs(full())
    assert text.index("config.schema.lookup") < text.index("docs/configuration.md")
    assert "docs/configuration-reference.md" in text
    assert "config.schema.lookup" not in docs(Facts(tools=tools("read")))
    assert "`pal config explain PATH`" in docs(Facts(tools=tools("read")))
    assert ".md" not in docs(Facts(docs=Docs(local="/d", source="/s")))  # no page that nobody has seen


@pytest.mark.seed(176, 210)
def test_sandbox() -> None:
    assert sandbox(Facts()) == ""
    text = sandbox(Facts(sandbox=Sandbox("/w", "ro", "/agent", elevated=True, browser="http://b")))
    assert "inside: /w" in text and "access ro, seen at /agent" in text and "http://b" in text
    assert "Elevated exec is available" in text
    assert "Elevated exec is not available" in sandbox(Facts(sandbox=Sandbox("/w")))


@pytest.mark.seed(177)
def test_senders() -> None:
    assert senders(Facts()) == ""
    assert "Allowlisted: +1, +2." in senders(Facts(knobs=Knobs(owners=("+1", "+2"))))


@pytest.mark.seed(178, 211)
def test_time_zone_and_no_clock() -> None:
    assert when(Facts(timezone="Asia/Tokyo")) == "## Current Date & Time\nTime zone: Asia/Tokyo"
    assert when(Facts()) == ""
    assert "`session_status`" in clock(full())
    assert clock(Facts()) == ""

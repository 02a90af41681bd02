"""Which sections appear, in which order, on which side of the boundary, in which mode; and that it is pure."""

from __future__ import annotations

import inspect

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.prompt.kit import HEADS, full, tools
from palinurus.core.policy.spoken import get_typed
from palinurus.core.prompt import bootstrap, capabilities, chat, conduct, environment
from palinurus.core.prompt.facts import (
    FileFact,
    PromptContribution,
    PromptFacts,
    PromptMode,
    StableFacts,
    select_stable_facts,
)
from palinurus.core.prompt.render import (
    LIVE_SECTIONS,
    SECTION_GAP,
    STABLE_SECTIONS,
    apply_prompt_changes,
    render_prompt,
    report_sections,
    surround_message,
)
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import Prompt
from palinurus.core.untrusted import ADDED_HEADING

BELOW = (
    "silent",
    "dynamic_context",
    "embed",
    "messaging",
    "approvals",
    "voice",
    "extra",
    "reactions",
    "inside",
    "heartbeats",
    "runtime",
)


@pytest.mark.seed(162, 163, 164, 167, 188, 189)
def test_full_holds_every_section_in_order() -> None:
    facts = full()
    text = render_prompt(facts).text
    at = -1
    for name, head in HEADS.items():
        found = text.find(head)
        assert found > at, f"{name} is missing or out of place"
        at = found
    assert [name for name, _, _ in report_sections(facts)] == list(HEADS)
    assert text.startswith(HEADS["identity"]) and len(HEADS) >= 22
    assert text[text.rindex("\n## ") :].startswith("\n## Runtime")


@pytest.mark.seed(189)
def test_what_is_not_there_is_not_mentioned() -> None:
    bare = [name for name, _, _ in report_sections(PromptFacts(tools=tools("read")))]
    assert bare == [
        "identity", "tooling", "tool_call_style", "execution_bias", "safety", "control", "docs", "workspace_files",
        "directives", "messaging", "runtime",
    ]  # fmt: skip


@pytest.mark.seed(216, 217)
def test_the_boundary() -> None:
    prompt = render_prompt(full())
    for name, head in HEADS.items():
        here, there = (prompt.volatile, prompt.stable) if name in BELOW else (prompt.stable, prompt.volatile)
        assert head in here, name
        assert head not in there, name
    assert prompt.text == prompt.stable + SECTION_GAP + prompt.volatile


@pytest.mark.seed(165, 231, 232)
def test_minimal_omits_and_keeps() -> None:
    facts = full(mode="minimal")
    names = {name for name, _, _ in report_sections(facts)}
    omitted = {"memory", "self_update", "aliases", "senders", "directives", "messaging", "silent", "heartbeats"}
    assert not names & omitted
    assert not names & {"execution_bias", "docs", "delegation", "bootstrap_pending"}
    assert names >= {
        "identity",
        "tooling",
        "tool_call_style",
        "safety",
        "control",
        "skills",
        "workspace",
        "sandbox",
        "time",
    }
    assert names >= {"workspace_files", "context", "reasoning_format", "extra", "runtime"}
    assert "Authorized Senders" not in render_prompt(facts).text


@pytest.mark.seed(166, 233)
def test_none_is_the_identity_line_alone() -> None:
    assert render_prompt(full(mode="none")).text == "You are a personal assistant running inside Palinurus."
    assert (
        render_prompt(full(mode="none", contribution=PromptContribution("a", "b", "c", "d", "e"))).text
        == conduct.IDENTITY
    )


@pytest.mark.seed(230)
def test_the_default_mode_is_full() -> None:
    assert PromptFacts().mode == "full"


@pytest.mark.seed(234)
def test_extra_context_is_titled_by_mode() -> None:
    assert "## Group Chat Context\nThis is a group" in render_prompt(full()).volatile
    small = render_prompt(full(mode="minimal")).volatile
    assert "## Subagent Context\nThis is a group" in small
    assert "Group Chat Context" not in small


@pytest.mark.seed(195, 196)
def test_a_provider_adds_above_and_below_the_boundary() -> None:
    prompt = render_prompt(full(contribution=PromptContribution(prefix="ABOVE\r\nline  \r\n", suffix="\nBELOW\n")))
    assert "ABOVE\nline\n\n## Safety" in prompt.stable and "ABOVE" not in prompt.volatile
    assert "BELOW" in prompt.volatile and "BELOW" not in prompt.stable


@pytest.mark.seed(194)
def test_a_provider_replaces_exactly_three_sections() -> None:
    replaced = PromptContribution(
        interaction_style="## Manner\nnice", tool_call_style="## Calls\nmine", execution_bias="## Bias\nmine"
    )
    ours, theirs = render_prompt(full()), render_prompt(full(contribution=replaced))
    assert "## Tool Call Style" not in theirs.text and "## Execution Bias" not in theirs.text
    assert "## Manner\nnice\n\n## Calls\nmine\n\n## Bias\nmine\n\n## Safety" in theirs.stable
    three = ("interaction_style", "tool_call_style", "execution_bias")
    kept = [[part for part in prompt.parts if part.name not in three] for prompt in (ours, theirs)]
    assert kept[0] == kept[1]
    fields = {f.name for f in msgspec.structs.fields(PromptContribution)}
    assert fields == {"prefix", "suffix", "interaction_style", "tool_call_style", "execution_bias", "always"}
    gone = render_prompt(full(contribution=PromptContribution(tool_call_style="", execution_bias="  ")))
    assert "## Tool Call Style" not in gone.text and "## Execution Bias" not in gone.text


@pytest.mark.seed(191)
def test_rendering_is_pure_and_reads_facts_only() -> None:
    for module in (chat, conduct, bootstrap, environment, environment, capabilities, capabilities):
        source = inspect.getsource(module)
        assert "config" not in "".join(line for line in source.splitlines() if line.startswith(("import", "from")))
    assert [row.make.__code__.co_argcount for row in (*STABLE_SECTIONS, *LIVE_SECTIONS)] == [1] * (
        len(STABLE_SECTIONS) + len(LIVE_SECTIONS)
    )
    assert render_prompt(full()) == render_prompt(full())


@pytest.mark.seed(211, 216)
def test_the_stable_part_is_byte_equal_whatever_the_chat() -> None:
    one = render_prompt(full())
    for changes in (
        {"channel": "telegram", "kind": "direct", "approvals": True, "buttons": True, "reactions": "extensive"},
        {"model": "fake/other", "level": "high", "reasoning": "stream", "host": "other", "python": "3.13.0"},
        {"extra": "", "capabilities": None, "agent": "work", "shell": "bash", "repo": "/r"},
    ):
        other = render_prompt(full(**changes))
        assert other.stable == one.stable
        assert other.volatile != one.volatile


def test_the_stable_part_is_made_once() -> None:
    assert render_prompt(full()).stable is render_prompt(full(channel="telegram")).stable


def test_only_the_fixed_half_reaches_stable_sections() -> None:
    half = select_stable_facts(full())
    assert type(half) is StableFacts and not hasattr(half, "channel")
    for row in STABLE_SECTIONS:
        row.make(half)


texts = st.text(max_size=40)


@given(
    st.sampled_from(["full", "minimal", "none"]),
    st.lists(st.tuples(texts, texts), max_size=4),
    st.lists(texts, max_size=6),
    texts,
    texts,
)
def test_sizes_add_up_for_any_facts(
    mode: PromptMode, files: list[tuple[str, str]], names: list[str], extra: str, file: str
) -> None:
    facts = full(mode=mode, files=tuple(FileFact(*f) for f in files), tools=tools(*names), extra=extra, workspace=file)
    prompt = render_prompt(facts)
    for half, stable in ((prompt.stable, True), (prompt.volatile, False)):
        sizes = [part.chars for part in prompt.parts if part.stable is stable]
        assert sum(sizes) + len(SECTION_GAP) * max(0, len(sizes) - 1) == len(half)


def test_a_hook_replaces_or_surrounds() -> None:
    prompt = render_prompt(full())
    assert apply_prompt_changes(prompt, {}) == prompt
    wrapped = apply_prompt_changes(prompt, {"prependSystemContext": "FIRST", "appendSystemContext": "LAST"})
    assert wrapped.text == f"FIRST\n\n{prompt.text}\n\nLAST"
    whole = apply_prompt_changes(prompt, {"systemPrompt": "MINE", "appendSystemContext": "LAST"})
    assert whole.text == "MINE\n\nLAST"
    assert apply_prompt_changes(Prompt("a"), {"prependSystemContext": "b"}).stable == "b\n\na"
    said = UserMessage("hi")
    both = surround_message(said, {"prependContext": "a", "appendContext": "b"})
    assert both.text == f"a\n\nhi\n\n{ADDED_HEADING}\nb" and get_typed(both).strip() == "hi"
    assert surround_message(said, {}) is said

"""The must-keep set: what is found without a model, what survives a budget, what is carried on."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.history.verbatim import (
    KEPT_KINDS,
    collect_kept_lines,
    drop_settled_lines,
    fit_kept_lines,
    merge_kept_lines,
    parse_kept_lines,
    render_kept_lines,
)
from palinurus.core.types.messages import AssistantMessage, Message, TextBlock, ToolCall, ToolResult, UserMessage


def agent(words: str = "", *calls: ToolCall) -> AssistantMessage:
    return AssistantMessage((TextBlock(words), *calls) if words else calls)


def call(ident: str, name: str = "exec", **arguments: object) -> ToolCall:
    return ToolCall(ident, name, dict(arguments))


def failed(ident: str, words: str) -> ToolResult:
    return ToolResult(ident, "exec", (TextBlock(words),), True)


def worked(ident: str) -> ToolResult:
    return ToolResult(ident, "exec", (TextBlock("fine"),))


@pytest.mark.parametrize(
    ("kind", "message", "wanted"),
    [
        ("instructions", UserMessage("Hi there. Never push without a review! Thanks."), "Never push without a review!"),
        ("instructions", UserMessage("nice\nfrom now on answer in French\nok"), "from now on answer in French"),
        ("instructions", UserMessage("不要删除任何文件。谢谢"), "不要删除任何文件。"),
        ("decisions", agent("I looked at both. We decided to use SQLite, since it needs no server."),
         "We decided to use SQLite, since it needs no server."),
        ("decisions", UserMessage("ok, let's go with plan B then"), "ok, let's go with plan B then"),
        ("tasks", agent("Left:\n- [x] parser\n- [ ] write the migration\n"), "write the migration"),
        ("tasks", agent("TODO: rotate the keys on friday"), "TODO: rotate the keys on friday"),
        ("named", UserMessage("the bug is in src/app/main.py, I think"), "src/app/main.py"),
        ("named", UserMessage("look at ~/notes/2026 plan and /etc/hosts please"), "/etc/hosts"),
        ("named", UserMessage("see PAL-1842 and build-20931"), "PAL-1842"),
        ("named", UserMessage("it is 3f2504e0-4f89-11d3-9a0c-0305e82c3301."), "3f2504e0-4f89-11d3-9a0c-0305e82c3301"),
        ("named", UserMessage("post it to https://example.org/a?b=1."), "https://example.org/a?b=1"),
        ("named", UserMessage("the host is db7.internal:5432 and the variable DATABASE_URL"), "db7.internal:5432"),
        ("identifiers", agent("The commit is 9fceb02d0ae598e9."), "9fceb02d0ae598e9"),
        ("modified", agent("", call("1", "write", path="a/b.txt", content="x")), "a/b.txt"),
        ("read", agent("", call("1", "read", path="c.txt")), "c.txt"),
        ("goal", UserMessage("Build me a boat"), "Build me a boat"),
        ("ask", UserMessage("And now?"), "And now?"),
    ],
)  # fmt: skip
def test_what_is_found(kind: str, message: Message, wanted: str) -> None:
    found = collect_kept_lines([message])
    assert wanted in found[kind]
    assert wanted in render_kept_lines(fit_kept_lines(found, 2000))


def test_failures_are_kept_until_the_same_call_works() -> None:
    first = [agent("", call("1", command="make")), failed("1", "error: no rule to make target 'all'")]
    assert collect_kept_lines(first)["failures"] == (
        'exec {"command":"make"} -> error: no rule to make target \'all\'',
    )
    assert "failures" not in collect_kept_lines([*first, agent("", call("2", command="make")), worked("2")])
    later = [agent("", call("3", command="make")), worked("3"), UserMessage("fine")]
    assert "failures" not in drop_settled_lines(collect_kept_lines(first), later)
    assert drop_settled_lines(collect_kept_lines(first), [agent("", call("3", command="ls")), worked("3")])["failures"]


def test_a_task_that_was_ticked_off_later_is_gone() -> None:
    old = collect_kept_lines([agent("- [ ] one\n- [ ] two")])
    assert drop_settled_lines(old, [agent("- [x] one")])["tasks"] == ("two",)


def test_the_first_ask_stays_and_the_last_one_is_the_newest() -> None:
    kept = merge_kept_lines(
        collect_kept_lines([UserMessage("first"), UserMessage("second")]), collect_kept_lines([UserMessage("third")])
    )
    assert kept["goal"] == ("first",) and kept["ask"] == ("third",)
    assert merge_kept_lines(kept, collect_kept_lines([agent("no user here")]))["ask"] == ("third",)


def test_each_kind_has_its_share_whatever_the_others_need() -> None:
    flood = [UserMessage(f"see src/module_{n}/file_{n}.py") for n in range(2000)]
    kept = fit_kept_lines(
        collect_kept_lines([UserMessage("Never delete the backups."), *flood, agent("We agreed on tabs.")]), 4000
    )
    assert "Never delete the backups." in kept["instructions"] and "We agreed on tabs." in kept["decisions"]
    assert "src/module_0/file_0.py" in kept["named"] and "src/module_1999/file_1999.py" in kept["named"]
    assert len(render_kept_lines(kept)) < 4000 + 60 * len(KEPT_KINDS)


def test_a_pasted_log_does_not_push_out_what_was_said() -> None:
    log = "\n".join(f"line {n} must not be read" for n in range(5000))
    kept = fit_kept_lines(
        collect_kept_lines(
            [UserMessage("Always answer in Dutch."), UserMessage(log), UserMessage("You must keep PORT_A free.")]
        ),
        3000,
    )
    assert "Always answer in Dutch." in kept["instructions"] and "You must keep PORT_A free." in kept["instructions"]


def test_reading_what_others_wrote_never_fails() -> None:
    assert (
        parse_kept_lines(None)
        == parse_kept_lines([1])
        == parse_kept_lines({"goal": "x", "nonsense": ["y"], "tasks": [1]})
        == {}
    )
    assert parse_kept_lines({"tasks": ["a", 2, "b"]}) == {"tasks": ("a", "b")}


words = st.text(st.characters(blacklist_categories=("Cs",)), max_size=200)
one = st.one_of(
    words.map(UserMessage),
    words.map(agent),
    words.map(lambda w: failed("1", w)),
    words.map(lambda w: agent("", call("1", x=w))),
)
histories = st.lists(one, max_size=20)


@settings(max_examples=60, deadline=None)
@given(histories, st.integers(0, 3000))
def test_fitting_twice_changes_nothing_and_carrying_on_loses_nothing_that_fits(
    history: list[Message], chars: int
) -> None:
    kept = fit_kept_lines(collect_kept_lines(history), chars)
    assert fit_kept_lines(kept, max(chars, 4000)) == kept
    again = fit_kept_lines(
        merge_kept_lines(parse_kept_lines({k: list(v) for k, v in kept.items()}), {}), max(chars, 4000)
    )
    assert again == kept
    assert sum(len(line) for lines in kept.values() for line in lines) <= chars


EVIL = ["a.", "/a", "-", "a@", "0a", "`", "[ ] ", "A_", "x://", "1.1.", " \n", "- [ ]", "must ", "todo: ", ": ", "\t"]


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_text_takes_no_longer_than_other_text(evil: str) -> None:
    """A regular expression gone wild takes minutes: the suite's own limit would find it."""
    assert collect_kept_lines([UserMessage(evil * 20_000), agent(evil * 20_000)]) is not None

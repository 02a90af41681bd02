"""Cards show all that would run, and nothing in a command can hide on them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.hidden import needs_escape
from palinurus.core.policy.card import explain_question, show_command, to_request_payload, write_approval_card
from palinurus.core.types.approval import ApprovalRequest


def ask(**changes: object) -> ApprovalRequest:
    base = {"kind": "exec", "agent": "main", "session": "s", "run": "r", "call": "c", "tool": "exec", "title": "run it"}
    return ApprovalRequest(**{**base, **changes})  # type: ignore[arg-type]


@given(st.text(max_size=80))
def test_nothing_on_a_card_needs_escape_and_different_commands_look_different(text: str) -> None:
    shown = show_command(ask(command=text))
    assert not any(needs_escape(c) for c in shown if c != "\n")
    assert all(line.startswith("    ") for line in shown.split("\n"))
    assert show_command(ask(command=text + "x")) != shown


def test_it_says_what_where_why_and_how_to_answer() -> None:
    text = write_approval_card(
        ask(
            command="rm -rf x\u202e",
            cwd="/w\u200b",
            binary="/usr/bin/rm",
            env=("FOO",),
            why="because",
            taint=("web",),
            warning="careful",
            asker="Bob (not the owner)",
            allowed=("allow-once", "deny"),
        ),
        "0123456789",
    )
    assert "[01234567]" in text and "rm -rf x\\u202e" in text and "/w\\u200b" in text
    for part in (
        "/usr/bin/rm",
        "FOO",
        "because",
        "web",
        "careful",
        "Bob",
        "/approve 01234567 allow-once|deny",
        "30 min",
    ):
        assert part in text


def test_what_decides_stands_first_on_every_card_with_where_it_came_from() -> None:
    value = ("recipient", "UK123  (from read_file bill.txt, not from you)")
    made = ask(kind="tool", tool="pay", command='{"recipient": "UK123"}', facts=(value,), why="because")
    lines = write_approval_card(made, "0123456789").splitlines()
    assert lines[1] == "recipient: UK123  (from read_file bill.txt, not from you)" and "UK123" in lines[2]
    assert to_request_payload(made)["commandAnalysis"]["warningLines"] == [lines[1], "because"]
    told = explain_question(made, "deny by me")
    assert told[0] == "pay: run it" and lines[1] in told and told[-1] == "outcome: deny by me"


def test_escapes_cannot_be_forged() -> None:
    assert show_command(ask(command="a\\u202e\n")) != show_command(ask(command="a\u202e\n"))
    assert "    b\\n" in show_command(ask(command="a\nb\n"))


def test_the_gateway_payload_has_the_fields_clients_know() -> None:
    made = to_request_payload(
        ask(command="ls", host="gateway", binary="/usr/bin/ls", cwd="/w", security="full", ask="always")
    )
    assert made["command"] == "ls" and made["resolvedPath"] == "/usr/bin/ls" and made["sessionKey"] == "s"
    assert made["allowedDecisions"] == ["allow-once", "allow-always", "deny"]
    assert set(made["commandAnalysis"]) == {"commandCount", "nestedCommandCount", "riskKinds", "warningLines"}

"""The table of permission modes, and who gets which."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.core.policy import modes
from palinurus.core.types.approval import ExecRules
from palinurus.core.types.inbound import Inbound, Sender, Target
from palinurus.core.types.sandbox import SandboxSpec

OWNER = Inbound(Target("fake", "chat"), Sender("me", owner=True), "e", "hi", 0)
MEMBER = Inbound(Target("fake", "chat"), Sender("you", allowed=True), "e", "hi", 0)


def test_every_mode_says_something_about_every_kind_and_is_explained() -> None:
    kinds = {"look", "edit", "command", "act"}
    assert all(set(row) == kinds and row["look"] == "gate" for row in modes.VERDICTS.values())
    assert list(modes.ABOUT) == list(modes.MODES) == ["plan", "ask", "default", "acceptEdits", "full"]
    said = {verdict for row in modes.VERDICTS.values() for verdict in row.values()}
    assert said == set(modes.SAID)


@pytest.mark.parametrize(
    ("word", "mode"),
    [
        ("plan", "plan"),
        ("Accept-Edits", "acceptEdits"),
        ("accept edits", "acceptEdits"),
        ("bypassPermissions", "full"),
        ("FULL", "full"),
        ("", None),
        ("god", None),
        (None, None),
    ],
)
def test_words_for_modes(word: Any, mode: str | None) -> None:
    assert modes.parse_mode(word) == mode


def test_the_message_goes_before_the_session_and_that_before_the_config() -> None:
    assert modes.resolve_mode("plan", "full", "ask", OWNER) == "plan"
    assert modes.resolve_mode("", "full", "ask", OWNER) == "full"
    assert modes.resolve_mode("", None, "ask", OWNER) == "ask"
    assert modes.resolve_mode("", None, "default", OWNER) == "default"
    assert modes.resolve_mode("", "nonsense", "default", OWNER) == "plan", "a word nobody knows is the strictest"


@pytest.mark.parametrize("mode", modes.MODES)
def test_people_who_are_not_the_owner_are_never_freer_than_the_default(mode: Any) -> None:
    given = modes.resolve_mode(mode, None, "default", MEMBER)
    assert given == (mode if mode in ("plan", "ask") else "default")


@pytest.mark.parametrize(
    ("tool", "effect", "origin", "args", "kind"),
    [
        ("read", "pure", "", {}, "look"),
        ("lookup", "pure", "plugin", {}, "look"),
        ("update_plan", "idempotent", "", {}, "look"),
        ("update_plan", "idempotent", "evil", {}, "act"),  # a plugin's tool of that name
        ("cron", "effect", "", {"action": "list"}, "look"),
        ("cron", "effect", "", {"action": "add"}, "act"),
        ("cron", "effect", "evil", {"action": "list"}, "act"),
        ("process", "effect", "", {"action": "poll"}, "look"),
        ("process", "effect", "", {"action": "write"}, "command"),
        ("exec", "effect", "", {"command": "ls"}, "command"),
        ("write", "idempotent", "", {"path": "a"}, "edit"),
        ("apply_patch", "effect", "", {}, "edit"),
        ("message", "idempotent", "", {"action": "send", "message": "hi"}, "look"),  # to the very chat
        ("message", "idempotent", "", {"action": "send", "target": "bob"}, "act"),
        ("sessions_spawn", "idempotent", "", {}, "act"),
        ("browser", "effect", "", {"action": "snapshot"}, "look"),
        ("browser", "effect", "", {"action": "act"}, "act"),
        ("nodes", "effect", "", {"action": "run"}, "act"),
        ("delete_mail", "effect", "mail", {}, "act"),
    ],
)
def test_kinds_of_calls(tool: str, effect: str, origin: str, args: dict[str, Any], kind: str) -> None:
    assert modes.classify_call(tool, effect, origin, args, here=("fake", "chat")) == kind


def test_what_the_mode_makes_of_the_rules_for_commands() -> None:
    base = ExecRules(elevated="full", host="node")
    assert modes.apply_mode(base, "ask").ask == "always" and modes.apply_mode(base, "ask").elevated == "on"
    plan = modes.apply_mode(base, "plan")
    assert (plan.elevated, plan.host) == ("off", "auto")
    assert modes.apply_mode(base, "default") == base
    assert modes.apply_mode(base, "full").mode == "full"


def test_a_closed_cell_can_write_its_temporary_folder_and_nothing_else() -> None:
    cell = SandboxSpec("namespaces", ("/usr",), ("/w", "/tmp/x"), connect=None, temporary="/tmp/x")
    closed = modes.close_cell(cell)
    assert closed is not None and closed.write == ("/tmp/x",) and closed.read == ("/usr", "/w") and closed.connect == ()
    assert modes.close_cell(SandboxSpec("landlock")) is None and modes.close_cell(SandboxSpec()) is None


def test_explaining_names_the_mode_and_what_still_looks() -> None:
    assert modes.explain_mode("default", "exec", "effect", "") == ""
    assert modes.explain_mode("plan", "read", "pure", "") == ""
    assert modes.explain_mode("plan", "write", "idempotent", "") == "mode plan: it is refused"
    assert "only looking: get, list, runs, status" in modes.explain_mode("ask", "cron", "effect", "")

"""The decision table, whole; rules against programs; who may be elevated."""

from __future__ import annotations

from itertools import product

import msgspec
import pytest

from palinurus.core.policy.exec import (
    ASK_LEVELS,
    EXEC_MODES,
    SECURITY_LEVELS,
    ExecMode,
    ExecProgram,
    covers_program,
    decide_exec,
    decide_unanswered,
    list_elevation_blocks,
    list_storable_rules,
    match_programs,
    resolve_exec_mode,
    wants_host,
)
from palinurus.core.types.approval import CommandRule, ExecRules
from palinurus.core.types.inbound import Sender, Target
from support import inbound

# (place, security, ask) -> (on the list, not on the list)
TABLE = {
    ("contained", "deny", "off"): ("refuse", "refuse"),
    ("contained", "deny", "on-miss"): ("refuse", "refuse"),
    ("contained", "deny", "always"): ("refuse", "refuse"),
    ("contained", "allowlist", "off"): ("run", "refuse"),
    ("contained", "allowlist", "on-miss"): ("run", "ask"),
    ("contained", "allowlist", "always"): ("ask", "ask"),
    ("contained", "full", "off"): ("run", "run"),
    ("contained", "full", "on-miss"): ("run", "run"),
    ("contained", "full", "always"): ("ask", "ask"),
    ("host", "deny", "off"): ("refuse", "refuse"),
    ("host", "deny", "on-miss"): ("refuse", "refuse"),
    ("host", "deny", "always"): ("refuse", "refuse"),
    ("host", "allowlist", "off"): ("run", "refuse"),
    ("host", "allowlist", "on-miss"): ("run", "ask"),
    ("host", "allowlist", "always"): ("ask", "ask"),
    ("host", "full", "off"): ("run", "run"),
    ("host", "full", "on-miss"): ("run", "ask"),
    ("host", "full", "always"): ("ask", "ask"),
}


def test_the_table_is_complete() -> None:
    assert set(TABLE) == set(product(("contained", "host"), SECURITY_LEVELS, ASK_LEVELS))


@pytest.mark.seed(228)
@pytest.mark.parametrize(("place", "security", "ask"), TABLE)
def test_the_table(place: str, security: str, ask: str) -> None:
    listed, miss = TABLE[place, security, ask]  # type: ignore[index]
    held = ExecMode(security, ask)  # type: ignore[arg-type]
    assert decide_exec(held, place, True).action == listed  # type: ignore[arg-type]
    assert decide_exec(held, place, False).action == miss  # type: ignore[arg-type]
    for matched in (True, False):
        plain = decide_exec(held, place, matched).action  # type: ignore[arg-type]
        hidden = decide_exec(held, place, matched, odd="a hidden character").action  # type: ignore[arg-type]
        assert hidden == ("refuse" if plain == "refuse" else "ask")
        tainted = decide_exec(held, place, matched, tainted=True).action  # type: ignore[arg-type]
        assert tainted == ("ask" if place == "host" and plain == "run" else plain)  # also what a rule lists
        full = decide_exec(msgspec.structs.replace(held, full=True), place, matched).action  # type: ignore[arg-type]
        assert full == ("refuse" if security == "deny" else "run")


@pytest.mark.parametrize("full", [True, False])
def test_hidden_characters_are_asked_about_even_when_elevated(full: bool) -> None:
    assert decide_exec(ExecMode("full", "off", full), "host", False, odd="x").action == "ask"
    assert decide_exec(ExecMode("full", "off", True), "host", False, tainted=True).action == "ask"


def test_nothing_said_means_contained_runs_and_outside_asks() -> None:
    nothing = ExecRules()
    assert decide_exec(resolve_exec_mode(nothing, "contained"), "contained", False).action == "run"
    assert decide_exec(resolve_exec_mode(nothing, "host"), "host", False).action == "ask"
    half = ExecRules(security="full")
    assert decide_exec(resolve_exec_mode(half, "host"), "host", False).action == "ask"
    assert decide_exec(resolve_exec_mode(ExecRules(ask="off"), "host"), "host", False).action == "refuse"
    assert decide_exec(resolve_exec_mode(ExecRules(security="full", ask="off"), "host"), "host", False).action == "run"


def test_the_host_and_the_call_only_make_it_stricter() -> None:
    loose, tight = ExecRules("full", "off"), ExecRules("allowlist", "always")
    for place in ("contained", "host"):
        for security, ask in product(("", *SECURITY_LEVELS), ("", *ASK_LEVELS)):
            for rules in (loose, tight):
                words = {"security": security, "ask": ask}
                for made in (
                    resolve_exec_mode(rules, place, host=words),  # type: ignore[arg-type]
                    resolve_exec_mode(rules, place, security=security, ask=ask),  # type: ignore[arg-type]
                ):
                    assert SECURITY_LEVELS.index(made.security) <= SECURITY_LEVELS.index(rules.security or "full")
                    assert ASK_LEVELS.index(made.ask) <= ASK_LEVELS.index(rules.ask or "off")
    assert resolve_exec_mode(loose, "host", host={"security": "nonsense", "ask": "huh"}) == ExecMode("deny", "always")
    assert resolve_exec_mode(ExecRules(), "host", host={"security": "full", "ask": "off"}) == ExecMode(
        "allowlist", "on-miss"
    )


def test_what_nobody_answered() -> None:
    assert decide_unanswered("deny", True, "").action == "refuse"
    assert (decide_unanswered("allowlist", True, "").action, decide_unanswered("allowlist", False, "").action) == (
        "run",
        "refuse",
    )
    assert (decide_unanswered("full", False, "").action, decide_unanswered("full", True, "odd").action) == (
        "run",
        "refuse",
    )
    assert set(EXEC_MODES) == {"deny", "allowlist", "ask", "auto", "full"}


LS = ExecProgram(("ls", "-l"), "/usr/bin/ls", "/usr/bin/ls")


@pytest.mark.parametrize(
    ("rule", "covered"),
    [
        (CommandRule("/usr/bin/ls"), True),
        (CommandRule("/usr/bin/*"), True),
        (CommandRule("/usr/bin/l?"), True),
        (CommandRule("ls"), True),
        (CommandRule("/usr/bin/ls", ("-l",)), True),
        (CommandRule("/usr/bin/ls", ()), False),
        (CommandRule("/usr/bin/ls", ("-l", "-a")), False),
        (CommandRule("/usr/bin/LS"), False),
        (CommandRule("LS"), False),
        (CommandRule("/usr/*"), False),
        (CommandRule("/*/*/ls"), True),
        (CommandRule("/**/ls"), False),
        (CommandRule("/usr/?in/ls"), True),
        (CommandRule("/usr?bin/ls"), False),
        (CommandRule("/usr/bin/../bin/ls"), False),
        (CommandRule("usr/bin/ls"), False),
        (CommandRule("*"), False),
        (CommandRule("l*"), False),
        (CommandRule(""), False),
        (CommandRule("/usr/bin/ls "), False),
        (CommandRule("/usr/bin/l.*"), False),
    ],
)
def test_patterns(rule: CommandRule, covered: bool) -> None:
    assert (match_programs((LS,), (rule,), ExecRules()) == ("listed",)) is covered


def test_every_part_of_a_chain_needs_its_rule() -> None:
    touch = ExecProgram(("touch", "X"), "/usr/bin/touch", "/usr/bin/touch")
    wc = ExecProgram(("wc", "-l"), "/usr/bin/wc", "/usr/bin/wc")
    assert match_programs((LS, touch, wc), (CommandRule("/usr/bin/ls"),), ExecRules()) == ("listed", "miss", "safe")
    assert match_programs((wc,), (), ExecRules(safe_bins=())) == ("miss",)
    assert match_programs((msgspec.structs.replace(wc, binary="/home/x/wc"),), (), ExecRules()) == ("miss",)
    rules = list_storable_rules((LS, touch, wc), ExecRules())
    assert rules == (CommandRule("/usr/bin/ls", ("-l",)), CommandRule("/usr/bin/touch", ("X",)))


def test_a_program_the_agent_can_rewrite_has_no_rule() -> None:
    own = ExecProgram(("./run",), "/folder/run", "/folder/run", own=True)
    assert match_programs((own,), (CommandRule("/folder/run"), CommandRule("/folder/*")), ExecRules()) == ("miss",)
    assert (
        list_storable_rules((own,), ExecRules()) == ()
        and list_storable_rules((ExecProgram(("x",), ""),), ExecRules()) == ()
    )


def test_a_bare_name_is_what_the_search_path_finds() -> None:
    assert not covers_program(CommandRule("ls"), ExecProgram(("/opt/x/ls",), "/opt/x/ls", "/opt/x/ls"))


OWNER = Sender("1", owner=True)


@pytest.mark.seed(122)
@pytest.mark.parametrize(
    ("sender", "kind", "channel", "enabled", "lists", "good"),
    [
        (OWNER, "direct", "terminal", True, (), True),
        (OWNER, "direct", "telegram", True, (), True),
        (OWNER, "direct", "telegram", True, ({"telegram": ("1",)},), True),
        (OWNER, "direct", "telegram", True, ({"telegram": ("2",)},), False),
        (OWNER, "direct", "telegram", True, ({"telegram": ("*",)},), False),
        (OWNER, "direct", "telegram", True, ({},), False),
        (OWNER, "direct", "telegram", True, ({"telegram": ("1",)}, {"telegram": ()}), False),
        (OWNER, "direct", "terminal", True, ({"telegram": ("2",)},), True),
        (OWNER, "direct", "terminal", False, (), False),
        (OWNER, "group", "telegram", True, (), False),
        (OWNER, "channel", "telegram", True, (), False),
        (Sender("1", allowed=True), "direct", "telegram", True, ({"telegram": ("1",)},), False),
        (Sender("1"), "direct", "telegram", True, ({"telegram": ("1",)},), False),
        (Sender("c", scopes=("operator.admin",)), "direct", "webchat", True, (), True),
        (Sender("c", scopes=("operator.write",)), "direct", "webchat", True, (), False),
    ],
)
def test_who_may_be_elevated(sender: Sender, kind: str, channel: str, enabled: bool, lists: tuple, good: bool) -> None:  # type: ignore[type-arg]
    failing = list_elevation_blocks(
        inbound(sender=sender, kind=kind, target=Target(channel)), enabled=enabled, allow_from=lists
    )
    assert (failing == ()) is good


def test_where_a_command_is_meant_to_run() -> None:
    assert [wants_host(level, None) for level in (None, "off", "on", "ask", "full")] == [False, False, True, True, True]  # type: ignore[arg-type]
    assert wants_host(None, True) and not wants_host("full", False)


@pytest.mark.parametrize(
    ("argv", "binary", "storable"),
    [
        (("git", "status"), "/usr/bin/git", False),
        (("cp", "a", "b"), "/usr/bin/cp", False),
        (("cat", "notes"), "/usr/bin/cat", False),  # the name may be a link to somebody's key tomorrow
        (("unknown",), "/usr/bin/unknown", False),
        (("ls", "-l"), "/usr/bin/ls", True),
        (("ls", "-l"), "/opt/ls", False),
    ],
)
def test_no_rule_outside_where_the_agent_writes_what_is_read(
    argv: tuple[str, ...], binary: str, storable: bool
) -> None:
    program = ExecProgram(argv, binary, binary)
    rules = (CommandRule(binary, argv[1:]), CommandRule(binary))
    assert match_programs((program,), rules, ExecRules()) == ("listed",)
    exposed = msgspec.structs.replace(program, exposed=True)
    assert match_programs((exposed,), rules, ExecRules()) == (("listed",) if storable else ("miss",))
    assert bool(list_storable_rules((exposed,), ExecRules())) is storable

"""Which rules a run is judged by: message, session, config, in that order; and who may be elevated."""

from __future__ import annotations

from typing import Any

import pytest

from palinurus.agent.plan.levels import apply_exec_rules, resolve_exec_rules
from palinurus.config.sections.approvals import AgentExecRules
from palinurus.config.settings import AgentSettings, Settings
from palinurus.core.types.approval import ExecRules
from palinurus.core.types.inbound import InlineDirectives, Sender
from palinurus.core.types.keys import SessionKey
from palinurus.core.types.tool import ToolSettings
from palinurus.sessions.record import SessionRecord
from support import inbound

OWNER = Sender("me", owner=True)


def rules(
    inline: dict[str, str] | None = None, sender: Sender = OWNER, own: AgentExecRules = AgentExecRules(), **fields: Any
) -> ExecRules:
    base = SessionRecord.fresh(SessionKey("main", "main"), 0, "sid")
    level = fields.pop("elevatedLevel", None)
    record = SessionRecord(
        **{**{f: getattr(base, f) for f in base.__struct_fields__}, "elevatedLevel": level, "extra": fields}
    )
    settings = Settings("/h", {"main": AgentSettings("main", "main", "/w")}, "main", approvals={"main": own})
    return resolve_exec_rules(settings, "main", record, inbound(sender=sender), InlineDirectives(**inline or {}))


def test_nothing_said() -> None:
    made = rules()
    assert (made.security, made.ask, made.host, made.elevated, made.gates) == (None, None, "auto", None, ())


def test_the_session_goes_over_the_config_and_the_message_over_both() -> None:
    own = AgentExecRules(ExecRules("allowlist", "always", elevated="off"))
    made = rules(own=own, execSecurity="full", execAsk="on-miss", execHost="sandbox", elevatedLevel="on")
    assert (made.security, made.ask, made.host, made.elevated) == ("full", "on-miss", "sandbox", "on")
    assert rules({"elevated": "full"}, own=own, elevatedLevel="on").elevated == "full"
    assert rules(own=own).elevated == "off"


@pytest.mark.parametrize("junk", ["", "maybe", 3, None, ["full"], {}])
def test_words_that_are_none_of_ours_are_left_out(junk: Any) -> None:
    own = AgentExecRules(ExecRules("allowlist", "always"))
    made = rules(own=own, execSecurity=junk, execAsk=junk, execHost=junk)
    assert (made.security, made.ask, made.host) == ("allowlist", "always", "auto")


@pytest.mark.seed(122)
def test_the_gates_are_those_of_the_sender_of_this_turn() -> None:
    assert rules(elevatedLevel="full").gates == ()
    assert rules(sender=Sender("you", allowed=True), elevatedLevel="full").gates
    assert rules(own=AgentExecRules(elevated=False), elevatedLevel="full").gates


def test_outside_containment_home_is_the_persons() -> None:
    made = apply_exec_rules(ToolSettings(exec_env={"HOME": "/cell"}), ExecRules(), {"HOME": "/real", "PATH": "/bin"})
    assert made.rules.env == {"HOME": "/real"} and made.exec_env == {"HOME": "/cell"}


def test_outside_containment_the_temporary_folder_is_not_the_agents() -> None:
    inside = ToolSettings(exec_env={"HOME": "/cell", "TMPDIR": "/cell/tmp"})
    assert apply_exec_rules(inside, ExecRules(), {"HOME": "/real"}).rules.env["TMPDIR"] == "/tmp"
    assert apply_exec_rules(inside, ExecRules(), {"TMPDIR": "/var/t"}).rules.env == {"TMPDIR": "/var/t"}

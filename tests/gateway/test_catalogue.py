"""The method table against what clients of the original know, and the page about it against the table."""

from __future__ import annotations

from gateway.catalogue import FILE, known, page
from palinurus.gateway.methods import METHODS


def test_what_both_have_needs_the_same_scope() -> None:
    every = known()
    assert len(every) == 207
    assert {name: m.scope for name, m in METHODS.items() if name in every and m.scope != every[name]} == {}


def test_the_page_is_up_to_date() -> None:
    text = FILE.read_text()
    assert text == page(text), "run .venv/bin/python tests/gateway/catalogue.py"


CLIENTS = """
    agents.list chat.history chat.send chat.abort sessions.list sessions.patch commands.list models.list sessions.reset
    status sessions.subscribe sessions.messages.subscribe chat.startup agent.identity.get health agents.files.list
    models.authStatus chat.metadata sessions.create exec.approval.resolve exec.approval.list channels.status
    last-heartbeat logs.tail sessions.usage skills.status system-presence usage.cost config.get config.schema node.list
    device.pair.list exec.approvals.get agent node.pair.list tools.catalog tools.effective
"""


def test_what_the_terminal_the_page_and_the_commands_of_the_original_call_is_served() -> None:
    assert [name for name in CLIENTS.split() if name not in METHODS] == []

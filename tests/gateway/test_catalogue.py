"""The method table against what clients of the original know, and the page about it against the table."""

from __future__ import annotations

from pathlib import Path

from gateway.catalogue import ADDED, FILE, known, page
from gateway.whole import place
from palinurus.gateway.methods import METHODS
from palinurus.gateway.ws.newer import HINTS, list_absent, spread_names


def test_what_both_have_needs_the_same_scope() -> None:
    every = known()
    assert len(every) == 207
    assert {name: m.scope for name, m in METHODS.items() if name in every and m.scope != every[name]} == {}


def test_every_method_of_both_versions_is_served_or_refused_with_a_sentence() -> None:
    every, absent = {*known(), *spread_names(ADDED)}, list_absent()
    assert len(spread_names(ADDED)) == 288
    assert {name for name in every if name not in METHODS and name not in absent} == {"connect"}
    assert {
        name for name in absent if name in METHODS or name not in every
    } == set()  # nothing is refused that is served
    assert {name for name, (_, why) in absent.items() if len(why.split()) < 4} == set()
    assert {
        name for name, (scope, _) in absent.items() if known().get(name, "dynamic") not in (scope, "dynamic")
    } == set()


async def test_a_refusal_says_why_and_asks_for_the_scope_first(tmp_path: Path) -> None:
    async with place(tmp_path / "h") as site:
        for name in ("terminal.open", "talk.session.create", "doctor.memory.dreamDiary", "users.list"):
            error = await site.refused(name)
            assert error.code == "INVALID_REQUEST" and error.message.startswith(f"method not supported: {name}: ")
        assert (await site.refused("no.such")).message == "unknown method: no.such"
        async with site.other(scopes=("operator.read",)) as reader:
            told = {}
            for name in ("terminal.open", "users.list", "no.such"):
                try:
                    await reader.call(name, {})
                except Exception as error:
                    told[name] = str(error)
        assert told["terminal.open"] == told["no.such"] == "missing scope: operator.admin"
        assert told["users.list"].startswith("method not supported")


async def test_hints_of_newer_clients_are_left_out_and_nothing_else_is(tmp_path: Path) -> None:
    assert set(HINTS) <= set(METHODS)
    async with place(tmp_path / "h") as site:
        wanted = {"view": "configured", "agentId": "main", "sessionKey": "agent:main:main"}
        assert (await site.call("models.list", **wanted))["models"]
        assert (await site.call("chat.startup", sessionKey="main", limit=80, maxBytes=262144))["messages"] == []
        error = await site.refused("models.list", agentId="main", colour="red")
        assert error.message == "invalid models.list params: at root: unexpected property 'colour'"


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

"""The pytest plugin that comes with the package (docs/testing.md): fixtures for tests of one's own agent. It is loaded
wherever pytest and the package are, so it imports nothing of the program before a test asks for an agent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from palinurus import late

if TYPE_CHECKING:
    from palinurus.testing.scenarios.judge import ExpectedUse
    from palinurus.testing.scenarios.subject import AgentThread, AgentUnderTest, CassetteFile

FOLDER = "cassettes"  # beside the test


def pytest_addoption(parser: pytest.Parser) -> None:
    """What CI and people set."""
    group = parser.getgroup("palinurus", "tests of agents")
    group.addoption(
        "--pal-record",
        choices=("once", "never", "all"),
        default="once",
        help="cassettes: record those that are missing, none (CI), or all anew",
    )
    group.addoption("--pal-model", default="", metavar="REF", help="ask this model where a test names none")


def pytest_configure(config: pytest.Config) -> None:
    """The marker."""
    config.addinivalue_line("markers", "agent(**options): which agent the `agent` fixture is (docs/testing.md)")


@pytest.fixture(scope="session")
def agent_threads() -> Iterator[AgentThread]:
    """The loop in which agents under test live."""
    made: AgentThread = late.load_part("tested-loop")()
    yield made
    made.close()


@pytest.fixture
def agent_options() -> dict[str, Any]:
    """What all agents of a folder have in common: override it in its conftest.py. `@pytest.mark.agent` adds to it."""
    return {}


@pytest.fixture
def cassette(request: pytest.FixtureRequest) -> CassetteFile:
    """The agent's model is recorded once, and played afterwards: cassettes/FILE-TEST.jsonl beside the test."""
    place = request.node.path
    name = re.sub(r"[^\w.-]+", "_", f"{place.stem}-{request.node.name}")
    path = os.path.join(place.parent, FOLDER, f"{name}.jsonl")
    made: CassetteFile = late.load_part("tested-cassette")(path, request.config.getoption("--pal-record"))
    return made


@pytest.fixture
def agent(
    request: pytest.FixtureRequest, agent_options: dict[str, Any], agent_threads: AgentThread
) -> Iterator[AgentUnderTest]:
    """An agent in a scratch home: `agent.say("…")`, or `await agent.run("…")`."""
    told = dict(agent_options)
    for mark in reversed(list(request.node.iter_markers("agent"))):
        told |= mark.kwargs
    if asked := request.config.getoption("--pal-model"):
        told.setdefault("model", asked)
    tape = request.getfixturevalue("cassette") if "cassette" in request.fixturenames else None
    made: AgentUnderTest = late.load_part("tested-agent")(told, agent_threads, tape)
    yield made
    left = made.player.left if made.player is not None else 0
    made.close()
    if left and not made.failed:
        pytest.fail(f"{left} recorded answers were not asked for: the agent did less than it did then", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """A test that failed shows what was said and done, and is not told about what it did not get to."""
    report = yield
    tested: Any = getattr(item, "funcargs", {}).get("agent")
    if report.when == "call" and report.failed and type(tested).__name__ == "AgentUnderTest":
        tested.failed = True
        report.sections.append(("the agent", tested.tell()))
    return report


def _complain(problem: str) -> None:
    __tracebackhide__ = True
    if problem:
        pytest.fail(problem, pytrace=False)


@pytest.fixture
def assert_tools(agent: AgentUnderTest) -> Callable[..., None]:
    """`assert_tools("write", ("read", {"path": "a"}))`: these were the calls of the last turn, in this order."""

    def check(*expected: ExpectedUse, turn: int = -1) -> None:
        __tracebackhide__ = True
        _complain(late.load_part("tested-tools")(expected, agent.list_turns()[turn].tools))

    return check


@pytest.fixture
def assert_no_sink(agent: AgentUnderTest) -> Callable[..., None]:
    """`assert_no_sink(secrets=["…"], allow=["exec"])`: nothing left the conversation, or stays beyond it."""

    def check(*forbid: str, allow: Collection[str] = (), secrets: Collection[str] = ()) -> None:
        __tracebackhide__ = True
        _complain(late.load_part("tested-sinks")(agent, agent.list_turns(), forbid, allow=allow))
        _complain(late.load_part("tested-leaks")(agent.list_turns(), secrets))

    return check


@pytest.fixture
def assert_prefix_stable(agent: AgentUnderTest) -> Callable[..., None]:
    """Each request begins as the one before it, so that providers can cache it; `breaks`: requests that may differ."""

    def check(breaks: Collection[int] = ()) -> None:
        __tracebackhide__ = True
        agent.list_turns()
        try:
            late.load_part("tested-prefix")(agent.list_requests(), breaks)
        except AssertionError as error:
            _complain(str(error))

    return check

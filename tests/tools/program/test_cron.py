"""The cron tool: what each action asks of who keeps the jobs, and how mistakes are told to the model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palinurus.core.types.inbound import Sender
from palinurus.core.types.tool import ToolFailure
from palinurus.errors import BadRequest
from palinurus.tools.program.cron import PERSON, CronJobMaker, make_cron_tool
from support import inbound


class Ctx:
    session, agent, taint = "agent:main:main", "main", ("web",)
    inbound = inbound("hi", sender=Sender("me", owner=True))

    def now(self) -> int:
        return 7


class Port:
    """Writes down what it is asked."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def status(self) -> dict[str, Any]:
        return {"jobs": 1}

    def jobs(self, disabled: bool = False) -> list[dict[str, Any]]:
        return [{"id": "a", "disabled": disabled}]

    def job(self, ident: str) -> dict[str, Any]:
        return {"id": ident}

    async def add(self, asked: dict[str, Any], maker: CronJobMaker) -> dict[str, Any]:
        self.asked.append((asked, maker))
        if not asked:
            raise BadRequest("schedule is an object")
        return {"id": "j"}

    async def update(self, ident: str, patch: dict[str, Any], maker: CronJobMaker = PERSON) -> dict[str, Any]:
        return {"id": ident, **patch}

    def explain_barred(self, ident: str, maker: CronJobMaker) -> str:
        return ""

    async def remove(self, ident: str) -> bool:
        return True

    async def run(self, ident: str, *, force: bool = True) -> dict[str, Any]:
        return {"force": force}

    async def runs(self, ident: str = "", limit: int = 50) -> list[dict[str, Any]]:
        return [{"of": ident}]

    async def wake(self, text: str, *, now: bool, session: str = "", maker: CronJobMaker = PERSON) -> None:
        self.asked.append((text, now))


async def use(port: Port, **args: Any) -> Any:
    return (await make_cron_tool(port)["cron"].run(Ctx(), **args)).details  # type: ignore[arg-type]


async def test_each_action() -> None:
    port = Port()
    assert await use(port, action="status") == {"jobs": 1, "now": 7}
    assert await use(port, action="list", includeDisabled=True) == {"jobs": [{"id": "a", "disabled": True}]}
    assert await use(port, action="get", jobId="a") == {"id": "a"}
    assert await use(port, action="add", job={"name": "x"}) == {"id": "j"}
    assert port.asked.pop() == (
        {"name": "x"},
        CronJobMaker("agent:main:main", "main", "fake", "chat", "default", "web", turn=True),
    )
    assert await use(port, action="update", jobId="a", patch={"name": "y"}) == {"id": "a", "name": "y"}
    assert await use(port, action="remove", jobId="a") == {"ok": True, "removed": True}
    assert await use(port, action="run", jobId="a") == {"force": True}
    assert await use(port, action="run", jobId="a", mode="due") == {"force": False}
    assert await use(port, action="runs", jobId="a") == {"entries": [{"of": "a"}]}
    assert await use(port, action="wake", text="up", mode="now") == {"ok": True}
    assert port.asked == [("up", True)]


@pytest.mark.parametrize(
    "args",
    [{"action": "get"}, {"action": "add"}, {"action": "update", "jobId": "a"}, {"action": "wake"},
     {"action": "add", "job": {}}, {"action": "runs"}],
)  # fmt: skip
async def test_mistakes_are_told(args: dict[str, Any]) -> None:
    with pytest.raises(ToolFailure, match=r".{8}"):
        await use(Port(), **args)


def test_it_is_the_owners_and_not_there_without_jobs(tmp_path: Path) -> None:
    assert make_cron_tool(None) == {} and make_cron_tool(Port())["cron"].owner  # type: ignore[arg-type]

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from palinurus.core.types.tool import ToolFailure
from palinurus.errors import BadRequest
from palinurus.tools.program.signin import SignInState, make_signin_tool


class Fake:
    def __init__(self, *signs: SignInState) -> None:
        self.signs = list(signs)

    async def start(self, channel: str, account: str, wait: float) -> SignInState:
        return await self.wait(channel, account, wait)

    async def wait(self, channel: str, account: str, wait: float, seen: str = "") -> SignInState:
        if not self.signs:
            raise BadRequest("no sign-in was begun")
        return self.signs.pop(0)


async def test_a_code_is_a_picture_in_the_workspace(tmp_path: Path) -> None:
    tool = make_signin_tool(
        Fake(SignInState("code", "read it", "data:image/png;base64,aGVsbG8="), SignInState("done", "signed in"))
    )["whatsapp_login"]
    ctx: Any = SimpleNamespace(workspace=str(tmp_path))
    shown = await tool.run(ctx, action="start")
    assert f"MEDIA:{tmp_path}/whatsapp-login.png" in shown.content[0].text  # type: ignore[union-attr]
    assert (tmp_path / "whatsapp-login.png").read_bytes() == b"hello"
    done = await tool.run(ctx, action="wait")
    assert done.content[0].text == "signed in" and tool.owner  # type: ignore[union-attr]


async def test_what_goes_wrong_is_told(tmp_path: Path) -> None:
    tool = make_signin_tool(Fake(SignInState("failed", "nobody read it"), SignInState("waiting")))["whatsapp_login"]
    ctx: Any = SimpleNamespace(workspace=str(tmp_path))
    with pytest.raises(ToolFailure, match="nobody read it"):
        await tool.run(ctx, action="start")
    waiting = await tool.run(ctx, action="wait")
    assert "nobody has read" in waiting.content[0].text  # type: ignore[union-attr]
    with pytest.raises(ToolFailure, match="no sign-in was begun"):
        await tool.run(ctx, action="wait")

"""A gateway to be killed: takes one message and works on it. argv: home, model."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from agent.runtimes.kit import ask, running


async def main() -> None:
    async with running(Path(sys.argv[1]), sys.argv[2]) as app:
        await ask(app, "linger")


asyncio.run(main())

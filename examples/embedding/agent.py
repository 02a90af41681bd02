"""An agent inside a program of your own. Runs offline: the demo model needs no key."""

import asyncio

from palinurus import Agent, AgentAnswer, tool
from palinurus.core.types.events import MessageUpdate


@tool
def stock(item: str) -> int:
    """How many of an item are in the store room."""
    return {"rope": 4, "anchor": 1}.get(item, 0)


async def main() -> None:
    async with Agent("builtin/demo", tools=[stock], instructions="You keep the store room.") as agent:
        async for event in agent.stream("hello"):
            if isinstance(event, MessageUpdate):
                print(event.delta, end="")
            elif isinstance(event, AgentAnswer):
                print(f"\n[{event.outcome}]")


if __name__ == "__main__":
    asyncio.run(main())

"""`pal plugins test examples/harbour`, or pytest."""

from __future__ import annotations

import unittest
from pathlib import Path

from palinurus import Agent
from palinurus.core.types.model import ModelSpec
from palinurus.testing.model import ScriptedModel, call_tools, say

HERE = Path(__file__).parent
CONFIG = {"plugins": {"entries": {"harbour": {"config": {"ports": {"Brest": "06:12"}}}}}}


class Harbour(unittest.IsolatedAsyncioTestCase):
    async def test_the_tool(self) -> None:
        script = [call_tools(("high_water", {"port": "Brest"}), ("high_water", {"port": "Oslo"})), say("At 06:12.")]
        model = ScriptedModel(script)
        async with Agent(model, plugins=[HERE], config=CONFIG) as agent:
            self.assertEqual((await agent.run("when?")).text, "At 06:12.")
        known, unknown = model.requests[1].messages[-2:]
        self.assertEqual(known.text, '{"port":"Brest","highWater":"06:12"}')
        self.assertIn("known ports: Brest", unknown.text)

    async def test_the_command(self) -> None:
        async with Agent(ScriptedModel([]), plugins=[HERE], config=CONFIG) as agent:
            self.assertEqual((await agent.run("/tides")).text, "Brest 06:12")

    async def test_the_vendor_is_in_the_catalog(self) -> None:
        async with Agent(ScriptedModel([]), plugins=[HERE], config=CONFIG) as agent:
            app = agent.app
            found = app.catalog.find("harbour/pilot-1", app.settings.agents["main"])
        assert isinstance(found, ModelSpec)
        self.assertEqual((found.name, found.base_url), ("Pilot 1", "http://127.0.0.1:8080/v1"))


if __name__ == "__main__":
    unittest.main()

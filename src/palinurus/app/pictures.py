"""Who makes pictures, put together for the image_generate tool. Loaded only where an agent has a model for it."""

from __future__ import annotations

from palinurus.config.settings import Settings
from palinurus.core.types.model import ImageOrder
from palinurus.core.types.tool import Tool
from palinurus.providers.budget import Budgets
from palinurus.providers.catalog import Catalog
from palinurus.providers.images import ImageGenerator
from palinurus.tools.media.images import MadePictures, make_image_generation_tool
from palinurus.tools.web.egress import EgressGuard
from palinurus.tools.web.shrink import shrink_image


class PictureMaker:
    """Implements `tools.media.images.PicturePort`. `close` when the program ends."""

    def __init__(self, settings: Settings, catalog: Catalog, budgets: Budgets) -> None:
        self._generator = ImageGenerator(settings, catalog, budgets)
        self.list_models = self._generator.list_models
        self.close = self._generator.close

    def make_tools(self, egress: EgressGuard) -> dict[str, Tool]:
        """The tool, by its name; empty where nobody makes pictures."""
        return make_image_generation_tool(self if self._generator.available() else None, egress, shrink_image)

    async def draw(self, order: ImageOrder, agent: str, session: str) -> MadePictures:
        made = await self._generator.generate(order, agent, session)
        usage = made.usage
        spent = {
            "provider": made.provider, "model": made.model, "input": usage.input, "output": usage.output,
            "cost": usage.cost.total if usage.cost else None,
        }  # fmt: skip
        before = tuple(f"[not by {one}]" for one in made.failed)
        return MadePictures(made.images, f"{made.provider}/{made.model}", spent, (*made.notices, *before))

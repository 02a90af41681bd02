"""Who is asked about images: the model for it, else one that sees; and what a failure says."""

from __future__ import annotations

import pytest

from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.settings import Secret, Settings
from palinurus.core.types.messages import ImageBlock
from palinurus.core.types.tool import ToolFailure
from palinurus.providers.catalog import Catalog
from palinurus.providers.vision import VisionModel
from palinurus.testing.model import ScriptedModel, fail, say
from providers.kit import agent

IMAGE = ImageBlock("aGk=", "image/png")


def eyes(model: ScriptedModel, *, named: tuple[str, ...] = (), seeing: tuple[str, ...] = ("b",)) -> VisionModel:
    kinds = {n: ("text", "image") if n in seeing else ("text",) for n in ("a", "b", "c")}
    models = tuple(ModelSettings(n, input=kind) for n, kind in kinds.items())
    provider = ProviderSettings("p", "http://127.0.0.1:9/v1", "openai-completions", Secret("k"), models=models)
    made = Settings("/nowhere", {"main": agent(model="p/a")}, "main", providers={"p": provider}, image_models=named)
    return VisionModel(made, Catalog(made, {}), model)


async def ask(made: VisionModel, model: str = "") -> tuple[str, str]:
    return await made.describe((IMAGE,), "what?", model, "main", "agent:main:main")


async def test_the_first_that_sees_is_asked_with_the_images() -> None:
    model = ScriptedModel([say("a cat")])
    assert await ask(eyes(model)) == ("a cat", "p/b")
    request = model.requests[0]
    assert str(request.model.ref) == "p/b" and request.owner == "agent:main:main" and request.tools == ()
    assert request.messages[0].blocks[1] == IMAGE and "never an order" in request.prompt.stable


async def test_the_model_for_images_goes_first_and_its_fallback_after_it() -> None:
    model = ScriptedModel([fail("server", "down"), say("seen")])
    assert await ask(eyes(model, named=("p/c", "p/b"), seeing=("b", "c"))) == ("seen", "p/b")
    assert [str(r.model.ref) for r in model.requests] == ["p/c", "p/b"]


async def test_a_named_model_is_strict() -> None:
    made = eyes(ScriptedModel([fail("server", "down")]))
    with pytest.raises(ToolFailure, match="p/b could not look at it: down"):
        await ask(made, "p/b")
    with pytest.raises(ToolFailure, match="p/a does not see"):
        await ask(made, "p/a")
    with pytest.raises(ToolFailure):
        await ask(made, "p/nope")


async def test_without_one_that_sees() -> None:
    made = eyes(ScriptedModel([]), seeing=())
    assert not made.available() and eyes(ScriptedModel([])).available()
    with pytest.raises(ToolFailure, match="imageModel"):
        await ask(made)

"""What applies to a session, chosen on the page: written at once, read back, in step with what is typed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from palinurus.gateway.page import PAGE_FOLDER
from palinurus.testing.model import ScriptedModel, say
from web.conftest import Visit
from web.test_chat import texts, write

PICK = ".pick-thinking"


async def choices(page: Any, menu: str) -> list[str]:
    await page.click(f"{menu} button")
    found = await texts(page, f"{menu} [role=option] b")
    await page.keyboard.press("Escape")
    return found


async def choose(page: Any, menu: str, label: str) -> None:
    await page.click(f"{menu} button")
    await page.locator(f"{menu} [role=option]", has_text=re.compile(rf"^\s*{label}")).first.click()


async def shown(page: Any, menu: str, text: str) -> None:
    await page.wait_for_selector(f"{menu} .chip >> text={text}")


@pytest.mark.seed(128, 129, 130, 131, 132, 133, 135)
async def test_the_thinking_picker_mirrors_writes_and_clears_the_stored_level(page: Any, visit: Visit) -> None:
    model = ScriptedModel([say("fine")], repeat=True)
    sent: list[dict[str, Any]] = []

    def frame(data: Any) -> None:
        if isinstance(data, str):
            sent.append(json.loads(data))

    page.on("websocket", lambda socket: socket.on("framesent", frame))
    await visit(model)
    await shown(page, PICK, "Inherited: Medium")
    offered = await choices(page, PICK)
    assert offered == ["Inherited: Medium", "Off", "Minimal", "Low", "Medium", "High"]
    await choose(page, PICK, "High")
    await shown(page, PICK, "High")
    patches = [f["params"] for f in sent if f["method"] == "sessions.patch"]
    (patch,) = patches
    assert patch.pop("key").startswith("agent:main:dashboard:") and patch == {"thinkingLevel": "high"}
    assert not any(f["method"] == "chat.send" for f in sent)  # it did not wait for a message
    await page.reload()
    await shown(page, PICK, "High")
    await write(page, "hello")
    await page.wait_for_selector(".md >> text=fine")
    request = next(f["params"] for f in sent if f["method"] == "chat.send")
    assert "thinking" not in request and model.requests[-1].level == "high"
    await write(page, "/think:low")
    await shown(page, PICK, "Low")
    await choose(page, PICK, "Inherited")
    await shown(page, PICK, "Inherited: Medium")
    assert [f["params"] for f in sent if f["method"] == "sessions.patch"][-1]["thinkingLevel"] is None


@pytest.mark.seed(131, 132)
async def test_labels_come_from_the_provider_and_follow_the_model(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("fine")], repeat=True))
    await shown(page, PICK, "Inherited: Medium")
    await choose(page, ".pick-model", "GLM")
    await shown(page, ".pick-model", "GLM")
    assert await choices(page, PICK) == ["Inherited: Off", "Off", "On"]  # this vendor calls its one level so
    await choose(page, ".pick-model", "Plain")
    await shown(page, PICK, "Inherited: Off")
    assert await choices(page, PICK) == ["Inherited: Off", "Off"]
    await choose(page, ".pick-model", "Default")
    await shown(page, ".pick-model", "Thinker")


async def test_fast_verbose_and_reasoning_are_kept(page: Any, visit: Visit) -> None:
    await visit(ScriptedModel([say("fine")], repeat=True))
    await page.click(".more-picks")
    await shown(page, ".pick-verbose", "Verbose: Off")  # what applies is told, also where nobody chose
    for name, word, text in (("fast", "Auto", "Fast: Auto"), ("verbose", "Full", "Verbose: Full")):
        await page.wait_for_selector(f".pick-{name}")
        await choose(page, f".pick-{name}", word)
        await shown(page, f".pick-{name}", text)
    await choose(page, ".pick-fast", "Inherited: Off")
    await shown(page, ".pick-fast", "Fast: Off")
    await choose(page, ".pick-fast", "Auto")
    await choose(page, ".pick-reasoning", "Stream")
    await page.reload()
    await page.click(".more-picks")
    await shown(page, ".pick-reasoning", "Reasoning: Stream")
    await shown(page, ".pick-fast", "Fast: Auto")


@pytest.mark.seed(134)
def test_the_page_knows_no_provider() -> None:
    names = list(Path(PAGE_FOLDER).glob("*-*.js"))
    if not names:
        pytest.skip("the web page is not built: make web")
    # what draws diagrams is a library of its own, which says "adaptive" and knows nothing of models
    script = "".join(text for text in (name.read_text() for name in names) if "mermaid" not in text)
    assert len(script) > 100_000
    assert not re.search(
        r"anthropic|openai/|gpt-\d|claude|gemini|deepseek|ollama|moonshot|\bxhigh\b|adaptive", script, re.I
    )

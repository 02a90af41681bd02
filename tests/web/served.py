"""A program with its gateway and a browser that looks at it, for tests and for the screenshots."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from palinurus.app import App
from palinurus.clock import SystemClock
from palinurus.config.load import load_config
from palinurus.config.paths import PAGE_FOLDER
from palinurus.core.types.channel import Channel
from palinurus.core.types.model import Model, ModelEvent, ModelRequest
from palinurus.gateway.server import GatewayServer
from palinurus.store.factory import StoreOpener, open_store

TOKEN = "web-test-token"
PATIENCE = 60_000  # ms for anything to appear: a loaded machine is slow
# The first has no windows, bars or popups of its own: a third less processor time for the same pages.
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "chrome")
SOURCE = Path(__file__).parents[2] / "web" / "src"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",  # few processes: starting them is what takes long
    "--renderer-process-limit=1",
    # the last list counts; the popup of an address bar that nobody sees is a process of its own
    "--disable-features=IsolateOrigins,site-per-process,WebUIOmniboxPopup,WebUIOmniboxAimPopup,WebUIOmniboxFullPopup",
    "--disable-site-isolation-trials",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--num-raster-threads=1",
    "--disable-smooth-scrolling",
    "--disable-gpu-compositing",
    "--use-fake-device-for-media-stream",  # a microphone that beeps, and
    "--use-fake-ui-for-media-stream",  # a person who allows it
    "--autoplay-policy=no-user-gesture-required",
]
CONFIG: dict[str, Any] = {
    "models": {
        "providers": {
            "fake": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "k",
                "models": [
                    {"id": "thinker", "name": "Thinker", "reasoning": True, "input": ["text", "image"]},
                    {"id": "plain", "name": "Plain", "reasoning": False},
                ],
            },
            "zai": {
                "baseUrl": "http://127.0.0.1:9/v1",
                "apiKey": "k",
                "models": [{"id": "glm-4.7", "name": "GLM", "reasoning": True}],
            },
        }
    },
    "agents": {"defaults": {"model": {"primary": "fake/thinker"}}},
}


class Served(NamedTuple):
    """A running program and where its page is."""

    app: App
    gateway: GatewayServer
    url: str

    def at(self, path: str) -> str:
        """The address of a place on the page."""
        return self.url.replace("/#", f"/{path}#")


class Understudy:
    """The model of a gateway that several tests share: each brings its own. Implements `Model`."""

    def __init__(self) -> None:
        self.now: Model | None = None

    def stream(self, request: ModelRequest, stop: Any) -> AsyncIterator[ModelEvent]:
        assert self.now is not None, "no test has brought a model"
        return self.now.stream(request, stop)

    async def close(self) -> None:
        """Nothing to close."""


def chromium() -> str | None:
    """A browser of this machine, if there is one."""
    wanted = os.environ.get("CHROMIUM")
    return wanted or next((found for name in NAMES if (found := shutil.which(name))), None)


def built() -> bool:
    """Whether `make web` has run."""
    return os.path.isfile(os.path.join(PAGE_FOLDER, "index.html"))


def outdated() -> bool:
    """Whether that was before the last change: each test would wait a minute for what is not on the page."""
    made = os.stat(os.path.join(PAGE_FOLDER, "index.html")).st_mtime
    return any(path.stat().st_mtime > made for path in SOURCE.rglob("*") if path.is_file())


@asynccontextmanager
async def served(
    home: Path,
    model: Model | None,
    port: int = 0,
    *,
    chat: Channel | None = None,
    opener: StoreOpener = open_store,
    environ: Mapping[str, str] | None = None,
    **changes: Any,
) -> AsyncIterator[Served]:
    """The program with this model (None: the one of the config), its page at `url` (with the token in it)."""
    home.mkdir(exist_ok=True)
    (home / "palinurus.json").write_text(json.dumps({**CONFIG, **changes}))
    settings = load_config(str(home), {}).settings
    clock, known = SystemClock(), {"HOME": str(home.parent), **(environ or {})}
    app = App(settings, known, clock, model=model, channels={chat.name: chat} if chat else {})
    app.open_store = opener
    gateway = GatewayServer(app, clock, TOKEN)
    await app.start()
    found = await gateway.start("127.0.0.1", port)
    try:
        scheme = "https" if gateway.fingerprint else "http"
        yield Served(app, gateway, f"{scheme}://127.0.0.1:{found}{settings.gateway.page_base}/#token={TOKEN}")
    finally:
        await gateway.close()
        await app.stop("test", 0)
        await gateway.stop()


@asynccontextmanager
async def launched(program: str | None = None) -> AsyncIterator[Any]:
    """A browser; the one of this machine, unless it is named."""
    from playwright.async_api import async_playwright  # the dev extra; tests without a browser never come here

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program or chromium(),
            args=FLAGS,
        )
        yield browser
        await browser.close()


@asynccontextmanager
async def remembered(browser: Any, width: int = 1280, height: int = 860, **options: Any) -> AsyncIterator[Any]:
    """A browser that knows nothing yet; its pages share what it learns."""
    context = await browser.new_context(viewport={"width": width, "height": height}, **options)
    await context.grant_permissions(["clipboard-read", "clipboard-write"])
    yield context
    await context.close()


@asynccontextmanager
async def opened(browser: Any, width: int, height: int, **options: Any) -> AsyncIterator[Any]:
    """A page of a browser that knows nothing yet."""
    async with remembered(browser, width, height, **options) as context:
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        yield page

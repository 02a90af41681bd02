"""Files between the workspace and a browser: what is sent is copied into the browser's folder, what came is copied out.

The workspace is opened by `tools/files/handles` alone. What lies in the browser's folder was written by a program that
met the whole web: it is opened as one would a stranger's."""

from __future__ import annotations

import asyncio
import os
import secrets

from palinurus import beneath
from palinurus.core.policy import lasting
from palinurus.core.types.tool import ToolContext, ToolFailure
from palinurus.core.untrusted import clean_label
from palinurus.patterns import compile_late
from palinurus.tools.browser.live import BrowserDownload, LiveBrowser
from palinurus.tools.browser.process import BrowserFolders
from palinurus.tools.browser.tab import BrowserTab
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path

MAX_FILE = 100 << 20  # bytes
MAX_FILES = 20
FOLDER = "downloads"  # of the workspace, where a call names no place
_NAMED = compile_late(r"[\w-]{1,80}")
_ODD = compile_late(r"[^\w.() +-]+")


async def stage_uploads(ctx: ToolContext, folders: BrowserFolders, paths: list[str]) -> tuple[str, ...]:
    """Copies of files of the workspace where the browser can read them. Raises ToolFailure."""
    if not paths or len(paths) > MAX_FILES:
        raise ToolFailure(f"upload needs paths: from one to {MAX_FILES} files of the workspace")
    staged = []
    for path in paths:
        place = resolve_path(path, ctx, reading=True)
        data = await asyncio.to_thread(handles.read_whole, place, MAX_FILE + 1)
        if len(data) > MAX_FILE:
            raise ToolFailure(f"{path[:100]} is larger than {MAX_FILE >> 20} MB")
        staged.append(await asyncio.to_thread(_stage, folders, os.path.basename(place.real), data))
    return tuple(staged)


def _stage(folders: BrowserFolders, name: str, data: bytes) -> str:
    folder = os.path.join(folders.uploads, secrets.token_hex(8))
    os.mkdir(folder, 0o700)
    target = os.path.join(folder, name)
    with open(target, "xb") as file:  # our own: the browser only reads there
        file.write(data)
    for path in (target, folder):
        folders.give(path)
    return target


async def save_file(ctx: ToolContext, path: str, data: bytes) -> str:
    """Write what came from outside into the workspace, and remember where from. Raises ToolFailure."""
    place = resolve_path(path, ctx)
    name = os.path.relpath(place.real, os.path.realpath(ctx.workspace))
    if lasting.is_shaping_file(name) or lasting.is_steering_file(name):
        raise ToolFailure(f"{name[:100]} shapes what happens later; nothing from a page is written there")
    async with handles.lock_path(place):
        await asyncio.to_thread(handles.replace_file, place, data)
    await ctx.mark(place.real)
    return place.real


async def await_download(browser: LiveBrowser, tab: BrowserTab, seconds: float) -> BrowserDownload:
    """The next one that nobody has taken, complete. Raises ToolFailure."""

    def find(*states: str) -> BrowserDownload | None:
        return next((one for one in browser.downloads.values() if not one.taken and one.state in states), None)

    if not await tab.until(lambda: find("completed", "canceled") is not None or tab.prompt is not None, seconds):
        begun = find("inProgress")
        raise ToolFailure(
            f"{clean_label(begun.name)} was not complete after {seconds:g} seconds"
            if begun
            else f"no download began within {seconds:g} seconds"
        )
    found = find("completed", "canceled")
    if found is None:
        raise ToolFailure("a prompt stands before the page; answer it with action=dialog")
    found.taken = True
    if found.state == "canceled":
        raise ToolFailure(f"the download of {clean_label(found.name)} broke off")
    return found


async def save_download(ctx: ToolContext, browser: LiveBrowser, found: BrowserDownload, path: str) -> tuple[str, int]:
    """Where it is now, and how many bytes it has. Raises ToolFailure."""
    name = _ODD.sub("_", found.name).lstrip(".")[:120] or "download"
    data = await asyncio.to_thread(_take, browser.folder, found.id)
    return await save_file(ctx, path or f"{FOLDER}/{name}", data), len(data)


def _take(folder: str, name: str) -> bytes:
    """The bytes, and it is gone there. Raises ToolFailure."""
    if not _NAMED.fullmatch(name):
        raise ToolFailure("the download has an odd name")
    try:
        with beneath.open_file_beneath(folder, name) as file:
            data = file.read(MAX_FILE + 1)
        os.unlink(os.path.join(folder, name))
    except OSError as exc:
        raise ToolFailure(f"the download cannot be read: {exc.strerror or exc}") from None
    if len(data) > MAX_FILE:
        raise ToolFailure(f"the download is larger than {MAX_FILE >> 20} MB")
    return data

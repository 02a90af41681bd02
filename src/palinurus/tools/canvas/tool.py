"""The `canvas` tool at work: one row for each action, with OpenClaw's names."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from msgspec.structs import replace

from palinurus.core import canvas
from palinurus.core.policy.taint import join_taint, write_sources
from palinurus.core.signature import pick_one
from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import ToolContext, ToolFailure, ToolOutput, make_json_output
from palinurus.core.untrusted import clean_label, wrap_untrusted
from palinurus.tools.browser.offer import LocalPage
from palinurus.tools.canvas.board import CanvasBoard, CanvasState
from palinurus.tools.canvas.serve import HEADERS, PAGES, SURFACES, answer_canvas
from palinurus.tools.define import define_tool
from palinurus.tools.files import handles
from palinurus.tools.files.paths import resolve_path, shorten_path

EVAL, LONGEST = 10.0, 60.0  # seconds for a script
MAX_SCRIPT = 100_000  # characters
HOST = "https://canvas.invalid"  # where a picture's page believes to be: no name of the network
ELSEWHERE = "a canvas shows only what you put there; to look at a page of the web use the browser tool"
NOTHING = "nothing was presented in this conversation yet; use action=present"
_PAGES, _LINES = (".html", ".htm", ".svg"), (".jsonl", ".json")


class CanvasArguments(msgspec.Struct, frozen=True):
    action: Annotated[str, pick_one("", "present", "hide", "navigate", "eval", "snapshot", "a2ui_push", "a2ui_reset")]
    html: Annotated[str, "present: the page, whole"] = ""
    target: Annotated[str, "present: a file of the workspace (html, svg, jsonl); navigate: a page of canvas/"] = ""
    title: Annotated[str, "present: shown above it"] = ""
    javaScript: Annotated[str, "eval: an expression; what it gives (or its promise) comes back as JSON"] = ""
    jsonl: Annotated[str, "present, a2ui_push: A2UI v0.8 messages, one on each line"] = ""
    jsonlPath: Annotated[str, "The same in a file of the workspace"] = ""
    outputFormat: Annotated[str, pick_one("snapshot", "png", "jpeg")] = "png"
    width: Annotated[int, msgspec.Meta(description="snapshot: pixels", ge=200, le=2000)] = 800
    height: Annotated[int, msgspec.Meta(description="snapshot: pixels", ge=200, le=2000)] = 600
    delayMs: Annotated[int, msgspec.Meta(description="snapshot: wait so long first", ge=0, le=10_000)] = 0
    timeoutMs: Annotated[int, msgspec.Meta(description="eval: at most", ge=100, le=60_000)] = 10_000


class CanvasCall(msgspec.Struct, frozen=True):
    """One call."""

    board: CanvasBoard
    ctx: ToolContext
    args: CanvasArguments


class _Given(msgspec.Struct, frozen=True):
    """A text, where it stands in the canvas folder ("": nowhere), and where its words came from."""

    text: str
    path: str = ""
    taint: tuple[str, ...] = ()


async def _read(call: CanvasCall, name: str, most: int, kinds: tuple[str, ...]) -> _Given:
    """A file of the workspace. Raises ToolFailure."""
    if "://" in name or name.startswith("data:"):
        raise ToolFailure(ELSEWHERE)
    place = resolve_path(name, call.ctx, reading=True)
    if os.path.splitext(place.real)[1].lower() not in kinds:
        raise ToolFailure(f"{shorten_path(name)} is none of {', '.join(kinds)}")
    data = await asyncio.to_thread(handles.read_whole, place, most + 1)
    if len(data) > most:
        raise ToolFailure(f"{shorten_path(name)} is larger than {most:,} bytes")
    root, folder = call.board.find_root(call.ctx.workspace)
    below = os.path.relpath(place.real, os.path.join(root, folder))
    taint = call.ctx.file_taint(place.real)
    return _Given(data.decode("utf-8", "replace"), "" if below.startswith("..") else below, taint)


async def _read_lines(call: CanvasCall) -> tuple[tuple[canvas.A2uiMessage, ...], tuple[str, ...]]:
    """The A2UI messages of a call, and the taint of their file. Raises ToolFailure."""
    given = _Given(call.args.jsonl)
    if call.args.jsonlPath:
        given = await _read(call, call.args.jsonlPath, canvas.MAX_SURFACES, _LINES)
    found = canvas.parse_a2ui(given.text)
    if isinstance(found, str):
        raise ToolFailure(found)
    return found, given.taint


async def _present(call: CanvasCall) -> ToolOutput:
    args, taint = call.args, call.ctx.taint
    title = clean_label(args.title, 80)
    if args.jsonl or args.jsonlPath or args.target.lower().endswith(_LINES):
        if args.target:
            call = replace(call, args=replace(args, jsonlPath=args.jsonlPath or args.target))
        messages, more = await _read_lines(call)
        kept = canvas.add_messages((), messages)
        if isinstance(kept, str):
            raise ToolFailure(kept)
        change = {"surfaces": True, "messages": kept, "html": "", "path": "", "taint": join_taint(taint, more)}
    elif args.html or args.target:
        given = _Given(args.html) if args.html else await _read(call, args.target, canvas.MAX_HTML, _PAGES)
        if len(given.text) > canvas.MAX_HTML:
            raise ToolFailure(f"the page has more than {canvas.MAX_HTML:,} characters")
        change = {"html": given.text, "path": given.path, "surfaces": False, "messages": ()}
        change["taint"] = join_taint(taint, given.taint)
    else:
        before = await call.board.find(call.ctx.session)
        if before is None:
            raise ToolFailure("nothing to present: give html, target or jsonl")
        change, title = {}, title or before.title
    return await _show(call, {**change, "title": title})


async def _navigate(call: CanvasCall) -> ToolOutput:
    name = call.args.target.strip().lstrip("/")
    if "://" in name or name.startswith(("data:", "javascript:")):
        raise ToolFailure(ELSEWHERE)
    root, folder = call.board.find_root(call.ctx.workspace)
    name = f"{name}index.html" if not name or name.endswith("/") else name
    given = await _read(call, os.path.join(root, folder, name), canvas.MAX_HTML, _PAGES)
    if not given.path:
        raise ToolFailure(f"{shorten_path(name)} is not in the folder {folder or root}; use present for other files")
    taint = join_taint(call.ctx.taint, given.taint)
    return await _show(
        call, {"html": given.text, "path": given.path, "surfaces": False, "messages": (), "taint": taint}
    )


async def _show(call: CanvasCall, change: dict[str, Any]) -> ToolOutput:
    root, folder = call.board.find_root(call.ctx.workspace)
    change = {"root": root, "folder": folder, **change, "shown": True}
    state = await call.board.change(call.ctx.session, lambda old: replace(old, **change), "present")
    return _tell_shown(call, state)


def _tell_shown(call: CanvasCall, state: CanvasState) -> ToolOutput:
    open_now = call.board.offer.count_watchers(call.ctx.session)
    seen = "the person has this chat open" if open_now else "shown when the person opens this chat in the web page"
    return make_json_output({"ok": True, "revision": state.revision, "seen": seen})


async def _hide(call: CanvasCall) -> ToolOutput:
    def hide(old: CanvasState) -> CanvasState:
        return replace(old, shown=False, secret=secrets.token_hex(16))  # addresses that are out open nothing now

    state = await call.board.change(call.ctx.session, hide, "hide")
    return make_json_output({"ok": True, "revision": state.revision})


async def _push(call: CanvasCall) -> ToolOutput:
    messages, more = await _read_lines(call)
    before = await call.board.find(call.ctx.session)
    live = before is not None and before.surfaces and before.shown

    def push(old: CanvasState) -> CanvasState:
        kept = canvas.add_messages(old.messages if old.surfaces else (), messages)
        if isinstance(kept, str):
            raise ToolFailure(kept)
        taint = join_taint(join_taint(old.taint if old.surfaces else (), call.ctx.taint), more)
        return replace(old, surfaces=True, messages=kept, html="", path="", shown=True, taint=taint)

    told = {"messages": list(messages)} if live else {}
    return _tell_shown(call, await call.board.change(call.ctx.session, push, "a2ui" if live else "present", **told))


async def _reset(call: CanvasCall) -> ToolOutput:
    def reset(old: CanvasState) -> CanvasState:
        return replace(old, surfaces=True, messages=(), html="", path="", taint=(), secret=secrets.token_hex(16))

    state = await call.board.change(call.ctx.session, reset, "present")
    return make_json_output({"ok": True, "revision": state.revision})


async def _evaluate(call: CanvasCall) -> ToolOutput:
    code = call.args.javaScript
    if not code.strip() or len(code) > MAX_SCRIPT:
        raise ToolFailure(f"javaScript is missing, or longer than {MAX_SCRIPT} characters")
    state = await _find_shown(call)
    value, client = await call.board.evaluate(call.ctx.session, code, min(call.args.timeoutMs / 1000, LONGEST))
    text = "undefined" if value is None else str(value)
    source = write_sources((*state.taint, client))
    told = wrap_untrusted(text, "canvas", secrets.token_hex(16)) if source else text
    return ToolOutput((TextBlock(told),), {"ok": True}, source=source)


async def _photograph(call: CanvasCall) -> ToolOutput:
    state = await _find_shown(call)
    browser = call.board.offer.browser
    if browser.absence:
        raise ToolFailure(f"no picture: {browser.absence}")

    async def serve(path: str) -> tuple[str, bytes] | None:
        found = await answer_canvas(state, path.lstrip("/"), "")
        return (found.type, found.body) if found is not None else None

    page = LocalPage(
        f"{HOST}/{SURFACES if state.surfaces else PAGES + state.path}",
        serve,
        HEADERS,
        (call.args.width, call.args.height),
        jpeg=call.args.outputFormat == "jpeg",
        delay=call.args.delayMs / 1000,
    )
    data, mime = await browser.photograph(call.ctx, page)
    note = TextBlock("The page as it is drawn anew, without what the person has done on it since.")
    return ToolOutput((note, ImageBlock(data, mime)), {"ok": True, "mimeType": mime}, source=write_sources(state.taint))


async def _find_shown(call: CanvasCall) -> CanvasState:
    state = await call.board.find(call.ctx.session)
    if state is None or not state.shown:
        raise ToolFailure(NOTHING if state is None else "the canvas is hidden; use action=present")
    return state


_ACTIONS: dict[str, Callable[[CanvasCall], Awaitable[ToolOutput]]] = {
    "present": _present,
    "hide": _hide,
    "navigate": _navigate,
    "eval": _evaluate,
    "snapshot": _photograph,
    "a2ui_push": _push,
    "a2ui_reset": _reset,
}


@define_tool("canvas", sequential=True)
async def use_canvas(board: CanvasBoard, /, ctx: ToolContext, args: CanvasArguments) -> ToolOutput:
    work = _ACTIONS.get(args.action)
    if work is None:
        raise ToolFailure(f"there is no action {args.action[:40]!r}")
    return await work(CanvasCall(board, ctx, args))

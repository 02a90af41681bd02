"""Actions on a page: look at it, act on it, files in and out, dialogs. The table of them is in `driver`."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import msgspec

from palinurus.core.types.messages import ImageBlock, TextBlock
from palinurus.core.types.tool import ToolFailure, ToolOutput
from palinurus.core.untrusted import clean_label
from palinurus.tools.browser import files
from palinurus.tools.browser.acts import PageAct, perform_act
from palinurus.tools.browser.answers import LOAD, BrowserCall
from palinurus.tools.browser.gate import PageSending, require_leave
from palinurus.tools.browser.looking import print_page, take_picture, take_snapshot
from palinurus.tools.browser.snapshot import EFFICIENT_CHARS, MAX_CHARS, SnapshotOptions, describe_change
from palinurus.tools.browser.tab import PromptAnswer, PromptOpened, answer_prompt, give_files

_FRAME = 1500  # characters of the result besides the page
_COOKIES = 200


async def look_at_page(call: BrowserCall) -> ToolOutput:
    args, tab = call.args, call.tab
    if tab.prompt is not None:
        return call.page(tab, {})
    mode = call.text("mode")
    room = max(call.ctx.settings.result_chars - _FRAME, 1000)
    usual = EFFICIENT_CHARS if mode == "efficient" else MAX_CHARS
    options = SnapshotOptions(
        interactive=bool(args.get("interactive")) or mode == "efficient",
        compact=bool(args.get("compact")) or mode == "efficient",
        depth=int(args.get("depth") or 0),
        chars=min(int(args.get("maxChars") or usual), room),
        urls=bool(args.get("urls")),
    )
    old = tab.last
    try:
        shown = await tab.run_guarded(
            take_snapshot(tab, options, selector=call.text("selector"), frame=call.text("frame"))
        )
    except PromptOpened:
        return call.page(tab, {})
    if mode == "diff" and old is not None and tab.last is not None:
        change = describe_change(old.lines, tab.last.lines, options.chars)
        return call.page(tab, {"changed": change or "nothing has changed since the last snapshot"})
    stats = {"lines": len(shown.lines), "refs": shown.refs, **({"truncated": True} if shown.cut else {})}
    return call.page(tab, {"snapshot": shown.text or "(an empty page)"}, {"stats": stats})


async def photograph_page(call: BrowserCall) -> ToolOutput:
    tab = call.tab
    element = None
    if ref := call.text("ref"):
        element = tab.refs.find(ref)
        if element is None:
            raise ToolFailure(f"{ref[:20]} is not on the page as it is now; take a new snapshot")
    try:
        taken = await tab.run_guarded(
            take_picture(tab, element, full=bool(call.args.get("fullPage")), jpeg=call.text("type") == "jpeg")
        )
    except PromptOpened:
        return call.page(tab, {})
    told = call.page(tab, {}, {"ok": True, "mimeType": taken.mime})
    return msgspec.structs.replace(told, content=(*told.content, ImageBlock(taken.data, taken.mime)))


async def print_to_file(call: BrowserCall) -> ToolOutput:
    tab = call.tab
    try:
        data = await tab.run_guarded(print_page(tab))
    except PromptOpened:
        return call.page(tab, {})
    path = await files.save_file(call.ctx, call.text("path") or f"{files.FOLDER}/page.pdf", data)
    return call.page(tab, {}, {"ok": True, "path": path, "bytes": len(data)})


_LEVELS = {"error": ("error", "assert"), "warning": ("error", "assert", "warning"), "warn": ("error", "warning")}


async def read_console(call: BrowserCall) -> ToolOutput:
    tab = call.tab
    wanted = _LEVELS.get(call.text("level").lower())
    lines = [f"{one.level}: {one.text}" for one in tab.console if wanted is None or one.level in wanted]
    if call.args.get("clear"):
        tab.console.clear()
    return call.page(tab, {"console": "\n".join(lines[-100:]) or "(nothing)"}, {"lines": len(lines)})


async def list_cookies(call: BrowserCall) -> ToolOutput:
    """Without their values: whoever has those is logged in."""
    if call.browser.proxy is None:
        raise ToolFailure("the cookies of a person's own browser are not looked at")
    if call.args.get("clear"):
        await call.browser.link.send("Storage.clearCookies")
        return call.own({"ok": True, "cleared": True})
    domain = call.text("domain").lower().lstrip(".")
    found = (await call.browser.link.send("Storage.getCookies"))["cookies"]
    rows = [
        {name: clean_label(str(one.get(name, ""))) for name in ("name", "domain", "path")}
        | {"expires": int(one.get("expires", -1)), "httpOnly": bool(one.get("httpOnly"))}
        for one in found
        if not domain or one["domain"].lstrip(".").lower().endswith(domain)
    ]
    body = {"count": len(rows), "cookies": rows[:_COOKIES]}
    return ToolOutput((TextBlock(json.dumps(body, ensure_ascii=False)),), body, source="web")


async def act_on_page(call: BrowserCall) -> ToolOutput:
    tab = call.tab
    told = await perform_act(PageAct(call.ctx, call.browser, tab, call.args, scripts=call.pool.settings.evaluate))
    if tab.closed:
        return call.own({"ok": True, "closed": tab.id})
    said: dict[str, str] = {name: str(told.pop(name)) for name in ("result", "changed") if name in told}
    return call.page(tab, said, {"ok": True, **told})


async def upload_files(call: BrowserCall) -> ToolOutput:
    if call.browser.proxy is None:
        raise ToolFailure("files are not put into a person's own browser")
    tab, paths = call.tab, [str(one) for one in call.args.get("paths") or ()]
    named = frozenset(call.browser.given.get(call.ctx.session, ()))
    await require_leave(call.ctx, PageSending("upload files", tab.url, tuple(paths)), named)
    staged = await files.stage_uploads(call.ctx, call.pool.find_folders(call.key), paths)
    tab.typed += paths
    if ref := call.text("inputRef") or call.text("ref"):
        element = tab.refs.find(ref)
        if element is None:
            raise ToolFailure(f"{ref[:20]} is not on the page as it is now; take a new snapshot")
        await tab.send("DOM.setFileInputFiles", {"files": list(staged), "backendNodeId": element.node}, element.session)
    elif tab.chooser is not None:
        await give_files(tab, staged)
    else:
        tab.files = staged
        return call.own({"ok": True, "armed": len(staged), "next": "click what asks for the files"})
    await tab.settle(2)
    return call.page(tab, {}, {"ok": True, "files": len(staged)})


async def download_file(call: BrowserCall) -> ToolOutput:
    if call.text("ref"):
        await perform_act(
            PageAct(call.ctx, call.browser, call.tab, {"kind": "click", "ref": call.text("ref")}, scripts=False)
        )
    elif call.text("action") == "download":
        raise ToolFailure("download needs the ref of what is clicked; waitfordownload takes one that began already")
    if call.browser.proxy is None:
        raise ToolFailure("downloads of a person's own browser stay there")
    tab = call.tab
    found = await files.await_download(call.browser, tab, call.seconds(LOAD))
    path, size = await files.save_download(call.ctx, call.browser, found, call.text("path"))
    more = {"ok": True, "path": path, "bytes": size, "suggestedFilename": clean_label(found.name)}
    return call.page(tab, {}, more)


async def answer_dialog(call: BrowserCall) -> ToolOutput:
    tab = call.tab
    answer = PromptAnswer(call.args.get("accept") is not False, str(call.args.get("promptText") or ""))
    if answer.text:
        named = frozenset(call.browser.given.get(call.ctx.session, ()))
        asker = (tab.prompt.url if tab.prompt else "") or tab.url
        host = (urlsplit(asker).hostname or "").lower()
        if host not in named:
            sending = PageSending("answer a page that nobody named", asker, secrets=(answer.text,))
            await require_leave(call.ctx, sending, named | {host})
    if tab.prompt is None:
        tab.answer = answer
        return call.own({"ok": True, "armed": True, "next": "the next dialog of this tab is answered so"})
    await answer_prompt(tab, answer)
    await tab.settle(LOAD, 0.3)
    return call.page(tab, {}, {"ok": True})

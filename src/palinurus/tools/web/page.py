"""HTML -> markdown or text, and rows picked out of a page. The main program of a child of `reader`.

What a person would not see (scripts, hidden elements, comments) is left out: it is where orders to models hide.
Links are made absolute; only those to http and https stay links.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urljoin

from htmd import Options, convert_html
from selectolax.lexbor import LexborHTMLParser, LexborNode

from palinurus.patterns import compile_late
from palinurus.tools.web.serve import serve_jobs

DEEP = 256  # levels of nesting; the markdown writer recurses, deeper pages become text
_TABLES = 200  # looked at one by one
_SHARE = 0.4  # of the text of the page that its main part must hold
_DROP = (
    "script,style,noscript,template,svg,math,iframe,frame,object,embed,applet,canvas,audio,video,source,track,link,"
    "meta,base,dialog,select,input,button,textarea,[hidden],[aria-hidden=true],[role=dialog],[role=alertdialog],"
    "[type=hidden]"
)
_AROUND = "nav,footer,aside,[role=navigation],[role=banner],[role=contentinfo],[role=search],body>header"
_MAIN = "main,article,[role=main]"
_UNSEEN = compile_late(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:opacity|font-size)\s*:\s*0(?:\.0*)?(?:px|r?em|%|;|\s|$)"
    r"|(?:text-indent|left|top|right|margin-left)\s*:\s*-\d{3,}|clip(?:-path)?\s*:\s*(?:rect\(0|inset\((?:50|100)%)"
    r"|color\s*:\s*transparent",
    re.IGNORECASE,
)
_HIDING = compile_late(r"(?:^|\s)(?:sr-only|visually-hidden|screen-reader-text|visuallyhidden|d-none|hidden)(?:\s|$)")
_BLOCK = compile_late(
    r"</?(?:p|div|section|article|main|header|h[1-6]|ul|ol|li|dl|dt|dd|table|tr|pre|blockquote|figure|hr|br)\b", re.I
)
_SPACE = compile_late(r"[^\S\n]+")
_LINES = compile_late(r"\n(?:[^\S\n]*\n)+")
_BARE = compile_late(r"<pre\b[^<>]*>(?!\s*<code)((?:(?!</?pre\b).)*)</pre>", re.IGNORECASE | re.DOTALL)
_HEADER = compile_late(r"(</?)th\b", re.IGNORECASE)


def extract_page(told: dict[str, Any], data: bytes) -> dict[str, str]:
    """{title, text} of a page; `mode` markdown or text, `url` is where it came from, `whole`: with menus and all."""
    tree = LexborHTMLParser(data.decode("utf-8", "replace"))
    title = tree.css_first("title")
    heading = _SPACE.sub(" ", title.text(deep=True)).strip() if title is not None else ""
    root = tree.body or tree.root
    if root is None:
        return {"title": heading, "text": ""}
    address = str(told.get("url") or "")
    base = tree.css_first("base[href]")
    if base is not None:
        address = _joined(address, base.attributes.get("href") or "") or address
    part = root if told.get("whole") else _readable(root)
    depth = _tidy(part, address)
    plain = told.get("mode") == "text" or depth > DEEP
    return {"title": heading[:500], "text": _text(part) if plain else _markdown(part)}


def _readable(root: LexborNode) -> LexborNode:
    """The main part of the page if it holds a good share of its text, else the page without what stands around."""
    for node in root.css(_DROP):
        node.decompose()
    for node in root.css("[style],[class]"):
        style, names = node.attributes.get("style") or "", node.attributes.get("class") or ""
        if node.parent is not None and (_UNSEEN.search(style) or _HIDING.search(names)):
            node.decompose()
    whole = len(root.text(deep=True))
    best = max(root.css(_MAIN), key=lambda node: len(node.text(deep=True)), default=None)
    if best is not None and len(best.text(deep=True)) >= _SHARE * whole:
        return best
    for node in root.css(_AROUND):
        node.decompose()
    return root


def _tidy(part: LexborNode, address: str) -> int:
    """Links made absolute or undone, pictures named; how deep the nesting goes."""
    for node in part.css("a[href]"):
        target = _joined(address, node.attributes.get("href") or "")
        if target:
            node.attrs["href"] = target
        else:
            del node.attrs["href"]
    deepest, depth, node = 0, 0, part
    while True:  # by hand: the page decides how deep it is, and Python's stack is not that deep
        inner = node.child
        if inner is not None:
            depth, node = depth + 1, inner
            deepest = max(deepest, depth)
            continue
        while depth and node.next is None:
            depth, node = depth - 1, node.parent  # type: ignore[assignment]
        if not depth or node.next is None:
            return deepest
        node = node.next


def _joined(address: str, target: str) -> str:
    try:
        made = urljoin(address, target.strip())
    except ValueError:
        return ""
    return made if made.lower().startswith(("http://", "https://")) and len(made) <= 2000 else ""


def _markdown(part: LexborNode) -> str:
    options = Options()
    options.image_placeholder = "[image: {alt}]"
    options.drop_empty_alt_images = True
    html = _BARE.sub(r"<pre><code>\1</code></pre>", part.html or "")
    for table in part.css("table")[:_TABLES]:
        # The writer drops the values of rows that begin with a heading: there all cells become plain ones.
        if table.css_first("table table") is None and table.css_first("tr>th~td,tr>td~th") is not None:
            whole = table.html or ""
            html = html.replace(whole, _HEADER.sub(r"\1td", whole), 1)
    return _LINES.sub("\n\n", convert_html(html, options)).strip()


def _text(part: LexborNode) -> str:
    html = _BLOCK.sub(lambda found: f"\n{found[0]}", part.html or "")
    body = LexborHTMLParser(html).body
    found = _SPACE.sub(" ", body.text(deep=True) if body is not None else "")
    return _LINES.sub("\n\n", "\n".join(line.strip() for line in found.split("\n"))).strip()


def pick_rows(told: dict[str, Any], data: bytes) -> list[dict[str, str]]:
    """For each element that `rows` selects, the text or attribute (`css@name`) that each of `fields` selects in it."""
    tree = LexborHTMLParser(data.decode("utf-8", "replace"))
    found = []
    for row in tree.css(str(told["rows"]))[: int(told.get("limit") or 50)]:
        found.append({name: _field(row, str(where)) for name, where in told["fields"].items()})
    return found


def _field(row: LexborNode, where: str) -> str:
    css, _, attribute = where.partition("@")
    node = row.css_first(css) if css else row
    if node is None:
        return ""
    value = node.attributes.get(attribute) if attribute else node.text(deep=True)
    return _SPACE.sub(" ", (value or "").replace("\n", " ")).strip()


if __name__ == "__main__":
    serve_jobs({"extract": extract_page, "pick": pick_rows})

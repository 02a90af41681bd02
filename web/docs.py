"""Builds the site of the docs into the Python package: `make docs`, and when a wheel is made.

Markdown of `docs/` in the order of `docs/nav.txt`, one HTML file each, links between pages relative: the folder
can be put on any web server; the gateway serves it at `/docs`. Takes what `pal chat` needs too: markdown-it, Pygments.
"""

from __future__ import annotations

import html
import json
import posixpath
import re
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DOCS = ROOT / "docs"
OUT = ROOT / "src" / "palinurus" / "gateway" / "site"
MANY = 25  # pages of a section that is one line beside the others
NOT_PAGES = ("web/", "chat/")  # pictures


@dataclass
class Page:
    """One page: its path below docs/, title, first sentence, and (id, level, text) of its headings."""

    path: str
    text: str
    title: str = ""
    about: str = ""
    headings: list[tuple[str, int, str]] = field(default_factory=list)
    words: list[tuple[str, str]] = field(default_factory=list)  # id of a heading, what is said below it
    body: str = ""

    @property
    def name(self) -> str:
        """Where it stands on the site."""
        return self.path.removesuffix(".md") + ".html"


def read_nav() -> list[tuple[str, list[str]]]:
    """Sections and their pages. A section `Name: folder/*.md` holds what matches, sorted."""
    sections: list[tuple[str, list[str]]] = []
    for line in (DOCS / "nav.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            sections.append((line[2:], []))
        elif "*" in line:
            sections[-1][1].extend(sorted(page.relative_to(DOCS).as_posix() for page in DOCS.glob(line)))
        elif line:
            sections[-1][1].append(line)
    return sections


def make_slug(text: str, taken: set[str]) -> str:
    """The id of a heading, as GitHub makes it."""
    plain = re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-")
    slug, count = plain, 0
    while slug in taken:
        count += 1
        slug = f"{plain}-{count}"
    taken.add(slug)
    return slug


def render_code(code: str, language: str, _: str = "") -> str:
    """Coloured where the language is known."""
    try:
        lexer = get_lexer_by_name({"console": "console", "json5": "json"}.get(language, language or "text"))
    except ClassNotFound:
        lexer = get_lexer_by_name("text")
    return highlight(code, lexer, HtmlFormatter(nowrap=True))


def render_page(page: Page) -> None:
    """Fills in title, headings, words and body."""
    reader = MarkdownIt("commonmark", {"highlight": render_code}).enable(["table", "strikethrough"])
    tokens = reader.parse(page.text)
    taken: set[str] = set()
    at = ""
    for before, token in zip([None, *tokens], tokens, strict=False):
        if side := re.fullmatch(r"text-align:(\w+)", str(token.attrGet("style") or "")):
            token.attrs = {"class": side[1]}  # the gateway's policy allows no styles in the text
        if token.type != "inline":
            if token.type == "fence":
                page.words.append((at, token.content))
            continue
        plain = tell_plain(token)
        if before is not None and before.type == "heading_open":
            at = make_slug(plain, taken)
            before.attrSet("id", at)
            page.headings.append((at, int(before.tag[1]), plain))
            page.title = page.title or plain
        elif not page.about:
            page.about = plain
        page.words.append((at, plain))
        relink(page, token.children or [])
    page.body = reader.renderer.render(tokens, reader.options, {})


def tell_plain(token: Token) -> str:
    """What a line says, without its marks."""
    return "".join(" " if c.type == "softbreak" else c.content for c in token.children or [])


def relink(page: Page, tokens: list[Token]) -> None:
    """Pages of the site by their name here; files of the repository beyond docs/ are words without a link."""
    outside = False
    for token in tokens:
        if token.type == "link_close" and outside:
            token.tag, outside = "span", False
        address = str(token.attrGet("href") or "")
        if token.type != "link_open" or re.match(r"[a-z]+:", address) or address.startswith("#"):
            continue
        target, _, mark = address.partition("#")
        if posixpath.normpath(posixpath.join(posixpath.dirname(page.path), target)).startswith(".."):
            token.tag, token.attrs, outside = "span", {}, True
        elif target.endswith(".md"):
            token.attrSet("href", target.removesuffix(".md") + ".html" + (f"#{mark}" if mark else ""))


def draw_nav(sections: list[tuple[str, list[Page]]], here: Page | None) -> str:
    """The list at the side; the page that is open is marked."""
    up = "../" * (here.path.count("/") if here else 0)
    parts = []
    for title, pages in sections:
        if len(pages) > MANY and here not in pages:
            parts.append(f'<a href="{up}index.html#{make_slug(title, set())}">{html.escape(title)}</a>')
            continue
        rows = "".join(
            f'<li><a href="{up}{page.name}"{" aria-current=page" if page is here else ""}>'
            f"{html.escape(page.title)}</a></li>"
            for page in pages
        )
        parts.append(f"<details open><summary>{html.escape(title)}</summary><ul>{rows}</ul></details>")
    return "".join(parts)


def draw_frame(title: str, nav: str, body: str, up: str) -> str:
    """A whole file."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<title>{html.escape(title)} · Palinurus</title><link rel="stylesheet" href="{up}docs.css">'
        f'<script src="{up}docs.js" defer data-up="{up}"></script></head><body>'
        f'<a class="skip" href="#text">To the text</a><header><a href="{up}index.html">Palinurus</a>'
        '<search><input type="search" placeholder="Search" aria-label="Search the docs" disabled></search></header>'
        f'<nav aria-label="Pages">{nav}</nav><main id="text">{body}</main></body></html>\n'
    )


def build_site(out: Path = OUT) -> list[Page]:
    """Writes the site; returns its pages."""
    sections = [
        (title, [Page(path, (DOCS / path).read_text(encoding="utf-8")) for path in paths])
        for title, paths in read_nav()
    ]
    pages = [page for _, some in sections for page in some]
    for page in pages:
        render_page(page)
    shutil.rmtree(out, ignore_errors=True)
    for page in pages:
        up = "../" * page.path.count("/")
        inner = [f'<li><a href="#{at}">{html.escape(text)}</a></li>' for at, level, text in page.headings if level == 2]
        toc = f'<aside aria-label="On this page"><ul>{"".join(inner)}</ul></aside>' if len(inner) > 2 else ""
        place = out / page.name
        place.parent.mkdir(parents=True, exist_ok=True)
        text = draw_frame(page.title, draw_nav(sections, page), f"{toc}<article>{page.body}</article>", up)
        place.write_text(text, encoding="utf-8")
    first = "".join(
        f'<h2 id="{make_slug(title, set())}">{html.escape(title)}</h2><dl>'
        + "".join(
            f'<dt><a href="{page.name}">{html.escape(page.title)}</a></dt><dd>{html.escape(shorten(page.about))}</dd>'
            for page in some
        )
        + "</dl>"
        for title, some in sections
    )
    frame = draw_frame("Documentation", draw_nav(sections, None), f"<article><h1>Palinurus</h1>{first}</article>", "")
    (out / "index.html").write_text(frame, encoding="utf-8")
    (out / "search.json").write_text(json.dumps(make_index(pages), ensure_ascii=False), encoding="utf-8")
    light, dark = (colours(name) for name in ("default", "github-dark"))
    style = (HERE / "docs" / "docs.css").read_text(encoding="utf-8")
    night = f"@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n"
    (out / "docs.css").write_text(f"{style}{light}\n{night}", encoding="utf-8")
    shutil.copyfile(HERE / "docs" / "docs.js", out / "docs.js")
    return pages


def colours(style: str) -> str:
    """Of code, without the style's own paper."""
    rules = HtmlFormatter(style=style).get_style_defs("code").splitlines()
    return "\n".join(rule for rule in rules if rule.startswith("code ."))


def shorten(text: str) -> str:
    """The first sentence."""
    return re.split(r"(?<=[.!?]) |: ", text, maxsplit=1)[0].rstrip(":")[:200]


def make_index(pages: list[Page]) -> list[list[str]]:
    """What the search looks through: address, title of page and part, words."""
    rows = []
    for page in pages:
        titles = {at: text for at, _, text in page.headings}
        for at in dict.fromkeys(at for at, _ in page.words):
            said = " ".join(text for where, text in page.words if where == at)
            rows.append([f"{page.name}#{at}", page.title, titles.get(at, ""), re.sub(r"\s+", " ", said)[:4000]])
    return rows


def find_faults(out: Path = OUT) -> list[str]:
    """Dead links of a built site, pages that nothing leads to, pages of docs/ that are not in nav.txt."""
    files = {file.relative_to(out).as_posix(): file.read_text(encoding="utf-8") for file in out.rglob("*.html")}
    ids = {name: set(re.findall(r'\bid="([^"]+)"', text)) for name, text in files.items()}
    faults = []
    for name, text in files.items():
        for address in re.findall(r'\bhref="([^"]+)"', text):
            if re.match(r"[a-z]+:", address):
                continue
            target, _, mark = html.unescape(address).partition("#")
            where = posixpath.normpath(posixpath.join(posixpath.dirname(name), target)) if target else name
            if not (out / where).is_file():
                faults.append(f"{name}: {address} leads nowhere")
            elif mark and where in ids and mark not in ids[where]:
                faults.append(f"{name}: {address}: there is no such heading")
    listed = {path for _, paths in read_nav() for path in paths}
    for page in DOCS.rglob("*.md"):
        path = page.relative_to(DOCS).as_posix()
        if path not in listed and not path.startswith(NOT_PAGES):
            faults.append(f"docs/{path} is not in docs/nav.txt")
    return faults


if __name__ == "__main__":
    built = build_site()
    wrong = find_faults()
    print("\n".join(wrong) or f"{len(built)} pages in {OUT.relative_to(ROOT)}")
    sys.exit(bool(wrong))

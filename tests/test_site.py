"""The site of the docs: every page is in its list, nothing leads nowhere, and a fault would be told."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
SITE: dict[str, Any] = runpy.run_path(str(ROOT / "web" / "docs.py"))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site") / "docs"
    SITE["build_site"](out)
    return out


def test_every_page_is_listed_and_nothing_leads_nowhere(built: Path) -> None:
    assert SITE["find_faults"](built) == []
    assert len(list(built.rglob("*.html"))) > 90


def test_faults_are_found(built: Path) -> None:
    page = built / "zz.html"
    page.write_text('<a href="none.html">a</a><a href="install.html#nothing">b</a><a href="#here">c</a><i id="here">')
    try:
        assert SITE["find_faults"](built) == [
            "zz.html: none.html leads nowhere",
            "zz.html: install.html#nothing: there is no such heading",
        ]
    finally:
        page.unlink()


def test_pages_are_whole_and_run_nothing_of_their_own(built: Path) -> None:
    """Styles and scripts are files, so that the gateway's policy needs no exception; links stay inside."""
    for file in built.rglob("*.html"):
        text = file.read_text(encoding="utf-8")
        assert text.count("<script") == 1 and "style=" not in text.replace("style=&quot;", ""), file
        assert 'href="/' not in text and "<main" in text and "<h1" in text, file


def test_the_search_finds_parts_of_pages(built: Path) -> None:
    rows = json.loads((built / "search.json").read_text(encoding="utf-8"))
    found = [address for address, _, _, words in rows if "pal backup" in words]
    assert found and all((built / address.partition("#")[0]).is_file() for address, *_ in rows)


def test_headings_have_the_names_that_links_use() -> None:
    taken: set[str] = set()
    make = SITE["make_slug"]
    assert [make(text, taken) for text in ("Tools & `exec`", "A b", "A b")] == ["tools--exec", "a-b", "a-b-1"]

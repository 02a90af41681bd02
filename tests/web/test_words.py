"""The page's words: every text is translated into every language, with the same things put in."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from web.wordscan import SOURCE, list_keys, list_unspoken

LANGUAGES = ("de", "es", "fr", "hi", "ja", "pt", "zh")
FILES = sorted(path for path in SOURCE.rglob("*.ts") if "inside" not in path.parts and path.name != "sw.ts")


def read_table(language: str) -> dict[str, Any]:
    return dict(json.loads((SOURCE / "words" / f"{language}.json").read_text(encoding="utf-8")))


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_text_has_a_translation(language: str) -> None:
    table = read_table(language)
    keys = {key: counts for path in FILES for key, counts in list_keys(path.read_text(encoding="utf-8"))}
    assert len(keys) > 600
    missing = [key for key in keys if key not in table]
    assert not missing, f"words/{language}.json lacks {len(missing)}: {missing[:20]}"
    wrong = []
    for key, counts in keys.items():
        forms = list(table[key].values()) if counts else [table[key]]
        wanted = sorted(set(re.findall(r"\{\w\}", key)))
        wrong += [key for form in forms if sorted(set(re.findall(r"\{\w\}", form))) != wanted or not form.strip()]
        assert not counts or "other" in table[key], key
    assert not wrong, wrong


def test_no_words_are_written_past_the_tables() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{line} {text[:80]}"
        for path in FILES
        for line, text in list_unspoken(path.read_text(encoding="utf-8"))
    ]
    assert not found, "write tr`…` round these:\n" + "\n".join(found)


def test_the_scanner_sees_what_it_should() -> None:
    code = (
        'const a = html`<p title="Shown here">Bare ${x ? tr`Yes ${y}` : html`<b>inner</b>`}</p><code>pal run</code>`;'
    )
    assert [key for key, _ in list_keys(code)] == ["Yes {0}"]
    assert {text for _, text in list_unspoken(code)} == {"Shown here", "inner", "Bare \0"}
    assert list(list_keys('plural(n, "{n} file", "{n} files")')) == [("{n} files", True)]
    assert Path(SOURCE / "words.ts").is_file()


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_text_is_kept_that_nobody_shows(language: str) -> None:
    keys = {key for path in FILES for key, _ in list_keys(path.read_text(encoding="utf-8"))}
    assert [key for key in read_table(language) if key not in keys] == []

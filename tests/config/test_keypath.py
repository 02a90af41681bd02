import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.config.keypath import get_at, has_at, parse_path, settle_path, show_path

PARTS = st.lists(st.one_of(st.integers(0, 99_999), st.text(min_size=1, max_size=8)), min_size=1, max_size=6)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("gateway.port", ("gateway", "port")),
        ("agents.list[0].model", ("agents", "list", 0, "model")),
        ('agents.defaults.models["openai/gpt-5.4"].alias', ("agents", "defaults", "models", "openai/gpt-5.4", "alias")),
        ("a['b.c']", ("a", "b.c")),
        ('a["x\\"y"]', ("a", 'x"y')),
        ("agents.defaults.models.anthropic/claude", ("agents", "defaults", "models", "anthropic/claude")),
    ],
)
def test_parse(text: str, path: tuple[str | int, ...]) -> None:
    assert parse_path(text) == path


@pytest.mark.parametrize(
    "text", ["", "  ", ".a", "a.", "a..b", "a[", "a[x]", "a]", "a.[0]", "a" * 1001, ".".join("a" * 65)]
)
def test_what_is_no_path_is_said(text: str) -> None:
    with pytest.raises(ValueError, match="key path"):
        parse_path(text)


@given(PARTS.filter(lambda parts: isinstance(parts[0], str)))
def test_what_is_shown_can_be_parsed(parts: list[str | int]) -> None:
    path = tuple(p.strip() or "x" if isinstance(p, str) else p for p in parts)
    assert parse_path(show_path(path)) == path


@given(st.text(max_size=60))
def test_parse_raises_nothing_but_ValueError(text: str) -> None:
    try:
        parse_path(text)
    except ValueError:
        return


def test_get_and_has() -> None:
    value = {"a": [{"b": None}]}
    assert get_at(value, ("a", 0)) == {"b": None}
    assert has_at(value, ("a", 0, "b"))
    assert not has_at(value, ("a", 1))
    assert not has_at(value, ("a", "b"))
    assert not has_at(value, ("a", 0, "b", "c"))
    assert get_at(value, ("x",), 7) == 7


def test_a_number_is_an_index_where_there_is_a_list() -> None:
    value = {"list": [{"1": {}}]}
    assert settle_path(("list", "0", "1"), value) == ("list", 0, "1")

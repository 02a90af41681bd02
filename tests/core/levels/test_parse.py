"""The grammar of directives: every form, and what must never be taken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palinurus.core.levels.parse import ParsedDirectives, collect_inline_options, parse_directives
from palinurus.core.levels.spellings import DIRECTIVE_BY_NAME, DIRECTIVES
from palinurus.core.types.inbound import NO_INLINE, InlineDirectives


def only(text: str) -> tuple[str, str | None]:
    """The one directive of a directive-only message."""
    parsed = parse_directives(text)
    assert parsed.only and parsed.rest == "" and len(parsed.directives) == 1, parsed
    return parsed.directives[0].name, parsed.directives[0].raw


@pytest.mark.seed(1, 2, 3)
@pytest.mark.parametrize(
    ("text", "name", "raw"),
    [
        ("/t high", "think", "high"),
        ("/think:high", "think", "high"),
        ("/thinking high", "think", "high"),
        ("/think : high", "think", "high"),
        ("/THINK High", "think", "High"),
        ("  /think high \n", "think", "high"),
        ("/think high.", "think", "high"),
        ("/think", "think", None),
        ("/think:", "think", None),
        ("/think default", "think", "default"),
        ("/v full", "verbose", "full"),
        ("/verbose:", "verbose", None),
        ("/fast status", "fast", "status"),
        ("/reason stream", "reasoning", "stream"),
        ("/trace", "trace", None),
        ("/elev auto-approve", "elevated", "auto-approve"),
        ("/model", "model", None),
        ("/model gpt-5", "model", "gpt-5"),
        ("/model 3", "model", "3"),
        ("/status", "status", None),
        ("/status:", "status", None),
        ("/queue collect", "queue", "collect"),
        ("/queue default", "queue", "default"),
    ],
)
def test_forms(text: str, name: str, raw: str | None) -> None:
    assert only(text) == (name, raw)


@pytest.mark.seed(14)
@pytest.mark.parametrize(
    "phrase", ["x_high", "x-high", "extra high", "extra-high", "extra_high", "X high", "think hard", "ultrathink+"]
)
def test_the_longest_known_phrase_is_the_argument(phrase: str) -> None:
    assert only(f"/think {phrase}") == ("think", phrase)
    assert parse_directives(f"/think {phrase} and go on") == ParsedDirectives(
        parse_directives(f"/think {phrase}").directives, "and go on", False, ((0, len(phrase) + 8),)
    )


@pytest.mark.parametrize(("text", "raw"), [("/thinking big", "big"), ("/think 5", "5"), ("/fast häufig!", "häufig")])
def test_an_unknown_word_alone_is_an_argument_to_refuse(text: str, raw: str) -> None:
    (directive,) = parse_directives(text).directives
    assert parse_directives(text).only and directive.raw == raw and not directive.known


@pytest.mark.parametrize(
    "text",
    [
        "/think about it",
        "/thinkhigh",
        "a/think high",
        "see http://x/think high",
        "https://example.org/t high",
        "/think/high is a path",
        "cd /think/high && ls",
        "/usr/t low",
        "explain what /think does",
        "please /think",
        "/think default is nice",
        "/model concept cars are nice",
        "/fast food tonight?",
        "hey /status",
        "use `/think high` for that",
        "``/think high`` x",
        "```\n/think high\n```",
        "~~~\n/think high\nstill code",
        "text\n```sh\nrun /fast on now\n```\nmore",
        "/queue up for it",
        "/exec the plan",
        "/ſtatus",
        "",
        "/",
    ],
)
def test_text_stays_text(text: str) -> None:
    assert parse_directives(text) == ParsedDirectives((), text)


@pytest.mark.seed(4)
@pytest.mark.parametrize(
    ("text", "rest", "asked"),
    [
        ("hello /t low", "hello", {"thinking": "low"}),
        ("/t low hello", "hello", {"thinking": "low"}),
        ("say /t low this", "say this", {"thinking": "low"}),
        ("a  b /t low c  d", "a  b c  d", {"thinking": "low"}),
        ("one\n\n/think high\ntwo\n  three", "one\n\ntwo\n  three", {"thinking": "high"}),
        ("one\r\n/think high\r\ntwo", "one\r\ntwo", {"thinking": "high"}),
        ("one\n/think high", "one", {"thinking": "high"}),
        ("one /think high  \ntwo", "one\ntwo", {"thinking": "high"}),
        ("/think high\n  def f():\n    pass", "  def f():\n    pass", {"thinking": "high"}),
        ("/t low /fast on x", "x", {"thinking": "low", "fast": "on"}),
        ("x /t low /fast on", "x", {"thinking": "low", "fast": "on"}),
        ("x /t low y /fast auto z", "x y z", {"thinking": "low", "fast": "auto"}),
        ("/think about it /think high", "/think about it", {"thinking": "high"}),
        ("/think high /think low", "/think low", {"thinking": "high"}),
        ("`/think low` or /think high", "`/think low` or", {"thinking": "high"}),
        ("/model openai/gpt-5 write", "write", {"model": "openai/gpt-5"}),
        ("/verbose everything go", "go", {"verbose": "full"}),
        ("/reasoning live go", "go", {"reasoning": "stream"}),
        ("/trace on go", "go", {"trace": "on"}),
        ("/queue collect go", "go", {"queue": "collect"}),
        ("/queue default cap:5 go", "go", {}),
        ("/elevated full go", "go", {"elevated": "full"}),
    ],
)
def test_inline_leaves_the_rest_as_written(text: str, rest: str, asked: dict[str, str]) -> None:
    parsed = parse_directives(text)
    assert (parsed.rest, parsed.only, collect_inline_options(parsed)) == (rest, False, InlineDirectives(**asked))


def test_options() -> None:
    queue = parse_directives("/queue collect debounce:2s cap=5 drop:old").directives[0]
    assert (queue.raw, dict(queue.options)) == ("collect", {"debounce": "2s", "cap": "5", "drop": "old"})
    exec_ = parse_directives("/exec host=gateway ask=on-miss please run it")
    assert dict(exec_.directives[0].options) == {"host": "gateway", "ask": "on-miss"}
    assert exec_.rest == "please run it"


def test_several_in_one_message() -> None:
    parsed = parse_directives("/think high /verbose\n/fast zzz")
    assert parsed.only
    assert [(d.name, d.raw, d.known) for d in parsed.directives] == [
        ("think", "high", True),
        ("verbose", None, True),
        ("fast", "zzz", False),
    ]


def test_a_known_model_needs_no_slash() -> None:
    assert parse_directives("/model opus write", {"opus"}.__contains__).rest == "write"
    assert parse_directives("/model opus write").directives == ()
    assert collect_inline_options(parse_directives("/think high")) == NO_INLINE  # for the session, not for this message


# --- generated text ---------------------------------------------------------------------------------------------

_PIECES = st.sampled_from(
    [f"/{n}" for n in DIRECTIVE_BY_NAME]
    + sorted({w for f in DIRECTIVES for w in f.known})
    + [" ", " ", "  ", "\n", "\t", "\r\n", ":", "`", "```", "a", "hello", "http://x", "default", "status", "cap:3"]
)
_TEXT = st.lists(st.one_of(_PIECES, st.text(max_size=3)), max_size=14).map("".join)


@given(_TEXT)
def test_rest_and_cuts_make_the_original(text: str) -> None:
    parsed = parse_directives(text)
    at, kept, cut = 0, [], []
    for start, end in parsed.cuts:
        assert at <= start <= end
        kept.append(text[at:start])
        cut.append(text[start:end])
        at = end
    assert "".join([*kept, text[at:]]) == parsed.rest
    assert bool(parsed.directives) == bool(parsed.cuts)
    if not parsed.directives:
        assert parsed.rest == text and not parsed.only
    assert len({d.name for d in parsed.directives}) == len(parsed.directives)
    if not parsed.only:
        assert len(cut) == len(parsed.directives)
        # Each cut holds its directive and white space, nothing else.
        assert sorted(c.strip()[1:].lower().startswith(tuple(DIRECTIVE_BY_NAME)) for c in cut) == [True] * len(cut)


@given(st.text(), st.text())
def test_a_message_without_a_directive_is_untouched(left: str, right: str) -> None:
    text = f"{left.replace('/', '')}x/think high {right.replace('/', '')}"
    assert parse_directives(text) == ParsedDirectives((), text)


@given(st.text(alphabet=st.characters(exclude_characters="/`~"), min_size=1).filter(str.strip))
def test_the_words_around_an_inline_directive_survive(text: str) -> None:
    words = f"body {text} end"
    for message in (f"/think high {words}", f"{words} /think high", f"{words} /think high {words}"):
        parsed = parse_directives(message)
        assert parsed.rest.split() == message.replace("/think high", " ", 1).split()


@pytest.mark.parametrize(
    "piece",
    ["/think ", "/think high ", "`", "``a", "/queue cap:1 ", "/t :", "/model a/", "\n```", "x /v\t", "/exec host="],
)
def test_a_megabyte_of_anything_is_linear(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert len(parse_directives(text).rest) <= len(text)

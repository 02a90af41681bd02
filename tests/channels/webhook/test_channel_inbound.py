from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from palinurus.channels.intake import RemoteFile
from palinurus.channels.webhook.channel import parse_request
from palinurus.core.types.inbound import MessageQuote


def test_all_that_can_be_said() -> None:
    body = {
        "id": 17, "from": 4, "text": "hi", "to": "room", "name": "Ann", "thread": 9, "kind": "group", "title": "Den",
        "mentioned": True, "bot": True, "quote": {"id": "q", "sender": "s", "text": "t"}, "unknown": 1,
        "files": [{"name": "a.txt", "mime": "text/plain", "data": "YQ=="}],
    }  # fmt: skip
    found = parse_request(msgspec.json.encode(body), "work", 5)
    assert not isinstance(found, str) and found.files == (RemoteFile("a.txt", "text/plain", b"a"),)
    one = found.inbound
    assert (one.event, one.text, one.at, one.kind, one.title, one.mentioned) == ("17", "hi", 5, "group", "Den", True)
    assert (one.target.to, one.target.thread, one.target.account) == ("room", "9", "work")
    assert (one.sender.id, one.sender.name, one.sender.bot, one.sender.owner) == ("4", "Ann", True, False)
    assert one.quote == MessageQuote("q", "s", "t") and one.reply_to == "q"


@given(st.binary(max_size=200) | st.dictionaries(st.sampled_from(["id", "from", "text", "files", "kind"]),
       st.none() | st.integers() | st.text() | st.lists(st.text(), max_size=2)).map(msgspec.json.encode))  # fmt: skip
def test_nothing_that_is_posted_breaks_the_reader(body: bytes) -> None:
    found = parse_request(body, "default", 0)
    assert isinstance(found, str) or (found.inbound.event and found.inbound.sender.id)

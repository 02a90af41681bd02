"""What people say on Feishu, as it is told."""

from __future__ import annotations

import json
from typing import Any

from palinurus.channels.feishu.inbound import FeishuContext, find_message, parse_message

AROUND = FeishuContext("default", "https://open.example", "ou_me", "Ann", "Harbour")


def heard(content: Any, kind: str = "text", **more: Any) -> Any:
    said = {
        "message_id": "om_1", "chat_id": "oc_1", "chat_type": "group", "create_time": "1609073151345",
        "message_type": kind, "content": json.dumps(content), **more,
    }  # fmt: skip
    sender = {"sender_id": {"open_id": "ou_ann", "union_id": "on_ann"}, "sender_type": "user"}
    told = {"header": {"event_type": "im.message.receive_v1"}, "event": {"sender": sender, "message": said}}
    found = find_message(told)
    assert found is not None
    return parse_message(found, AROUND)


def mention(number: int, ident: str, name: str) -> dict[str, Any]:
    return {"key": f"@_user_{number}", "id": {"open_id": ident}, "name": name}


def test_mentions_are_names_and_ours_is_none() -> None:
    mentions = [mention(1, "ou_me", "Pal"), mention(10, "ou_bob", "Bob")]
    said = heard({"text": "@_user_1 ask @_user_10 or @_all"}, mentions=mentions).inbound
    assert (said.text, said.mentioned) == ("ask @Bob or @all", True)
    said = heard({"text": "@_user_10 hello"}, mentions=mentions[1:]).inbound
    assert (said.text, said.mentioned) == ("@Bob hello", False)
    assert heard({"text": "hi"}, chat_type="p2p").inbound.mentioned


def test_rich_text_is_read_with_its_pictures() -> None:
    rows = [
        [{"tag": "at", "user_id": "@_user_1"}, {"tag": "text", "text": " see "}, {"tag": "a", "text": "x", "href": "https://x.example"}],
        [{"tag": "img", "image_key": "img_1"}],
        [{"tag": "code_block", "language": "GO", "text": "x := 1"}],
    ]  # fmt: skip
    made = heard({"title": "Plan", "content": rows}, "post", mentions=[mention(1, "ou_me", "Pal")])
    assert made.inbound.text == "**Plan**\n see [x](https://x.example)\n\n```GO\nx := 1\n```"
    assert [file.source for file in made.files] == [
        "https://open.example/open-apis/im/v1/messages/om_1/resources/img_1?type=image"
    ]


def test_files_have_their_names_and_no_other_addresses() -> None:
    (file,) = heard({"file_key": "file_1", "file_name": "a.pdf"}, "file").files
    assert (file.name, file.source.rpartition("/")[2]) == ("a.pdf", "file_1?type=file")
    assert heard({"file_key": "file_1", "duration": 2000}, "audio").files[0].voice
    assert heard({"file_key": "../../../x?y"}, "file").files == ()
    assert (
        heard({"name": "Pier", "latitude": "1.5", "longitude": "2"}, "location").inbound.text
        == "[location: Pier (1.5, 2)]"
    )
    assert heard({}, "sticker").inbound.text == "[sticker]"


def test_topics_are_known_by_their_first_message() -> None:
    assert heard({"text": "a"}, thread_id="omt_1").inbound.target.thread == "om_1"
    assert heard({"text": "a"}, thread_id="omt_1", root_id="om_0").inbound.target.thread == "om_0"
    said = heard({"text": "a"}, root_id="om_0", parent_id="om_0").inbound  # an answer is no topic
    assert (said.target.thread, said.reply_to, said.at) == ("", "om_0", 1609073151345)


def test_what_is_no_message() -> None:
    for told in (
        {},
        {"header": {"event_type": "im.message.reaction.created_v1"}, "event": {"message": {"message_id": "om_1"}}},
    ):
        assert find_message(told) is None
    nobody = {"message": {"message_id": "om_1", "chat_id": "oc_1"}, "sender": {"sender_id": {}}}
    assert find_message({"header": {"event_type": "im.message.receive_v1"}, "event": nobody}) is None

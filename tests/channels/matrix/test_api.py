"""What a homeserver's errors mean, and the contents of events."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

from palinurus.channels.matrix import api
from palinurus.channels.matrix.api import MatrixApi, add_relation, build_path, explain_matrix_error
from palinurus.testing.speech import make_opus
from tools.web.kit import Site


@pytest.mark.parametrize(
    ("status", "code", "trouble"),
    [
        (429, "M_LIMIT_EXCEEDED", "limited"),
        (429, "", "limited"),
        (401, "M_UNKNOWN_TOKEN", "signed_out"),
        (403, "M_FORBIDDEN", "gone"),
        (404, "M_NOT_FOUND", "gone"),
        (413, "M_TOO_LARGE", "long"),
        (413, "", "long"),
        (400, "M_BAD_JSON", "markup"),
        (400, "M_UNKNOWN", "refused"),
        (502, "", "down"),
        (500, "M_UNKNOWN", "down"),
        (302, "", "refused"),
    ],
)
def test_every_error_has_its_trouble(status: int, code: str, trouble: str) -> None:
    made = explain_matrix_error(status, {"errcode": code, "error": "no"} if code else {}, {})
    assert made.trouble == trouble and made.reason
    assert (made.retry_after is not None) == (trouble == "limited")


@pytest.mark.parametrize(
    ("told", "headers", "seconds"),
    [
        ({"retry_after_ms": 1500}, {}, 1.5),
        ({"retry_after_ms": "x"}, {"Retry-After": "3"}, 3.0),
        ({}, {"Retry-After": "soon"}, 10.0),
        ({}, {}, 10.0),
    ],
)
def test_how_long_to_wait(told: dict[str, Any], headers: dict[str, str], seconds: float) -> None:
    assert explain_matrix_error(429, told, headers).retry_after == seconds


def test_parts_of_an_address_are_escaped_as_a_whole() -> None:
    assert build_path("rooms", "!a/b:e.x", "send") == "/_matrix/client/v3/rooms/%21a%2Fb%3Ae.x/send"


def test_contents() -> None:
    made = api.build_text("**b** @room", plain=False)
    assert made == {
        "msgtype": "m.text",
        "body": "b @room",
        "format": "org.matrix.custom.html",
        "formatted_body": "<strong>b</strong> @room",
        "m.mentions": {},
    }
    assert api.build_text("**b**", plain=True)["body"] == "**b**"
    assert api.build_text("x", plain=True, notice=True)["msgtype"] == "m.notice"
    assert "m.relates_to" not in add_relation({}, "", "")
    assert add_relation({}, "", "$1")["m.relates_to"] == {"m.in_reply_to": {"event_id": "$1"}}
    thread = add_relation({}, "$root", "")["m.relates_to"]
    assert thread["rel_type"] == "m.thread" and thread["is_falling_back"]
    assert not add_relation({}, "$root", "$1")["m.relates_to"]["is_falling_back"]
    edit = api.build_edit(api.build_text("new", plain=True), "$1")
    assert edit["body"] == "* new" and edit["m.new_content"]["body"] == "new"
    assert edit["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$1"}
    opus = make_opus(2.0, (5, 50, 25))
    voice = api.build_file("a.ogg", "audio/ogg", opus, "mxc://e.x/1", voice=True)
    assert voice["msgtype"] == "m.audio" and "org.matrix.msc3245.voice" in voice
    assert voice["org.matrix.msc1767.audio"] == {"duration": 2000, "waveform": [100, 1020, 508]}
    assert voice["info"] == {"mimetype": "audio/ogg", "size": len(opus), "duration": 2000}
    assert api.build_file("a.pdf", "application/pdf", b"pdf", "mxc://e.x/1", voice=True)["msgtype"] == "m.file"


async def test_calls_go_through_the_proxy_of_the_config() -> None:
    site = Site()
    await site.start()
    site.routes["/x"] = lambda request: web.json_response({"ok": True})
    calls = MatrixApi("http://nowhere.invalid", None, site.url(""))
    assert await calls.call("GET", "/x") == {"ok": True}
    await site.stop()
    assert [request.headers["Host"] for request in site.seen] == ["nowhere.invalid"]

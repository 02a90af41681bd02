from __future__ import annotations

from palinurus.channels.kit import ChannelFile
from palinurus.channels.signal.link import SignalRpcError, SignalUnreachable
from palinurus.channels.signal.outbound import (
    address_chat,
    build_message,
    build_reaction,
    explain_signal_error,
    read_send_result,
)
from palinurus.core.types.channel import ReactAction, SendFailure, SendReceipt
from palinurus.core.types.inbound import Target
from palinurus.core.types.outbound import Reply

ANN = "11111111-1111-4111-8111-111111111111"


def to(where: str) -> Target:
    return Target("signal", where)


def test_people_groups_and_names() -> None:
    assert address_chat(to(ANN)) == address_chat(to(f"uuid:{ANN}")) == {"recipient": [ANN]}
    assert address_chat(to("+15551234567")) == {"recipient": ["+15551234567"]}
    assert address_chat(to("username:ann.01")) == {"username": ["ann.01"]}
    assert address_chat(to("Z3JvdXA=")) == address_chat(to("group:Z3JvdXA=")) == {"groupId": "Z3JvdXA="}


def test_styles_quotes_and_files() -> None:
    params = build_message(Reply(to(ANN), "**a** b", "c", reply_to=f"{ANN}:7"), (), "+1", {f"{ANN}:7": "asked"})
    assert params == {
        "recipient": [ANN], "message": "a b", "textStyle": ["0:1:BOLD"],
        "quoteTimestamp": 7, "quoteAuthor": ANN, "quoteMessage": "asked",
    }  # fmt: skip
    ours = build_message(Reply(to(ANN), "**a**", "c", reply_to="9", plain=True), (), "+1", {})
    assert (ours["message"], ours["quoteAuthor"], ours.get("textStyle")) == ("**a**", "+1", None)
    (data,) = build_message(
        Reply(to(ANN), "", "c", voice=True), (ChannelFile("a;b,c.ogg", "audio/ogg", b"x"),), "+1", {}
    )["attachments"]
    assert data == "data:audio/ogg;filename=a_b_c.ogg;base64,eA=="
    assert "quoteTimestamp" not in build_message(Reply(to(ANN), "x", "c", reply_to="nonsense"), (), "+1", {})
    assert build_reaction(to(ANN), ReactAction("nonsense", "👀"), "+1") is None
    made = build_reaction(to(ANN), ReactAction(f"{ANN}:7", "👀"), "+1")
    assert made is not None and (made["targetAuthor"], made["targetTimestamp"]) == (ANN, 7)


def test_what_a_group_got_and_what_it_did_not() -> None:
    mixed = [{"type": "UNREGISTERED_FAILURE"}, {"type": "SUCCESS"}]
    assert read_send_result({"timestamp": 5, "results": mixed}) == SendReceipt("5")
    failed = read_send_result({"timestamp": 5, "results": [{"type": "RATE_LIMIT_FAILURE", "retryAfterSeconds": 9}]})
    assert isinstance(failed, SendFailure) and (failed.trouble, failed.retry_after, failed.everywhere) == (
        "limited",
        9,
        True,
    )


def test_every_error_has_its_word() -> None:
    table = [
        (SignalRpcError(-32602, "Specified account does not exist"), "signed_out"),
        (SignalRpcError(-32603, "Failed: (AuthorizationFailedException)"), "signed_out"),
        (SignalRpcError(-1, "Group not found: x"), "gone"), (SignalRpcError(-1, "User is not a group member"), "gone"),
        (SignalRpcError(-1, "The user +1 is not registered."), "gone"), (SignalRpcError(-4, "untrusted"), "refused"),
        (SignalRpcError(-3, "io"), "down"), (SignalRpcError(-5, "slow"), "limited"), 
        (SignalRpcError(-1, "Invalid style: X"), "markup"),
        (SignalRpcError(-32603, "x (AttachmentInvalidException)"), "media"), (SignalRpcError(-1, "no"), "refused"),
        (SignalUnreachable("x"), "down"), (SignalUnreachable("x", sent=True), "cut"),
    ]  # fmt: skip
    for error, word in table:
        assert explain_signal_error(error).trouble == word, error
    assert "signal-cli trust" in explain_signal_error(SignalRpcError(-4, "x")).reason

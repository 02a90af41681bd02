"""With the real message types of neonize."""

from __future__ import annotations

from typing import Any

from neonize.proto import Neonize_pb2 as wire
from neonize.proto.waE2E import WAWebProtobufsE2E_pb2 as e2e

from palinurus.channels.kit import ChannelFile
from palinurus.channels.whatsapp import convert
from palinurus.channels.whatsapp.port import WhatsAppPost, WhatsAppQuote


def message(body: Any, *, sender: str = "7@lid", alt: str = "49200@s.whatsapp.net", **changes: Any) -> Any:
    who, other = convert.make_jid(sender), convert.make_jid(alt)
    who.Device = 12
    source = wire.MessageSource(Chat=convert.make_jid("1@g.us"), Sender=who, SenderAlt=other, IsGroup=True)
    info = wire.MessageInfo(MessageSource=source, ID="ID1", Pushname="Ann", Timestamp=1_700_000_000)
    return wire.Message(Info=info, Message=body, **changes)


def test_who_and_what() -> None:
    found = convert.convert_message(message(e2e.Message(conversation="hello")))
    assert found is not None
    assert (found.chat, found.sender, found.also) == ("1@g.us", "49200@s.whatsapp.net", ("7@lid",))
    assert (found.id, found.text, found.name, found.at) == ("ID1", "hello", "Ann", 1_700_000_000_000)
    assert found.group and not found.mine and found.quoted is None and found.media is None


def test_a_lid_alone_is_taken_as_it_is_and_edits_are_left_out() -> None:
    source = wire.MessageSource(Chat=convert.make_jid("7@lid"), Sender=convert.make_jid("7@lid"))
    lone = wire.Message(Info=wire.MessageInfo(MessageSource=source, ID="I"), Message=e2e.Message(conversation="x"))
    found = convert.convert_message(lone)
    assert found is not None and (found.sender, found.also) == ("7@lid", ())
    assert convert.convert_message(message(e2e.Message(conversation="x"), IsEdit=True)) is None


def test_mentions_and_quotes() -> None:
    context = e2e.ContextInfo(stanzaID="ID0", participant="49100:3@s.whatsapp.net", mentionedJID=["900@lid"])
    context.quotedMessage.conversation = "before"
    body = e2e.Message(extendedTextMessage=e2e.ExtendedTextMessage(text="@900 yes", contextInfo=context))
    found = convert.convert_message(message(body))
    assert found is not None and found.mentions == ("900@lid",)
    assert found.quoted == WhatsAppQuote("ID0", "49100@s.whatsapp.net", "before")


def test_what_was_forwarded_is_known() -> None:
    for forwarded in (True, False):
        context = e2e.ContextInfo(isForwarded=forwarded)
        body = e2e.Message(extendedTextMessage=e2e.ExtendedTextMessage(text="/new", contextInfo=context))
        found = convert.convert_message(message(body))
        assert found is not None and found.forwarded is forwarded


def test_files_also_inside_of_wrappers() -> None:
    note = e2e.Message(audioMessage=e2e.AudioMessage(mimetype="audio/ogg; codecs=opus", fileLength=9, PTT=True))
    found = convert.convert_message(message(e2e.Message(ephemeralMessage=e2e.FutureProofMessage(message=note))))
    assert found is not None and found.media is not None
    assert found.media == ("audio", "audio/ogg", note, 9, True)
    paper = e2e.DocumentMessage(mimetype="application/pdf", fileLength=3, fileName="a.pdf", caption="look")
    found = convert.convert_message(message(e2e.Message(documentMessage=paper)))
    assert found is not None and found.text == "look" and found.media is not None and found.media.name == "a.pdf"


def test_places_contacts_and_what_has_no_words() -> None:
    place = e2e.LocationMessage(degreesLatitude=52.5, degreesLongitude=13.4, name="Home")
    found = convert.convert_message(message(e2e.Message(locationMessage=place)))
    assert found is not None and found.text == "[location Home: 52.500000, 13.400000]"
    silent = convert.convert_message(message(e2e.Message(reactionMessage=e2e.ReactionMessage(text="x"))))
    assert silent is not None and silent.text == "" and silent.media is None


def test_what_we_send() -> None:
    own = "49100@s.whatsapp.net"
    assert convert.build_text_message(WhatsAppPost("hi"), own) == e2e.Message(conversation="hi")
    answer = convert.build_text_message(
        WhatsAppPost("hi", quoted=WhatsAppQuote("ID0", "", "before")), own
    ).extendedTextMessage
    assert (answer.text, answer.contextInfo.stanzaID, answer.contextInfo.participant) == ("hi", "ID0", own)
    kept = wire.UploadResponse(
        url="u", DirectPath="/d", Handle="", MediaKey=b"k", FileEncSHA256=b"e", FileSHA256=b"s", FileLength=3
    )
    for mime, field in (
        ("image/png", "imageMessage"), ("video/mp4", "videoMessage"), ("audio/ogg", "audioMessage"),
        ("application/pdf", "documentMessage"), ("text/plain", "documentMessage"),
    ):  # fmt: skip
        made = convert.build_file_message(WhatsAppPost("look", voice=True), ChannelFile("f", mime, b"abc"), kept, own)
        part = getattr(made, field)
        assert made.HasField(field) and part.mediaKey == b"k" and part.fileLength == 3 and part.URL == "u"
        assert field == "audioMessage" or part.caption == "look"
    assert convert.build_file_message(
        WhatsAppPost("", voice=True), ChannelFile("f", "audio/ogg", b"abc"), kept, own
    ).audioMessage.PTT


def test_jids() -> None:
    assert convert.format_jid(convert.make_jid("+49 1".replace(" ", ""))) == "491@s.whatsapp.net"
    assert convert.format_jid(convert.make_jid("1-2@g.us")) == "1-2@g.us" and convert.format_jid(wire.JID()) == ""

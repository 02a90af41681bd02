"""Somebody with slixmpp: says things to the agent and waits for answers. Run with the Python of its own environment:
HOST PORT CA JID PASSWORD TO TEXT WANTED; TO with "rooms." in it is a room, WANTED "" waits for none.
Prints one line of JSON."""

from __future__ import annotations

import asyncio
import json
import sys

import slixmpp


async def main(host: str, port: str, authority: str, jid: str, password: str, to: str, text: str, wanted: str) -> dict:
    """What was seen: bodies, addresses of files, receipts."""
    client = slixmpp.ClientXMPP(jid, password)
    client.ca_certs = authority
    for name in ("xep_0045", "xep_0066", "xep_0184", "xep_0308"):
        client.register_plugin(name)
    seen: dict = {"texts": [], "files": [], "receipts": 0, "typing": 0}
    begun = asyncio.Event()
    room = "rooms." in to

    def take(message: slixmpp.Message) -> None:
        if message["body"] and message["from"].bare == to and message["from"].resource != jid.partition("@")[0]:
            address = message.xml.findtext("{jabber:x:oob}x/{jabber:x:oob}url")
            (seen["files"] if address else seen["texts"]).append(message["body"])

    client.add_event_handler("message", take)
    client.add_event_handler("receipt_received", lambda _: seen.update(receipts=seen["receipts"] + 1))
    client.add_event_handler("session_start", lambda _: begun.set())
    client.connect(host, int(port))
    await asyncio.wait_for(begun.wait(), 30)
    client.send_presence()
    if room:
        await client.plugin["xep_0045"].join_muc_wait(slixmpp.JID(to), jid.partition("@")[0], maxstanzas=0, timeout=20)
    message = client.make_message(mto=to, mbody=text, mtype="groupchat" if room else "chat")
    message["id"] = client.new_id()
    message["request_receipt"] = not room
    message.send()
    for _ in range(600 if wanted else 0):  # two minutes
        if any(wanted in one for one in (*seen["texts"], *seen["files"])):
            break
        await asyncio.sleep(0.2)
    await asyncio.sleep(0.5)
    await client.disconnect()
    return seen


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))

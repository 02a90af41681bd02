"""A session that ends by its age while somebody talks in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cli.tui.screen import seat
from gateway.whole import KEY
from palinurus.core.types.keys import SessionKey
from palinurus.sessions.record import SessionRecord
from palinurus.testing.model import ScriptedModel, say


async def test_a_session_that_the_night_ended_says_that_it_began_anew(tmp_path: Path) -> None:
    async with seat(tmp_path, ScriptedModel([say("one"), say("two"), say("three"), say("four")])) as here:
        await here.type("hi")
        await here.until(lambda: here.said("words") == ["one"] and not here.chat.remote.talk.run)
        assert not here.said("note")
        store = here.here.app.store
        row = await store.session(KEY)
        assert row is not None
        record = msgspec.structs.replace(SessionRecord.decode(row.data), sessionStartedAt=1)
        await store.save_session(record.row(SessionKey("main", "main")))
        await here.type("and now?")
        await here.until(lambda: here.said("words") == ["two"] and not here.chat.remote.talk.run)
        assert here.said("user") == ["and now?"]
        (note,) = here.said("note")
        assert "new conversation" in note and "session.reset" in note
        await here.type("/new")  # who asks for it needs no such word
        await here.until(lambda: not here.said("words"))
        await here.type("fine")
        await here.until(lambda: here.said("words") == ["three"] and not here.chat.remote.talk.run)
        assert not any("session.reset" in note for note in here.said("note"))
        await here.type("/new and again")
        await here.until(lambda: here.said("words") == ["four"] and not here.chat.remote.talk.run)
        assert not any("session.reset" in note for note in here.said("note"))

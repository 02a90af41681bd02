"""Two gateways of one fleet: a client of one sees what the other runs as that one's clients do, and reaches it."""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from flow.test_two_nodes import MAIN, end, held, nobody, two, until
from gateway.host import TOKEN
from gateway.whole import until_over
from palinurus.app import App
from palinurus.config.sections.approvals import APPROVALS_FILE, read_approvals
from palinurus.core.types.approval import ApprovalRequest, CommandRule
from palinurus.core.types.model import Model
from palinurus.gateway.client import DeviceIdentity, GatewayLink, make_identity
from palinurus.gateway.rpc import MethodError
from palinurus.gateway.runs import RunView
from palinurus.gateway.server import GatewayServer
from palinurus.testing.client import connect_to_gateway
from palinurus.testing.model import ScriptedModel, StreamGate, call_tools, hold_at, say

LONG = "a word and " * 3_000  # more than a notification holds


@pytest.fixture(autouse=True)
def _server(monkeypatch: pytest.MonkeyPatch, server: str) -> None:
    monkeypatch.setenv("FLEET", server)


class Pair:
    """A runs, B has clients, too."""

    def __init__(self, apps: tuple[App, App], servers: list[GatewayServer]) -> None:
        self.a, self.b = apps
        self._servers = servers

    @asynccontextmanager
    async def client(self, node: int) -> AsyncIterator[GatewayLink]:
        server, app = self._servers[node], (self.a, self.b)[node]
        async with connect_to_gateway(server.port, app.clock, token=TOKEN, caps=("tool-events",)) as link:
            await link.call("sessions.subscribe", {})
            yield link

    def shown(self) -> list[RunView]:
        """What B believes to run."""
        return self._servers[1].clients.context.broadcaster.running(MAIN)

    async def know(self, watched: bool = True) -> None:
        """A has heard whether somebody watches on B."""
        await until(lambda: bool(relay(self.a)._watchers) == watched)


def relay(app: App) -> Any:
    return app.dispatcher.peers.relay


@asynccontextmanager
async def gateways(home: Path, one: Model, other: Model | None = None) -> AsyncIterator[Pair]:
    async with two(home, one, other or nobody(), slow="fleet") as apps:
        apps[1].dispatcher._pump.serves = ()  # B takes messages in, A runs them
        servers = [GatewayServer(app, app.clock, TOKEN) for app in apps]
        for server in servers:
            await server.start("127.0.0.1", 0)
        try:
            yield Pair(apps, servers)
        finally:
            for server in servers:
                await server.stop()


async def send(link: GatewayLink, text: str, run: str) -> None:
    await link.call("chat.send", {"sessionKey": "main", "message": text, "idempotencyKey": run})


def shapes(frames: list[dict[str, Any]]) -> list[Any]:
    """What a client is shown, without what comes of pace: texts are joined, times and counts left out."""
    shown: list[Any] = []
    for frame in frames:
        event, payload = frame["event"], frame["payload"]
        if event == "agent" and payload["stream"] == "assistant":
            if shown[-1][0] == "said":
                shown[-1] = ("said", shown[-1][1] + payload["data"]["delta"])
            else:
                shown.append(("said", payload["data"]["delta"]))
        elif event == "agent":
            shown.append((payload["stream"], payload["data"].get("phase"), payload["data"].get("name")))
        elif event == "chat" and payload["state"] != "delta":
            shown.append((payload["state"], payload["message"]["content"][0]["text"]))
        elif event == "session.tool":
            shown.append((event, payload["data"]["phase"], payload["data"].get("result")))
    return shown


@pytest.mark.parametrize("text", ["the answer", LONG], ids=["short", "long"])
async def test_a_client_elsewhere_sees_the_frames_of_one_that_is_there(tmp_path: Path, text: str) -> None:
    model = ScriptedModel([call_tools(("ls", {}), text="let me see. "), say(text)], chunk=64)
    async with (
        gateways(tmp_path / "h", model) as pair,
        pair.client(0) as sender,
        pair.client(0) as here,
        pair.client(1) as there,
    ):
        await pair.know()
        await send(sender, "hello", "r1")
        frames = [await until_over(link, "r1") for link in (here, there)]
        assert shapes(frames[0]) == shapes(frames[1])
        told = [kind for kind, *_ in shapes(frames[1])]
        assert (
            told.count("said") == 2
            and told.count("session.tool") == 2
            and ("final", f"let me see. {text}")
            in [(kind, rest[0].replace("\n\n", "")) for kind, *rest in shapes(frames[1]) if kind == "final"]
        )


async def test_text_comes_while_it_is_said(tmp_path: Path) -> None:
    gate = StreamGate()
    async with gateways(tmp_path / "h", held(gate)) as pair, pair.client(1) as there:
        await pair.know()
        await send(there, "hello", "r1")
        await gate.wait_reached()
        async with asyncio.timeout(60):
            while (await there.event("chat"))["payload"]["state"] != "delta":
                pass
        row = await pair.b.store.session(MAIN)
        assert row is not None
        history = await there.call("chat.history", {"sessionKey": "main"})
        assert history["inFlightRun"] == {"runId": "r1", "text": "first"} and history["sessionInfo"]["hasActiveRun"]
        gate.open()
        await until_over(there, "r1")


async def test_who_comes_in_the_middle_gets_what_was_said_so_far(tmp_path: Path) -> None:
    gate = StreamGate()
    model = ScriptedModel([call_tools(("ls", {}), text="before. "), hold_at(say("during and after"), gate, 1)], chunk=6)
    async with gateways(tmp_path / "h", model) as pair, pair.client(0) as here:
        await send(here, "hello", "r1")
        await gate.wait_reached()
        async with pair.client(1) as there:
            await until(lambda: bool(pair.b.dispatcher.feeds.is_watched()))
            async with asyncio.timeout(60):
                while "inFlightRun" not in (seen := await there.call("chat.history", {"sessionKey": "main"})):
                    await asyncio.sleep(0.05)
            assert seen["inFlightRun"]["text"].replace("\n\n", "") == "before. during"
            gate.open()
            shown = [shapes(await until_over(link, "r1"))[-1] for link in (here, there)]
            assert shown[0] == shown[1] and shown[0][0] == "final"


async def test_what_was_lost_is_made_good(tmp_path: Path) -> None:
    """The line of the node that shows is cut in the middle: the text is whole again before the run ends."""
    gate, again, last = StreamGate(), StreamGate(), StreamGate()
    turn = hold_at(hold_at(hold_at(say("one two three four"), gate, 1), again, 3), last, 4)
    async with gateways(tmp_path / "h", ScriptedModel([turn], chunk=4)) as pair, pair.client(1) as there:
        await pair.know()
        await send(there, "hello", "r1")
        await gate.wait_reached()
        heard, relay(pair.b)._bus._heard = relay(pair.b)._bus._heard, lambda node, said: None  # nothing arrives
        gate.open()
        await again.wait_reached()
        await asyncio.sleep(0.3)
        relay(pair.b)._bus._heard = heard
        again.open()
        await last.wait_reached()
        seen: dict[str, Any] = {}
        async with asyncio.timeout(60):
            while seen.get("inFlightRun", {}).get("text") != "one two three fo":
                await asyncio.sleep(0.05)
                seen = await there.call("chat.history", {"sessionKey": "main"})
        last.open()
        assert ("final", "one two three four") in shapes(await until_over(there, "r1"))


async def test_without_any_notification_the_end_is_told_all_the_same(tmp_path: Path) -> None:
    async with gateways(tmp_path / "h", ScriptedModel([say("the answer")])) as pair, pair.client(1) as there:
        relay(pair.a)._bus.send = lambda said: None
        await send(there, "hello", "r1")
        assert ("final", "the answer") in shapes(await until_over(there, "r1"))


async def test_nothing_is_said_while_nobody_watches(tmp_path: Path) -> None:
    sent: list[bytes] = []
    async with gateways(tmp_path / "h", ScriptedModel([say("x"), say("y")])) as pair, pair.client(0) as here:
        bus = relay(pair.a)._bus
        real, bus.send = bus.send, lambda said: (sent.append(said), real(said))
        await send(here, "hello", "r1")
        await until_over(here, "r1")
        assert [one for one in sent if not one.startswith(b'["hello"')] == []
        async with pair.client(1):
            await pair.know()
        await pair.know(False)


async def test_a_run_that_another_node_takes_over_is_shown_from_its_beginning(tmp_path: Path) -> None:
    gate = StreamGate()
    a, b = held(gate), ScriptedModel([say("second try")])
    async with gateways(tmp_path / "h", a, b) as pair, pair.client(1) as there:
        await pair.know()
        await send(there, "hello", "r1")
        await gate.wait_reached()
        async with asyncio.timeout(60):
            while (await there.event("chat"))["payload"]["state"] != "delta":
                pass
        pair.b.dispatcher._pump.serves = None
        await pair.a.stop()  # it hands its message back
        frames = await until_over(there, "r1")
        assert ("final", "second try") in shapes(frames)
        deltas = [f["payload"] for f in frames if f["event"] == "chat" and f["payload"]["state"] == "delta"]
        assert deltas[0].get("replace") and deltas[0]["deltaText"].startswith("second")


async def test_a_chat_is_stopped_from_a_client_elsewhere(tmp_path: Path) -> None:
    gate = StreamGate()
    async with gateways(tmp_path / "h", held(gate)) as pair, pair.client(1) as there:
        await pair.know()
        await send(there, "hello", "r1")
        await gate.wait_reached()
        stopped = await there.call("chat.abort", {"sessionKey": "main", "runId": "r1"})
        assert stopped == {"ok": True, "aborted": True, "runIds": ["r1"]}
        frames = await until_over(there, "r1")
        assert shapes(frames)[-1][0] == "aborted"
        (row,) = [one for one in [await pair.b.store.find(name) for name in await keys(pair.b)] if one is not None]
        assert (await end(pair.b, row.id))[0] == "aborted"


async def test_a_stop_by_name_stops_no_other_message(tmp_path: Path) -> None:
    """B has not heard that the first is over, nor that the second has begun."""
    gate, after = StreamGate(), StreamGate()
    model = ScriptedModel([hold_at(say("first answer"), gate, 1), hold_at(say("second answer"), after, 1)], chunk=5)
    async with gateways(tmp_path / "h", model) as pair, pair.client(0) as here, pair.client(1) as there:
        await pair.know()
        await send(here, "hello", "r1")
        await gate.wait_reached()
        await until(lambda: [run.id for run in pair.shown()] == ["r1"])
        relay(pair.b)._bus._heard = lambda node, said: None
        relay(pair.b).wait_ended = asyncio.Event().wait  # its last event is on its way, for ever
        gate.open()
        await until_over(here, "r1")
        await send(here, "more", "r2")
        await after.wait_reached()
        assert [run.id for run in pair.shown()][:1] == ["r1"]
        stopped = await there.call("chat.abort", {"sessionKey": "main", "runId": "r1"})
        assert stopped == {"ok": True, "aborted": False, "runIds": []}
        after.open()
        assert ("final", "second answer") in shapes(await until_over(here, "r2"))


async def keys(app: App) -> list[str]:
    rows = await app.store._link.read(lambda conn: conn.fetch("SELECT dedupe FROM inbox"))  # type: ignore[attr-defined]
    return [str(row["dedupe"]) for row in rows]


async def test_a_file_sent_through_one_node_lies_where_its_message_runs(tmp_path: Path) -> None:
    model = ScriptedModel([say("seen")])
    async with gateways(tmp_path / "h", model) as pair, pair.client(1) as there:
        data = base64.b64encode(b"what is in it").decode()
        asked = {"sessionKey": "main", "message": "look", "idempotencyKey": "r1"}
        await there.call(
            "chat.send", {**asked, "attachments": [{"fileName": "note.txt", "mimeType": "text/plain", "content": data}]}
        )
        await until_over(there, "r1")
        (found,) = re.findall(r"\[file .+ at (\S+)\]", str(model.requests[0].messages[-1].text))  # type: ignore[union-attr]
        place = Path(found) if found.startswith("/") else tmp_path / "h/a/workspace" / found
        assert place.read_bytes() == b"what is in it" and "/h/b/" not in str(place)
        async with pair.client(0) as here:  # and is shown to clients of either
            (message,) = [
                m for m in (await here.call("chat.history", {"sessionKey": "main"}))["messages"] if m["role"] == "user"
            ]
            for link in (here, there):
                (listed,) = (await link.call("chat.files", {"item": message["item"]}))["files"]
                assert listed["name"] == "note.txt"
                got = await link.call("chat.file.get", {"item": message["item"], "index": 0})
                assert got["content"] == data


async def test_a_command_allowed_for_good_on_one_node_is_allowed_on_the_other(tmp_path: Path) -> None:
    async with gateways(tmp_path / "h", nobody()) as pair:
        rule, files = CommandRule("/bin/ls"), [tmp_path / "h" / name / APPROVALS_FILE for name in "ab"]
        ask = ApprovalRequest("exec", "main", MAIN, "r", "c", tool="exec", title="ls", command="ls", rules=(rule,),
                              allowed=("allow-once", "allow-always", "deny"), timeout=60.0)  # fmt: skip
        heard: list[str] = []
        pair.b.approvals.listen(lambda what, row: heard.append(what))
        waiting = asyncio.ensure_future(pair.a.approvals.ask(ask, lambda ident, text: None))
        await until(lambda: heard == ["requested"])
        (row,) = await pair.b.approvals.pending()
        assert (await pair.b.approvals.answer(row.id, "allow-always", "b")).problem == ""
        assert (await waiting).decision == "allow-always"
        for file in files:
            await until(lambda file=file: rule in read_approvals(str(file)).rules("main"))  # type: ignore[misc]


async def test_a_config_is_not_written_for_one_of_several(tmp_path: Path) -> None:
    async with gateways(tmp_path / "h", nobody()) as pair, pair.client(1) as there:
        got = await there.call("config.get", {})
        asked = {"raw": '{"session": {"mainKey": "home"}}', "baseHash": got["hash"]}
        for method, params in (
            ("config.set", asked),
            ("config.patch", asked),
            ("skills.update", {"skillKey": "x", "enabled": False}),
        ):
            with pytest.raises(MethodError, match=r"nothing was written: the fleet has other gateways \(a\), each"):
                await there.call(method, params)
        await pair.a.stop()
        await there.call("config.patch", asked)  # alone: it is the config of all


async def test_a_device_revoked_elsewhere_is_refused_at_once_though_no_news_came(tmp_path: Path) -> None:
    async with gateways(tmp_path / "h", nobody()) as pair:
        a, b = pair._servers
        identity = make_identity()
        async with connect_to_gateway(b.port, pair.b.clock, token=TOKEN, identity=identity) as link:
            (device,) = (await link.call("device.pair.list", {}))["paired"]
        await until(lambda: a.clients.pairing.device(device["deviceId"]) is not None)
        pair.b.store._link._listeners.clear()  # type: ignore[attr-defined]  # B hears nothing any more
        await a.clients.pairing.remove(device["deviceId"], device["scopes"])
        with pytest.raises(MethodError):
            async with connect_to_gateway(b.port, pair.b.clock, token=TOKEN, identity=identity):
                pass


async def test_a_new_device_may_come_to_several_nodes_at_once(tmp_path: Path) -> None:
    """A client with a line to each: one of them makes the device known, the other takes it as it is."""
    async with gateways(tmp_path / "h", nobody()) as pair:
        for _ in range(5):
            identity = make_identity()

            async def enter(node: int, identity: DeviceIdentity = identity) -> str:
                async with connect_to_gateway(
                    pair._servers[node].port, pair.a.clock, token=TOKEN, identity=identity
                ) as link:
                    return str((await link.call("device.pair.list", {}))["paired"][0]["deviceId"])

            ours = [await done for done in asyncio.as_completed([enter(0), enter(1), enter(0)])]
            assert len(set(ours)) == 1

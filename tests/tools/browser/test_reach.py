"""Where a browser does not get, whoever asks: the model, a page, a frame, a worker, a redirect, a name that changes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tools.browser.kit import BrowserKit, read
from tools.browser.player import needs_chromium
from tools.browser.site import TaskSite, page
from tools.web.kit import Canary, Names

pytestmark = needs_chromium

ATTACK = """<script>
const out = [];
const later = (name, work) => Promise.resolve().then(work).then(v => out.push([name, String(v)]))
  .catch(e => out.push([name, 'failed']));
const make = (tag, set) => new Promise((yes, no) => {
  const one = document.createElement(tag); Object.assign(one, set); one.onload = () => yes('loaded'); one.onerror = no;
  document.body.append(one); setTimeout(no, 3000) });
async function attack(urls, port) {
  const all = [];
  for (const url of urls) {
    all.push(later('fetch ' + url, () => fetch(url, {mode: 'no-cors'}).then(r => r.status + r.type)));
    all.push(later('post ' + url, () => fetch(url, {method: 'POST', mode: 'no-cors', body: 'x'}).then(r => r.type)));
    all.push(later('image ' + url, () => make('img', {src: url})));
    all.push(later('script ' + url, () => make('script', {src: url})));
    all.push(later('beacon ' + url, () => navigator.sendBeacon(url, 'x') && new Promise(y => setTimeout(y, 200))));
    all.push(later('socket ' + url, () => new Promise((yes, no) => {
      const s = new WebSocket(url.replace('http', 'ws')); s.onopen = () => yes('open'); s.onerror = no })));
    all.push(later('events ' + url, () => new Promise((yes, no) => {
      const s = new EventSource(url); s.onopen = () => yes('open'); s.onerror = () => { s.close(); no() } })));
    const f = document.createElement('iframe'); f.src = url; document.body.append(f);
  }
  all.push(later('rtc', async () => {
    const peer = new RTCPeerConnection({iceServers: [{urls: 'stun:127.0.0.1:' + port}, {urls:
      'turn:127.0.0.1:' + port + '?transport=tcp', username: 'a', credential: 'b'}]});
    peer.createDataChannel('x'); await peer.setLocalDescription(await peer.createOffer());
    await new Promise(y => setTimeout(y, 1500)); return 'tried' }));
  all.push(later('transport', () => new WebTransport('https://127.0.0.1:' + port).ready));
  all.push(later('worker', async () => {
    const reg = await navigator.serviceWorker.register('/worker.js'); await navigator.serviceWorker.ready;
    return await new Promise(yes => { const c = new MessageChannel(); c.port1.onmessage = e => yes(e.data);
      reg.active.postMessage(urls, [c.port2]) }) }));
  for (const url of ['file:///etc/passwd', 'chrome://version']) {
    all.push(later('window ' + url, () => { const w = open(url); return w ? 'opened' : Promise.reject() }));
  }
  await Promise.all(all);
  return out;
}
</script>"""
WORKER = """onactivate = e => e.waitUntil(clients.claim());
onmessage = async e => { let n = 0; for (const u of e.data) try { await fetch(u, {mode: 'no-cors'}); n++ } catch (x) { }
  e.ports[0].postMessage('reached ' + n) }"""


class UdpCanary(asyncio.DatagramProtocol):
    hits = 0

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self.hits += 1


@pytest.fixture
async def canary() -> AsyncIterator[Canary]:
    made = Canary()
    await made.start()
    loop = asyncio.get_running_loop()
    udp, heard = await loop.create_datagram_endpoint(UdpCanary, local_addr=("0.0.0.0", made.port))
    yield made
    udp.close()
    await made.stop()
    assert made.hits == 0 and heard.hits == 0


def list_forms(port: int) -> list[str]:
    hosts = (
        "127.0.0.1", "localhost", "[::1]", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0.0.0.0",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "inner.test",
    )  # fmt: skip
    return [f"http://{host}:{port}/x" for host in hosts] + ["http://169.254.169.254/latest/", "http://10.0.0.1/"]


async def test_no_address_of_the_inside_is_opened_by_the_model(
    tmp_path: Path, ctx: Any, site: TaskSite, canary: Canary
) -> None:
    kit = BrowserKit(tmp_path / "home", ctx, site.entries[:1], Names(inner_test=[["127.0.0.1"]]))
    try:
        odd = ["file:///etc/passwd", "view-source:http://127.0.0.1/", "chrome://version", "data:text/html,x",
               "javascript:alert(1)", "blob:http://x/y", "ws://127.0.0.1/"]  # fmt: skip
        for url in (*list_forms(canary.port), *odd):
            result = await kit.do("open", targetUrl=url)
            assert result.isError, url
        assert (
            f'allowedHosts: ["127.0.0.1:{canary.port}"]'
            in (await kit.do("open", targetUrl=list_forms(canary.port)[0])).text
        )
        good = await kit.do("open", targetUrl=site.url("/table"))
        assert not good.isError and read(good)["title"] == "Task"
    finally:
        await kit.offer.close()


async def test_nothing_on_a_page_gets_inside(tmp_path: Path, ctx: Any, site: TaskSite, canary: Canary) -> None:
    site.extra["/attack"] = page(ATTACK)
    site.extra["/worker.js"] = lambda _, request: web.Response(text=WORKER, content_type="text/javascript")
    site.extra["/hop"] = lambda _, request: web.Response(
        status=307, headers={"Location": f"http://127.0.0.1:{canary.port}/hop", "Access-Control-Allow-Origin": "*"}
    )
    kit = BrowserKit(tmp_path / "home", ctx, site.entries[:1], Names(inner_test=[["127.0.0.1"]]))
    try:
        await kit.do("open", targetUrl=site.url("/attack"))
        urls = [*list_forms(canary.port)[:9], *list_forms(canary.port)[-3:], site.url("/hop")]
        told = await kit.act("evaluate", fn=f"() => attack({json.dumps(urls)}, {canary.port})")
        assert not told.isError, told.text
        body = read(told)["result"]
        rows = json.loads(body[body.index("[[") : body.rindex("]]") + 2])
        answered = dict(rows)
        assert answered["rtc"] == "tried"
        # a refused plain request is answered by our own proxy, with 403: nothing of the other side is in it
        assert {name for name in answered if name.startswith("socket")} and all(
            value == "failed" for name, value in answered.items() if name.startswith(("socket", "events", "image"))
        )
        assert site.seen.count("/hop") > 0, "the page's own origin is reached: the attack ran"
        status = read(await kit.do("status"))
        assert status["refused"]
        tabs = read(await kit.do("tabs"))["tabs"]
        assert not any(tab["url"].startswith(("file:", "chrome:")) for tab in tabs)
    finally:
        await kit.offer.close()


async def test_a_name_that_leads_elsewhere_the_second_time_is_followed_no_further(
    tmp_path: Path, ctx: Any, site: TaskSite, canary: Canary
) -> None:
    names = Names(moving_test=[["127.0.0.1"], ["127.0.0.1"], ["169.254.169.254"]])
    kit = BrowserKit(tmp_path / "home", ctx, [f"moving.test:{site.port}"], names)
    try:
        first = await kit.do("open", targetUrl=f"http://moving.test:{site.port}/table")
        assert not first.isError
        await kit.act("evaluate", fn="() => fetch('/again', {cache: 'no-store'}).then(r => r.status)")
        again = await kit.do("navigate", targetUrl=f"http://moving.test:{site.port}/again")
        assert again.isError and "metadata" in again.text
        assert "/again" not in site.seen
    finally:
        await kit.offer.close()

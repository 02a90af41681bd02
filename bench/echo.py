"""A bare aiohttp server that answers what it is sent: what a request costs when nothing is done with it.

python bench/echo.py    prints its address
"""

from __future__ import annotations

import asyncio

from aiohttp import web


async def echo(request: web.BaseRequest) -> web.Response:
    return web.Response(body=await request.read(), content_type="application/json")


async def serve() -> None:
    runner = web.ServerRunner(web.Server(echo))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())

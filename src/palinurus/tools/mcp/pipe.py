"""A server that is a program of this machine: started inside its cell, spoken to through its pipes, ended with us.

Lines of JSON in both directions, each bounded. Of what it prints for people the end is kept. Knows the SDK's streams.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import anyio
import mcp_types
from mcp.shared.message import SessionMessage

from palinurus.tools.commands import descendants
from palinurus.tools.mcp.port import McpWatch
from palinurus.tools.sandbox.children import KeptChild
from palinurus.tools.sandbox.launch import ChildLaunch, StartedChild, start_child

MAX_LINE = 16 * 1024 * 1024
GRACE = 2.0  # seconds after its input is closed, and again after it was asked to end

Streams: TypeAlias = tuple[Any, Any]


@asynccontextmanager
async def open_pipe(launch: ChildLaunch, mark: str, watch: McpWatch) -> AsyncIterator[Streams]:
    """The SDK's two streams. The program and all it started are gone at the end. Raises OSError."""
    process = await _started(launch)
    since = descendants.read_start_time(process.pid)
    tasks: list[asyncio.Task[None]] = []
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    try:
        reader, writer, errors = await _pipes(process)
        tasks = [
            asyncio.create_task(_in(reader, incoming, watch)),
            asyncio.create_task(_out(outgoing, writer)),
            asyncio.create_task(_noise(errors, watch)),
        ]
        yield read, write
        writer.close()
    finally:
        await _ended(process, mark, since)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for stream in (incoming, read, write, outgoing):
            stream.close()


async def _started(launch: ChildLaunch) -> StartedChild:
    """In a thread: making a cell takes a while. Who gives up waiting leaves no process behind."""
    pipe = subprocess.PIPE
    starting = asyncio.ensure_future(asyncio.to_thread(start_child, launch, stdin=pipe, stdout=pipe, stderr=pipe))
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_kill_unwanted)
        raise


def _kill_unwanted(starting: asyncio.Future[StartedChild]) -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result().kill()


async def _pipes(
    process: StartedChild,
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.StreamReader]:
    loop = asyncio.get_running_loop()
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    reader, errors = asyncio.StreamReader(MAX_LINE), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(errors), process.stderr)
    protocol = asyncio.StreamReaderProtocol(asyncio.StreamReader())
    transport, _ = await loop.connect_write_pipe(lambda: protocol, process.stdin)
    return reader, asyncio.StreamWriter(transport, protocol, None, loop), errors


async def _in(reader: asyncio.StreamReader, incoming: Any, watch: McpWatch) -> None:
    """Until the program closes its output or sends a line beyond all measure."""
    heard = False
    try:
        while line := await reader.readline():
            try:
                message = mcp_types.jsonrpc_message_adapter.validate_json(line, by_name=False)
            except ValueError:
                watch.add_noise(line[:400].decode("utf-8", "replace"))  # some print for people here, too
                watch.why = watch.why if heard else "what it prints is not MCP"
                continue
            heard, watch.why = True, ""
            await incoming.send(SessionMessage(message))
    except ValueError:
        watch.why = watch.end = f"it sent a line of more than {MAX_LINE >> 20} MB"
    except (anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
        pass
    finally:
        incoming.close()
        watch.gone()


async def _out(outgoing: Any, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, anyio.ClosedResourceError):
        async for one in outgoing:
            writer.write(one.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
            await writer.drain()


async def _noise(errors: asyncio.StreamReader, watch: McpWatch) -> None:
    with contextlib.suppress(OSError):
        while chunk := await errors.read(4096):
            watch.add_noise(chunk.decode("utf-8", "replace"))


async def _ended(process: StartedChild, mark: str, since: int) -> None:
    """Its input closed, then asked, then made to; also what it started."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    await _waited(process)
    if isinstance(process, KeptChild):  # which has ended when all of it has, and whose keeper lives on for others
        for ask in (process.terminate, process.kill):
            if process.poll() is None:
                ask()
                await _waited(process)
        process.close()
        return
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = await asyncio.to_thread(descendants.find_descendants, process.pid, mark, since)
        if not left:
            break
        descendants.signal_family(process.pid, left, number)
        await _waited(process)
        await asyncio.to_thread(descendants.wait_ended, left, GRACE)
    if process.poll() is None:
        process.kill()
        await _waited(process)


async def _waited(process: StartedChild) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        await asyncio.to_thread(process.wait, GRACE)

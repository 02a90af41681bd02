"""A program of the owner's that turns speech into words, words into speech, or one kind of sound into another: started
without a shell, with the environment of commands, ended with all it started when it takes too long or says too much.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping

import msgspec

from palinurus.core.types.model import ModelFailure
from palinurus.providers.errors import clip_message

OUTPUT = 50 << 20  # bytes a program may say
COMPLAINT = 1 << 20
_TOLD = 300  # characters of what it complains about
_PIECE = 1 << 16


class ProgramCall(msgspec.Struct, frozen=True):
    """What is started. `data` is its standard input."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    timeout: float
    data: bytes = b""


async def run_program(call: ProgramCall) -> bytes | ModelFailure:
    """What it printed, or why there is nothing."""
    name = os.path.basename(call.argv[0])
    try:
        process = await asyncio.create_subprocess_exec(
            *call.argv,
            stdin=asyncio.subprocess.PIPE if call.data else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(call.env),
            cwd=call.cwd,
            start_new_session=True,  # so that all it starts can be ended with it
        )
    except (OSError, ValueError) as exc:
        why = exc.strerror if isinstance(exc, OSError) else "its arguments hold what no program takes"
        return ModelFailure("config", f"{name} cannot be started: {why}")
    assert process.stdout is not None and process.stderr is not None
    try:
        async with asyncio.timeout(call.timeout):
            _, out, err = await asyncio.gather(
                _write(process, call.data), _read(process.stdout, OUTPUT), _read(process.stderr, COMPLAINT)
            )
            if out is None or err is None:
                return ModelFailure("refused", f"{name} says more than {OUTPUT >> 20} MB")
            await process.wait()
    except TimeoutError:
        return ModelFailure("timeout", f"{name} took longer than {call.timeout:g} s")
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    if process.returncode:
        told = err.decode("utf-8", "replace").strip().splitlines()
        return ModelFailure("refused", clip_message(told[-1][:_TOLD] if told else f"exit code {process.returncode}"))
    return out


async def _write(process: asyncio.subprocess.Process, data: bytes) -> None:
    if process.stdin is None:
        return
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it has read enough
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _read(stream: asyncio.StreamReader, most: int) -> bytes | None:
    held = bytearray()
    while piece := await stream.read(_PIECE):
        held += piece
        if len(held) > most:
            return None
    return bytes(held)


def fill_template(word: str, known: Mapping[str, str]) -> str:
    """`{{Name}}` replaced by what is known."""
    for name, value in known.items():
        word = word.replace("{{" + name + "}}", value)
    return word

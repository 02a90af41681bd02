"""`python -m palinurus.providers.local.engine FILE CONTEXT THREADS PARENT`: the llama.cpp runtime as a child process.

The only file that knows `xllamacpp`. The runtime insists on listening somewhere: it gets a socket in the working
directory, which is private and removed once it runs, and a key nobody has. It answers over the pipes of `serve`.
"""

from __future__ import annotations

import os
import secrets
import sys

import xllamacpp  # type: ignore[import-not-found,import-untyped,unused-ignore]

from palinurus.providers.local.serve import EngineServer, die_with, open_private_output

BATCH = 128  # tokens read between two chances to stop: about two seconds on two cores
CACHE = 256  # MiB of other conversations' state kept to go on with


def main(argv: list[str]) -> int:
    """Load the model, then serve. Returns when the parent closes the pipe."""
    file, context, threads, parent = argv[0], int(argv[1]), int(argv[2]), int(argv[3])
    out = open_private_output()
    die_with(parent)
    server = xllamacpp.Server(build_params(file, context, threads, os.path.abspath("llama.sock")))
    EngineServer(server.handle_chat_completions, out).run(sys.stdin.buffer)
    out.close()
    os._exit(0)  # the runtime may be in the middle of an answer; nobody waits for it


def build_params(file: str, context: int, threads: int, socket: str) -> xllamacpp.CommonParams:
    """What the runtime is told."""
    told = xllamacpp.CommonParams()
    told.model.path = file
    told.n_ctx = context
    told.n_parallel = 1
    told.n_batch = told.n_ubatch = BATCH
    told.cpuparams.n_threads = told.cpuparams_batch.n_threads = threads
    told.cache_ram_mib = CACHE
    told.warmup = False
    told.use_jinja = True  # the model's own chat template, tools included
    told.hostnames = [socket]
    told.api_keys = [secrets.token_hex(32)]
    told.ui = told.endpoint_slots = told.endpoint_props = False
    told.verbosity = 1
    return told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

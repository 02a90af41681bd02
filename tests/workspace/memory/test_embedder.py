"""The child that makes vectors: started when asked, ended when idle, and never the end of a search."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import palinurus
import tiny
from palinurus.providers.local.weights import EMBEDDING_WEIGHTS
from palinurus.workspace.memory.embedder import MODEL, TRIES, Embedder

pytest.importorskip("numpy")


def test_without_a_model_it_says_what_to_do(tmp_path: Path) -> None:
    embedder = Embedder(str(tmp_path))
    assert "pal memory pull" in embedder.why() and embedder.embed(["tea"]) is None
    assert embedder.near("x", "tea", 1) is None
    assert EMBEDDING_WEIGHTS.name + EMBEDDING_WEIGHTS.ending == MODEL
    embedder.close()


def test_vectors_are_the_same_every_time(tmp_path: Path) -> None:
    tiny.model(tmp_path)
    embedder = Embedder(str(tmp_path))
    first = embedder.embed(["green tea", "a cat"])
    assert first is not None and [len(vector) for vector in first] == [2 * tiny.WIDTH] * 2
    assert embedder.embed(["a cat"]) == first[1:] and embedder.embed([]) is None
    embedder.close()
    assert embedder.embed(["a cat"]) is None


def test_an_idle_child_ends_and_the_next_question_starts_another(tmp_path: Path) -> None:
    tiny.model(tmp_path)
    embedder = Embedder(str(tmp_path), idle=0.05)
    first = embedder.embed(["tea"])
    for timer in (t for t in threading.enumerate() if isinstance(t, threading.Timer)):
        timer.join()
    assert embedder._process is None
    assert first is not None and embedder.embed(["tea"]) == first
    embedder.close()


def test_a_broken_model_is_given_up_after_some_tries(tmp_path: Path) -> None:
    tiny.model(tmp_path).write_bytes(b"nothing of the kind")
    embedder = Embedder(str(tmp_path))
    for _ in range(TRIES):
        assert not embedder.why() and embedder.embed(["tea"]) is None
    assert "failed" in embedder.why()
    embedder.close()


def test_a_child_that_is_killed_costs_one_answer(tmp_path: Path) -> None:
    tiny.model(tmp_path)
    embedder = Embedder(str(tmp_path))
    assert embedder.embed(["tea"]) and embedder._process is not None
    embedder._process.kill()
    embedder._process.wait()
    assert embedder.embed(["tea"]) is None and "broke off" in embedder.trouble
    assert embedder.embed(["tea"]) and not embedder.trouble
    embedder.close()


def test_the_program_itself_never_loads_numpy() -> None:
    code = "import sys, palinurus.app.program; print('numpy' in sys.modules, 'PIL' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_the_child_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    tiny.model(tmp_path)
    code = (
        "import os, signal, sys\n"
        "from palinurus.workspace.memory.embedder import Embedder\n"
        "embedder = Embedder(sys.argv[1])\n"
        "assert embedder.embed(['tea'])\n"
        "print(embedder._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    child = os.pidfd_open(int(done.stdout)) if os.path.exists(f"/proc/{int(done.stdout)}") else None
    if child is not None:
        assert select.select([child], [], [], 30)[0]
        os.close(child)


def test_without_the_extras_the_program_says_which(tmp_path: Path) -> None:
    """As on a machine with nothing but the program itself."""
    code = (
        "import sys\n"
        "sys.path.insert(0, sys.argv[1])\n"
        "from palinurus.workspace.memory.embedder import Embedder\n"
        "print(Embedder(sys.argv[2]).why())\n"
    )
    source = str(Path(palinurus.__file__).parents[1])
    tiny.model(tmp_path)
    argv = [sys.executable, "-I", "-S", "-c", code, source, str(tmp_path)]
    said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "extras add memory" in said

"""The real runtime with a real model, when both are on this machine (`pal models pull`, extra `local`)."""

from __future__ import annotations

import importlib.util
import os
import shutil
from pathlib import Path

import pytest

from palinurus.abort import Abort
from palinurus.config import paths
from palinurus.core.types.keys import ModelRef
from palinurus.core.types.messages import UserMessage
from palinurus.core.types.model import ModelRequest, ModelSpec, Prompt, StreamDone, StreamFailed, TextDelta
from palinurus.core.types.tool import ToolSpec
from palinurus.providers.local.model import LocalModel
from palinurus.providers.local.probe import probe_tool_calls
from palinurus.providers.local.weights import locate_weights

READ = ToolSpec("read", "Read a file", {"type": "object", "properties": {"path": {"type": "string"}}})
HERE = paths.find_home(os.environ)


def need(name: str) -> ModelSpec:
    path = locate_weights(HERE, name)
    if importlib.util.find_spec("xllamacpp") is None or path is None or not os.path.isfile(path):
        pytest.skip(f"needs the extra `local` and `pal models pull {name}`")
    return ModelSpec(ModelRef("local", name), "local", context_window=2048, max_tokens=64)


@pytest.mark.torture
@pytest.mark.parametrize("name", ["smollm2-135m", "qwen2.5-coder-1.5b"])
async def test_it_answers_is_stopped_and_answers_again(name: str) -> None:
    info = need(name)
    local = LocalModel(HERE)
    request = ModelRequest(info, Prompt("Be brief."), (UserMessage("Say hello in five words"),))
    try:
        events = [e async for e in local.stream(request, Abort())]
        assert isinstance(events[-1], StreamDone) and events[-1].message.text.strip()
        stop = Abort()
        async for event in local.stream(request, stop):
            if isinstance(event, TextDelta):
                stop.set("user")
        assert isinstance(event, StreamFailed) and event.failure.kind == "aborted"
        events = [e async for e in local.stream(request, Abort())]
        assert isinstance(events[-1], StreamDone)
    finally:
        await local.close()


@pytest.mark.torture
async def test_the_large_one_calls_tools() -> None:
    info = need("qwen2.5-coder-1.5b")
    local = LocalModel(HERE)
    request = ModelRequest(
        info, Prompt("Use tools."), (UserMessage("Read the file notes.txt"),), (READ,), temperature=0.0
    )
    try:
        events = [e async for e in local.stream(request, Abort())]
        assert isinstance(events[-1], StreamDone)
        assert [(c.name, c.arguments) for c in events[-1].message.calls] == [("read", {"path": "notes.txt"})]
        assert (await probe_tool_calls(local, info)).calls in ("text", "structured")
    finally:
        await local.close()


@pytest.mark.torture
async def test_a_file_that_is_no_model(tmp_path: Path) -> None:
    need("smollm2-135m")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "rubbish.gguf").write_bytes(b"GGUF" + os.urandom(4096))
    local = LocalModel(str(tmp_path))
    info = ModelSpec(ModelRef("local", "rubbish"), "local", context_window=512)
    events = [e async for e in local.stream(ModelRequest(info, Prompt("p"), (UserMessage("hi"),)), Abort())]
    assert isinstance(events[-1], StreamFailed) and events[-1].failure.kind == "server"
    await local.close()
    shutil.rmtree(tmp_path / "models")

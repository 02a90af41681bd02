"""The diagnosis survives restarts, is bounded, private, and never in the way."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from core.prompt.kit import full
from palinurus.abort import Abort
from palinurus.agent import promptcache as module
from palinurus.agent.promptcache import (
    BREAKS,
    CacheWatch,
    WatchedModel,
    describe_break,
    format_share,
    load_cache_snapshot,
    locate_break,
)
from palinurus.core.prompt.render import render_prompt
from palinurus.core.types.messages import AssistantMessage, TextBlock, ToolResult, UserMessage
from palinurus.core.types.model import ModelRequest
from palinurus.testing.clock import FakeClock
from palinurus.testing.model import ScriptedModel, make_model_info, say


def request(*texts: str, **facts: Any) -> ModelRequest:
    return ModelRequest(
        make_model_info(), render_prompt(full(**facts)), tuple(UserMessage(t) for t in texts), session="sid"
    )


def test_threads_do_not_write_into_each_others_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    waiting: list[Callable[[], None]] = []
    watch = CacheWatch(str(tmp_path), defer=waiting.append)
    threads = []
    for turn in range(200):
        watch.look(request("a", f"{turn}"), turn)
        while waiting:
            threads.append(threading.Thread(target=waiting.pop()))
            threads[-1].start()
    for thread in threads:
        thread.join()
    assert len(threads) > 1 and not caplog.records


def test_the_second_request_is_compared_with_the_first(tmp_path: Path) -> None:
    watch = CacheWatch(str(tmp_path))
    assert watch.look(request("a"), 1000) is None
    assert watch.look(request("a", "b"), 4000) is None
    look = load_cache_snapshot(str(tmp_path / "cache"), "sid")
    assert look is not None
    assert (look.requests, look.idle, look.breaks) == (2, 3000, ())
    assert 0 < look.kept < look.total


def test_a_break_is_found_across_a_restart_with_both_sides(tmp_path: Path) -> None:
    CacheWatch(str(tmp_path)).look(request("a"), 1)
    found = CacheWatch(str(tmp_path)).look(request("a", timezone="Europe/Paris"), 2)
    assert found is not None and found.name == "time" and "Vienna" in found.before and "Paris" in found.after
    assert "prompt section time, byte" in describe_break(found) and "stable part" in locate_break(found)
    look = load_cache_snapshot(str(tmp_path / "cache"), "sid")
    assert look is not None and [f.what for f in look.breaks] == [found]


def test_files_are_private_and_breaks_bounded(tmp_path: Path) -> None:
    watch = CacheWatch(str(tmp_path))
    for n in range(BREAKS + 5):
        watch.look(request("a", timezone=f"Zone/{n}"), n)
    look = load_cache_snapshot(str(tmp_path / "cache"), "sid")
    assert look is not None and len(look.breaks) == BREAKS and look.breaks[-1].at == BREAKS + 4
    assert os.listdir(tmp_path / "cache") == ["sid.look"]
    assert stat.S_IMODE((tmp_path / "cache" / "sid.look").stat().st_mode) == 0o600


def test_between_tool_calls_nothing_is_written(tmp_path: Path) -> None:
    watch = CacheWatch(str(tmp_path))
    watch.look(request("a"), 1)
    before = (tmp_path / "cache" / "sid.look").stat().st_ino
    one = request("a")
    more = ModelRequest(
        one.model,
        one.prompt,
        (*one.messages, AssistantMessage((TextBlock("x"),)), ToolResult("c", "t", ())),
        session="sid",
    )
    assert watch.look(more, 2) is None
    assert (tmp_path / "cache" / "sid.look").stat().st_ino == before


def test_damage_and_a_refusing_disk_stop_nothing(tmp_path: Path) -> None:
    CacheWatch(str(tmp_path)).look(request("a"), 1)
    whole = (tmp_path / "cache" / "sid.look").read_bytes()
    (tmp_path / "cache" / "sid.look").write_bytes(b"{half")
    assert CacheWatch(str(tmp_path)).look(request("a"), 2) is None
    (tmp_path / "cache" / "sid.look").write_bytes(whole.partition(b"\n")[0] + b"\nother")
    found = CacheWatch(str(tmp_path)).look(request("a", timezone="Europe/Paris"), 2)
    assert found is not None and found.before == ""  # what stood there is not known any more
    (tmp_path / "file").write_text("")
    watch = CacheWatch(str(tmp_path / "file"))
    assert watch.look(request("a"), 1) is None
    assert watch.look(request("b"), 2) is not None


def test_old_sessions_are_forgotten_in_memory_and_on_disk(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    for n in range(module.FILES + module.SLACK):
        (folder / f"old{n}.look").write_text("{}")
        os.utime(folder / f"old{n}.look", (n, n))
    (folder / "earlier.txt").write_text("as older versions wrote it")
    CacheWatch(str(tmp_path), most=1).look(request("a"), 1)
    assert len(list(folder.iterdir())) == module.FILES and (folder / "sid.look").exists()
    assert not (folder / "old0.look").exists()


def test_of_more_sessions_than_are_kept_in_memory_none_is_lost(tmp_path: Path) -> None:
    waiting: list[Callable[[], None]] = []
    watch = CacheWatch(str(tmp_path), most=1, defer=waiting.append)
    for session in ("one", "two"):
        watch.look(msgspec.structs.replace(request("a"), session=session), 1)
    look = watch.last("one")
    assert look is not None and look.requests == 1 and not (tmp_path / "cache").exists()
    waiting[0]()
    assert watch.last("one") == look == load_cache_snapshot(str(tmp_path / "cache"), "one")
    found = watch.look(msgspec.structs.replace(request("a", timezone="Europe/Paris"), session="one"), 2)
    assert found is not None and "Vienna" in found.before


async def test_a_watched_model_is_the_model(tmp_path: Path) -> None:
    inner = ScriptedModel([say("hello")])
    watched = WatchedModel(inner, CacheWatch(str(tmp_path)), FakeClock())
    events = [event async for event in watched.stream(request("a"), Abort())]
    assert type(events[-1]).__name__ == "StreamDone" and inner.requests == [request("a")]
    assert load_cache_snapshot(str(tmp_path / "cache"), "sid") is not None
    assert format_share(1, 0) == "100 % of 0 tokens" and format_share(1, 8) == "12 % of 2 tokens"

"""A queue that shares bytes and knows when a client is too slow."""

from __future__ import annotations

from palinurus.gateway.ws.hub import OutgoingFrames


async def test_frames_leave_in_order_and_the_size_is_kept() -> None:
    out = OutgoingFrames()
    assert out.add((b"a", b"b"), 0) and out.add((b"c",), 0)
    assert out.wake.is_set() and out.size == 3
    assert (out.take(), out.take(), out.take()) == (b"ab", b"c", None)
    assert out.size == 0 and not out.wake.is_set()


async def test_droppable_frames_go_first_and_the_rest_has_a_limit() -> None:
    out = OutgoingFrames(limit=100, drop=10)
    assert out.add((b"x" * 50,), 0)
    assert out.add((b"d" * 30,), 0, droppable=True) and out.dropped == 1 and out.size == 50
    assert out.add((b"x" * 50,), 0)
    assert not out.add((b"x",), 0)
    out.clear()
    assert out.size == 0 and out.take() is None
    assert not out.add((b"x" * 50,), 60)  # what the transport holds counts


async def test_one_large_frame_fits_when_nothing_waits() -> None:
    assert OutgoingFrames(limit=100).add((b"x" * 500,), 0)

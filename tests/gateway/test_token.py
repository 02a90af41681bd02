from __future__ import annotations

import asyncio
import os
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from palinurus.errors import StateUnwritable
from palinurus.gateway import token
from palinurus.store.factory import open_store
from palinurus.testing.clock import FakeClock


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    old = os.umask(0)
    yield
    os.umask(old)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_made_once_with_256_bits_and_mode_0600(tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = token.ensure_token(str(home))
    assert len(first) == 43
    assert token.ensure_token(str(home)) == first == token.read_token(str(home))
    assert (mode(home), mode(home / "gateway.token")) == (0o700, 0o600)
    assert os.listdir(home) == ["gateway.token"]
    assert token.ensure_token(str(tmp_path / "other")) != first


def test_starts_at_once_agree(tmp_path: Path) -> None:
    found: list[str] = []
    threads = [threading.Thread(target=lambda: found.append(token.ensure_token(str(tmp_path)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1 and token.read_token(str(tmp_path)) == found[0]


@pytest.mark.parametrize("content", [b"", b"\n", b"short", b"\xff\xfe\x00"])
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "gateway.token"
    path.write_bytes(content)
    path.chmod(0o600)
    assert len(token.ensure_token(str(tmp_path))) == 43
    assert mode(path) == 0o600


def test_a_readable_file_is_refused(tmp_path: Path) -> None:
    token.ensure_token(str(tmp_path))
    (tmp_path / "gateway.token").chmod(0o644)
    with pytest.raises(StateUnwritable, match="can be read by others"):
        token.ensure_token(str(tmp_path))


def test_whereabouts(tmp_path: Path) -> None:
    assert token.find_location(str(tmp_path)) is None
    place = token.GatewayLocation("127.0.0.1", 5, os.getpid(), 1)
    token.announce_location(str(tmp_path), place)
    assert token.find_location(str(tmp_path)) == place
    assert mode(tmp_path / "gateway.json") == 0o600
    token.withdraw_location(str(tmp_path), 1)
    assert token.find_location(str(tmp_path)) == place  # another process's
    token.withdraw_location(str(tmp_path), os.getpid())
    assert token.find_location(str(tmp_path)) is None
    (tmp_path / "gateway.json").write_text("{")
    assert token.find_location(str(tmp_path)) is None


async def test_all_gateways_of_a_fleet_have_the_token_of_the_first(tmp_path: Path) -> None:
    store = await open_store(str(tmp_path / "s"), FakeClock())
    homes = [str(tmp_path / name) for name in "abc"]
    own = [token.ensure_token(home) for home in homes]
    shared = await asyncio.gather(*(token.share_token(home, one, store) for home, one in zip(homes, own, strict=True)))
    assert set(shared) == {own[0]} == {token.read_token(home) for home in homes}
    assert await token.share_token(homes[1], own[0], store) == own[0]
    assert all((Path(home) / token.TOKEN_FILE).stat().st_mode & 0o077 == 0 for home in homes)
    await store.close()

"""Where sign-ins are kept: whole files, 0600, the keyring where there is one, nothing lost between two who write."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

from palinurus.clock import SystemClock
from palinurus.core.types.signin import SignInAccount
from palinurus.providers.signin import keyring
from palinurus.providers.signin.vault import FILE, SILENT, KeptSignIn, SignInVault, describe_signins

ONE = KeptSignIn("lab", "access-canary", "refresh-canary", 5, SignInAccount("ada"), since=1, proof_key="key-canary")

# A Secret Service that keeps what it is given in a file beside it; refuses everything while `locked` is there.
SECRET_TOOL = """#!/usr/bin/env python3
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
if os.path.exists(os.path.join(here, "locked")):
    sys.exit(1)
file = os.path.join(here, "ring.json")
ring = json.load(open(file)) if os.path.exists(file) else {}
verb, key = sys.argv[1], " ".join(sys.argv[-6:])
if verb == "store":
    ring[key] = sys.stdin.read()
elif verb == "clear":
    ring.pop(key, None)
else:
    if key not in ring:
        sys.exit(1)
    sys.stdout.write(ring[key])
json.dump(ring, open(file, "w"))
"""


@pytest.fixture
def ring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(keyring, "PATIENCE", 60.0)  # another Python has to start, on a machine that may be loaded
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "secret-tool").write_text(SECRET_TOOL)
    (folder / "secret-tool").chmod(0o700)
    return folder


def environ(ring: Path) -> dict[str, str]:
    return {"PATH": f"{ring}:{os.environ['PATH']}", "DBUS_SESSION_BUS_ADDRESS": "unix:path=/nowhere"}


def test_a_file_of_its_own_when_there_is_no_keyring(tmp_path: Path) -> None:
    vault = SignInVault(str(tmp_path), {})
    assert vault.list_all() == {} and not (tmp_path / FILE).exists()
    assert vault.put("lab:me", ONE) == str(tmp_path / FILE)
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600
    assert SignInVault(str(tmp_path), {}).list_all() == {"lab:me": ONE}
    vault.remove("lab:me")
    assert vault.list_all() == {} and "canary" not in (tmp_path / FILE).read_text()
    assert set(vault.list_secrets()) == set()


def test_tokens_go_into_the_keyring_and_the_file_holds_none(tmp_path: Path, ring: Path) -> None:
    vault = SignInVault(str(tmp_path), environ(ring))
    assert vault.put("lab:me", ONE) == "Secret Service"
    assert "canary" not in (tmp_path / FILE).read_text() and "canary" in (ring / "ring.json").read_text()
    (again,) = SignInVault(str(tmp_path), environ(ring)).list_all().values()
    assert (again.access, again.refresh, again.keyring) == ("access-canary", "refresh-canary", True)
    assert describe_signins(vault)[0]["where"] == "keyring"
    vault.remove("lab:me")
    assert json.loads((ring / "ring.json").read_text()) == {}


def test_a_locked_keyring_is_told_and_a_new_sign_in_goes_to_the_file(tmp_path: Path, ring: Path) -> None:
    SignInVault(str(tmp_path), environ(ring)).put("lab:me", ONE)
    (ring / "locked").touch()
    vault = SignInVault(str(tmp_path), environ(ring))
    assert vault.list_all()["lab:me"].out == SILENT and not vault.list_secrets()
    assert vault.put("lab:me", ONE) == str(tmp_path / FILE)
    assert vault.list_all()["lab:me"].access == "access-canary" and not vault.list_all()["lab:me"].out


def test_the_owner_may_want_no_keyring(tmp_path: Path, ring: Path) -> None:
    vault = SignInVault(str(tmp_path), environ(ring), keyring=False)
    assert vault.put("lab:me", ONE) == str(tmp_path / FILE) and not (ring / "ring.json").exists()


def test_without_a_session_bus_there_is_no_keyring(tmp_path: Path, ring: Path) -> None:
    vault = SignInVault(str(tmp_path), {"PATH": str(ring)})
    assert vault.put("lab:me", ONE) == str(tmp_path / FILE)


def test_another_process_is_seen_and_two_that_write_lose_nothing(tmp_path: Path) -> None:
    one, other = SignInVault(str(tmp_path), {}), SignInVault(str(tmp_path), {})
    one.put("lab:a", ONE)
    assert list(other.list_all()) == ["lab:a"]
    other.put("lab:b", ONE)
    one.put("lab:c", ONE)
    assert list(one.list_all()) == list(other.list_all()) == ["lab:a", "lab:b", "lab:c"]


def test_what_is_out_keeps_its_reason_and_no_token_and_old_tokens_stay_secret(tmp_path: Path) -> None:
    vault = SignInVault(str(tmp_path), {})
    vault.put("lab:me", ONE)
    vault.list_secrets()
    vault.mark_out("lab:me", "lab", "revoked")
    kept = vault.list_all()["lab:me"]
    assert kept.out == "revoked" and not kept.secrets and kept.account.label == "ada"
    assert "canary" not in (tmp_path / FILE).read_text()
    assert "access-canary" in vault.list_secrets()  # it may still turn up in what a tool says


def test_a_broken_file_is_nobody_signed_in(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / FILE).write_text('{"signIns": {"lab:me": {"provider": 1, "access": "canary"}}}')
    assert SignInVault(str(tmp_path), {}).list_all() == {}
    assert "cannot be read" in caplog.text and "canary" not in caplog.text


async def test_one_at_a_time_and_the_dead_hold_nothing(tmp_path: Path) -> None:
    vault, order = SignInVault(str(tmp_path), {}), list[str]()

    async def hold(name: str) -> None:
        async with vault.lock("lab:me", SystemClock()):
            order.append(f"{name} in")
            await asyncio.sleep(0.01)
            order.append(f"{name} out")

    await asyncio.gather(hold("a"), hold("b"))
    assert order in (["a in", "a out", "b in", "b out"], ["b in", "b out", "a in", "a out"])
    async with vault.lock("lab:me", SystemClock()), vault.lock("lab:other", SystemClock()):
        pass


def test_nothing_prints_a_token() -> None:
    assert "canary" not in repr(ONE) and "canary" not in str(msgspec.structs.replace(ONE, out="x"))

"""Where sign-ins are kept: `sign-ins.json` (0600, replaced whole and synced), the tokens themselves in the OS keyring
where there is one.

Every process of a home reads it again when it has changed; who renews a token holds `lock` meanwhile. What a server
has taken away stays as a row that says why, until the person signs in again or out.
"""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from palinurus import late
from palinurus.clock import Clock
from palinurus.config.secrets import Secret
from palinurus.core.types.model import ModelFailure
from palinurus.core.types.signin import SignInAccount, TokenSet
from palinurus.files import read_plain_file, write_whole_file
from palinurus.providers.credentials import KeyProfile

if TYPE_CHECKING:
    from palinurus.providers.signin.keyring import ProgramKeyring

log = logging.getLogger(__name__)

# One at a time, for a profile: within a home, or within a fleet.
RenewalLock: TypeAlias = Callable[[str, Clock], AbstractAsyncContextManager[None]]

FILE = "sign-ins.json"
LARGEST = 1_000_000
LOCK_WAIT = 0.05  # seconds between two looks at a lock that another process holds
SILENT = "the keyring does not give it out: unlock it, or sign in again"


class KeptSignIn(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One sign-in. With `keyring` its tokens (and the client's secret) are there and not in the file."""

    provider: str
    access: str = ""
    refresh: str = ""
    expires: int = 0
    account: SignInAccount = SignInAccount()
    since: int = 0  # when these tokens came
    out: str = ""  # why it is not used any more
    keyring: bool = False
    client: dict[str, str] = {}  # what the person or the server said beyond the vendor's row: addresses, client id
    client_secret: str = ""
    proof_key: str = ""  # what the tokens are bound to (DPoP), PEM
    number: int = 0  # in a fleet: which of the store's it is; 0: the other nodes do not have it yet (`shared.py`)

    @property
    def tokens(self) -> TokenSet:
        return TokenSet(self.access, self.refresh, self.expires, self.account)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must never be shown."""
        return tuple(one for one in (self.access, self.refresh, self.client_secret, self.proof_key) if one)

    def __repr__(self) -> str:
        return f"KeptSignIn({self.provider!r}, expires={self.expires}, out={self.out!r})"


class _Apart(msgspec.Struct, omit_defaults=True):
    """What the keyring holds of one sign-in."""

    access: str = ""
    refresh: str = ""
    client_secret: str = ""
    proof_key: str = ""


class _File(msgspec.Struct):
    version: int = 1
    signIns: dict[str, KeptSignIn] = {}


class SignInVault:
    """All sign-ins of a home, by profile id. Blocks for a file, and for the keyring where that is used."""

    def __init__(self, home: str, environ: Mapping[str, str], *, keyring: bool = True, several: bool = False) -> None:
        """`several`: other nodes have these, too, so that one that was left says so."""
        self.span: RenewalLock | None = None  # what holds over all nodes, where there are some
        self._home = home
        self._several = several
        self._file = os.path.join(home, FILE)
        self._environ = environ
        self._wanted = keyring
        self._ring: ProgramKeyring | None = None
        self._looked = False
        self._seen: tuple[int, int, int] | None = None
        self._all: dict[str, KeptSignIn] = {}
        self._ever: dict[str, None] = {}

    def list_all(self) -> dict[str, KeptSignIn]:
        """Every sign-in. Costs one look at the file's date when nothing has changed."""
        try:
            stat = os.stat(self._file)
        except OSError:
            self._seen, self._all = None, {}
            return self._all
        seen = (stat.st_mtime_ns, stat.st_size, stat.st_ino)
        if seen != self._seen:
            self._all = {ident: self._fill(ident, kept) for ident, kept in self._read().items()}
            self._seen = seen
        return self._all

    def list_secrets(self) -> tuple[str, ...]:
        """What must never be shown: of all of them, and what they were while this program has run."""
        self._ever.update(dict.fromkeys(one for kept in self.list_all().values() for one in kept.secrets))
        return tuple(self._ever)

    def put(self, ident: str, kept: KeptSignIn) -> str:
        """On disk when it returns; says where. Raises OSError.

        The keyring goes first: after a kill in between the file still tells of the old tokens as it did before.
        """
        ring, apart = self.find_ring(), _Apart(kept.access, kept.refresh, kept.client_secret, kept.proof_key)
        inside = ring is not None and bool(kept.secrets) and ring.put(ident, msgspec.json.encode(apart).decode())
        if inside:
            blank = dict.fromkeys(_Apart.__struct_fields__, "")
            kept = msgspec.structs.replace(kept, **blank, keyring=True)
        with self._change() as rows:
            old = rows.get(ident)
            rows[ident] = kept if inside else msgspec.structs.replace(kept, keyring=False)
        if old is not None and old.keyring and not inside and ring is not None:
            ring.remove(ident)
        return ring.name if inside and ring is not None else self._file

    def mark_out(self, ident: str, provider: str, reason: str) -> None:
        """It is not used any more. Its tokens are worth nothing and go. Raises OSError."""
        old = self._read().get(ident, KeptSignIn(provider))
        self.put(ident, KeptSignIn(provider, account=old.account, out=reason, client=old.client))

    def remove(self, ident: str) -> None:
        """Gone from file and keyring. Raises OSError."""
        if self._several and (kept := self._read().get(ident)) is not None:
            self.mark_out(ident, kept.provider, "signed out")
            return
        with self._change() as rows:
            old = rows.pop(ident, None)
        if old is not None and old.keyring and (ring := self.find_ring()) is not None:
            ring.remove(ident)

    @asynccontextmanager
    async def lock(self, ident: str, clock: Clock) -> AsyncIterator[None]:
        """One at a time among all processes of this home; freed by the kernel when its holder dies. Raises OSError."""
        name = hashlib.sha256(ident.encode()).hexdigest()[:12]
        handle = os.open(
            os.path.join(self._home, f".sign-in-{name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600
        )
        try:
            while not _try_lock(handle):
                await clock.sleep(LOCK_WAIT)
            yield
        finally:
            os.close(handle)

    def find_ring(self) -> ProgramKeyring | None:
        """The keyring that is used; None: the file."""
        if not self._looked:
            self._looked = True
            self._ring = self._find() if self._wanted else None
        return self._ring

    def _find(self) -> ProgramKeyring | None:
        found: ProgramKeyring | None = late.load_part("keyring-finder")(self._home, self._environ)
        return found

    def _fill(self, ident: str, kept: KeptSignIn) -> KeptSignIn:
        if not kept.keyring:
            return kept
        ring = self._ring or self._find()
        found = ring.get(ident) if ring is not None else None
        try:
            apart = msgspec.json.decode(found or "", type=_Apart)
        except msgspec.DecodeError:
            return msgspec.structs.replace(kept, out=kept.out or SILENT)
        return msgspec.structs.replace(kept, **msgspec.structs.asdict(apart))

    def _read(self) -> dict[str, KeptSignIn]:
        """What the file says; nothing when there is none or it is broken, which is told."""
        try:
            return msgspec.json.decode(read_plain_file(self._file, LARGEST), type=_File).signIns
        except FileNotFoundError:
            return {}
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            log.warning("%s cannot be read (%s): nobody is signed in", FILE, type(error).__name__)
            return {}

    @contextmanager
    def _change(self) -> Iterator[dict[str, KeptSignIn]]:
        """The rows, to be changed; written at the end. Two processes that change two rows lose neither."""
        handle = os.open(os.path.join(self._home, ".sign-ins.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            rows = self._read()
            yield rows
            write_whole_file(self._file, msgspec.json.format(msgspec.json.encode(_File(signIns=rows)), indent=1))
            self._seen = None
        finally:
            os.close(handle)


MCP = "mcp:"  # before the name of a tool server, where others have the name of a vendor


def name_login(provider: str) -> str:
    """The command that signs in there."""
    return (
        f"`pal mcp login {provider.removeprefix(MCP)}`"
        if provider.startswith(MCP)
        else f"`pal models login {provider}`"
    )


def describe_signins(vault: SignInVault, servers: bool = False) -> list[dict[str, Any]]:
    """Who is signed in to vendors (or to tool servers), until when, and who is not any more; a row each, without
    tokens."""
    return [
        {
            "id": ident,
            "provider": kept.provider,
            "account": kept.account.label,
            "expires": kept.expires,
            "renews": bool(kept.refresh),
            "problem": kept.out,
            "where": "keyring" if kept.keyring else "file",
        }
        for ident, kept in vault.list_all().items()
        if kept.provider.startswith(MCP) == servers
    ]


def make_profile(ident: str, kept: KeptSignIn) -> KeyProfile:
    """The sign-in as a key."""
    who = f" of {kept.account.label}" if kept.account.label else ""
    return KeyProfile(
        ident,
        kept.provider,
        Secret(kept.access),
        "oauth",
        expires=kept.expires,
        renewal=Secret(kept.refresh),
        source=f"sign-in{who}",
        headers=kept.account.headers,
        base_url=kept.account.base_url,
        since=kept.since,
    )


def refuse_profile(provider: str, reason: str) -> ModelFailure:
    """What a run is told."""
    return ModelFailure("auth", f"{provider}: {reason}; {name_login(provider)} signs in again")


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

"""`pal models login|logout`: sign in to a vendor instead of keeping a key.

The page's address and the code go to the terminal, as a QR code too; a browser is opened where there is a screen. What
is typed meanwhile is taken for the address that the browser ended at, for shells on other machines.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import webbrowser
from typing import Any

import msgspec

from palinurus.app.modelsignin import ModelSignIns
from palinurus.cli.args import CommandParser, load_settings, load_vendors
from palinurus.cli.main import PARTS, load_part
from palinurus.clock import SystemClock
from palinurus.errors import BadRequest, PalinurusError
from palinurus.files import read_plain_file
from palinurus.providers.catalog import Catalog
from palinurus.providers.signin.vault import MCP, name_login
from palinurus.services.signins import RunningSignIn, SignInTable
from palinurus.tools.web.egress import EgressGuard


def run_models_login(argv: list[str]) -> int:
    """0 if somebody is signed in now. Raises NotFound, BadRequest, PalinurusError."""
    parser = CommandParser(
        "models login",
        "Sign in to a vendor in the browser, or with a code on another device. Without a name: where one can. "
        "Examples: pal models login openai-codex; pal models login github-copilot",
    )
    parser.add_argument("vendor", nargs="?", default="", help="such as openai-codex, github-copilot, google")
    parser.add_argument("--device", action="store_true", help="a code that is typed on another device")
    parser.add_argument("--profile", default="", help="a name, for a second account at the same vendor")
    parser.add_argument("--client", default="", metavar="FILE", help="an OAuth client of your own (downloaded JSON)")
    parser.add_argument("--no-open", action="store_true", help="open no browser")
    options = parser.parse_args(argv)
    if options.profile and not re.fullmatch(r"[\w.@-]{1,80}", options.profile):
        raise BadRequest(f"--profile {options.profile!r}: letters, digits, -, _, . and @ only")
    signins = open_signins()
    if not options.vendor:
        print(describe_places(signins))
        return 0
    client = read_client(options.client) if options.client else {}
    return asyncio.run(sign_in(signins, options.vendor, options, client))


def run_models_logout(argv: list[str]) -> int:
    """0 if somebody was signed out. Raises NotFound."""
    parser = CommandParser("models logout", "Sign out: the access is revoked where that can be told, and forgotten.")
    parser.add_argument("vendor")
    parser.add_argument("--profile", default="", help="only this account")
    options = parser.parse_args(argv)
    for line in asyncio.run(open_signins().sign_out(options.vendor, options.profile)):
        print(line)
    return 0


def open_signins() -> ModelSignIns:
    """For this home. Raises PalinurusError when the config cannot be read."""
    environ = dict(os.environ)
    settings = load_settings(environ).settings
    catalog = Catalog(settings, environ)
    catalog.vendors = load_vendors(settings)
    return ModelSignIns(catalog, EgressGuard(settings.web.fetch.rules), SystemClock())


async def sign_in(signins: ModelSignIns, vendor: str, options: Any, client: dict[str, str]) -> int:
    """Show, wait, keep. Raises PalinurusError when nobody signed in."""
    going = await signins.start(vendor, device=options.device, profile=options.profile, client=client)
    return await finish_sign_in(signins, going, browser=not options.no_open)


async def finish_sign_in(signins: SignInTable, going: RunningSignIn, *, browser: bool) -> int:
    """From the first address to the end, which is told. Raises PalinurusError."""
    try:
        print_code(going, browser=browser)
        with read_pasted(going):
            problem = await signins.wait(going)
    finally:
        await signins.close()
    if problem:
        raise PalinurusError(f"not signed in: {problem}", fix=f"{name_login(going.provider)} begins again")
    who = f" as {going.account}" if going.account else ""
    print(f"signed in to {going.provider.removeprefix(MCP)}{who}; kept in {going.kept}")
    return 0


def print_code(going: RunningSignIn, *, browser: bool) -> None:
    """What a person needs to go on."""
    shown = going.shown
    if shown.kind == "device":
        print(f"Open   {shown.url}\nType   {shown.code}\nNever give this code to anybody who asks you for it.")
    else:
        print(f"Open this page and sign in:\n{shown.url}")
        print("On another machine: paste here the address that the browser ends at, then press Enter.")
    if going.session.note:
        print(going.session.note)
    if sys.stdout.isatty() and shown.kind == "device":
        with contextlib.suppress(ModuleNotFoundError):
            print(load_part(PARTS["qr"])(shown.url))  # type: ignore[operator]
    sys.stdout.flush()
    screen = sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
    if browser and screen and sys.stdout.isatty():
        webbrowser.open(shown.url)


@contextlib.contextmanager
def read_pasted(going: RunningSignIn) -> Any:
    """Lines that are typed while it goes on."""
    loop, handle = asyncio.get_running_loop(), sys.stdin.fileno() if going.shown.kind == "browser" else -1

    begun = bytearray()

    def take() -> None:
        data = os.read(handle, 65_536)  # not `readline`: what it keeps for itself would wake nobody
        begun.extend(data)
        if not data:
            loop.remove_reader(handle)
        while b"\n" in begun or (begun and not data):
            line, _, rest = bytes(begun).partition(b"\n")
            begun[:] = rest
            if line.strip() and (wrong := going.session.paste(line.decode("utf-8", "replace"))):
                print(wrong, file=sys.stderr)

    if handle >= 0:
        try:
            loop.add_reader(handle, take)
        except (OSError, ValueError):  # a file, or nothing: there is nobody who types
            handle = -1
    try:
        yield
    finally:
        if handle >= 0:
            loop.remove_reader(handle)


def read_client(path: str) -> dict[str, str]:
    """A client file as Google's console gives it, or one with client_id and client_secret. Raises BadRequest."""
    try:
        raw = msgspec.json.decode(read_plain_file(path, 64_000))
    except (OSError, msgspec.DecodeError) as error:
        raise BadRequest(
            f"{path} cannot be read as a client file ({type(error).__name__})",
            fix="download the file again from where the client was made; it is JSON",
        ) from None
    body = raw.get("installed", raw.get("web", raw)) if isinstance(raw, dict) else None
    if not isinstance(body, dict) or not isinstance(body.get("client_id"), str):
        raise BadRequest(f"{path} names no client_id", fix="download the file of an OAuth client of type Desktop app")
    names = {"client_id": "client_id", "client_secret": "client_secret", "project_id": "project"}
    return {ours: str(body[theirs]) for theirs, ours in names.items() if body.get(theirs)}


def describe_places(signins: ModelSignIns) -> str:
    """Where one can sign in, and why not elsewhere."""
    lines = []
    for place in signins.list_places():
        how = place["closed"] or " or ".join(place["ways"].split())
        lines.append(f"{place['id']:<16} {place['name']}: {how}")
    return "\n".join(lines)

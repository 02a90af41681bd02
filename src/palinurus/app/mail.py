"""A mailbox that is watched (`hooks.gmail`): the program `gog` hears of new mail from Google and posts it to our hook.

We start it, renew the watch, and start it again when it ends. It is given a credential for that one hook, which ends
with this process; what a killed gateway left running is ended at the next start.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import shutil
import signal
from collections.abc import Mapping

from palinurus.backoff import Backoff
from palinurus.clock import Clock
from palinurus.config.settings import Settings
from palinurus.tasks import TaskSet
from palinurus.tools.commands import descendants
from palinurus.tools.commands.environ import build_child_env

log = logging.getLogger(__name__)

PROGRAM, TAILNET = "gog", "tailscale"
MARK = "PALINURUS_MAIL"
FIRST, LONGEST = 2.0, 300.0  # seconds before it is started again
GRACE = 3.0


class MailWatch:
    """One per gateway. `hook_token` is what opens the hook `gmail`, `address` the gateway's own."""

    def __init__(
        self, settings: Settings, environ: Mapping[str, str], clock: Clock, *, address: str, hook_token: str
    ) -> None:
        self._rules = settings.webhooks.gmail
        self._address = self._rules.hook_url or f"{address}{settings.webhooks.path}/gmail"
        self._mark = hashlib.sha256(settings.home.encode()).hexdigest()[:16]
        self._env = {**build_child_env(environ, {}), MARK: self._mark}
        self._clock = clock
        self._token = hook_token
        self._tasks = TaskSet("watching the mailbox")
        self._running: asyncio.subprocess.Process | None = None

    def start(self) -> None:
        """Begin, in the background. What is missing is said in the log; nothing else waits for it."""
        if shutil.which(PROGRAM, path=self._env["PATH"]) is None:
            log.warning("hooks.gmail: there is no program %r: mail is not watched", PROGRAM)
            return
        if not self._rules.topic or not self._rules.push_token:
            log.warning("hooks.gmail: topic and pushToken are needed: mail is not watched")
            return
        self._tasks.start(self._watch())

    async def close(self) -> None:
        await self._tasks.close()
        await self._end()

    async def _watch(self) -> None:
        await asyncio.to_thread(self._sweep)
        if self._rules.tailnet != "off":
            await self._run(*self._list_tailnet_words())
        self._tasks.start(self._renew())
        backoff = Backoff(FIRST, LONGEST)
        while True:
            begun = self._clock.monotonic()
            code = await self._run(*self._list_serve_words())
            if self._clock.monotonic() - begun > LONGEST:
                backoff.reset()
            log.warning("hooks.gmail: %s ended (%s); again soon", PROGRAM, code)
            await self._clock.sleep(backoff.next_delay())

    async def _renew(self) -> None:
        rules = self._rules
        words = (PROGRAM, "gmail", "watch", "start", "--account", rules.account, "--label", rules.label)
        while True:
            if code := await self._run(*words, "--topic", rules.topic, keep=False):
                log.warning("hooks.gmail: the watch could not be renewed (%s ended with %s)", PROGRAM, code)
            await self._clock.sleep(rules.renew or LONGEST)

    def _list_serve_words(self) -> list[str]:
        rules = self._rules
        words = [PROGRAM, "gmail", "watch", "serve", "--account", rules.account, "--bind", rules.bind]
        words += ["--port", str(rules.port), "--path", rules.path, "--token", rules.push_token.reveal()]
        words += ["--hook-url", self._address, "--hook-token", self._token]
        return [*words, "--include-body", "--max-bytes", str(rules.size)] if rules.include_body else words

    def _list_tailnet_words(self) -> list[str]:
        rules = self._rules
        words = [TAILNET, rules.tailnet, "--bg", "--yes", "--set-path", rules.tailnet_path or rules.path]
        return [*words, f"http://{rules.bind}:{rules.port}{rules.path}"]

    async def _run(self, *words: str, keep: bool = True) -> int | None:
        """Its exit code; None if it could not be started."""
        nothing = asyncio.subprocess.DEVNULL
        try:
            child = await asyncio.create_subprocess_exec(
                *words, stdin=nothing, stdout=nothing, stderr=nothing, env=self._env, start_new_session=True
            )
        except OSError as exc:
            log.warning("hooks.gmail: %s: %s", words[0], exc.strerror)
            return None
        if keep:
            self._running = child
        return await child.wait()

    async def _end(self) -> None:
        child = self._running
        if child is None or child.returncode is not None:
            return
        for number in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, number)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.wait(), GRACE)
                return

    def _sweep(self) -> None:
        descendants.signal_each(descendants.find_strays((f"{MARK}={self._mark}",)), signal.SIGKILL)

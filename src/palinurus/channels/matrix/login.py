"""Signing in: with an access token of the config, or once with a password; the token that gives is kept.

The device stays the same over sign-ins, because transaction ids are remembered per device.
"""

from __future__ import annotations

import json
from typing import Any

from palinurus.channels.kit import ChannelKit
from palinurus.channels.matrix.outbound import MatrixApi, build_path
from palinurus.config.secrets import Secret
from palinurus.core.types.channel import SendFailure

LOGIN_KEY = "login"


class MatrixLogin:
    """For one account. Raises ConfigError when neither a token nor a name and a password are set."""

    def __init__(self, kit: ChannelKit) -> None:
        self._kit = kit
        self._user = kit.text("userId")
        self.password: Secret | None = None
        self.token: Secret | None = None
        if self._user and not kit.own.get("accessToken"):
            self.password = kit.secret("password")
        else:
            self.token = kit.secret("accessToken")

    async def ensure_token(self, calls: MatrixApi) -> SendFailure | None:
        """Have `calls` use a token. With a password one is asked for the first time, and after `refused`."""
        if self.password is None or calls.has_token:
            return None
        kept = await self._kept()
        if kept.get("token"):
            calls.set_token(Secret(str(kept["token"])))
            return None
        wanted: dict[str, Any] = {
            "type": "m.login.password",
            "identifier": {"type": "m.id.user", "user": self._user},
            "password": self.password.reveal(),
            "initial_device_display_name": self._kit.text("deviceName", "Palinurus"),
        }
        if kept.get("device"):
            wanted["device_id"] = kept["device"]
        told = await calls.call("POST", build_path("login"), wanted)
        if isinstance(told, SendFailure):
            # Here "forbidden" is a wrong password.
            return SendFailure(told.reason, "signed_out") if told.trouble == "gone" else told
        token = str(told.get("access_token") or "")
        await self._keep({"token": token, "device": told.get("device_id")})
        calls.set_token(Secret(token))
        return None

    async def drop_token(self, calls: MatrixApi) -> bool:
        """The token is not taken any more: can another one be had? The next `ready` tries."""
        if self.password is None or not calls.has_token:
            return False
        calls.set_token(None)
        await self._keep({"device": (await self._kept()).get("device")})
        return True

    async def _kept(self) -> dict[str, Any]:
        kept = await self._kit.memo.get(LOGIN_KEY)
        return dict(json.loads(kept)) if kept else {}

    async def _keep(self, held: dict[str, Any]) -> None:
        await self._kit.memo.put(LOGIN_KEY, json.dumps(held).encode())

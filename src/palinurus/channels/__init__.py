"""Where people already chat. The table is the only place that knows which channels exist; each loads when used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import cast

import msgspec

from palinurus.channels.kit import ChannelKit
from palinurus.core.types.channel import Channel
from palinurus.errors import ConfigError, Problem


class ChannelEntry(msgspec.Struct, frozen=True):
    """Where a channel is: "module:name" of what makes it of a ChannelKit. `needs` is the module of its library, and
    `extra` the name under which that is installed. `own`: only the owner can write there, so nobody is asked."""

    where: str
    needs: str = ""
    extra: str = ""
    own: bool = False


CHANNELS: dict[str, ChannelEntry] = {
    "spool": ChannelEntry("palinurus.channels.spool:SpoolChannel", own=True),
    "discord": ChannelEntry("palinurus.channels.discord.channel:make_discord_channel", "discord", "discord"),
    "telegram": ChannelEntry("palinurus.channels.telegram.channel:make_telegram_channel"),
    "irc": ChannelEntry("palinurus.channels.irc.channel:make_irc_channel"),
    "signal": ChannelEntry("palinurus.channels.signal.channel:SignalChannel"),
    "slack": ChannelEntry("palinurus.channels.slack.channel:SlackChannel", "slack_sdk", "slack"),
    "matrix": ChannelEntry("palinurus.channels.matrix.channel:MatrixChannel"),
    "email": ChannelEntry("palinurus.channels.email.channel:make_email_channel"),
    "whatsapp": ChannelEntry("palinurus.channels.whatsapp.client:make_whatsapp_channel", "neonize", "whatsapp"),
    "mattermost": ChannelEntry("palinurus.channels.mattermost.channel:MattermostChannel"),
    "line": ChannelEntry("palinurus.channels.line.channel:LineChannel"),
    "feishu": ChannelEntry("palinurus.channels.feishu.channel:FeishuChannel"),
    "msteams": ChannelEntry("palinurus.channels.msteams.channel:TeamsChannel"),
    "googlechat": ChannelEntry("palinurus.channels.googlechat.channel:GoogleChatChannel"),
    "nextcloud-talk": ChannelEntry("palinurus.channels.nextcloudtalk.channel:NextcloudTalkChannel"),
    "bluebubbles": ChannelEntry("palinurus.channels.bluebubbles.channel:BlueBubblesChannel"),
    "sms": ChannelEntry("palinurus.channels.sms.channel:SmsChannel"),
    "xmpp": ChannelEntry("palinurus.channels.xmpp.channel:make_xmpp_channel"),
    "webhook": ChannelEntry("palinurus.channels.webhook.channel:WebhookChannel"),
}

# Channels that sign in or out by themselves: "module:function", async, answering "" or why it did not work.
# Signing in takes (kit, show): `show` prints a line or a picture for the person who signs in. Signing out takes (kit).
LOGINS: dict[str, str] = {"whatsapp": "palinurus.channels.whatsapp.client:log_in"}
LOGOUTS: dict[str, str] = {"whatsapp": "palinurus.channels.whatsapp.client:log_out"}


def load_signin_action(table: Mapping[str, str], name: str) -> Callable[..., Awaitable[str]] | None:
    """The function that a table names; None if the channel has none."""
    module, _, attribute = table.get(name, "").partition(":")
    return cast("Callable[..., Awaitable[str]]", getattr(import_module(module), attribute)) if module else None


def advise_missing_library(entry: ChannelEntry) -> str:
    """The command that brings what a channel needs; "" if all of it is here."""
    return f"pal extras add {entry.extra}" if entry.needs and find_spec(entry.needs) is None else ""


def make_channel(name: str, kit: ChannelKit) -> Channel | None:
    """The channel, or None if there is no such one. Raises ConfigError when its settings or its library are wanting."""
    entry = CHANNELS.get(name)
    if entry is None:
        return None
    if fix := advise_missing_library(entry):
        raise ConfigError((Problem(f"channels.{name}", f"needs the package {entry.needs}", hint=f"`{fix}`"),))
    module, _, attribute = entry.where.partition(":")
    return cast("Callable[[ChannelKit], Channel]", getattr(import_module(module), attribute))(kit)

"""What each chat channel cannot do without: asked for by `pal channels add` and by the page. All else has a default."""

from __future__ import annotations

import msgspec


class ChannelNeed(msgspec.Struct, frozen=True):
    """A key that a channel cannot do without. `env`: the variable that usually holds it."""

    key: str
    about: str
    env: str = ""


NEEDS: dict[str, tuple[ChannelNeed, ...]] = {
    "telegram": (ChannelNeed("botToken", "the token that @BotFather gave", "TELEGRAM_BOT_TOKEN"),),
    "discord": (ChannelNeed("token", "the bot's token", "DISCORD_BOT_TOKEN"),),
    "slack": (
        ChannelNeed("botToken", "the bot's token, xoxb-…", "SLACK_BOT_TOKEN"),
        ChannelNeed("appToken", "the app's token, xapp-…", "SLACK_APP_TOKEN"),
    ),
    "signal": (
        ChannelNeed("account", "your number with its country code, +49…"),
        ChannelNeed("httpUrl", "where signal-cli's daemon listens, such as http://127.0.0.1:8080"),
    ),
    "matrix": (
        ChannelNeed("homeserver", "the server's address, https://…"),
        ChannelNeed("accessToken", "the account's access token", "MATRIX_ACCESS_TOKEN"),
    ),
    "email": (
        ChannelNeed("address", "the agent's own address"),
        ChannelNeed("imapHost", "the server for receiving, imap.…"),
        ChannelNeed("smtpHost", "the server for sending, smtp.…"),
        ChannelNeed("password", "the mailbox's password (often an app password)", "PALINURUS_EMAIL_PASSWORD"),
        ChannelNeed("authservId", "the name your mail server writes at the beginning of Authentication-Results"),
    ),
    "irc": (ChannelNeed("host", "the server"), ChannelNeed("nick", "our nick there")),
    "webhook": (
        ChannelNeed("url", "where our messages are posted, https://…"),
        ChannelNeed("secret", "the shared secret of the signatures", "PALINURUS_WEBHOOK_SECRET"),
    ),
    "spool": (ChannelNeed("dir", "a folder for messages, such as ~/spool"),),
}

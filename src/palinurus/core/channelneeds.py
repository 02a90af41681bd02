"""What each chat channel cannot do without: asked for by `pal channels add` and by the page. All else has a default.
And the keys that only it has (`OWN_KEYS`), with their kinds; what all channels share is declared in the config.
"""

from __future__ import annotations

import json
from typing import Any, Literal, TypeAlias

import msgspec

OwnKind: TypeAlias = Literal["text", "flag", "number", "texts", "object"]


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
    "mattermost": (
        ChannelNeed("baseUrl", "the server's address, https://…", "MATTERMOST_URL"),
        ChannelNeed("botToken", "the bot's token", "MATTERMOST_BOT_TOKEN"),
    ),
    "line": (
        ChannelNeed("channelAccessToken", "the channel's long-lived access token", "LINE_CHANNEL_ACCESS_TOKEN"),
        ChannelNeed("channelSecret", "the channel's secret", "LINE_CHANNEL_SECRET"),
    ),
    "feishu": (
        ChannelNeed("appId", "the app's id, cli_…", "FEISHU_APP_ID"),
        ChannelNeed("appSecret", "the app's secret", "FEISHU_APP_SECRET"),
        ChannelNeed("verificationToken", "the verification token of its events", "FEISHU_VERIFICATION_TOKEN"),
    ),
    "msteams": (
        ChannelNeed("appId", "the bot's Microsoft App ID", "MSTEAMS_APP_ID"),
        ChannelNeed("appPassword", "the app's client secret (its value)", "MSTEAMS_APP_PASSWORD"),
        ChannelNeed("tenantId", "the directory (tenant) id", "MSTEAMS_TENANT_ID"),
    ),
    "googlechat": (
        ChannelNeed(
            "serviceAccountFile", "the JSON key of a service account, a file", "GOOGLE_CHAT_SERVICE_ACCOUNT_FILE"
        ),
        ChannelNeed("audience", "the app's endpoint address, as the Chat API's configuration has it"),
    ),
    "nextcloud-talk": (
        ChannelNeed("baseUrl", "the server's address, https://…"),
        ChannelNeed("botSecret", "the secret the bot was installed with", "NEXTCLOUD_TALK_BOT_SECRET"),
    ),
    "bluebubbles": (
        ChannelNeed("serverUrl", "where the BlueBubbles server on your Mac listens, http://…:1234"),
        ChannelNeed("password", "its password", "BLUEBUBBLES_PASSWORD"),
    ),
    "sms": (
        ChannelNeed("accountSid", "Twilio's Account SID, AC…", "TWILIO_ACCOUNT_SID"),
        ChannelNeed("authToken", "Twilio's Auth Token", "TWILIO_AUTH_TOKEN"),
        ChannelNeed("fromNumber", "your number there, +1555…", "TWILIO_PHONE_NUMBER"),
    ),
    "xmpp": (
        ChannelNeed("jid", "the agent's own address, agent@example.org"),
        ChannelNeed("password", "its password", "XMPP_PASSWORD"),
    ),
    "irc": (ChannelNeed("host", "the server"), ChannelNeed("nick", "our nick there")),
    "webhook": (
        ChannelNeed("url", "where our messages are posted, https://…"),
        ChannelNeed("secret", "the shared secret of the signatures", "PALINURUS_WEBHOOK_SECRET"),
    ),
    "spool": (ChannelNeed("dir", "a folder for messages, such as ~/spool"),),
}

OWN_KEYS: dict[str, dict[OwnKind, str]] = {
    "telegram": {
        "text": "botToken tokenFile webhookUrl webhookSecret apiRoot proxy", "flag": "linkPreview",
        "object": "customCommands",
    },
    "discord": {"text": "token apiBase"},
    "slack": {
        "text": "botToken appToken signingSecret apiBase mode replyToMode", "flag": "unfurlLinks unfurlMedia",
    },
    "matrix": {
        "text": "homeserver accessToken password userId deviceName autoJoin proxy deviceTrust recoveryKey pickleKey",
        "flag": "encryption",
    },
    "signal": {"text": "account accountUuid httpUrl httpHost", "flag": "sendReadReceipts", "number": "httpPort"},
    "whatsapp": {"flag": "sendReadReceipts"},
    "irc": {
        "text": "host nick username realname password tlsCaFile", "flag": "tls", "number": "port paceMs",
        "texts": "channels", "object": "nickserv",
    },
    "email": {
        "text": "address name password authservId folder sentFolder subject imapHost smtpHost",
        "flag": "copyToSelf saveSent", "number": "pollSeconds", "texts": "aliases", "object": "imap smtp",
    },
    "mattermost": {"text": "baseUrl botToken chatmode replyToMode", "texts": "oncharPrefixes"},
    "line": {
        "text": "channelAccessToken channelSecret tokenFile secretFile publicWebhookUrl apiBase", "flag": "replyTokens",
    },
    "feishu": {"text": "appId appSecret verificationToken encryptKey domain connectionMode"},
    "msteams": {
        "text": "appId appPassword tenantId publicWebhookUrl loginBase openIdUrl serviceUrl replyStyle",
    },
    "googlechat": {
        "text": "serviceAccountFile audienceType audience botUser publicWebhookUrl apiBase tokenUrl openIdUrl",
        "object": "serviceAccount",
    },
    "nextcloud-talk": {
        "text": "baseUrl botSecret botSecretFile botName apiUser apiPassword apiPasswordFile",
    },
    "bluebubbles": {"text": "serverUrl password", "number": "pollSeconds"},
    "sms": {
        "text": "accountSid authToken fromNumber messagingServiceSid publicWebhookUrl apiBase", "number": "pollSeconds",
    },
    "xmpp": {"text": "jid password host nick tlsCaFile", "flag": "tls", "number": "port", "texts": "rooms"},
    "webhook": {"text": "url secret", "texts": "acts"},
    "spool": {"text": "dir", "number": "pollSeconds"},
}  # fmt: skip
_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
SAID: dict[OwnKind, str] = {
    "text": "a text",
    "flag": "true or false",
    "number": "a number",
    "texts": 'a list, ["a", "b"] or a,b',
    "object": "an object, {…}",
}


def find_own_kind(channel: str, key: str) -> OwnKind | None:
    """The kind of a key that only this channel has."""
    return next((kind for kind, names in OWN_KEYS.get(channel, {}).items() if key in names.split()), None)


def read_own_value(kind: OwnKind, text: str) -> Any:
    """What somebody typed as the value of a key, None if it is not of that kind. `${NAME}` stands for any."""
    if kind == "text" or text.startswith("${"):
        return text
    if kind == "flag":
        return _WORDS.get(text.strip().lower())
    try:
        found = json.loads(text)
    except ValueError:
        found = [one.strip() for one in text.split(",") if one.strip()] if kind == "texts" else None
    if kind == "texts":
        found = found if isinstance(found, list) else [found]
        return [str(one) for one in found]
    fits = isinstance(found, dict | list) if kind == "object" else isinstance(found, int | float)
    return found if fits and not isinstance(found, bool) else None

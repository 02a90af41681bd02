"""`hooks`: the webhooks, what opens each, and what becomes of what they bring.

A hook whose own credential is missing or blank is closed, not open.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

import msgspec

from palinurus.config.declare import Section, fill_section, option, same_form
from palinurus.config.findings import ConfigPlace, suggest_nearest
from palinurus.config.forms import (
    BareSecret,
    Count,
    Lower,
    MinutesNumber,
    Names,
    Port,
    SecretText,
    Text,
    resolve_loose_secret,
)
from palinurus.config.kinds import Written
from palinurus.config.secrets import Secret
from palinurus.config.sections.plugins import HookScriptSettings
from palinurus.core.webhooks import SIGNATURE_SCHEMES

WebhookAction: TypeAlias = Literal["wake", "agent"]
SIZE = 256 * 1024
RATE = 300  # of one hook, a minute


class MappedHookSettings(Section, frozen=True):
    """One mapped hook. `path` "" fits every name; `source` must be the payload's own word, if set."""

    ABOUT: ClassVar = """
        secret What its payload is signed with.
        token What callers of this one must send.
        id Its name.
        match.path The path below hooks.path that it answers at.
        match.source Only payloads whose source is this.
        action agent: a run; wake: a note for the main session.
        name What the session is told that it came from.
        messageTemplate The message, with {{paths}} into the payload.
        sessionKey In which session; a template, too.
        agentId Which agent.
        wakeMode now, or next-heartbeat.
        deliver false: the answer goes nowhere.
        channel Where the answer goes: last, or a channel.
        to To whom there.
        signature How the payload is signed.
        deliveryId A template of what makes two deliveries the same one.
        ratePerMinute How many are taken in a minute.
        allowUnsafeExternalContent true: what the caller sent stands in the owner's words.
        textTemplate An older name of messageTemplate.
        model The model of its runs.
        thinking How long they think.
        timeoutSeconds How long they may take.
    """
    KNOWN: ClassVar = {**same_form(str, "textTemplate model thinking"), "timeoutSeconds": int | float}
    id: Text = ""
    path: Annotated[str, Written(str, lambda text: text.strip().strip("/"))] = option("", at="match.path")
    source: Text = option("", at="match.source")
    action: WebhookAction = option("agent", closed="wake")
    name: Text = ""
    template: Text = option("", at="messageTemplate")  # the owner's words, with {{paths}} into the payload
    session: Text = option("", at="sessionKey")  # a template too; values are escaped
    agent: Lower = option("", at="agentId")
    # wake now, not with the next heartbeat
    now: Annotated[bool, Written(Literal["now", "next-heartbeat"], lambda word: word == "now")] = option(
        True, at="wakeMode", closed="next-heartbeat"
    )
    deliver: bool = option(True, closed=False)
    channel: Annotated[str, Written(str, lambda text: text.strip() or msgspec.UNSET)] = "last"
    to: Text = ""
    options: dict[str, Any] = option({}, at=None)  # model, thinking, timeoutSeconds
    token: BareSecret = Secret()
    secret: BareSecret = Secret()
    scheme: Text = option("", at="signature")
    preset: bool = option(False, at=None)  # the words are ours, not the owner's
    closed: bool = option(False, at=None)  # it was to have a credential of its own, and has none
    delivery: Text = option("", at="deliveryId")  # template of what makes a delivery the same one
    rate: Count = option(RATE, at="ratePerMinute")
    inline: bool = option(False, at="allowUnsafeExternalContent")  # values stand in the owner's words

    LOOSE: ClassVar = True

    @property
    def own(self) -> bool:
        """Is it opened by a credential of its own? Then by no other."""
        return bool(self.token) or bool(self.scheme) or self.closed

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        scheme, older, wrong = self.scheme, raw.get("textTemplate"), False
        if scheme and scheme not in SIGNATURE_SCHEMES:
            hint = suggest_nearest(scheme, SIGNATURE_SCHEMES)
            here.bad("signature", f"is not one of {', '.join(SIGNATURE_SCHEMES)}", hint)
            wrong = True
        for name in ("channel", "to", "model", "agentId"):
            if isinstance(raw.get(name), str) and "{{" in raw[name]:
                here.bad(name, "cannot come from the sender", "write it out; until then this hook is closed")
                wrong = True
        if "secret" in raw and not scheme:
            scheme = "generic"
        return msgspec.structs.replace(
            self,
            id=self.id or self.path or f"mapping{here.path[-1]}",
            template=self.template or (older.strip() if isinstance(older, str) else ""),
            options={name: raw[name] for name in ("model", "thinking", "timeoutSeconds") if raw.get(name)},
            scheme=scheme,
            token=Secret() if wrong else self.token,
            secret=Secret() if wrong else self.secret,
            closed=wrong or ("token" in raw and not self.token) or (bool(scheme) and not self.secret),
        )


class MailSettings(Section, frozen=True):
    """hooks.gmail: a mailbox that `gog` watches for us; what comes goes to the hook `gmail`. Times in seconds."""

    account: Text = option("", "The mailbox to watch, with the program `gog`, which must be signed in to it.")
    label: Text = option("INBOX", "Only mail with this label.")
    topic: Text = option("", "The Pub/Sub topic that Gmail tells of new mail, projects/NAME/topics/NAME.")
    push_token: BareSecret = option(Secret(), "What Pub/Sub proves itself with to gog.")
    hook_url: Text = option("", "Where gog posts to; by default this gateway's hook `gmail`.")
    include_body: bool = option(
        True, "false: only the sender, the subject and the first words of a mail.", closed=False
    )
    size: Count = option(20_000, "How many bytes of a mail are handed on.", "maxBytes")
    renew: MinutesNumber = option(
        43_200.0, "How often the watch is renewed; Gmail ends it after 7 days.", "renewEveryMinutes"
    )
    model: Text = option("", "The model of turns about mail.")
    thinking: Text = option("", "How long it thinks about mail.")
    bind: Text = option("127.0.0.1", "The address that gog listens on for Pub/Sub.", "serve.bind")
    port: Port = option(8788, "Its port.", "serve.port")
    path: Text = option("/gmail-pubsub", "Its path.", "serve.path")
    tailnet: Literal["off", "serve", "funnel"] = option(
        "off", "serve or funnel: have tailscale let Pub/Sub in to gog.", "tailscale.mode"
    )
    tailnet_path: Text = option("", "The path there; by default serve.path.", "tailscale.path")

    LOOSE: ClassVar = True


def _agents(named: list[str]) -> Names | None:
    return None if "*" in named else tuple(name.strip().lower() for name in named)


class WebhookSettings(Section, frozen=True):
    """hooks"""

    ABOUT: ClassVar = """
        internal Scripts that hear of events.
        token What callers must send.
        enabled true: the gateway takes webhooks (docs/webhooks.md).
        path The path that they are at.
        defaultSessionKey In which session their runs are.
        allowRequestSessionKey true: a caller may name the session.
        allowedSessionKeyPrefixes What such a name must begin with.
        allowedAgentIds The only agents that can be asked; not set: all.
        maxBodyBytes How large a payload may be.
        mappings Hooks with a path of their own.
        presets Hooks that are known by name: gmail.
    """
    enabled: bool = False
    path: str = "/hooks"
    token: Secret = option(Secret(), at=None)
    session: Text = option("", at="defaultSessionKey")  # for agent turns that name none; "" = one of their own
    choose: bool = option(False, at="allowRequestSessionKey")  # may a request name its session?
    prefixes: Names = option((), at="allowedSessionKeyPrefixes")  # of session keys that hooks may use; () = any
    # that a request may name; None = any
    agents: Annotated[Names | None, Written(list[str], _agents)] = option(None, at="allowedAgentIds")
    size: Count = option(SIZE, at="maxBodyBytes")
    hooks: tuple[MappedHookSettings, ...] = option((), at=None)
    gmail: MailSettings = option(MailSettings(), "A mailbox that is watched (docs/webhooks.md).")
    scripts: HookScriptSettings = option(HookScriptSettings(), at="internal")

    SEALED: ClassVar = {"enabled": False}
    KNOWN: ClassVar = {"token": SecretText, "mappings": list[MappedHookSettings], "presets": list[str]}

    def settle(self, raw: Mapping[str, Any], here: ConfigPlace) -> Self:
        """What cannot work is found here, not at the first delivery."""
        if not self.enabled:
            return type(self)(scripts=self.scripts)
        token = Secret(resolve_loose_secret(raw.get("token"), here.below("token")).reveal().strip())
        made: list[MappedHookSettings] = []
        for at, body in enumerate(raw.get("mappings") or ()):
            made.append(fill_section(MappedHookSettings, body, here.below("mappings", at)))
        presets = [*(raw.get("presets") or ()), *(("gmail",) if self.gmail.account else ())]
        for at, name in enumerate(dict.fromkeys(presets)):
            place = here.below("presets", at)
            if name not in PRESETS:
                place.bad("", f"there is no preset {name!r}", suggest_nearest(name, PRESETS))
            elif all(hook.id != name for hook in made):
                preset = fill_section(MappedHookSettings, {"id": name, **PRESETS[name]}, place)
                made.append(msgspec.structs.replace(preset, preset=True))
        if not token and not any(hook.own for hook in made):
            here.bad("token", "is not set, so no webhook can be used", "set it to a long random text")
            return type(self)(scripts=self.scripts)
        wishes = {"model": self.gmail.model, "thinking": self.gmail.thinking}
        mail = {name: word for name, word in wishes.items() if word}
        for at, hook in enumerate(made):
            if hook.id == "gmail":
                made[at] = msgspec.structs.replace(hook, options={**mail, **hook.options})
        base = "/" + (self.path or "hooks").strip("/ ")
        if base == "/":
            here.bad("path", "must not be /", "write it as /hooks")
            base = "/hooks"
        return msgspec.structs.replace(self, path=base, token=token, hooks=tuple(made))


# Mappings that need no writing: hooks.presets names them. A mapping of the same id in the config goes before it.
PRESETS: dict[str, dict[str, Any]] = {
    "gmail": {
        "match": {"path": "gmail"},
        "name": "Gmail",
        "sessionKey": "hook:gmail:{{messages[0].id}}",
        "deliveryId": "{{messages[0].id}}",
        "messageTemplate": "A mail has come from {{messages[0].from}}, about {{messages[0].subject}}. Say in one or "
        "two sentences what it is about and whether something has to be done.\n{{messages[0].snippet}}\n"
        "{{messages[0].body}}",
    },
    "github": {
        "match": {"path": "github"},
        "name": "GitHub",
        "signature": "github",
        "secret": {"source": "env", "id": "GITHUB_WEBHOOK_SECRET"},
        "sessionKey": "hook:github:{{repository.full_name}}",
        "messageTemplate": "GitHub tells of {{headers.x-github-event}} ({{action}}) in {{repository.full_name}} by "
        "{{sender.login}}. Say briefly what happened, and what the owner should look at.\n{{pull_request.title}}\n"
        "{{pull_request.html_url}}\n{{issue.title}}\n{{issue.html_url}}\n{{comment.body}}\n{{head_commit.message}}",
    },
}

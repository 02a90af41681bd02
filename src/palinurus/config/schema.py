"""The config file as a whole: `Config` is the root of all declarations. Names are OpenClaw's.

Sections that nothing reads yet are known but free-form, so that a person's file gives no false alarms.
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from palinurus.config.declare import Section, Unfilled, fill_section, list_declared, option, same_form
from palinurus.config.findings import UNKNOWN, ConfigFinding, ConfigPlace, suggest_nearest
from palinurus.config.forms import Amount, Free
from palinurus.config.inert import ACTION_WORDS
from palinurus.config.keypath import Path
from palinurus.config.kinds import Kind, KindReport, MapKind, NotedMap
from palinurus.config.sections.agents import AgentsSection
from palinurus.config.sections.audio import SpeechSettings, TalkSettings
from palinurus.config.sections.browser import BrowserSettings, CanvasSettings
from palinurus.config.sections.channels import AccountSettings, ChannelSection, PhoneSettings
from palinurus.config.sections.credentials import AuthSettings, BudgetSettings
from palinurus.config.sections.gateway import GatewaySettings, NodeHostSettings, PageLook
from palinurus.config.sections.mcp import McpSettings
from palinurus.config.sections.models import ModelsSection
from palinurus.config.sections.people import list_maps
from palinurus.config.sections.plugins import PluginSettings
from palinurus.config.sections.runtimes import AcpSettings
from palinurus.config.sections.schedule import CronSettings
from palinurus.config.sections.session import (
    CommandSettings,
    DiagnosticsSettings,
    LoggingSettings,
    MessagesSection,
    RecordSettings,
    SessionSettings,
    SkillSettings,
    StoreSettings,
)
from palinurus.config.sections.tools import ToolsSection
from palinurus.config.sections.vaults import SecretsSection
from palinurus.config.sections.webhooks import WebhookSettings
from palinurus.core.channelneeds import OWN_KEYS

DEFAULTS = "What applies to every channel unless its own section says otherwise."
INSIDERS = "Who else may have what is in MEMORY.md, USER.md and memory/: telegram:123, telegram:group:-100."


DEFAULTS_WITHOUT = frozenset({"accounts", "defaultAccount", "enabled"})


class ChannelsKind(NotedMap):
    """`channels`: by platform, with what that one can say."""

    def inspect(self, value: Any, path: Path, report: KindReport) -> None:
        super().inspect(value, path, report)
        for name, section in value.items():
            if (name in OWN_KEYS or name == "defaults") and isinstance(section, dict):
                shared, own = list_declared(AccountSettings).keys, " ".join(OWN_KEYS.get(name, {}).values()).split()
                self._tell({*list_declared(ChannelSection).keys, *own}, section, (*path, name), report)
                for account, body in list_maps(section.get("accounts")):
                    self._tell({*shared, *own}, body, (*path, name, "accounts", account), report)

    def step(self, part: str | int) -> Kind | None:
        return Unfilled(ChannelSection, DEFAULTS_WITHOUT) if part == "defaults" else super().step(part)

    @staticmethod
    def _tell(known: set[str], section: Mapping[str, Any], path: Path, report: KindReport) -> None:
        for at, body, words in ((path, section, known), ((*path, "actions"), section.get("actions"), ACTION_WORDS)):
            for key in sorted(set(body) - words) if isinstance(body, dict) else ():
                report.wrong.append(ConfigFinding((*at, key), UNKNOWN, suggest_nearest(key, words), fatal=False))


class MemorySection(Section, frozen=True):
    KNOWN: ClassVar = {
        "allowFrom": Annotated[list[str | int], INSIDERS],
        "citations": Annotated[Literal["auto", "on", "off"], "Whether answers name the notes that they come from."],
    }


class AccessGroup(Section, frozen=True):
    KNOWN: ClassVar = {
        "type": Annotated[str, "message.senders, the only kind there is here."],
        "members": Annotated[dict[str, list[str | int]], "Ids of people, by channel; * is every channel."],
    }


class Config(Section, frozen=True):
    """palinurus.json"""

    ABOUT: ClassVar = """
        mcp Tools of MCP servers.
        memory What is remembered, and who may know it.
        plugins Plugins, and their settings (docs/plugins.md).
        skills What skills there are, and their settings.
        hooks Webhooks from other programs, and scripts that hear of events.
        cron Jobs at fixed times (docs/schedules.md).
        messages How messages are taken and answered.
        bindings Which agent answers which chats (docs/channels.md).
        audio The older place of tools.media.audio.
        meta Notes that programs make for themselves.
        wizard Notes that programs make for themselves.
        $schema Says to an editor what the file is; nothing else reads it.
    """
    agents: AgentsSection = option(AgentsSection(), "The agents: what they share, and one entry for each.")
    models: ModelsSection = option(ModelsSection(), "Model providers besides the built-in ones.")
    gateway: GatewaySettings = option(GatewaySettings(), "The server that clients and channels talk to.")
    tools: ToolsSection = option(ToolsSection(), "Which tools the agents have, and their limits.")
    session: SessionSettings = option(SessionSettings(), "How conversations are told apart and when they start anew.")
    messages: MessagesSection = MessagesSection()
    channels: Annotated[dict[str, Free], ChannelsKind(Unfilled(ChannelSection), defaults=DEFAULTS)] = option(
        {}, "Where messages come from and go to, by channel (docs/channels.md)."
    )
    web: PhoneSettings = option(PhoneSettings(), "The connection to WhatsApp.")
    node_host: NodeHostSettings = option(NodeHostSettings(), "This machine as a node of another's gateway.")
    browser: BrowserSettings = option(BrowserSettings(), "The browser that agents drive (docs/browser.md).")
    canvas: CanvasSettings = option(CanvasSettings(), "Pages that agents show (docs/canvas.md).", at="canvasHost")
    ui: PageLook = option(PageLook(), "How the web page looks.")
    cron: CronSettings = CronSettings()
    hooks: WebhookSettings = WebhookSettings()
    skills: SkillSettings = SkillSettings()
    plugins: PluginSettings = PluginSettings()
    record: RecordSettings = option(RecordSettings(), "Runs that are recorded, to be played again.")
    logging: LoggingSettings = option(LoggingSettings(), "What is logged, and where.")
    env: Annotated[Free, NotedMap(Any, shellEnv="Keys of models from the login shell: {enabled, timeoutMs}.")] = option(
        {}, "Variables for the gateway that are used where the environment has none."
    )
    secrets: SecretsSection = option(SecretsSection(), "Where references to secrets lead (docs/security.md).")
    bindings: list[Free] = []
    access_groups: Annotated[dict[str, Free], MapKind(Unfilled(AccessGroup))] = option(
        {}, "Lists of people that have a name; other lists use them as accessGroup:NAME."
    )
    auth: AuthSettings = option(AuthSettings(), "Several keys for one provider, and how long one that failed rests.")
    budgets: BudgetSettings = option(BudgetSettings(), "What may be spent; a soft limit warns once, a hard one stops.")
    broadcast: Free = option({}, "Chats whose messages go to several agents, by the chat's id.")
    commands: CommandSettings = option(CommandSettings(), "What can be typed in chats, and by whom.")
    memory: Annotated[Free, Unfilled(MemorySection)] = {}
    mcp: McpSettings = McpSettings()
    acp: AcpSettings = option(AcpSettings(), "Programs that speak the Agent Client Protocol (docs/runtimes.md).")
    store: StoreSettings = option(
        StoreSettings(), "Where the state is: on this machine, or shared by several gateways."
    )
    diagnostics: DiagnosticsSettings = option(DiagnosticsSettings(), "What is told of runs, and to whom.")
    written: Free = option({}, at=None)  # the whole as it is written

    KNOWN: ClassVar = {
        **same_form(Free, "audio meta wizard"),
        "media.ttlHours": Annotated[Amount, "How long files are kept that people send; 0: two weeks."],
        "tts": Annotated[Free, Unfilled(SpeechSettings), "What is read aloud, and by whom (docs/speech.md)."],
        "talk": Annotated[Free, Unfilled(TalkSettings), "Speech on the page and in clients (docs/speech.md)."],
        "$schema": str,  # this, meta and wizard are notes of programs: there is nothing to act on
    }

    def section(self, name: str) -> Free:
        """A free-form section as it is written."""
        found = self.written.get(name)
        return found if isinstance(found, dict) else {}


def convert_config(raw: dict[str, Any], here: ConfigPlace | None = None) -> Config:
    """`raw`, which `check_config` has passed, as a `Config`."""
    return fill_section(Config, raw, here or ConfigPlace("", {}, []), written=raw)

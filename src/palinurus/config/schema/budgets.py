"""budgets: what may be spent. Ours; OpenClaw has no such section."""

from palinurus.config.schema.words import Amount, ConfigSection, Size


class BudgetLimitSection(ConfigSection, frozen=True):
    """At `soft…` the person is told once; at `hard…` no model is asked any more."""

    soft_usd: Amount | None = None
    hard_usd: Amount | None = None
    soft_tokens: Size | None = None
    hard_tokens: Size | None = None


class BudgetsSection(ConfigSection, frozen=True):
    day: BudgetLimitSection | None = None  # everything, per calendar day
    session: BudgetLimitSection | None = None  # one conversation, with its sub-agents, until it is reset
    agent: BudgetLimitSection | None = None  # each agent, per calendar day
    agents: dict[str, BudgetLimitSection] | None = None  # the same for one agent, instead

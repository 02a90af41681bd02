// Usage: what was spent, by day, model, conversation and channel; what the cache saved; and limits.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { fill } from "../form";
import { spread, zone } from "./days";
import { readConfig, writeConfig } from "../settings";
import { placed } from "../sidebar";
import { count, money, spent } from "../text";
import { language, plural, tr } from "../words";

const MOST = 12; // rows of a list
const SPANS: [number, string][] = [[7, tr`7 days`], [30, tr`30 days`], [90, tr`90 days`]];
const LIMITS: [string, string, string][] = [["day", tr`Everything, per day`, "day"], ["session", tr`Each conversation`, "session"], ["agent", tr`Each agent, per day`, "agent"]];
const share = (part: number, all: number): string => new Intl.NumberFormat(language(), { style: "percent", maximumFractionDigits: 0 }).format(all ? part / all : 0);

class Usage extends Page {
  static properties = { days: { state: true }, unit: { state: true } };
  heading = tr`Usage`;
  about = tr`What was used, what it cost, and what it may cost.`;
  days = 30;
  unit: "totalCost" | "totalTokens" = "totalCost";

  protected async fetch(): Promise<Payload> {
    const [used, cost, config] = await Promise.all([this.ask("sessions.usage", { days: this.days, limit: MOST, order: this.unit, ...zone() }), this.ask("usage.cost", { days: this.days, ...zone() }), readConfig()]);
    if (!cost.totals.totalCost) this.unit = "totalTokens";
    return { used, daily: cost.daily, totals: cost.totals, budgets: config.config?.budgets ?? {} };
  }

  protected tools(): unknown {
    const span = (days: number, label: string) => html`<button type="button" role="tab" aria-selected=${this.days === days} @click=${() => { this.days = days; void this.load(); }}>${label}</button>`;
    return html`<div class="tabs" role="tablist" aria-label=${tr`Time span`}>${SPANS.map(([days, label]) => span(days, label))}</div>`;
  }

  private amount(totals: Payload): string {
    return this.unit === "totalCost" ? spent(totals) : count(totals.totalTokens);
  }

  /** A column for each day of the span, also for those on which nothing happened. */
  private chart(daily: Payload[]): unknown {
    const days = spread(daily, this.days);
    const most = Math.max(...days.map((day) => day[this.unit] ?? 0), 1e-9);
    const short = new Intl.DateTimeFormat(language(), { day: "numeric", month: "numeric", timeZone: "UTC" });
    const every = Math.ceil(this.days / 10) | 1;
    return html`<div class="chart dense" role="img" aria-label=${tr`By day: ${days.filter((day) => day[this.unit]).map((day) => `${day.date} ${this.amount(day)}`).join(", ")}`}>${days.map((day, at) => html`<div title="${day.date}: ${count(day.totalTokens)} · ${spent(day)}"><i .style=${`height:${Math.max(day[this.unit] ? 2 : 0, (100 * (day[this.unit] ?? 0)) / most)}%`}></i><span>${at % every ? "" : short.format(new Date(day.date))}</span></div>`)}</div>`;
  }

  private bars(head: string, rows: { name: string; totals: Payload; open?: () => void }[]): unknown {
    const sorted = [...rows].sort((a, b) => (b.totals[this.unit] ?? 0) - (a.totals[this.unit] ?? 0)).slice(0, MOST);
    const most = Math.max(...sorted.map((row) => row.totals[this.unit] ?? 0), 1e-9);
    if (!sorted.length) return nothing;
    return html`<section><h2>${head}</h2><ul class="rows bars">${sorted.map((row) => html`<li>${row.open ? html`<button type="button" class="linkish" @click=${row.open}>${row.name}</button>` : html`<span>${row.name}</span>`}<i class="share"><i .style=${`width:${(100 * (row.totals[this.unit] ?? 0)) / most}%`}></i></i><b>${this.amount(row.totals)}</b></li>`)}</ul></section>`;
  }

  private limit(budgets: Payload): void {
    const fields = LIMITS.flatMap(([key, label]) => [
      { name: `${key}.softUsd`, label: tr`${label}: warn at (US $)`, kind: "number" as const, value: budgets[key]?.softUsd },
      { name: `${key}.hardUsd`, label: tr`${label}: stop at (US $)`, kind: "number" as const, value: budgets[key]?.hardUsd },
    ]);
    fill({
      title: tr`Limits`, about: tr`At the first amount you are told once; at the second no model is asked any more.`, fields,
      send: async (_values, changed) => {
        const made: Payload = {};
        for (const [name, value] of Object.entries(changed)) {
          const [key, part] = name.split(".") as [string, string];
          (made[key] ??= {})[part] = value;
        }
        await writeConfig({ budgets: made });
        await this.load();
      },
    });
  }

  protected body(d: Payload): unknown {
    const all = d.totals;
    const sums: Payload = d.used.aggregates;
    const read = all.cacheRead ?? 0;
    const input = (all.input ?? 0) + read + (all.cacheWrite ?? 0);
    const tile = (name: string, value: unknown, more: unknown) => html`<div class="tile"><span>${name}</span><b>${value}</b><small>${more}</small></div>`;
    const pick = (name: "totalCost" | "totalTokens", label: string) => html`<button type="button" class="small ghost" aria-pressed=${this.unit === name} @click=${() => { this.unit = name; void this.load(); }}>${label}</button>`;
    const set = LIMITS.filter(([key]) => d.budgets[key]?.hardUsd || d.budgets[key]?.softUsd);
    return html`<div class="tiles">${tile(tr`Cost`, spent(all), [tr`in ${this.days} days`, all.missingCostEntries ? plural(all.missingCostEntries, "{n} call without a price", "{n} calls without a price") : ""].filter(Boolean).join(", "))}${tile(tr`Tokens`, count(all.totalTokens), tr`${count(all.input)} in, ${count(all.output)} out`)}${tile(tr`Read from cache`, share(read, input), tr`${count(read)} tokens`)}${tile(tr`Model calls`, count(sums.messages?.total), plural(sums.sessions ?? (d.used.sessions ?? []).length, "{n} conversation", "{n} conversations"))}</div>
      ${all.totalTokens ? html`<section><h2>${tr`By day`} <span class="units">${pick("totalCost", tr`Cost`)}${pick("totalTokens", tr`Tokens`)}</span></h2>${this.chart(d.daily)}</section>` : sums.messages?.total ? empty(tr`No tokens were counted`, tr`The models that answered told none.`) : empty(tr`Nothing was used yet`, tr`Costs appear here with the first answer.`)}
      ${this.bars(tr`By model`, (sums.byModel ?? []).map((row: Payload) => ({ name: `${row.provider}/${row.model}`, totals: row.totals })))}
      ${this.bars(tr`By conversation`, (d.used.sessions ?? []).map((row: Payload) => ({ name: row.label || store.sessions.find((one) => one.key === row.key)?.derivedTitle || row.key, totals: row.usage, open: () => store.go("chat", row.key) })))}
      ${this.bars(tr`By channel`, (sums.byChannel ?? []).map((row: Payload) => ({ name: placed(row.channel), totals: row.totals })))}
      ${(sums.byAgent ?? []).length > 1 ? this.bars(tr`By agent`, sums.byAgent.map((row: Payload) => ({ name: row.agentId, totals: row.totals }))) : nothing}
      <section><h2>${tr`Limits`}</h2>${set.length ? html`<ul class="rows">${set.map(([key, label]) => html`<li><b>${label}</b><span class="dim">${[d.budgets[key].softUsd ? tr`warn at ${money(d.budgets[key].softUsd)}` : "", d.budgets[key].hardUsd ? tr`stop at ${money(d.budgets[key].hardUsd)}` : ""].filter(Boolean).join(" · ")}</span></li>`)}</ul>` : html`<p class="dim">${tr`There is no limit.`}</p>`}<p><button type="button" class="plain" @click=${() => this.limit(d.budgets)}>${tr`Change limits`}</button></p></section>`;
  }
}
customElements.define("pal-usage", Usage);

// The overview: is it well, what runs and waits, how the channels are, what it cost.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { BASE } from "../place";
import { placed } from "../sidebar";
import { ago, count, spent, took } from "../text";
import { spread, zone } from "./days";
import { health } from "./health";
import { plural, rich, tr } from "../words";

const tile = (name: string, value: unknown, more: unknown = nothing): unknown => html`<div class="tile"><span>${name}</span><b>${value}</b><small>${more}</small></div>`;
const DAYS = 14;
const BUSY = ["running", "queued", "stopping"];

class Overview extends Page {
  static properties = { unit: { state: true } };
  heading = tr`Overview`;
  about = tr`Health, activity and spending of this gateway.`;
  unit: "totalCost" | "totalTokens" | "" = "";
  protected every = 5000;

  protected async fetch(): Promise<Payload> {
    const [health, cost, channels, tasks, presence, fleet] = await Promise.all([
      this.ask("health"), this.maybe("usage.cost", { days: DAYS, ...zone() }), this.maybe("channels.status"), this.maybe("tasks.list", {}), this.maybe<Payload[]>("system-presence"), this.maybe("fleet.status"),
    ]);
    return { health, cost, channels, tasks: tasks?.tasks ?? [], presence, fleet };
  }

  protected tools(): unknown {
    return store.client.has("setup.status") ? html`<button type="button" class="plain" @click=${() => store.go("setup")}>${store.demo ? tr`Connect a model` : tr`Change the model`}</button>` : nothing;
  }

  protected body(d: Payload): unknown {
    const up = (store.client.hello?.snapshot?.uptimeMs ?? 0) + Date.now() - store.client.since;
    const busy: Payload[] = d.tasks.filter((task: Payload) => BUSY.includes(task.status));
    const waiting = busy.filter((task) => task.status === "queued").length;
    const days = spread(d.cost?.daily ?? [], DAYS);
    const today = days.at(-1)!;
    return html`${d.health?.ok === false ? html`<p class="banner error" role="alert">${tr`Problem: ${(d.health.failing ?? []).join(", ")}`}</p>` : nothing}
      <div class="tiles">
      ${tile(tr`Gateway`, d.health?.ok === false ? tr`Problem` : tr`Running`, tr`version ${store.client.hello?.server?.version ?? "?"}, up ${took(up)}`)}
      ${tile(tr`Queue`, busy.length - waiting, tr`running, ${waiting} waiting`)}
      ${tile(tr`Sessions`, Math.max(d.health?.sessions?.count ?? 0, store.sessions.length), plural((d.health?.agents ?? []).length || 1, "{n} agent", "{n} agents"))}
      ${tile(tr`Today`, spent(today), today.totalTokens ? tr`${count(today.totalTokens)} tokens` : tr`nothing spent`)}
      ${d.fleet?.fleet ? tile(tr`Fleet`, d.fleet.nodes.length, html`<a href="${BASE}/fleet">${tr`gateways, ${d.fleet.waiting} waiting`}</a>`) : nothing}
      ${tile(tr`14 days`, spent(d.cost?.totals ?? {}), tr`${count(d.cost?.totals?.totalTokens)} tokens`)}</div>
      ${days.some((day) => day.totalTokens || day.totalCost) ? this.chart(days) : nothing}
      <section><h2>${tr`Working now`}</h2>${busy.length ? html`<ul class="rows">${busy.map((task) => this.task(task))}</ul>` : empty(tr`Nothing is running`, tr`Replies, sub-agents and jobs appear here while they work.`)}</section>
      <section><h2><a href="${BASE}/channels">${tr`Channels`}</a></h2>${this.channels(d.channels)}</section>
      <section><h2>${tr`Connected`}</h2><ul class="rows">${(d.presence ?? []).map((one: Payload) => html`<li><b>${one.host ?? one.text ?? one.mode ?? "client"}</b><span class="dim">${[one.mode, one.platform, one.version].filter(Boolean).join(" · ")}</span><span class="dim">${ago(one.ts)}</span></li>`)}</ul></section>`;
  }

  private task(task: Payload): unknown {
    const key = task.childSessionKey ?? task.sessionKey;
    return html`<li>${task.status === "running" ? html`<i class="spin" aria-hidden="true"></i>` : nothing}<a href="${BASE}/chat/${encodeURIComponent(key)}">${task.title || key}</a><span class="tag">${task.kind ?? ""}</span><span class="dim">${task.status}${task.startedAt ? `, ${took(Math.max(0, Date.now() - task.startedAt))}` : ""}</span></li>`;
  }

  private channels(status: Payload | null): unknown {
    const rows = (status?.channelOrder ?? []).flatMap((name: string) => (status!.channelAccounts?.[name] ?? []).map((one: Payload) => html`<li><b>${placed(name)}</b><span class="dim">${one.name ?? (one.accountId === "default" ? "" : one.accountId)}</span>${health(one)}${one.lastError ? html`<span class="warn grow">${one.lastError}</span>` : nothing}</li>`));
    return rows.length ? html`<ul class="rows">${rows}</ul>` : empty(tr`No chat apps yet`, html`${rich`Connect Telegram, Discord, Slack and others: ${html`<code>pal channels add</code>`}.`}`);
  }

  private chart(days: Payload[]): unknown {
    const unit = this.unit || (days.some((day) => day.totalCost) ? "totalCost" : "totalTokens");
    const most = Math.max(...days.map((day) => day[unit] ?? 0), 1e-9);
    const say = (day: Payload) => (unit === "totalCost" ? spent(day) : count(day.totalTokens));
    const pick = (name: "totalCost" | "totalTokens", label: string) => html`<button type="button" class="small ghost" aria-pressed=${unit === name} @click=${() => (this.unit = name)}>${label}</button>`;
    return html`<section><h2>${tr`By day`} <span class="units">${pick("totalCost", tr`Cost`)}${pick("totalTokens", tr`Tokens`)}</span></h2><div class="chart" role="img" aria-label=${tr`By day: ${days.filter((day) => day[unit]).map((day) => `${day.date} ${say(day)}`).join(", ")}`}>
      ${days.map((day) => html`<div title=${tr`${day.date}: ${count(day.totalTokens)} tokens, ${spent(day)}`}><small>${day[unit] ? say(day) : ""}</small><i .style=${`height:${Math.max(day[unit] ? 2 : 0, (100 * (day[unit] ?? 0)) / most)}%`}></i><span>${String(day.date).slice(5)}</span></div>`)}</div></section>`;
  }
}
customElements.define("pal-overview", Overview);

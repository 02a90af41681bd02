// The overview: is it well, what runs and waits, how the channels are, what it cost.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { ago, count, money, took, upper } from "../text";
import { health } from "./channels";

const tile = (name: string, value: unknown, more: unknown = nothing): unknown => html`<div class="tile"><span>${name}</span><b>${value}</b><small>${more}</small></div>`;
const open = (view: string, key = "") => (event: Event) => { event.preventDefault(); store.go(view, key); };
const BUSY = ["running", "queued", "stopping"];

class Overview extends Page {
  static properties = { unit: { state: true } };
  heading = "Overview";
  about = "Health, work and spending of this gateway.";
  unit: "totalCost" | "totalTokens" | "" = "";
  private timer = 0;

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => store.client.link === "open" && void this.load(), 5000);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected async fetch(): Promise<Payload> {
    const [health, cost, channels, tasks, presence, fleet] = await Promise.all([
      this.ask("health"), this.maybe("usage.cost", { days: 14 }), this.maybe("channels.status"), this.maybe("tasks.list", {}), this.maybe<Payload[]>("system-presence"), this.maybe("fleet.status"),
    ]);
    return { health, cost, channels, tasks: tasks?.tasks ?? [], presence, fleet };
  }

  protected tools(): unknown {
    return store.client.has("setup.status") ? html`<button type="button" class="plain" @click=${open("setup")}>${store.demo ? "Connect a model" : "Change the model"}</button>` : nothing;
  }

  protected body(d: Payload): unknown {
    const up = (store.client.hello?.snapshot?.uptimeMs ?? 0) + Date.now() - store.client.since;
    const busy: Payload[] = d.tasks.filter((task: Payload) => BUSY.includes(task.status));
    const waiting = busy.filter((task) => task.status === "queued").length;
    const today = d.cost?.daily?.at(-1);
    return html`${d.health?.ok === false ? html`<p class="banner error" role="alert">Not well: ${(d.health.failing ?? []).join(", ")}</p>` : nothing}
      <div class="tiles">
      ${tile("Gateway", d.health?.ok === false ? "Not well" : "Running", `version ${store.client.hello?.server?.version ?? "?"}, up ${took(up)}`)}
      ${tile("Queue", busy.length - waiting, `running, ${waiting} waiting`)}
      ${tile("Sessions", Math.max(d.health?.sessions?.count ?? 0, store.sessions.length), `${(d.health?.agents ?? []).length || 1} agent${(d.health?.agents ?? []).length > 1 ? "s" : ""}`)}
      ${tile("Last day", today ? money(today.totalCost) : "$0", today ? `${count(today.totalTokens)} tokens` : "nothing spent")}
      ${d.fleet?.fleet ? tile("Fleet", d.fleet.nodes.length, html`<a href="/fleet" @click=${open("fleet")}>gateways, ${d.fleet.waiting} waiting</a>`) : nothing}
      ${tile("14 days", money(d.cost?.totals?.totalCost), `${count(d.cost?.totals?.totalTokens)} tokens`)}</div>
      ${d.cost?.daily?.some((day: Payload) => day.totalTokens || day.totalCost) ? this.chart(d.cost.daily) : nothing}
      <section><h2>Working now</h2>${busy.length ? html`<ul class="rows">${busy.map((task) => this.task(task))}</ul>` : empty("Nothing runs, nothing waits", "A turn, a sub-agent or a job shows up here while it is at work.")}</section>
      <section><h2><a href="/channels" @click=${open("channels")}>Channels</a></h2>${this.channels(d.channels)}</section>
      <section><h2>Connected</h2><ul class="rows">${(d.presence ?? []).map((one: Payload) => html`<li><b>${one.host ?? one.text ?? one.mode ?? "client"}</b><span class="dim">${[one.mode, one.platform, one.version].filter(Boolean).join(" · ")}</span><span class="dim">${ago(one.ts)}</span></li>`)}</ul></section>`;
  }

  private task(task: Payload): unknown {
    const key = task.childSessionKey ?? task.sessionKey;
    return html`<li>${task.status === "running" ? html`<i class="spin" aria-hidden="true"></i>` : nothing}<a href="/chat/${encodeURIComponent(key)}" @click=${open("chat", key)}>${task.title || key}</a><span class="tag">${task.kind ?? ""}</span><span class="dim">${task.status}${task.startedAt ? `, ${took(Math.max(0, Date.now() - task.startedAt))}` : ""}</span></li>`;
  }

  private channels(status: Payload | null): unknown {
    const rows = (status?.channelOrder ?? []).flatMap((name: string) => (status!.channelAccounts?.[name] ?? []).map((one: Payload) => html`<li><b>${status!.channelLabels?.[name] ?? upper(name)}</b><span class="dim">${one.name ?? (one.accountId === "default" ? "" : one.accountId)}</span>${health(one)}${one.lastError ? html`<span class="warn grow">${one.lastError}</span>` : nothing}</li>`));
    return rows.length ? html`<ul class="rows">${rows}</ul>` : empty("No chat apps yet", html`Connect Telegram, Discord, Slack and others: <code>pal channels add</code>.`);
  }

  private chart(days: Payload[]): unknown {
    const unit = this.unit || (days.some((day) => day.totalCost) ? "totalCost" : "totalTokens");
    const shown = days.slice(-30);
    const most = Math.max(...shown.map((day) => day[unit] ?? 0), 1e-9);
    const say = (day: Payload) => (unit === "totalCost" ? money(day.totalCost) : count(day.totalTokens));
    const pick = (name: "totalCost" | "totalTokens", label: string) => html`<button type="button" class="small ghost" aria-pressed=${unit === name} @click=${() => (this.unit = name)}>${label}</button>`;
    return html`<section><h2>By day <span class="units">${pick("totalCost", "Cost")}${pick("totalTokens", "Tokens")}</span></h2><div class="chart" role="img" aria-label="By day: ${shown.map((d) => `${d.date} ${say(d)}`).join(", ")}">
      ${shown.map((day) => html`<div title="${day.date}: ${count(day.totalTokens)} tokens, ${money(day.totalCost)}"><small>${day[unit] ? say(day) : ""}</small><i .style=${`height:${Math.max(2, (100 * (day[unit] ?? 0)) / most)}%`}></i><span>${String(day.date).slice(5)}</span></div>`)}</div></section>`;
  }
}
customElements.define("pal-overview", Overview);

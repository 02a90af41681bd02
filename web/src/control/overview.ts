// The overview: is it well, what runs, what it cost.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { ago, count, money, took } from "../text";

const tile = (name: string, value: unknown, more: unknown = nothing): unknown => html`<div class="tile"><span>${name}</span><b>${value}</b><small>${more}</small></div>`;

class Overview extends Page {
  heading = "Overview";
  about = "Health, work and spending of this gateway.";

  protected async fetch(): Promise<Payload> {
    const [health, status, cost, channels, tasks, presence] = await Promise.all([
      this.ask("health"), this.maybe("status"), this.maybe("usage.cost", { days: 14 }), this.maybe("channels.status"), this.maybe("tasks.list", {}), this.maybe<Payload[]>("system-presence"),
    ]);
    return { health, status, cost, channels, tasks, presence };
  }

  protected body(d: Payload): unknown {
    const snapshot = store.client.hello?.snapshot ?? {};
    const running = store.sessions.filter((row) => row.hasActiveRun);
    const today = d.cost?.daily?.at(-1);
    return html`<div class="tiles">
      ${tile("Gateway", d.health?.ok === false ? "Not well" : "Running", `version ${store.client.hello?.server?.version ?? "?"}, up ${took(snapshot.uptimeMs ?? 0)}`)}
      ${tile("Sessions", store.sessions.length, `${running.length} running now`)}
      ${tile("Last day", today ? money(today.totalCost) : "$0", today ? `${count(today.totalTokens)} tokens` : "nothing spent")}
      ${tile("14 days", money(d.cost?.totals?.totalCost), `${count(d.cost?.totals?.totalTokens)} tokens`)}</div>
      ${d.cost?.daily?.length ? this.chart(d.cost.daily) : nothing}
      <section><h2>Working now</h2>${running.length ? html`<ul class="rows">${running.map((row) => html`<li><a href="/chat/${encodeURIComponent(row.key)}" @click=${(e: Event) => { e.preventDefault(); store.go("chat", row.key); }}>${row.label ?? row.derivedTitle ?? row.key}</a><span class="dim">${row.modelProvider}/${row.model}</span></li>`)}</ul>` : empty("Nothing runs", "A turn shows up here while it is being answered.")}</section>
      <section><h2>Channels</h2>${d.channels?.channelOrder?.length ? html`<ul class="rows">${d.channels.channelOrder.map((name: string) => html`<li><b>${d.channels.channelLabels?.[name] ?? name}</b><span class="dim">${d.channels.channels?.[name]?.configured ? "configured" : ""}</span></li>`)}</ul>` : empty("No chat channels yet", html`Connect Telegram, Discord, Slack and others in the settings, under <code>channels</code>.`)}</section>
      <section><h2>Connected</h2><ul class="rows">${(d.presence ?? []).map((one: Payload) => html`<li><b>${one.host ?? one.text ?? one.mode ?? "client"}</b><span class="dim">${[one.mode, one.platform, one.version].filter(Boolean).join(" · ")}</span><span class="dim">${ago(one.ts)}</span></li>`)}</ul></section>`;
  }

  private chart(days: Payload[]): unknown {
    const most = Math.max(...days.map((day) => day.totalTokens ?? 0), 1);
    return html`<section><h2>Tokens by day</h2><div class="chart" role="img" aria-label="Tokens by day: ${days.map((d) => `${d.date} ${count(d.totalTokens)}`).join(", ")}">
      ${days.slice(-30).map((day) => html`<div title="${day.date}: ${count(day.totalTokens)} tokens, ${money(day.totalCost)}"><i .style=${`height:${Math.max(2, (100 * (day.totalTokens ?? 0)) / most)}%`}></i><span>${String(day.date).slice(5)}</span></div>`)}</div></section>`;
  }
}
customElements.define("pal-overview", Overview);

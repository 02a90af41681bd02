// The schedule: jobs with their next and past runs.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { icon } from "../icons";
import { moment, took } from "../text";
import { tr } from "../words";

function when(schedule: Payload = {}): string {
  if (schedule.kind === "cron") return `${schedule.expr}${schedule.tz ? ` (${schedule.tz})` : ""}`;
  if (schedule.kind === "every") return tr`every ${took(schedule.everyMs)}`;
  return schedule.at ? tr`once, ${moment(typeof schedule.at === "number" ? schedule.at : Date.parse(schedule.at))}` : "?";
}

class Cron extends Page {
  heading = tr`Schedule`;
  about = tr`What the agent does by itself, and when.`;

  protected async fetch(): Promise<Payload> {
    if (!store.client.has("cron.list")) return { missing: true };
    const [list, runs] = await Promise.all([this.ask("cron.list", {}), this.maybe("cron.runs", { scope: "all", limit: 30 })]);
    return { ...list, runs: runs?.entries ?? [] };
  }

  private async act(method: string, params: Payload, text: string): Promise<void> {
    if (await store.ask(method, params)) store.toast(text);
    await this.load();
  }

  protected body(d: Payload): unknown {
    if (d.missing) return empty(tr`Not served`, tr`This gateway does not offer the schedule over its protocol yet. Ask the agent, or use the command line.`);
    const jobs: Payload[] = d.jobs ?? [];
    return html`${jobs.length ? html`<ul class="rows big">${jobs.map((job) => html`<li><div class="grow"><b>${job.name}</b> <span class="tag ${job.enabled ? "good" : ""}">${job.enabled ? tr`on` : tr`off`}</span><p>${when(job.schedule)}</p><p>${tr`next ${moment(job.state?.nextRunAtMs)}`} · ${job.state?.lastRunAtMs ? tr`last ${moment(job.state.lastRunAtMs)} ${job.state.lastRunStatus ?? ""}` : tr`has not run yet`}</p><small class="dim">${job.payload?.message ?? job.payload?.text ?? ""}</small></div>
        <button type="button" class="plain" @click=${() => void this.act("cron.run", { id: job.id, mode: "force" }, tr`Started`)}>${tr`Run now`}</button>
        <button type="button" class="plain" @click=${() => void this.act("cron.update", { id: job.id, patch: { enabled: !job.enabled } }, tr`Saved`)}>${job.enabled ? tr`Pause` : tr`Resume`}</button>
        <button type="button" class="ghost icon-only" aria-label=${tr`Delete ${job.name}`} title=${tr`Delete`} @click=${() => confirm(tr`Delete “${job.name}”?`) && void this.act("cron.remove", { id: job.id }, tr`Deleted`)}>${icon("trash")}</button></li>`)}</ul>` : empty(tr`Nothing is scheduled`, tr`Tell the agent: “remind me every morning at eight …”.`)}
      ${d.runs.length ? html`<section><h2>${tr`Past runs`}</h2><ul class="rows">${d.runs.map((run: Payload) => html`<li>${run.sessionKey ? html`<a href="/chat/${encodeURIComponent(run.sessionKey)}" @click=${(e: Event) => { e.preventDefault(); store.go("chat", run.sessionKey); }}>${run.jobName ?? run.jobId}</a>` : html`<b>${run.jobName ?? run.jobId}</b>`}<span class="dim">${moment(run.runAtMs ?? run.ts)}</span><span class="tag ${run.status === "ok" ? "good" : ""}">${run.status}</span><span class="dim grow">${run.summary ?? ""}</span></li>`)}</ul></section>` : nothing}`;
  }
}
customElements.define("pal-cron", Cron);

// The schedule: jobs with their next and past runs; new ones, changed ones.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { fill, type Field } from "../form";
import { icon } from "../icons";
import { BASE } from "../place";
import { moment, took } from "../text";
import { sure } from "../sure";
import { tr } from "../words";

const MINUTE = 60_000;

function when(schedule: Payload = {}): string {
  if (schedule.kind === "cron") return `${schedule.expr}${schedule.tz ? ` (${schedule.tz})` : ""}`;
  if (schedule.kind === "every") return tr`every ${took(schedule.everyMs)}`;
  return schedule.at ? tr`once, ${moment(typeof schedule.at === "number" ? schedule.at : Date.parse(schedule.at))}` : "?";
}

/** A time as the field for it wants it, in this place's hours. */
const local = (at: unknown): string => {
  const date = new Date(typeof at === "number" ? at : Date.parse(String(at ?? "")));
  return Number.isNaN(date.getTime()) ? "" : new Date(date.getTime() - date.getTimezoneOffset() * MINUTE).toISOString().slice(0, 16);
};

function fields(job?: Payload): Field[] {
  const plan: Payload = job?.schedule ?? { kind: "cron" };
  const is = (kind: string) => (values: Payload) => values.kind === kind;
  const agents: [string, string][] = store.agents.map((one) => [one.id, one.identity?.name ?? one.name]);
  const target = job?.sessionTarget ?? "isolated";
  return [
    { name: "name", label: tr`Name`, required: true, value: job?.name },
    { name: "text", label: tr`What should the agent do?`, kind: "area", required: true, value: job?.payload?.message ?? job?.payload?.text, holder: tr`Summarise my unread mail` },
    { name: "kind", label: tr`When`, kind: "choice", value: plan.kind, options: [["cron", tr`At set times`], ["every", tr`At an interval`], ["at", tr`Once`]] },
    { name: "expr", label: tr`Times (cron)`, required: true, value: plan.expr, holder: "0 8 * * 1-5", when: is("cron"), hint: tr`Minute, hour, day, month, weekday: “0 8 * * 1-5” is weekdays at eight.` },
    { name: "tz", label: tr`Time zone`, value: plan.tz ?? (job ? "" : Intl.DateTimeFormat().resolvedOptions().timeZone), when: is("cron") },
    { name: "minutes", label: tr`Every so many minutes`, kind: "number", required: true, value: plan.everyMs ? plan.everyMs / MINUTE : 60, when: is("every") },
    { name: "at", label: tr`Date and time`, kind: "datetime-local", required: true, value: local(plan.at), when: is("at") },
    { name: "target", label: tr`Where`, kind: "choice", value: target, options: [["isolated", tr`In a conversation of its own`], ["main", tr`In the main conversation`], ...(target.startsWith("session:") ? [[target, target.slice(8)] as [string, string]] : [])] },
    ...(agents.length > 1 ? [{ name: "agent", label: tr`Agent`, kind: "choice" as const, value: job?.agentId ?? agents[0]![0], options: agents }] : []),
  ];
}

/** What a form says of a job: of one that is there only what was changed, as the rest has more to it than the form shows. */
function made(values: Payload, changed: Payload, job?: Payload): Payload {
  const schedule = values.kind === "cron" ? { kind: "cron", expr: values.expr, ...(values.tz ? { tz: values.tz } : {}) } : values.kind === "every" ? { kind: "every", everyMs: Math.round(values.minutes * MINUTE) } : { kind: "at", at: new Date(values.at).toISOString() };
  const event = job && !("target" in changed) ? job.payload?.kind === "systemEvent" : values.target === "main";
  const payload = event ? { kind: "systemEvent", text: values.text } : { kind: "agentTurn", message: values.text };
  const all: [string[], Payload][] = [[["name"], { name: values.name }], [["kind", "expr", "tz", "minutes", "at"], { schedule }], [["target"], { sessionTarget: values.target }], [["text", "target"], { payload }], [["agent"], values.agent ? { agentId: values.agent } : {}]];
  return Object.assign({}, ...all.filter(([names]) => !job || names.some((name) => name in changed)).map(([, part]) => part));
}

class Cron extends Page {
  static properties = { history: { state: true } };
  heading = tr`Schedule`;
  about = tr`What the agent does by itself, and when.`;
  protected hears = /^cron$/;
  history: Payload | null = null; // of one job

  protected async fetch(): Promise<Payload> {
    if (!store.client.has("cron.list")) return { missing: true };
    const [list, runs] = await Promise.all([this.ask("cron.list", { includeDisabled: true }), this.maybe("cron.runs", { scope: "all", limit: 30 })]);
    return { ...list, runs: runs?.entries ?? [] };
  }

  private async act(method: string, params: Payload, text: string): Promise<void> {
    if (await store.ask(method, params)) store.toast(text);
    await this.load();
  }

  private write(job?: Payload): void {
    fill({
      title: job ? tr`Edit job` : tr`New job`, fields: fields(job), word: job ? tr`Save` : tr`Create`,
      send: async (values, changed) => {
        const told = made(values, changed, job);
        await (job ? store.client.request("cron.update", { id: job.id, patch: told }) : store.client.request("cron.add", told));
        store.toast(tr`Saved`);
        await this.load();
      },
    });
  }

  private async look(job: Payload): Promise<void> {
    if (this.history?.id === job.id) { this.history = null; return; }
    const found = await store.ask("cron.runs", { scope: "job", id: job.id, limit: 20 });
    this.history = { id: job.id, runs: found?.entries ?? [] };
  }

  protected tools(): unknown {
    return store.client.has("cron.add") ? html`<button type="button" class="primary" @click=${() => this.write()}>${icon("plus")} ${tr`New job`}</button>` : nothing;
  }

  private job(job: Payload): unknown {
    return html`<li><div class="grow"><b>${job.name}</b> <span class="tag ${job.enabled ? "good" : ""}">${job.enabled ? tr`on` : tr`off`}</span><p>${when(job.schedule)}</p><p>${job.state?.nextRunAtMs ? `${tr`next ${moment(job.state.nextRunAtMs)}`} · ` : ""}${job.state?.lastRunAtMs ? tr`last ${moment(job.state.lastRunAtMs)} ${job.state.lastRunStatus ?? ""}` : tr`has not run yet`}</p><small class="dim">${job.payload?.message ?? job.payload?.text ?? ""}</small>
        ${this.history?.id === job.id ? this.runs(this.history!.runs) : nothing}</div>
      <button type="button" class="plain" @click=${() => void this.act("cron.run", { id: job.id, mode: "force" }, tr`Started`)}>${tr`Run now`}</button>
      <button type="button" class="plain" @click=${() => this.write(job)} aria-label=${tr`Edit ${job.name}`}>${tr`Edit`}</button>
      <button type="button" class="plain" @click=${() => void this.act("cron.update", { id: job.id, patch: { enabled: !job.enabled } }, tr`Saved`)}>${job.enabled ? tr`Pause` : tr`Resume`}</button>
      <button type="button" class="ghost icon-only" aria-label=${tr`History of ${job.name}`} title=${tr`History`} aria-expanded=${this.history?.id === job.id} @click=${() => void this.look(job)}>${icon("clock")}</button>
      <button type="button" class="ghost icon-only" aria-label=${tr`Delete ${job.name}`} title=${tr`Delete`} @click=${async () => { if (await sure(tr`Delete “${job.name}”?`, tr`Delete`)) void this.act("cron.remove", { id: job.id }, tr`Deleted`); }}>${icon("trash")}</button></li>`;
  }

  private runs(runs: Payload[]): unknown {
    if (!runs.length) return html`<p class="dim">${tr`has not run yet`}</p>`;
    return html`<ul class="rows">${runs.map((run) => html`<li>${run.sessionKey ? html`<a href="${BASE}/chat/${encodeURIComponent(run.sessionKey)}">${run.jobName ?? run.jobId}</a>` : html`<b>${run.jobName ?? run.jobId}</b>`}<span class="dim">${moment(run.runAtMs ?? run.ts)}</span><span class="tag ${run.status === "ok" ? "good" : ""}">${run.status}</span><span class="dim grow">${run.summary ?? ""}</span></li>`)}</ul>`;
  }

  protected body(d: Payload): unknown {
    if (d.missing) return empty(tr`Not available`, tr`This gateway does not offer the schedule over its protocol yet. Ask the agent, or use the command line.`);
    const jobs: Payload[] = d.jobs ?? [];
    return html`${jobs.length ? html`<ul class="rows big">${jobs.map((job) => this.job(job))}</ul>` : empty(tr`Nothing is scheduled`, tr`Create a job, or tell the agent: “remind me every morning at eight …”.`)}
      ${d.runs.length ? html`<section><h2>${tr`Past runs`}</h2>${this.runs(d.runs)}</section>` : nothing}`;
  }
}
customElements.define("pal-cron", Cron);

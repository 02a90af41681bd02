// <pal-why>: the side panel: why an answer is as it is, and the timeline of its run.
import { html, LitElement, nothing } from "lit";
import type { Payload } from "./client";
import { diff } from "./cards";
import { hints, spoken } from "./files";
import { icon } from "./icons";
import "./menu";
import { resend } from "./message";
import { store } from "./store";
import { count, json, money, size, took } from "./text";

const bar = (share: number): unknown => html`<i class="share"><i .style=${`width:${Math.round(100 * share)}%`}></i></i>`;
const fact = (name: string, value: unknown): unknown => (value === undefined || value === null || value === "" ? nothing : html`<dt>${name}</dt><dd>${value}</dd>`);
const glyphs: Record<string, string> = { model: "spark", tool: "tool", result: "check", accepted: "chat", claimed: "clock", settled: "check" };

const methods = { why: "chat.why", trace: "runs.trace", changes: "changes.get" };
type Kind = keyof typeof methods;

class Why extends LitElement {
  static properties = { panel: { attribute: false }, data: { state: true }, problem: { state: true } };
  panel!: { kind: Kind; item: string; entry?: string };
  data: Payload | null = null;
  problem = "";

  createRenderRoot(): HTMLElement {
    return this;
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("panel")) void this.load();
  }

  private async load(): Promise<void> {
    this.data = null;
    this.problem = "";
    const { kind, item, entry } = this.panel;
    try {
      const asked = { why: { sessionKey: store.key, ...(entry ? { messageId: entry } : { item }) }, trace: { item }, changes: { run: item } };
      this.data = await store.client.request(methods[kind], asked[kind]);
    } catch (error) {
      this.problem = (error as Error).message;
    }
  }

  private tab(kind: Kind, label: string): unknown {
    if (!store.client.has(methods[kind])) return nothing;
    return html`<button type="button" role="tab" aria-selected=${this.panel.kind === kind} @click=${() => { store.panel = { ...this.panel, kind }; store.changed(); }}>${label}</button>`;
  }

  render(): unknown {
    const close = () => { store.panel = null; store.changed(); };
    return html`<aside class="why" aria-label="Why this answer">
      <header><div role="tablist" aria-label="Panel">${this.tab("why", "Why")}${this.tab("trace", "Timeline")}${this.tab("changes", "Changes")}</div>
        <button type="button" class="ghost icon-only" aria-label="Close the panel" @click=${close}>${icon("close")}</button></header>
      <div class="why-body" role="tabpanel" tabindex="0">${this.problem ? html`<p class="dim">${this.problem}</p>` : this.data ? { why: () => this.why(this.data!), trace: () => this.timeline(this.data!), changes: () => this.changes(this.data!) }[this.panel.kind]() : html`<p class="dim">Loading…</p>`}</div></aside>`;
  }

  private why(d: Payload): unknown {
    const sections: Payload[] = d.prompt?.sections ?? [];
    const total = sections.reduce((sum, s) => sum + s.bytes, 0) || 1;
    const time = d.time ?? {};
    const phases = ["queued", "model", "tools", "other"].filter((name) => time[name]);
    const cache = d.cache ?? {};
    return html`
      <h3>Model</h3><dl>${fact("answered by", d.model?.used?.join(", "))}${fact("chosen by", d.model?.source)}${fact("thinking", d.thinking && html`<b>${d.thinking.level}</b> <span class="dim">${d.thinking.reason ?? ""}</span>`)}${fact("ended", d.model?.stopReason)}${fact("outcome", d.outcome)}${(d.model?.failures ?? []).map((one: string) => fact("failed", one))}</dl>
      ${d.evidence?.length ? html`<h3>Doubtful</h3><dl>${d.evidence.flatMap((one: Payload) => one.claims).map((c: Payload) => fact(`“${c.said}”`, c.fact))}</dl>` : nothing}
      <h3>Time</h3><dl>${phases.map((name) => fact(name, html`${took(time[name])}${bar(time[name] / (time.total || 1))}`))}${fact("total", time.total ? took(time.total) : "")}</dl>
      <h3>Cost</h3><dl>${fact("calls", d.cost?.calls)}${fact("tokens", `${count(d.cost?.input)} in, ${count(d.cost?.output)} out`)}${fact("cost", money(d.cost?.totalCost))}</dl>
      <h3>Cache</h3><dl>${fact("read from cache", cache.share === null || cache.share === undefined ? "" : html`${Math.round(100 * cache.share)} %${bar(cache.share)}`)}${fact("verdict", cache.verdict)}${cache.break ? fact("first difference", html`${cache.break.where}<br><span class="dim">${cache.break.why}</span>`) : nothing}</dl>
      <h3>Prompt <span class="dim">${size(total)}</span></h3><dl>${sections.map((s) => fact(s.name, html`${size(s.bytes)}${bar(s.bytes / total)}`))}</dl>
      <h3>Tools <span class="dim">${d.tools?.offered?.length ?? 0} offered</span></h3><p class="tags">${(d.tools?.offered ?? []).map((t: any) => html`<code>${typeof t === "string" ? t : t.name}</code>`)}</p>
      ${d.tools?.hidden?.length ? html`<details><summary>${d.tools.hidden.length} hidden</summary><dl>${d.tools.hidden.map((t: Payload) => fact(t.id, html`${t.reason}<br><span class="dim">${[t.layer, t.key, t.changes].filter(Boolean).join(" · ")}</span>`))}</dl></details>` : nothing}
      ${d.calls?.length > 1 ? html`<h3>Calls</h3><dl>${d.calls.map((c: Payload) => fact(`${c.number}. ${c.model}`, html`${took(c.ms ?? 0)}, ${count(c.input ?? 0)} in, ${count(c.output ?? 0)} out${c.failure ? html`<br><span class="dim">${c.failure}</span>` : nothing}`))}</dl>` : nothing}
      ${d.skills?.length ? html`<h3>Skills</h3><p class="tags">${d.skills.map((s: string) => html`<code>${s}</code>`)}</p>` : nothing}
      ${d.memories?.length ? html`<h3>Memories</h3><ul>${d.memories.map((m: Payload) => html`<li>${m.path}${m.startLine ? `:${m.startLine}` : ""}</li>`)}</ul>` : nothing}
      ${d.taint?.length ? html`<h3>Taint</h3><p class="tags">${d.taint.map((t: unknown) => html`<code>${json(t)}</code>`)}</p>` : nothing}
      ${this.raw(d)}`;
  }

  private timeline(d: Payload): unknown {
    const steps: Payload[] = d.timeline ?? [];
    const start = steps[0]?.at ?? 0;
    const tools = new Map<string, Payload>((d.tools ?? []).map((one: Payload) => [one.id, one]));
    const first = steps.find((step) => step.kind === "model");
    return html`<ol class="timeline">${steps.map((step) => {
      const { at: _at, kind, entry: _entry, call, ...rest } = step;
      const tool = call ? tools.get(call) : undefined;
      const shown = kind === "tool" ? { ...rest, args: tool?.args } : kind === "result" ? { ...rest, result: tool?.result, isError: tool?.isError } : rest;
      const spent = [step.ms ? `took ${took(step.ms)}` : "", step.input || step.output ? `${count(step.input)} in, ${count(step.output)} out` : "", step.cost ? money(step.cost) : ""];
      return html`<li>${icon(glyphs[kind] ?? "right")}<div><b>${kind}</b> <span>${step.detail ?? ""}</span>
        <details><summary>${[`+${took(Math.max(0, step.at - start))}`, ...spent].filter(Boolean).join(", ")}</summary><pre tabindex="0">${json(shown)}</pre></details>${this.from(d, step, step === first)}</div></li>`;
    })}</ol>${this.raw(d)}`;
  }

  /** What can be begun from a step: a branch that ends with it, or the same request to another model. */
  private from(d: Payload, step: Payload, first: boolean): unknown {
    if (!step.entry || d.sessionKey !== store.key || !store.client.has("sessions.branch")) return nothing;
    const models = store.models.map((m) => ({ value: `${m.provider}/${m.id}`, label: m.name, hint: `${m.provider}/${m.id}` }));
    return html`<div class="steps"><button type="button" class="ghost small" aria-label="Branch from here: ${step.kind} ${step.detail ?? ""}" @click=${() => void store.branch(step.entry, null, false)}>${icon("branch")} Branch</button>
      ${step.kind === "model" && models.length ? html`<pal-menu class="retry-step" label="Ask another model from here" shown="Another model" glyph="retry" .choices=${models} .value=${step.detail ?? ""} @choose=${(e: CustomEvent) => void this.another(step, first, e.detail)}></pal-menu>` : nothing}</div>`;
  }

  private async another(step: Payload, first: boolean, model: string): Promise<void> {
    const asked = store.talk.all().find((one) => one.kind === "user" && one.item === this.panel.item && one.entry);
    // What a later request was made of is the conversation up to there; the message only lets the turn go on.
    if (first && asked) await resend(asked, hints(asked.text) ? spoken(asked.text) : asked.text, { model });
    else await store.branch(step.entry, "Go on from here.", true, { model });
  }

  /** What the run changed in its workspace. What somebody else changed since is touched only after a second question. */
  private changes(d: Payload): unknown {
    const verb = d.undone ? "redo" : "undo";
    const mass = (s: Payload | null): string => (!s ? "nothing" : s.kind === "file" ? size(s.size) : s.kind);
    const how = (f: Payload): string => (f.what === "mode" ? `${f.before.mode} → ${f.after.mode}` : f.added !== undefined ? `+${f.added} −${f.removed}` : `${mass(f.before)} → ${mass(f.after)}`);
    return html`${store.client.has(`changes.${verb}`) && d.files.length ? html`<p><button type="button" class="plain" @click=${() => void this.restore(verb, false)}>${d.undone ? "Do it again" : "Undo these changes"}</button></p>` : nothing}
      ${d.files.length ? nothing : html`<p class="dim">This run changed no file that could be kept.</p>`}
      ${d.files.map((f: Payload) => html`<h3>${f.path} <span class="dim">${f.what}, ${how(f)}${f.withheld ? `, not shown (${f.withheld})` : ""}</span></h3>${f.diff ? diff(f.diff) : nothing}`)}
      ${d.notes.map((note: string) => html`<p class="dim">${note}</p>`)}`;
  }

  private async restore(verb: string, force: boolean): Promise<void> {
    try {
      await store.client.request(`changes.${verb}`, { run: this.panel.item, force });
      await this.load();
    } catch (error) {
      const why = (error as Error).message;
      if (!force && why.includes("--force") && confirm(`${why}\n\nDo it all the same?`)) await this.restore(verb, true);
      else this.problem = why;
    }
  }

  private raw(d: Payload): unknown {
    return html`<details class="raw"><summary>Raw JSON</summary><pre tabindex="0">${json(d)}</pre></details>`;
  }
}
customElements.define("pal-why", Why);

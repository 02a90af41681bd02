// <pal-why>: the side panel: why an answer is as it is, and the timeline of its run.
import { html, LitElement, nothing } from "lit";
import type { Payload } from "./client";
import { diff } from "./cards";
import { hints, spoken } from "./attached";
import { icon } from "./icons";
import "./menu";
import { resend } from "./message";
import { store } from "./store";
import { count, json, money, size, took } from "./text";
import { plural, tr } from "./words";

const bar = (share: number): unknown => html`<i class="share"><i .style=${`width:${Math.round(100 * share)}%`}></i></i>`;
const fact = (name: string, value: unknown): unknown => (value === undefined || value === null || value === "" ? nothing : html`<dt>${name}</dt><dd>${value}</dd>`);
const glyphs: Record<string, string> = { model: "spark", tool: "tool", result: "check", accepted: "chat", claimed: "clock", settled: "check" };

const methods = { why: "chat.why", trace: "runs.trace", changes: "changes.get" };
type Kind = keyof typeof methods;

class Why extends LitElement {
  static properties = { panel: { attribute: false }, data: { state: true }, problem: { state: true }, tape: { state: true }, step: { state: true }, verdict: { state: true }, others: { state: true } };
  panel!: { kind: Kind; item: string; entry?: string };
  data: Payload | null = null;
  problem = "";
  tape: Payload | null = null; // of a run that was recorded
  step = 1;
  verdict: Payload | null = null; // of its replay, or of a comparison
  others: string[] = [];

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
    if (kind === "trace") await this.find(item);
  }

  /** The tape of the run, if there is one. */
  private async find(item: string): Promise<void> {
    this.tape = this.verdict = null;
    if (!store.client.has("runs.tape")) return;
    try {
      const tape = await store.client.request("runs.tape", { item });
      this.others = ((await store.client.request("record.status", {})).tapes as string[]).filter((one) => one !== item);
      if (this.panel.item === item) [this.tape, this.step] = [tape, 1];
    } catch {
      // most runs are not recorded
    }
  }

  private async judge(method: string, params: Payload): Promise<void> {
    this.verdict = { busy: true };
    try {
      this.verdict = await store.client.request(method, params);
    } catch (error) {
      this.verdict = { error: (error as Error).message };
    }
  }

  /** Step by step through a recorded run; played again, or beside another one. */
  private scrub(tape: Payload): unknown {
    const steps: Payload[] = tape.steps, now = steps[this.step - 1], v = this.verdict;
    const first: Payload | undefined = v?.differences?.[0];
    const said = !v ? nothing : v.busy ? tr`Playing it again…` : v.error ? v.error : v.same ? tr`Same: it came out byte for byte as it was.` : html`${first?.step ? tr`Differs first at step ${first.step}, ${first.where}: ${first.why}` : tr`Differs first at ${first?.where}: ${first?.why}`}${first?.recorded || first?.now ? html`<pre tabindex="0">was: ${first.recorded}\nnow: ${first.now}</pre>` : nothing}${(v.differences ?? []).length > 1 ? html`<span class="dim"> ${tr`and ${v.differences.length - 1} more`}</span>` : nothing}`;
    const choices = this.others.map((one) => ({ value: one, label: one }));
    return html`<section class="tape" aria-label=${tr`Recorded run`}><h3>${tr`On tape`} <span class="dim">${plural(steps.length, "{n} step", "{n} steps")}</span></h3>
      ${steps.length > 1 ? html`<input type="range" min="1" max=${steps.length} .value=${String(this.step)} aria-label=${tr`Step`} aria-valuetext=${tr`step ${this.step} of ${steps.length}`} @input=${(e: Event) => { this.step = Number((e.target as HTMLInputElement).value); }}>` : nothing}
      ${now ? html`<p><b>${now.number}.</b> <code>${now.model}</code> <span class="dim">${tr`${now.level}, ${now.messages} messages`}</span></p>${now.steered.map((one: string) => html`<p class="dim">${tr`steered: ${one}`}</p>`)}<p>${now.failure ?? now.text}</p>
        ${now.calls.map((call: Payload) => html`<details><summary>${icon(call.isError ? "close" : "tool")} ${call.name}</summary><pre tabindex="0">${json(call.args)}\n\n${call.result ?? ""}</pre></details>`)}${now.stopped ? html`<p class="dim">${tr`stopped: ${now.stopped}`}</p>` : nothing}` : nothing}
      <div class="steps">${store.client.has("runs.replay") ? html`<button type="button" class="small" ?disabled=${v?.busy} @click=${() => void this.judge("runs.replay", { item: tape.item })}>${icon("retry")} ${tr`Replay`}</button>` : nothing}
        ${choices.length ? html`<pal-menu label=${tr`Compare with another run`} shown=${tr`Compare`} glyph="branch" .choices=${choices} .value=${""} @choose=${(e: CustomEvent) => void this.judge("runs.diff", { a: tape.item, b: e.detail })}></pal-menu>` : nothing}</div>
      <div role="status">${said}</div></section>`;
  }

  private tab(kind: Kind, label: string): unknown {
    if (!store.client.has(methods[kind])) return nothing;
    return html`<button type="button" role="tab" aria-selected=${this.panel.kind === kind} @click=${() => { store.panel = { ...this.panel, kind }; store.changed(); }}>${label}</button>`;
  }

  render(): unknown {
    const close = () => { store.panel = null; store.changed(); };
    return html`<aside class="why" aria-label=${tr`Why this answer`}>
      <header><div role="tablist" aria-label=${tr`Panel`}>${this.tab("why", tr`Why`)}${this.tab("trace", tr`Timeline`)}${this.tab("changes", tr`Changes`)}</div>
        <button type="button" class="ghost icon-only" aria-label=${tr`Close the panel`} @click=${close}>${icon("close")}</button></header>
      <div class="why-body" role="tabpanel" tabindex="0">${this.problem ? html`<p class="dim">${this.problem}</p>` : this.data ? { why: () => this.why(this.data!), trace: () => this.timeline(this.data!), changes: () => this.changes(this.data!) }[this.panel.kind]() : html`<p class="dim">${tr`Loading…`}</p>`}</div></aside>`;
  }

  private why(d: Payload): unknown {
    const sections: Payload[] = d.prompt?.sections ?? [];
    const total = sections.reduce((sum, s) => sum + s.bytes, 0) || 1;
    const time = d.time ?? {};
    const phases = ["queued", "model", "tools", "other"].filter((name) => time[name]);
    const cache = d.cache ?? {};
    return html`
      <h3>${tr`Model`}</h3><dl>${fact(tr`answered by`, d.model?.used?.join(", "))}${fact(tr`chosen by`, d.model?.source)}${fact(tr`thinking`, d.thinking && html`<b>${d.thinking.level}</b> <span class="dim">${d.thinking.reason ?? ""}</span>`)}${fact(tr`ended`, d.model?.stopReason)}${fact(tr`outcome`, d.outcome)}${(d.model?.failures ?? []).map((one: string) => fact(tr`failed`, one))}</dl>
      ${d.evidence?.length ? html`<h3>${tr`Doubtful`}</h3><dl>${d.evidence.flatMap((one: Payload) => one.claims).map((c: Payload) => fact(`“${c.said}”`, c.fact))}</dl>` : nothing}
      <h3>${tr`Time`}</h3><dl>${phases.map((name) => fact(name, html`${took(time[name])}${bar(time[name] / (time.total || 1))}`))}${fact(tr`total`, time.total ? took(time.total) : "")}</dl>
      <h3>${tr`Cost`}</h3><dl>${fact(tr`calls`, d.cost?.calls)}${fact(tr`tokens`, tr`${count(d.cost?.input)} in, ${count(d.cost?.output)} out`)}${fact(tr`cost`, money(d.cost?.totalCost))}</dl>
      <h3>${tr`Cache`}</h3><dl>${fact(tr`read from cache`, cache.share === null || cache.share === undefined ? "" : html`${Math.round(100 * cache.share)} %${bar(cache.share)}`)}${fact(tr`verdict`, cache.verdict)}${cache.break ? fact(tr`first difference`, html`${cache.break.where}<br><span class="dim">${cache.break.why}</span>`) : nothing}</dl>
      <h3>${tr`Prompt`} <span class="dim">${size(total)}</span></h3><dl>${sections.map((s) => fact(s.name, html`${size(s.bytes)}${bar(s.bytes / total)}`))}</dl>
      <h3>${tr`Tools`} <span class="dim">${tr`${d.tools?.offered?.length ?? 0} offered`}</span></h3><p class="tags">${(d.tools?.offered ?? []).map((t: any) => html`<code>${typeof t === "string" ? t : t.name}</code>`)}</p>
      ${d.tools?.hidden?.length ? html`<details><summary>${tr`${d.tools.hidden.length} hidden`}</summary><dl>${d.tools.hidden.map((t: Payload) => fact(t.id, html`${t.reason}<br><span class="dim">${[t.layer, t.key, t.changes].filter(Boolean).join(" · ")}</span>`))}</dl></details>` : nothing}
      ${d.calls?.length > 1 ? html`<h3>${tr`Calls`}</h3><dl>${d.calls.map((c: Payload) => fact(`${c.number}. ${c.model}`, html`${`${took(c.ms ?? 0)}, ${tr`${count(c.input ?? 0)} in, ${count(c.output ?? 0)} out`}`}${c.failure ? html`<br><span class="dim">${c.failure}</span>` : nothing}`))}</dl>` : nothing}
      ${d.skills?.length ? html`<h3>${tr`Skills`}</h3><p class="tags">${d.skills.map((s: string) => html`<code>${s}</code>`)}</p>` : nothing}
      ${d.memories?.length ? html`<h3>${tr`Memories`}</h3><ul>${d.memories.map((m: Payload) => html`<li>${m.path}${m.startLine ? `:${m.startLine}` : ""}</li>`)}</ul>` : nothing}
      ${d.taint?.length ? html`<h3>${tr`Taint`}</h3><p class="tags">${d.taint.map((t: unknown) => html`<code>${json(t)}</code>`)}</p>` : nothing}
      ${this.raw(d)}`;
  }

  private timeline(d: Payload): unknown {
    const steps: Payload[] = d.timeline ?? [];
    const start = steps[0]?.at ?? 0;
    const tools = new Map<string, Payload>((d.tools ?? []).map((one: Payload) => [one.id, one]));
    const first = steps.find((step) => step.kind === "model");
    return html`${this.tape ? this.scrub(this.tape) : nothing}<ol class="timeline">${steps.map((step) => {
      const { at: _at, kind, entry: _entry, call, ...rest } = step;
      const tool = call ? tools.get(call) : undefined;
      const shown = kind === "tool" ? { ...rest, args: tool?.args } : kind === "result" ? { ...rest, result: tool?.result, isError: tool?.isError } : rest;
      const spent = [step.ms ? tr`took ${took(step.ms)}` : "", step.input || step.output ? tr`${count(step.input)} in, ${count(step.output)} out` : "", step.cost ? money(step.cost) : ""];
      const seen = kind === "result" && call && d.sessionKey === store.key ? store.talk.seen(call) : [];
      return html`<li>${icon(glyphs[kind] ?? "right")}<div><b>${kind}</b> <span>${step.detail ?? ""}</span>
        <details><summary>${[`+${took(Math.max(0, step.at - start))}`, ...spent].filter(Boolean).join(", ")}</summary><pre tabindex="0">${json(shown)}</pre></details>${seen.length ? html`<div class="pictures">${seen.map((src) => html`<img src=${src} alt=${tr`picture from ${step.detail ?? tr`the tool`}`}>`)}</div>` : nothing}${this.from(d, step, step === first)}</div></li>`;
    })}</ol>${this.raw(d)}`;
  }

  /** What can be begun from a step: a branch that ends with it, or the same request to another model. */
  private from(d: Payload, step: Payload, first: boolean): unknown {
    if (!step.entry || d.sessionKey !== store.key || !store.client.has("sessions.branch")) return nothing;
    const models = store.models.map((m) => ({ value: `${m.provider}/${m.id}`, label: m.name, hint: `${m.provider}/${m.id}` }));
    return html`<div class="steps"><button type="button" class="ghost small" aria-label=${tr`Branch from here: ${step.kind} ${step.detail ?? ""}`} @click=${() => void store.branch(step.entry, null, false)}>${icon("branch")} ${tr`Branch`}</button>
      ${step.kind === "model" && models.length ? html`<pal-menu class="retry-step" label=${tr`Ask another model from here`} shown=${tr`Another model`} glyph="retry" .choices=${models} .value=${step.detail ?? ""} @choose=${(e: CustomEvent) => void this.another(step, first, e.detail)}></pal-menu>` : nothing}</div>`;
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
    const mass = (s: Payload | null): string => (!s ? tr`nothing` : s.kind === "file" ? size(s.size) : s.kind);
    const how = (f: Payload): string => (f.what === "mode" ? `${f.before.mode} → ${f.after.mode}` : f.added !== undefined ? `+${f.added} −${f.removed}` : `${mass(f.before)} → ${mass(f.after)}`);
    return html`${store.client.has(`changes.${verb}`) && d.files.length ? html`<p><button type="button" class="plain" @click=${() => void this.restore(verb, false)}>${d.undone ? tr`Do it again` : tr`Undo these changes`}</button></p>` : nothing}
      ${d.files.length ? nothing : html`<p class="dim">${tr`This run changed no file that could be kept.`}</p>`}
      ${d.files.map((f: Payload) => html`<h3>${f.path} <span class="dim">${f.what}, ${how(f)}${f.withheld ? `, ${tr`not shown (${f.withheld})`}` : ""}</span></h3>${f.diff ? diff(f.diff) : nothing}`)}
      ${d.notes.map((note: string) => html`<p class="dim">${note}</p>`)}`;
  }

  private async restore(verb: string, force: boolean): Promise<void> {
    try {
      await store.client.request(`changes.${verb}`, { run: this.panel.item, force });
      await this.load();
    } catch (error) {
      const why = (error as Error).message;
      if (!force && why.includes("--force") && (await (await import("./sure")).sure(tr`${why}\n\nDo it all the same?`, tr`Do it`))) await this.restore(verb, true);
      else this.problem = why;
    }
  }

  private raw(d: Payload): unknown {
    return html`<details class="raw"><summary>${tr`Raw JSON`}</summary><pre tabindex="0">${json(d)}</pre></details>`;
  }
}
customElements.define("pal-why", Why);

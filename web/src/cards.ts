// Cards in a conversation: tool calls with their output, questions that need a yes or no.
import { html, LitElement, nothing } from "lit";
import { icon } from "./icons";
import { store, type Approval } from "./store";
import { json, size, took } from "./text";
import type { Tool } from "./transcript";
import { mark, told, unframed } from "./trust";
import { rich, tr } from "./words";

const SHORT = 1_500; // characters of a change that is shown at once
const FOLDED = 4_000; // characters of an output that are shown at once
const LONGEST = 400_000; // … and that are drawn at all
const glyphs: [RegExp, string][] = [
  [/exec|process|bash|shell/, "terminal"], [/read|write|edit|patch|ls|grep|find|file/, "file"],
  [/web|browser|http|search/, "globe"], [/memory|recall/, "brain"], [/session|agent|spawn/, "people"],
];
const MAIN = ["command", "path", "query", "url", "pattern", "task", "message", "name", "action"];

function summary(args: unknown): string {
  if (!args || typeof args !== "object") return args === undefined || args === null ? "" : String(args);
  const record = args as Record<string, unknown>;
  const name = MAIN.find((one) => typeof record[one] === "string") ?? Object.keys(record)[0];
  if (name === "action") {
    const all = { ...record, ...(record.request as object | undefined) } as Record<string, unknown>;
    return [all.action, all.kind, all.targetUrl ?? all.ref ?? all.node ?? all.title].filter((one) => typeof one === "string").join(" ");
  }
  return name ? String(typeof record[name] === "string" ? record[name] : JSON.stringify(record[name])).split("\n")[0]! : "";
}

/** Lines with what was added and taken away in colour. */
export const diff = (text: string): unknown =>
  html`<pre tabindex="0" class="diff">${text.split("\n").map((line) => html`<span class=${/^\+(?!\+\+)/.test(line) ? "add" : /^-(?!--)/.test(line) ? "del" : ""}>${line}\n</span>`)}</pre>`;

class ToolCard extends LitElement {
  static properties = { tool: { attribute: false }, state: {}, output: {}, source: {}, open: { state: true }, all: { state: true } };
  tool!: Tool;
  state = "";
  output = "";
  source = "";
  open: boolean | null = null; // as nobody has said, short changes are shown
  all = false; // however long the output is
  private timer = 0;

  createRenderRoot(): HTMLElement {
    return this;
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => this.tool?.state === "running" && this.requestUpdate(), 500);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  render(): unknown {
    const tool = this.tool;
    const ends = tool.state === "running" ? Date.now() : tool.ended;
    const time = tool.started && ends ? took(Math.max(0, ends - tool.started)) : "";
    const glyph = glyphs.find(([pattern]) => pattern.test(tool.name))?.[1] ?? "tool";
    const words = { running: tr`running`, done: tr`done`, failed: tr`failed` }[tool.state];
    const asked = store.approvals.some((a) => !a.decision && a.request.sessionKey === store.key);
    const short = tool.diff && tool.diff.length < SHORT && this.open === null;
    const open = this.open || short || (tool.state === "running" && Boolean(tool.output) && !asked);
    return html`<section class="tool ${tool.state}" aria-label=${tr`Tool ${tool.name}, ${words}`}>
      <button type="button" class="tool-head" aria-expanded=${open} @click=${() => (this.open = !open)}>
        ${icon(glyph)}<b>${tool.name}</b><code>${summary(tool.args)}</code>${mark(tool.source, tr`From outside:`)}
        <span class="tool-state">${tool.state === "running" ? html`<i class="spin" aria-hidden="true"></i>` : nothing}${tool.state === "failed" ? tr`failed` : nothing} ${time}</span>${icon("down")}
      </button>
      ${open ? this.inside(tool) : nothing}
      ${tool.images.length ? html`<div class="pictures">${tool.images.map((src) => html`<img class="zooms" tabindex="0" role="button" src=${src} alt=${tr`picture from ${tool.name}`}>`)}</div>` : nothing}
    </section>`;
  }

  private inside(tool: Tool): unknown {
    const whole = unframed(tool.output);
    const cut = whole.length > FOLDED && !this.all;
    const output = cut ? whole.slice(0, FOLDED) : whole.slice(0, LONGEST);
    const args = tool.args && Object.keys(tool.args as object).length ? json(tool.args) : "";
    if (tool.diff) return html`<div class="tool-body">${diff(tool.diff.slice(0, LONGEST))}${tool.state === "failed" ? html`<pre tabindex="0" class="output">${output}</pre>` : nothing}</div>`;
    return html`<div class="tool-body">${told(tool)}
      ${args ? html`<h4>${tr`Arguments`}</h4><pre tabindex="0">${args}</pre>` : nothing}
      ${output || tool.state !== "running" ? html`<h4>${tr`Output`}</h4><pre tabindex="0" class="output">${output || tr`(nothing)`}</pre>` : nothing}
      ${whole.length > FOLDED ? html`<button type="button" class="ghost small" aria-expanded=${this.all} @click=${() => (this.all = !this.all)}>${this.all ? tr`Show less` : tr`Show all (${size(whole.length)})`}</button>` : nothing}
      ${output ? html`<button type="button" class="ghost small" @click=${() => navigator.clipboard.writeText(tool.output)}>${icon("copy")} ${tr`Copy output`}</button>` : nothing}
    </div>`;
  }
}
customElements.define("pal-tool", ToolCard);

const decisions: Record<string, [string, string]> = {
  "allow-once": [tr`Allow once`, "primary"], "allow-always": [tr`Always allow`, "plain"], deny: [tr`Deny`, "danger"],
};

const KEYS: Record<string, string> = { "allow-once": "Alt A", deny: "Alt D" };
const STEADY = 600; // ms that a question has been seen before a key answers it: nobody shall say yes to what just jumped in
const seen = new Map<string, number>();

/** Answer the question in view by a key. Whether there was one. */
export function decideByKey(code: string): boolean {
  const decision = { KeyA: "allow-once", KeyD: "deny" }[code];
  const first = store.approvals.find((one) => one.request.sessionKey === store.key && !one.decision);
  if (!decision || !first || !(first.request.allowedDecisions ?? ["allow-once", "deny"]).includes(decision)) return false;
  if (Date.now() - (seen.get(first.id) ?? Date.now()) >= STEADY) void store.decide(first, decision);
  return true;
}

export function approvalCard(approval: Approval): unknown {
  const ask = approval.request;
  const first = approval === store.approvals.find((one) => one.request.sessionKey === store.key && !one.decision);
  if (first && !seen.has(approval.id)) seen.set(approval.id, Date.now());
  const title = ask.title ?? (ask.command ? tr`Run this command?` : tr`Allow this?`);
  const facts: string[] = ask.facts ?? [];
  const warnings = new Set<string>([ask.warningText, ...(ask.commandAnalysis?.warningLines ?? [])].filter((line) => line && !facts.includes(line)));
  return html`<section class="approval" role="group" aria-label=${tr`Approval: ${title}`}>
    <header>${icon("shield")}<b>${title}</b><span>${ask.agentId ?? ""}</span></header>
    ${facts.map((line) => html`<p class=${line.endsWith("not from you)") ? "fact warn" : "fact"}>${line}</p>`)}
    ${ask.command ? html`<pre tabindex="0">${ask.command}</pre>` : nothing}
    ${ask.description && ask.description !== title ? diff(ask.description) : nothing}
    ${ask.cwd ? html`<p class="dim">${rich`in ${html`<code>${ask.cwd}</code>`}`}</p>` : nothing}
    ${[...warnings].map((line) => html`<p class="warn">${line}</p>`)}
    <div class="actions">${(ask.allowedDecisions ?? ["allow-once", "deny"]).map((name: string) => {
          const [label, tone] = decisions[name] ?? [name, "plain"];
          return html`<button type="button" class=${tone} @click=${() => store.decide(approval, name)}>${label}${first && KEYS[name] ? html` <kbd>${KEYS[name]}</kbd>` : nothing}</button>`;
        })}</div>
  </section>`;
}

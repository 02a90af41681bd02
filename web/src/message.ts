// How one item of a conversation is drawn, and what can be done with it.
import { html, nothing } from "lit";
import { icon } from "./icons";
import "./cards";
import type { Payload } from "./client";
import { hints, spoken } from "./attached";
import { again } from "./files";
import "./markdown";
import { store } from "./store";
import { clock, count, money, upper } from "./text";
import type { Block, Item } from "./transcript";
import "./aloud";
import { mark, read } from "./trust";
import { tr } from "./words";

const waits = { sending: tr`Sending…`, waiting: tr`Waiting`, after: tr`After this reply`, taken: tr`Added to this reply`, failed: tr`Not sent` };
const details: Record<string, string> = {
  sending: "", waiting: tr`the agent reads it with its next step`, after: tr`will be answered after the current reply`, taken: tr`the agent has read it`, failed: tr`try again`,
};

const thought = (text: string, live: boolean): unknown =>
  html`<details class="thinking" ?open=${live}><summary>${icon("brain")} ${live ? tr`Thinking…` : tr`Thought`}</summary><pal-md .text=${text}></pal-md></details>`;

function block(one: Block, live: boolean): unknown {
  if (one.type === "tool") return html`<pal-tool .tool=${one.tool} .state=${one.tool.state} .output=${one.tool.output} .source=${one.tool.source ?? ""}></pal-tool>`;
  if (one.type === "thinking") return thought(one.text, live);
  return html`<pal-md class="md ${live ? "streaming" : ""}" .text=${one.text}></pal-md>`;
}

const act = (glyph: string, label: string, run: () => void): unknown =>
  html`<button type="button" class="ghost icon-only" aria-label=${label} title=${label} @click=${run}>${icon(glyph)}</button>`;

async function copy(text: string): Promise<void> {
  await navigator.clipboard.writeText(text);
  store.toast(tr`Copied`);
}

const answered = (item: Item): string => item.blocks.map((b) => (b.type === "text" ? b.text : "")).filter(Boolean).join("\n\n");

/** The message an answer answers. */
function question(item: Item): Item | undefined {
  const all = store.talk.all();
  const at = all.indexOf(item);
  return all.slice(0, at).findLast((one) => one.kind === "user" && one.entry);
}

/** Say a message once more, with its files, in a new branch that ends before it. */
export async function resend(asked: Item, text: string, more: Payload = {}): Promise<void> {
  const files = await again(hints(asked.text) ? asked.item : undefined, asked.images);
  await store.branch(asked.entry, text, true, more, files);
}

/** The same in its own place; the answers that were stay beside it. */
export async function replace(asked: Item, text: string, more: Payload = {}): Promise<void> {
  const files = await again(hints(asked.text) ? asked.item : undefined, asked.images);
  await store.instead(asked.entry!, text, more, files);
}

/** Ask once more what an answer, or a failure, answers. */
function retry(item: Item, more: Payload = {}): void {
  const asked = question(item);
  if (asked) void replace(asked, hints(asked.text) ? spoken(asked.text) : asked.text, more);
}

/** Once more, with what was chosen: another model, or another level of thinking. */
function differently(item: Item, chosen: string): void {
  retry(item, chosen.startsWith("level:") ? { thinking: chosen.slice("level:".length) } : { model: chosen });
}

/** What can be done about a run that failed. */
function mend(item: Item): unknown {
  if (item !== store.talk.all().findLast((one) => !one.wait) || store.talk.running) return nothing;
  return html`<p class="mend">${question(item) && store.client.has("sessions.rewind") ? html`<button type="button" class="plain small" @click=${() => retry(item)}>${icon("retry")} ${tr`Try again`}</button>` : nothing}
    <button type="button" class="plain small" @click=${() => store.go("setup")}>${tr`Change the model or its key`}</button></p>`;
}

/** What else was said in a message's place, to go to and fro. */
function versions(item: Item): unknown {
  const all = item.versions ?? [];
  const at = all.indexOf(item.entry ?? "");
  if (at < 0) return nothing;
  const step = (to: number, label: string, sign: string) =>
    html`<button type="button" class="ghost icon-only" aria-label=${label} ?disabled=${!all[to] || store.talk.running} @click=${() => void store.version(all[to]!)}>${sign}</button>`;
  return html`<span class="versions">${step(at - 1, tr`Earlier version`, "‹")}<span aria-label=${tr`Version ${at + 1} of ${all.length}`}>${at + 1}/${all.length}</span>${step(at + 1, tr`Later version`, "›")}</span>`;
}

function buttons(item: Item): unknown {
  const usage = item.usage;
  const models = store.models.map((m) => ({ value: `${m.provider}/${m.id}`, label: m.name, hint: `${m.provider}/${m.id}`, group: tr`Model` }));
  const levels: { id: string; label: string }[] = store.info.thinkingLevels ?? store.info.defaults?.thinkingLevels ?? [];
  const others = [...models, ...levels.map((level) => ({ value: `level:${level.id}`, label: upper(level.label), group: tr`Thinking` }))];
  const can = (method: string) => store.client.has(method);
  const facts = [
    item.model, usage?.totalTokens ? tr`${count(usage.totalTokens)} tokens` : "", usage?.cost?.total ? money(usage.cost.total) : "", item.at ? clock(item.at) : "",
  ].filter(Boolean);
  return html`<footer class="bar">
    ${act("copy", tr`Copy`, () => void copy(answered(item)))}
    ${answered(item) ? html`<pal-aloud .ident=${item.id} .text=${answered(item)}></pal-aloud>` : nothing}
    ${can("sessions.branch") && item.entry ? act("branch", tr`Branch from here`, () => void store.branch(item.entry, null, false)) : nothing}
    ${can("chat.why") && item.item ? act("why", tr`Why this answer`, () => { store.panel = { kind: "why", item: item.item!, entry: item.entry }; store.changed(); }) : nothing}
    ${can("runs.trace") && item.item ? act("list", tr`Timeline`, () => { store.panel = { kind: "trace", item: item.item! }; store.changed(); }) : nothing}
    ${can("sessions.rewind") && question(item) ? act("retry", tr`Try again`, () => retry(item)) : nothing}
    ${can("sessions.rewind") && others.length > 1 && question(item)
      ? html`<pal-menu class="retry" label=${tr`Try again differently`} shown="" glyph="spark" .choices=${others} .value=${item.model ?? ""} @choose=${(e: CustomEvent) => differently(item, e.detail)}></pal-menu>` : nothing}
    ${mark(read(item), tr`Written after reading from outside:`)}<span class="facts">${facts.join(" · ")}</span>
  </footer>`;
}

/** What a person did on a canvas, in the words of the program. */
function pressed(item: Item): unknown {
  const [head, ...rest] = item.text.slice("[Canvas] ".length).split("\n");
  return html`<details class="pressed" ?data-bare=${!rest.length}><summary>${icon("canvas")} ${head!.replace("The person", "You").replace(/ \((component|surface) .*\)\.$/, "")}</summary>${rest.length ? html`<pre tabindex="0">${rest.join("\n")}</pre>` : nothing}</details>`;
}

async function back(item: Item, write = false): Promise<void> {
  if (write && item.carries && !item.given) item.given = await again(item.item, []); // it is asked for while it is there
  if (!(await store.takeBack(item.id.slice("sent:".length)))) store.toast(tr`It is being answered already.`);
  else if (write) (document.querySelector("pal-composer") as any)?.restore(item.text, item.given ?? []);
}

/** What can be done with a message that waits for the end of the run. */
function moves(item: Item): unknown {
  const run = item.id.slice("sent:".length);
  const line = store.talk.line;
  const at = line.indexOf(run);
  if (at < 0 || !store.client.has("chat.queue")) return nothing;
  return html`${store.talk.running && !item.carries && !item.files?.length ? act("bolt", tr`Send now, into this reply`, () => void store.arrange(run, "steer")) : nothing}
    ${at > 0 ? act("up", tr`Move up`, () => void store.arrange(run, "up")) : nothing}${at < line.length - 1 ? act("down", tr`Move down`, () => void store.arrange(run, "down")) : nothing}`;
}

function user(item: Item, edit: (item: Item) => void): unknown {
  if (item.text.startsWith("[Canvas] The person used ")) return pressed(item);
  const wait = item.wait === "waiting" && item.after ? "after" : item.wait;
  return html`<div class="bubble ${item.wait ?? ""}">
      ${item.images.length ? html`<div class="pictures">${item.images.map((src) => html`<img class="zooms" tabindex="0" role="button" src=${src} alt=${tr`attached picture`}>`)}</div>` : nothing}
      ${mark(item.source, tr`Not written by you:`)}
      <pal-said .text=${item.text} .item=${item.item ?? ""} .files=${item.files ?? []} .carries=${item.carries ?? 0}></pal-said>
    </div>
    <footer class="bar">
      ${wait ? html`<span class="wait" title=${details[wait] ?? ""} role="status">${wait === "failed" || wait === "taken" ? nothing : wait === "after" ? icon("clock") : html`<i class="spin" aria-hidden="true"></i>`}${waits[wait]}</span>` : nothing}
      ${moves(item)}
      ${item.wait === "failed" ? act("retry", tr`Send again`, () => void back(item).then(() => store.send(item.text, item.given))) : nothing}
      ${item.wait === "waiting" || item.wait === "failed" ? html`${item.bound && !item.given ? nothing : act("edit", tr`Take back and edit`, () => void back(item, true))}${act("close", tr`Take back`, () => void back(item))}` : nothing}
      ${item.entry && store.client.has("sessions.rewind") ? act("edit", tr`Edit`, () => edit(item)) : nothing}
      ${act("copy", tr`Copy`, () => void copy(item.text))}${versions(item)}
    </footer>`;
}

export function drawn(item: Item, edit: (item: Item) => void): unknown {
  if (item.kind === "user") return user(item, edit);
  if (item.kind === "note") return html`<div class="note ${item.tone}" role=${item.tone === "error" ? "alert" : "status"}><pal-md class="md" .text=${item.text}></pal-md>${item.tone === "error" ? mend(item) : nothing}</div>`;
  if (item.kind === "told") return html`<details class="summary told"><summary><span>${item.program}</span></summary><pre tabindex="0">${item.text}</pre></details>`;
  if (item.kind === "summary") return html`<details class="summary"><summary><span>${tr`Earlier conversation was summarised`}</span></summary><pal-md class="md" .text=${item.text}></pal-md></details>`;
  const live = Boolean(item.live);
  const over = store.talk.live?.over;
  return html`${item.blocks.map((one, at) => block(one, live && !over && at === item.blocks.length - 1))}
    ${live && !over && item.blocks.at(-1)?.type !== "text" && !store.talk.busy ? html`<div class="dots" role="status" aria-label=${tr`The assistant is working`}><i></i><i></i><i></i>${store.talk.live?.status ? html`<span>${store.talk.live.status}</span>` : nothing}</div>` : nothing}
    ${item.error ? html`<div class="note error" role="alert">${item.error}${mend(item)}</div>` : nothing}
    ${item.stop === "aborted" ? html`<p class="dim">${tr`Stopped.`}</p>` : nothing}
    ${item.last ? buttons(item) : nothing}`;
}

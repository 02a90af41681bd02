// The settings: a form made from the schema, with what each key means and what is wrong with it.
import { Refusal } from "../client";
import { keyed } from "lit/directives/keyed.js";
import { live } from "lit/directives/live.js";
import { html, nothing, Page, store, type Payload } from "../base";
import { icon } from "../icons";
import { BASE } from "../place";
import { placed } from "../store";
import { json, upper } from "../text";
import { chosen, choose, LANGUAGES, plural, tr } from "../words";
import { theme } from "../sidebar";
import { guard } from "../unsaved";

type Schema = Payload;
const at = (value: any, path: string[]): any => path.reduce((inner, name) => (inner === undefined || inner === null ? undefined : inner[name]), value);

/** The alternatives a schema is made of, the simple ones first. */
function kinds(schema: Schema): Schema[] {
  return schema.anyOf ? schema.anyOf.flatMap(kinds) : [schema];
}

const isObject = (value: unknown): boolean => typeof value === "object" && value !== null && !Array.isArray(value);
const hasKeys = (schema: Schema): boolean => kinds(schema).some((kind) => kind.properties);

/** What a key with keys of its own can be besides, such as a secret written out; null: nothing else. */
function written(schema: Schema): Schema | null {
  const flat = kinds(schema).filter((kind) => !kind.properties);
  return hasKeys(schema) && flat.length ? { anyOf: flat } : null;
}

const REDACTED = "__OPENCLAW_REDACTED__"; // what the gateway shows of a secret
const DOTS = "••••••••";
const SHOWN = 80; // keys that a search shows
/** Keys that people look for, in their words. */
const COMMON: [string, string][] = [
  ["ui.assistant.name", tr`Name of the assistant`], ["agents.defaults.userTimezone", tr`Your time zone`], ["agents.defaults.workspace", tr`Folder of its files`],
  ["agents.defaults.thinkingDefault", tr`How much it thinks`], ["agents.defaults.heartbeat.every", tr`How often it looks whether something is to be done`], ["session.dmScope", tr`Who shares a conversation`],
  ["tools.exec.ask", tr`When it asks before running commands`], ["tools.web.search.provider", tr`Search engine`], ["logging.level", tr`How much is logged`],
];

/** When a change acts, in the gateway's words and in ours. */
const WHEN: Record<string, string> = {
  "applies at once": tr`a change acts at once`, "needs a restart of the gateway": tr`a change acts after a restart`, "changes nothing": tr`a change changes nothing`,
  "applies by itself: the gateway begins anew when no turn runs": tr`a change acts by itself, as soon as no turn runs`,
};
const CHANGED = tr`It was changed elsewhere meanwhile, so nothing was written.`;

class Config extends Page {
  static properties = { filter: { state: true }, issues: { state: true }, text: { state: true }, draft: { state: true }, told: { state: true } };
  heading = tr`Settings`;
  about = tr`The config file, key by key. Changes are checked before they are written.`;
  filter = "";
  issues: Record<string, string> = {};
  text = false;
  draft: { raw: string; hash: string } | null = null; // the file as it is being written here, and what it was made of
  told: Record<string, Payload> = {}; // keys that somebody asked about

  protected async fetch(): Promise<Payload> {
    const [now, schema] = await Promise.all([this.ask("config.get"), this.data?.schema ? { schema: this.data.schema, uiHints: this.data.hints } : this.ask("config.schema")]);
    return { now, schema: schema.schema, hints: schema.uiHints ?? {} };
  }

  private unguard = () => {};
  private section = ""; // that was shown last
  private view = 0;

  /** Other fields are shown: none has what was typed into one before, and nothing is wrong with them yet. */
  private turn(): void {
    this.view++;
    this.issues = {};
  }

  willUpdate(): void {
    super.willUpdate();
    if (placed(location.pathname)[1] !== this.section) this.turn();
  }

  updated(): void {
    const now = placed(location.pathname)[1];
    if (now === this.section || !this.data) return;
    this.section = now;
    this.querySelector("main")!.scrollTop = 0;
    this.querySelector(".sections .active")?.scrollIntoView({ block: "nearest", inline: "center" });
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.unguard = guard(() => this.draft !== null);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.unguard();
  }

  /** Write one key. Others may have been changed meanwhile, but not this one. */
  private async write(path: string[], value: unknown): Promise<void> {
    const name = path.join(".");
    const held = () => JSON.stringify(at(this.data!.now.config, path));
    const before = held();
    await this.load();
    if (held() !== before) return this.note(name, CHANGED);
    const patch = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value ?? null);
    await this.sent(name, "config.patch", { raw: JSON.stringify(patch), baseHash: this.data!.now.hash, ...(value && typeof value === "object" ? { replacePaths: [name] } : {}) }); // what was taken out of it is gone
  }

  /** What is wrong with a key that was written here; what is wrong with others stands as long as their fields do. */
  private note(name: string, message: string): void {
    this.issues = { ...this.issues, [name]: message };
  }

  private async sent(name: string, method: string, params: Payload): Promise<void> {
    if (!name) this.issues = {}; // all of it is judged anew
    try {
      const done = await this.ask(method, params);
      this.issues = Object.fromEntries(Object.entries(this.issues).filter(([one]) => one !== name && !one.startsWith(`${name}.`)));
      if (method === "config.set") this.draft = null;
      store.toast(done.restartRequired?.length ? tr`Saved. It takes effect after a restart.` : tr`Saved`);
      await this.load();
    } catch (error) {
      const { message, details, code } = error as Refusal;
      if (/changed since last load/.test(message)) return this.note(name, CHANGED);
      const found: Payload[] = details?.issues ?? [];
      for (const one of found) this.note(one.path || name, said({ ...one, path: "" }));
      if (found.some((one) => !name || one.path === name)) return;
      this.note(name, found.length ? said(found[0]!) : code === "OFFLINE" ? tr`It was not saved, as the gateway could not be reached.` : message);
    }
  }

  protected tools(): unknown {
    return html`<input type="search" placeholder=${tr`Find a key`} aria-label=${tr`Find a key`} .value=${this.filter} @input=${(e: Event) => { this.filter = (e.target as HTMLInputElement).value; this.turn(); }}>
      <button type="button" class="plain" aria-pressed=${this.text} @click=${() => { this.text = !this.text; this.turn(); }}>${this.text ? tr`Form` : tr`Text`}</button>`;
  }

  protected body(d: Payload): unknown {
    const notes = html`${d.now.issues.map((one: Payload) => html`<p class="banner error">${said(one)}</p>`)}${d.now.warnings.filter((one: Payload) => !one.inert).map((one: Payload) => html`<p class="banner">${said(one)}</p>`)}${this.ignored(d.now.warnings.filter((one: Payload) => one.inert))}`;
    if (this.text) return html`${notes}${this.raw(d)}`;
    const needle = this.filter.trim().toLowerCase();
    if (needle) return html`${notes}${this.found(d, needle)}`;
    const sections = Object.keys(d.schema.properties ?? {}).filter((name) => !["$schema", "meta", "wizard"].includes(name)).sort(); // those are notes of programs
    const named = placed(location.pathname)[1];
    const section = sections.includes(named) ? named : "";
    const link = (name: string, label: string) => html`<li><a class="linkish ${name === section ? "active" : ""}" href="${BASE}/config${name && `/${name}`}" aria-current=${name === section ? "true" : nothing}>${label}${name && at(d.now.config, [name]) !== undefined ? html` <i class="set" title=${tr`has settings`}></i>` : nothing}</a></li>`;
    return html`${notes}<div class="split"><ul class="rows side-list sections" aria-label=${tr`Sections`}>${link("", tr`General`)}${sections.map((name) => link(name, upper(name)))}</ul>
      <div class="form">${section ? this.group([section], d.schema.properties[section]) : this.people(d)}</div></div>`;
  }

  /** Keys by their names, or by what is said of them. */
  private found(d: Payload, needle: string): unknown {
    const all: [string[], Schema][] = [];
    this.walk(d.schema, [], (path, schema) => all.push([path, schema]));
    const has = (text: string | undefined) => Boolean(text?.toLowerCase().includes(needle));
    const named = all.filter(([path]) => has(path.join(".")));
    const told = all.filter(([path]) => !has(path.join(".")) && (has(d.hints[path.join(".")]?.help) || COMMON.some(([name, label]) => name === path.join(".") && has(label))));
    const found = [...named, ...told];
    return html`<div class="form">${found.slice(0, SHOWN).map(([path, schema]) => this.field(path, schema, path.join(".")))}${found.length > SHOWN ? html`<p class="dim">${tr`and ${found.length - SHOWN} more`}</p>` : nothing}${found.length ? nothing : html`<p class="dim">${tr`No key has that in its name.`}</p>`}</div>`;
  }

  /** What a person looks for: how the page is, then the keys that most people change. */
  private people(d: Payload): unknown {
    const now = theme();
    const go = (view: string, label: string) => html`<button type="button" class="plain" @click=${() => store.go(view)}>${label}</button>`;
    const common = COMMON.map(([name, label]): [string[], Schema | null, string] => [name.split("."), find(d.schema, name.split(".")), label]).filter(([, schema]) => schema);
    return html`<div class="people"><h2>${tr`This browser`}</h2>
        <div class="field"><label for="page-language">${tr`Language`}</label><select id="page-language" @change=${(e: Event) => choose((e.target as HTMLSelectElement).value)}><option value="" ?selected=${!chosen()}>${tr`As the browser says`}</option>${Object.entries(LANGUAGES).map(([name, label]) => html`<option value=${name} lang=${name} ?selected=${chosen() === name}>${label}</option>`)}</select></div>
        <div class="field"><label for="page-theme">${tr`Theme`}</label><select id="page-theme" @change=${(e: Event) => { localStorage.setItem("theme", (e.target as HTMLSelectElement).value); theme(); store.changed(); }}>${([["auto", tr`As the system says`], ["light", tr`Light`], ["dark", tr`Dark`]] as const).map(([name, label]) => html`<option value=${name} ?selected=${now === name}>${label}</option>`)}</select></div>
      <h2>${tr`The agent`}</h2>${common.map(([path, schema, label]) => this.field(path, schema!, label))}
      <h2>${tr`Elsewhere`}</h2><div class="grow-tools">${go("models", tr`Models and keys`)}${go("channels", tr`Chat apps`)}${go("access", tr`Devices and notifications`)}${go("usage", tr`Limits`)}${go("integrations", tr`Tools and plugins`)}</div></div>`;
  }

  /** What the file has and nobody acts on. */
  private ignored(found: Payload[]): unknown {
    if (!found.length) return nothing;
    return html`<details class="banner inert"><summary>${plural(found.length, "{n} key is known and not acted on", "{n} keys are known and not acted on")}</summary><ul>${found.map((one) => html`<li>${said(one)}</li>`)}</ul></details>`;
  }

  private walk(schema: Schema, path: string[], visit: (path: string[], schema: Schema) => void): void {
    for (const kind of kinds(schema)) {
      for (const [name, inner] of Object.entries<Schema>(kind.properties ?? {})) {
        const here = [...path, name];
        const plain = this.plain(here, inner);
        if (plain) visit(here, plain);
        if (this.opens(here, inner)) this.walk(inner, here, visit);
      }
    }
  }

  /** The key as one value, if it can be one and has no keys now. */
  private plain(path: string[], schema: Schema): Schema | null {
    return hasKeys(schema) ? (isObject(at(this.data!.now.config, path)) ? null : written(schema)) : schema;
  }

  /** Whether the keys below it can be set: not beside a value that they would replace. */
  private opens(path: string[], schema: Schema): boolean {
    const value = at(this.data!.now.config, path);
    return hasKeys(schema) && (value === undefined || isObject(value) || !written(schema));
  }

  private group(path: string[], schema: Schema): unknown {
    const object = kinds(schema).find((kind) => kind.properties);
    const value = at(this.data!.now.config, path);
    const plain = this.plain(path, schema);
    const entries = this.opens(path, schema) ? Object.entries<Schema>(object!.properties) : [];
    const simple = entries.filter(([, inner]) => !hasKeys(inner));
    const deep = entries.filter(([, inner]) => hasKeys(inner));
    return html`${plain ? this.field(path, plain, path.at(-1)!) : nothing}${simple.map(([name, inner]) => this.field([...path, name], inner, name))}
      ${deep.map(([name, inner]) => html`<details class="sub" ?open=${value?.[name] !== undefined && path.length < 2}><summary>${name}${value?.[name] === undefined ? nothing : html` <i class="set"></i>`}</summary>${this.group([...path, name], inner)}</details>`)}
      ${Object.keys(object && isObject(value) ? value : {}).filter((name) => !(name in object!.properties)).map((name) => this.dead([...path, name], name))}`;
  }

  /** A key that the file has and the schema does not: unknown, or known and not acted on. */
  private dead(path: string[], label: string): unknown {
    const name = path.join(".");
    const why = this.data!.now.warnings.find((one: Payload) => one.path === name);
    return html`<div class="field is-set"><label>${label}</label><code class="dim">${json(at(this.data!.now.config, path))}</code><span class="field-acts"><button type="button" class="ghost small" @click=${() => void this.write(path, null)}>${tr`Unset`}</button></span>
      <p class="warn">${why?.message ?? tr`not acted on`}</p></div>`;
  }

  private field(path: string[], schema: Schema, label: string): unknown {
    const name = path.join(".");
    const value = at(this.data!.now.config, path);
    const hint = this.data!.hints[name] ?? {};
    const wrong = this.data!.now.issues.find((one: Payload) => one.path === name);
    const issue = this.issues[name] ?? (wrong && `${wrong.message}${wrong.hint ? `; ${wrong.hint}` : ""}`);
    const id = `f-${name}`;
    const about = this.told[name];
    return keyed(`${this.view} ${name}`, html`<div class="field ${value === undefined ? "" : "is-set"}"><label for=${id}>${label}</label>${this.input(id, path, schema, value, hint)}
      <span class="field-acts">${store.client.has("config.explain") ? html`<button type="button" class="ghost icon-only" aria-label=${tr`Explain ${name}`} title=${tr`Explain`} aria-expanded=${Boolean(about)} @click=${() => void this.explain(name)}>${icon("why")}</button>` : nothing}
      ${value === undefined ? nothing : html`<button type="button" class="ghost small" @click=${() => void this.write(path, null)}>${tr`Unset`}</button>`}</span>
      ${about ? html`<p class="told"><code>${name}</code>: <b>${about.value === null || about.value === undefined ? tr`not set` : json(about.value)}</b>${about.source === "not set" ? "" : ` (${about.source})`}; ${WHEN[about.when] ?? about.when}.${about.note ? ` ${about.note}` : ""}</p>${about.keys.length ? html`<ul class="told">${about.keys.map((key: Payload) => html`<li><code>${key.name}</code> ${key.about}</li>`)}</ul>` : nothing}` : nothing}
      ${hint.help ? html`<p class="dim" id="${id}-help">${hint.help}</p>` : nothing}${issue ? html`<p class="warn" role="alert">${issue}</p>` : nothing}</div>`);
  }

  private async explain(name: string): Promise<void> {
    const { [name]: old, ...rest } = this.told;
    if (old) {
      this.told = rest;
      return;
    }
    const found = await store.ask("config.explain", { path: name });
    if (found) this.told = { ...rest, [name]: found };
  }

  private input(id: string, path: string[], schema: Schema, value: any, hint: Payload): unknown {
    const options = kinds(schema);
    const words = options.flatMap((kind): unknown[] => kind.enum ?? (kind.const !== undefined ? [kind.const] : kind.type === "boolean" ? [true, false] : []));
    const types = new Set<string>(options.map((kind) => kind.type));
    const typed = (event: Event) => (event.target as HTMLInputElement).value;
    const usual = options.find((kind) => kind.default !== undefined)?.default;
    const shown = (word: unknown) => (word === true ? tr`on` : word === false ? tr`off` : String(word));
    if (words.length && options.every((kind) => kind.enum || kind.const !== undefined || kind.type === "boolean"))
      return html`<select id=${id} .value=${live(String(value ?? ""))} @change=${(e: Event) => void this.write(path, words.find((word) => String(word) === typed(e)) ?? null)}><option value="" ?selected=${value === undefined}>${usual === undefined ? tr`default` : tr`default (${shown(usual)})`}</option>${words.map((word) => html`<option value=${String(word)} ?selected=${value === word}>${shown(word)}</option>`)}</select>`;
    if (types.size === 1 && (types.has("integer") || types.has("number")))
      return html`<input id=${id} type="number" step="any" placeholder=${usual ?? ""} .value=${value ?? ""} @change=${(e: Event) => { const { validity, validationMessage } = e.target as HTMLInputElement; if (validity.badInput) this.note(path.join("."), validationMessage); else void this.write(path, typed(e) === "" ? null : Number(typed(e))); }}>`;
    if ([...types].every((type) => ["string", "integer", "number", "boolean"].includes(type)) && !isObject(value) && !Array.isArray(value))
      return html`<input id=${id} type=${hint.sensitive && !["id", "provider"].includes(path.at(-1)!) ? "password" : "text"} autocomplete="off" placeholder=${value === REDACTED ? DOTS : (usual ?? "")} .value=${value === REDACTED ? "" : String(value ?? "")} @change=${(e: Event) => void this.write(path, types.size === 1 ? typed(e) || null : parsed(typed(e)))}>`;
    const lines = types.size === 1 && types.has("array") && listed(options[0]!.items ?? {}, value);
    const read = (text: string) => (lines ? split(text, value ?? [], options[0]!.items) : parsed(text));
    const told = value === undefined ? "" : lines && value.length ? value.join("\n") : json(value);
    const text = options.some((kind) => kind.type === "string" || !(kind.type || kind.enum)); // what says nothing of its kind may be one
    const put = (given: string) => {
      const made = read(given);
      if (typeof made === "string" && !text) this.note(path.join("."), tr`This is no JSON: ${unread(given)}`);
      else void this.write(path, made);
    };
    return html`<textarea id=${id} rows="1" spellcheck="false" placeholder=${lines ? (usual?.join(", ") ?? tr`one per line`) : text ? tr`JSON or text` : "JSON"} .value=${told} @change=${(e: Event) => put(typed(e))}></textarea>`;
  }

  private raw(d: Payload): unknown {
    const source = this.draft?.raw ?? d.now.raw ?? json(d.now.config);
    const typed = (e: Event) => (this.draft = { raw: (e.target as HTMLTextAreaElement).value, hash: this.draft?.hash ?? d.now.hash });
    const fresh = () => { this.draft = null; this.issues = {}; void this.load(); };
    return html`<section class="editor tall"><header><b>${d.now.path}</b><span class="field-acts">${this.draft ? html`<button type="button" class="plain" @click=${fresh}>${tr`Discard changes`}</button>` : nothing}<button type="button" class="primary" ?disabled=${!this.draft} @click=${() => void this.sent("", "config.set", { raw: this.draft!.raw, baseHash: this.draft!.hash })}>${tr`Save`}</button></span></header>
      <textarea spellcheck="false" aria-label=${tr`Config file`} .value=${live(source)} @input=${typed}></textarea></section>${Object.entries(this.issues).map(([path, message]) => html`<p class="warn" role="alert">${path ? `${path}: ` : ""}${message}</p>`)}`;
  }
}

/** The schema of a key, if there is such a key. */
function find(schema: Schema, path: string[]): Schema | null {
  return path.reduce<Schema | null>((inner, name) => (inner ? (kinds(inner).map((kind) => kind.properties?.[name]).find(Boolean) ?? null) : null), schema);
}

const said = (one: Payload): string => `${one.path ? `${one.path}: ` : ""}${one.message}${one.line ? ` (${tr`line ${one.line}`})` : ""}${one.hint ? `; ${one.hint}` : ""}`;

/** Whether a list is words or numbers, each of one line. */
function listed(items: Schema, value: unknown): boolean {
  const plain = (one: unknown) => ["string", "number"].includes(typeof one) && !/[\n]|^\s|\s$|^$/.test(String(one));
  return kinds(items).every((kind) => kind.enum || ["string", "integer", "number"].includes(kind.type)) && (value === undefined || (Array.isArray(value) && value.every(plain)));
}

/** A list of the lines of a text. What was a number stays one; `[]` is the list of nothing. */
function split(text: string, before: unknown[], items: Schema): unknown {
  const given = text.trim().startsWith("[") ? parsed(text) : null;
  if (Array.isArray(given)) return given;
  const numbers = kinds(items).every((kind) => ["integer", "number"].includes(kind.type));
  const made = text.split("\n").map((line) => line.trim()).filter(Boolean).map((line) => before.find((one) => String(one) === line) ?? (numbers && Number.isFinite(Number(line)) ? Number(line) : line));
  return made.length ? made : null;
}

/** Why a text is no JSON, as the browser says it. */
function unread(text: string): string {
  try {
    JSON.parse(text);
  } catch (error) {
    return (error as Error).message;
  }
  return text;
}

function parsed(text: string): unknown {
  if (!text.trim()) return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
customElements.define("pal-config", Config);

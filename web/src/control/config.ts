// The settings: a form made from the schema, with what each key means and what is wrong with it.
import { Refusal } from "../client";
import { live } from "lit/directives/live.js";
import { html, nothing, Page, store, type Payload } from "../base";
import { icon } from "../icons";
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

const PEOPLE = "\u0000people"; // what people look for first
/** Keys that people look for, in their words. */
const COMMON: [string, string][] = [
  ["ui.assistant.name", tr`Name of the assistant`], ["agents.defaults.userTimezone", tr`Your time zone`], ["agents.defaults.workspace", tr`Folder of its files`],
  ["agents.defaults.thinkingDefault", tr`How much it thinks`], ["agents.defaults.heartbeat.every", tr`How often it looks whether something is to be done`], ["session.dmScope", tr`Who shares a conversation`],
  ["tools.exec.ask", tr`When it asks before running commands`], ["tools.web.search.provider", tr`Search engine`], ["logging.level", tr`How much is logged`],
];

const CHANGED = tr`It was changed elsewhere meanwhile, so nothing was written.`;

class Config extends Page {
  static properties = { section: { state: true }, filter: { state: true }, issues: { state: true }, text: { state: true }, draft: { state: true }, told: { state: true } };
  heading = tr`Settings`;
  about = tr`The config file, key by key. Changes are checked before they are written.`;
  section = PEOPLE;
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
    if (held() !== before) {
      this.issues = { [name]: CHANGED };
      return;
    }
    const patch = path.reduceRight<unknown>((inner, key) => ({ [key]: inner }), value ?? null);
    await this.sent(name, "config.patch", { raw: JSON.stringify(patch), baseHash: this.data!.now.hash, ...(Array.isArray(value) ? { replacePaths: [name] } : {}) });
  }

  private async sent(name: string, method: string, params: Payload): Promise<void> {
    try {
      const done = await this.ask(method, params);
      this.issues = {};
      if (method === "config.set") this.draft = null;
      store.toast(done.restartRequired?.length ? tr`Saved. It takes effect after a restart.` : tr`Saved`);
      await this.load();
    } catch (error) {
      if (/changed since last load/.test((error as Error).message)) {
        this.issues = { [name]: CHANGED };
        return;
      }
      const found: Payload[] = (error as Refusal).details?.issues ?? [];
      this.issues = found.length ? Object.fromEntries(found.map((one) => [one.path || name, one.message])) : { [name]: (error as Error).message };
      if (!found.some((one) => one.path === name)) this.issues = { ...this.issues, [name]: found[0]?.message ?? (error as Error).message };
    }
  }

  protected tools(): unknown {
    return html`<input type="search" placeholder=${tr`Find a key`} aria-label=${tr`Find a key`} .value=${this.filter} @input=${(e: Event) => (this.filter = (e.target as HTMLInputElement).value)}>
      <button type="button" class="plain" aria-pressed=${this.text} @click=${() => (this.text = !this.text)}>${this.text ? tr`Form` : tr`Text`}</button>`;
  }

  protected body(d: Payload): unknown {
    const notes = html`${d.now.issues.map((one: Payload) => html`<p class="banner error">${said(one)}</p>`)}${d.now.warnings.filter((one: Payload) => !one.inert).map((one: Payload) => html`<p class="banner">${said(one)}</p>`)}${this.ignored(d.now.warnings.filter((one: Payload) => one.inert))}`;
    if (this.text) return html`${notes}${this.raw(d)}`;
    const sections = Object.keys(d.schema.properties ?? {}).filter((name) => !["$schema", "meta", "wizard"].includes(name)).sort(); // those are notes of programs
    const needle = this.filter.trim().toLowerCase();
    if (needle) {
      const found: [string[], Schema][] = [];
      this.walk(d.schema, [], (path, schema) => path.join(".").toLowerCase().includes(needle) && found.push([path, schema]));
      return html`${notes}<div class="form">${found.slice(0, 80).map(([path, schema]) => this.field(path, schema, path.join(".")))}${found.length ? nothing : html`<p class="dim">${tr`No key has that in its name.`}</p>`}</div>`;
    }
    return html`${notes}<div class="split"><ul class="rows side-list" aria-label=${tr`Sections`}><li><button type="button" class="linkish ${this.section === PEOPLE ? "active" : ""}" @click=${() => (this.section = PEOPLE)}>${tr`General`}</button></li>${sections.map((name) => html`<li><button type="button" class="linkish ${name === this.section ? "active" : ""}" @click=${() => (this.section = name)}>${upper(name)}${at(d.now.config, [name]) === undefined ? nothing : html` <i class="set" title=${tr`has settings`}></i>`}</button></li>`)}</ul>
      <div class="form">${this.section === PEOPLE ? this.people(d) : this.group([this.section], d.schema.properties?.[this.section] ?? {})}</div></div>`;
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
        if (kinds(inner).some((one) => one.properties)) this.walk(inner, here, visit);
        else visit(here, inner);
      }
    }
  }

  private group(path: string[], schema: Schema): unknown {
    const object = kinds(schema).find((kind) => kind.properties);
    if (!object) return this.field(path, schema, path.at(-1)!);
    const entries = Object.entries<Schema>(object.properties);
    const simple = entries.filter(([, inner]) => !kinds(inner).some((kind) => kind.properties));
    const deep = entries.filter(([, inner]) => kinds(inner).some((kind) => kind.properties));
    const value = at(this.data!.now.config, path);
    return html`${simple.map(([name, inner]) => this.field([...path, name], inner, name))}
      ${deep.map(([name, inner]) => html`<details class="sub" ?open=${value?.[name] !== undefined && path.length < 2}><summary>${name}${value?.[name] === undefined ? nothing : html` <i class="set"></i>`}</summary>${this.group([...path, name], inner)}</details>`)}
      ${Object.keys(value && typeof value === "object" && !Array.isArray(value) ? value : {}).filter((name) => !(name in object.properties)).map((name) => this.dead([...path, name], name))}`;
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
    return html`<div class="field ${value === undefined ? "" : "is-set"}"><label for=${id}>${label}</label>${this.input(id, path, schema, value, hint)}
      <span class="field-acts">${store.client.has("config.explain") ? html`<button type="button" class="ghost icon-only" aria-label=${tr`Explain ${name}`} title=${tr`Explain`} aria-expanded=${Boolean(about)} @click=${() => void this.explain(name)}>${icon("why")}</button>` : nothing}
      ${value === undefined ? nothing : html`<button type="button" class="ghost small" @click=${() => void this.write(path, null)}>${tr`Unset`}</button>`}</span>
      ${about ? html`<p class="told"><code>${name}</code>: <b>${about.value === null || about.value === undefined ? tr`not set` : json(about.value)}</b> (${about.source}); ${about.acts ? about.live ? tr`a change acts at once` : tr`a change acts after a restart` : tr`a change changes nothing`}.${about.note ? ` ${about.note}` : ""}</p>` : nothing}
      ${hint.help ? html`<p class="dim" id="${id}-help">${hint.help}</p>` : nothing}${issue ? html`<p class="warn" role="alert">${issue}</p>` : nothing}</div>`;
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
    const words = options.flatMap((kind) => kind.enum ?? (kind.const !== undefined ? [kind.const] : []));
    const types = new Set(options.map((kind) => kind.type));
    const typed = (event: Event) => (event.target as HTMLInputElement).value;
    const usual = options.find((kind) => kind.default !== undefined)?.default;
    if (types.has("boolean") && types.size === 1)
      return html`<select id=${id} .value=${live(String(value ?? ""))} @change=${(e: Event) => void this.write(path, typed(e) === "" ? null : typed(e) === "true")}><option value="" ?selected=${value === undefined}>${usual === undefined ? tr`default` : usual ? tr`default (on)` : tr`default (off)`}</option><option value="true" ?selected=${value === true}>${tr`on`}</option><option value="false" ?selected=${value === false}>${tr`off`}</option></select>`;
    if (words.length && options.every((kind) => kind.enum || kind.const !== undefined))
      return html`<select id=${id} .value=${live(String(value ?? ""))} @change=${(e: Event) => void this.write(path, typed(e) || null)}><option value="">${usual === undefined ? tr`default` : tr`default (${usual})`}</option>${words.map((word) => html`<option value=${word} ?selected=${value === word}>${word}</option>`)}</select>`;
    if (types.size === 1 && (types.has("integer") || types.has("number")))
      return html`<input id=${id} type="number" step="any" placeholder=${usual ?? ""} .value=${value ?? ""} @change=${(e: Event) => void this.write(path, typed(e) === "" ? null : Number(typed(e)))}>`;
    if (types.size === 1 && types.has("string"))
      return html`<input id=${id} type=${hint.sensitive ? "password" : "text"} autocomplete="off" placeholder=${usual ?? ""} .value=${value ?? ""} @change=${(e: Event) => void this.write(path, typed(e) || null)}>`;
    return html`<textarea id=${id} rows=${value && typeof value === "object" ? 4 : 1} spellcheck="false" placeholder=${tr`JSON or text`} .value=${value === undefined ? "" : json(value)} @change=${(e: Event) => void this.write(path, parsed(typed(e)))}></textarea>`;
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

function parsed(text: string): unknown {
  if (!text.trim()) return null;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}
customElements.define("pal-config", Config);

// Skills: which there are, which are used, why others are not; and the store: looked at first, then installed.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { live } from "lit/directives/live.js";
import { size } from "../text";
import { sure } from "../sure";
import { plural, rich, tr } from "../words";

class Skills extends Page {
  static properties = { tab: { state: true }, found: { state: true }, shown: { state: true }, busy: { state: true }, news: { state: true } };
  heading = tr`Skills`;
  about = tr`What the agent has been taught to do.`;
  tab: "installed" | "store" = "installed";
  found: Payload[] | null = null; // in the store
  shown: Payload | null = null; // the one that is being looked at, with what was asked for
  news: Payload | null = null; // what is newer or was changed
  busy = "";

  protected fetch(): Promise<Payload> {
    return this.ask("skills.status");
  }

  private async toggle(skill: Payload): Promise<void> {
    const done = await store.ask("skills.update", { skillKey: skill.skillKey, enabled: skill.disabled });
    if (done) store.toast(`${skill.name} ${skill.disabled ? tr`on` : tr`off`}`);
    await this.load();
  }

  private async act(method: string, params: Payload, text: string): Promise<void> {
    if (await store.ask(method, params)) store.toast(text);
    this.news = null;
    await this.load();
  }

  private async work<T>(word: string, run: () => Promise<T>): Promise<T> {
    this.busy = word;
    try {
      return await run();
    } finally {
      this.busy = "";
    }
  }

  private async search(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const query = String(new FormData(event.target as HTMLFormElement).get("query") ?? "").trim();
    if (!query) return;
    if (query.startsWith("https://")) return this.look({ slug: query });
    this.found = (await this.work(tr`Searching…`, () => store.ask("skills.find", { query })))?.results ?? null;
  }

  private async look(asked: Payload): Promise<void> {
    const detail = await this.work(tr`Fetching it to look at it…`, () => store.ask("skills.look", asked));
    if (!detail) return;
    this.shown = { asked, ...detail };
    await this.updateComplete;
    this.querySelector<HTMLDialogElement>("dialog.look")?.showModal();
  }

  private async install(): Promise<void> {
    const { asked, sha256, name } = this.shown!;
    const done = await this.work(tr`Installing…`, () => store.ask("skills.install", { ...asked, sha256 }));
    if (!done) return;
    store.toast(tr`${name} is installed`);
    this.shown = this.news = null;
    await this.load();
  }

  private async outdated(): Promise<void> {
    this.news = await this.work(tr`Looking for updates…`, () => store.ask("skills.outdated"));
  }

  protected tools(): unknown {
    if (!store.client.has("skills.find")) return nothing;
    const pick = (name: "installed" | "store", label: string) => html`<button type="button" role="tab" aria-selected=${this.tab === name} @click=${() => (this.tab = name)}>${label}</button>`;
    return html`<div class="tabs" role="tablist" aria-label=${tr`Skills`}>${pick("installed", tr`Installed`)}${pick("store", tr`Store`)}</div>`;
  }

  /** What one would be, before it is. */
  private detail(d: Payload): unknown {
    const close = () => (this.shown = null);
    const list = (head: string, lines: string[] | undefined) => (lines?.length ? html`<h3>${head}</h3><ul>${lines.map((line) => html`<li>${line}</li>`)}</ul>` : nothing);
    const grave = d.findings.some((one: Payload) => one.grave);
    return html`<dialog class="edit look" aria-label=${tr`Install ${d.name}`} @close=${close}><h2>${d.name}</h2><p>${d.description}</p>
      <p class="dim">${d.origin} ${d.commit ? html`· <code>${String(d.commit).slice(0, 12)}</code>` : nothing} · ${plural(d.files.length, "{n} file", "{n} files")}, ${size(d.files.reduce((sum: number, one: Payload) => sum + one.bytes, 0))} · <code>${d.sha256.slice(0, 12)}</code></p>
      ${list(tr`It can`, d.permissions)}${list(tr`It needs`, d.demands)}${list(tr`Odd`, d.warnings)}
      ${d.changes ? html`${list(tr`New in this version`, [...d.changes.added.map((one: string) => `+ ${one}`), ...d.changes.removed.map((one: string) => `− ${one}`), ...d.changes.changed.map((one: string) => `± ${one}`)])}${list(tr`It newly asks for`, d.changes.asks)}` : nothing}
      ${d.findings.length ? html`<details ?open=${grave}><summary>${plural(d.findings.length + d.more, "The scanner noticed {n} thing", "The scanner noticed {n} things")}</summary><ul>${d.findings.map((one: Payload) => html`<li class=${one.grave ? "warn" : "dim"}>${one.text}</li>`)}</ul></details>` : nothing}
      <div class="actions"><button type="button" class="plain" @click=${close}>${tr`Cancel`}</button><button type="button" class=${grave ? "danger" : "primary"} ?disabled=${Boolean(this.busy) || d.same} @click=${() => void this.install()}>${d.same ? tr`Already installed` : d.installed ? tr`Update` : grave ? tr`Install anyway` : tr`Install`}</button></div></dialog>`;
  }

  private shop(): unknown {
    return html`<form class="searchbar" role="search" @submit=${(e: SubmitEvent) => void this.search(e)}><input name="query" type="search" placeholder=${tr`Search the store, or paste a git address`} aria-label=${tr`Search the store, or paste a git address`}><button type="submit" class="primary" ?disabled=${Boolean(this.busy)}>${tr`Search`}</button></form>
      ${this.found && !this.found.length ? empty(tr`Nothing found`, tr`Try another word.`) : nothing}
      <ul class="rows big">${(this.found ?? []).map((one) => html`<li><div class="grow"><b>${one.displayName || one.slug}</b> <span class="tag">${one.version}</span>${one.installed ? html` <span class="tag good">${tr`installed`}</span>` : nothing}<p>${one.summary}</p>${one.warning ? html`<p class="warn">${one.warning}</p>` : nothing}<small class="dim">${one.slug}${one.owner ? ` · ${one.owner}` : ""}</small></div>
        <button type="button" class="plain" ?disabled=${one.blocked || Boolean(this.busy)} aria-label=${tr`Look at ${one.slug}`} @click=${() => void this.look({ slug: one.slug })}>${tr`Look`}</button></li>`)}</ul>`;
  }

  private installed(d: Payload): unknown {
    const skills: Payload[] = d.skills ?? [];
    const newer = new Map<string, Payload>((this.news?.outdated ?? []).map((one: Payload) => [one.name, one]));
    const changed = new Map<string, Payload>((this.news?.changed ?? []).map((one: Payload) => [one.name, one]));
    const pinned = new Set<string>((this.news?.installed ?? []).map((one: Payload) => one.name));
    return html`${store.client.has("skills.outdated") ? html`<p><button type="button" class="plain" ?disabled=${Boolean(this.busy)} @click=${() => void this.outdated()}>${tr`Check for updates`}</button> ${this.news && !newer.size && !changed.size ? html`<span class="dim">${tr`Everything is up to date.`}</span>` : nothing}</p>` : nothing}
      ${(this.news?.problems ?? []).map((one: Payload) => html`<p class="warn">${one.name}: ${one.problem}</p>`)}
      ${skills.length ? html`<ul class="rows big">${skills.map((skill) => html`<li><span class="glyph" aria-hidden="true">${skill.emoji ?? "✦"}</span><div class="grow"><b>${skill.name}</b> <span class="tag ${skill.eligible ? "good" : ""}">${skill.disabled ? tr`off` : skill.eligible ? tr`ready` : tr`waiting`}</span><p>${skill.description}</p>
        ${skill.reasons?.length ? html`<p class="warn">${skill.reasons.join("; ")}</p>` : nothing}${skill.installHints?.length && !skill.eligible ? html`<p class="dim">${tr`To install:`} ${skill.installHints.map((hint: Payload | string) => html`<code>${typeof hint === "string" ? hint : (hint.label ?? hint.kind)}</code> `)}</p>` : nothing}
        ${changed.has(skill.name) ? html`<p class="warn">${changed.get(skill.name)!.what}</p>` : nothing}
        <small class="dim" title=${skill.filePath}>${skill.source} · ${String(skill.filePath).split("/").slice(-2).join("/")}</small></div>
        ${newer.has(skill.name) ? html`<button type="button" class="primary" @click=${() => void this.look({ name: skill.name })}>${tr`Update to ${newer.get(skill.name)!.newest}`}</button>` : nothing}
        ${changed.has(skill.name) ? html`<button type="button" class="plain" @click=${() => void this.act("skills.accept", { name: skill.name }, tr`Accepted`)}>${tr`Accept as it is`}</button>` : nothing}
        ${pinned.has(skill.name) ? html`<button type="button" class="danger" @click=${async () => { if (await sure(tr`Remove ${skill.name}?`, tr`Remove`)) void this.act("skills.remove", { name: skill.name }, tr`Removed`); }}>${tr`Remove`}</button>` : nothing}
        <label class="switch"><input type="checkbox" role="switch" aria-label=${tr`Use ${skill.name}`} .checked=${live(!skill.disabled)} @change=${() => void this.toggle(skill)}><i></i></label></li>`)}</ul>` : empty(tr`No skills yet`, rich`Look into the store, or put a folder with a ${html`<code>SKILL.md</code>`} into ${html`<code>${d.workspaceDir}/skills</code>`}.`)}
      ${(d.invalid ?? []).map((one: Payload) => html`<p class="warn">${one.filePath}: ${one.reason}</p>`)}`;
  }

  protected body(d: Payload): unknown {
    return html`${this.busy ? html`<p class="wait" role="status"><i class="spin" aria-hidden="true"></i>${this.busy}</p>` : nothing}${this.tab === "store" ? this.shop() : this.installed(d)}${this.shown ? this.detail(this.shown) : nothing}`;
  }
}
customElements.define("pal-skills", Skills);

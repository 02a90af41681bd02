// <pal-sidebar>: sessions by day, search, and the way to the other pages.
import { html, nothing, Part, store, type Payload } from "./base";
import { icon } from "./icons";
import { act, choices } from "./keep";
import "./menu";
import type { Choice } from "./menu";
import { ago, day } from "./text";
import { AVATAR, BASE, NAME } from "./place";
import { tr } from "./words";

export const PAGES: [string, string, string][] = [
  ["overview", tr`Overview`, "chart"], ["usage", tr`Usage`, "bolt"], ["channels", tr`Channels`, "plug"], ["sessions", tr`Sessions`, "archive"], ["agents", tr`Agents`, "people"],
  ["models", tr`Models`, "spark"], ["skills", tr`Skills`, "file"], ["integrations", tr`Integrations`, "tool"], ["memory", tr`Memory`, "brain"], ["cron", tr`Schedule`, "clock"], ["nodes", tr`Nodes`, "canvas"],
  ["access", tr`Access`, "shield"], ["config", tr`Settings`, "gear"], ["logs", tr`Logs`, "terminal"], ["debug", tr`Debug`, "list"],
];

export function title(row: Payload): string {
  if (row.label) return row.label;
  const derived = row.derivedTitle && row.derivedTitle !== row.key ? row.derivedTitle : "";
  if (row.key === store.main) return derived ? tr`Main · ${derived}` : tr`Main`;
  return row.displayName || derived || tr`New conversation`;
}

export function picture(): unknown {
  if (AVATAR && !AVATAR.startsWith("data:")) return html`<span class="avatar" aria-hidden="true">${AVATAR}</span>`;
  return html`<img src=${AVATAR || `${BASE}/favicon.svg`} alt="">`;
}

const THEMES = ["auto", "light", "dark"];
export function theme(next = false): string {
  let now = localStorage.getItem("theme") ?? "auto";
  if (next) {
    now = THEMES[(THEMES.indexOf(now) + 1) % 3]!;
    localStorage.setItem("theme", now);
  }
  document.documentElement.dataset.theme = now;
  return now;
}

/** The name of a place where people talk to the agent. */
export function placed(name: string): string {
  const known: Record<string, string> = { web: tr`This page`, api: "API", cron: tr`Jobs`, hook: tr`Webhooks`, subagent: tr`Sub-agents`, acp: tr`Editors`, irc: "IRC", whatsapp: "WhatsApp", email: tr`E-mail`, webhook: "Webhook" };
  return known[name] ?? name.charAt(0).toUpperCase() + name.slice(1);
}

/** A text with the words that were looked for marked in it. */
function marked(text: string, query: string): unknown {
  const words = query.split(/\s+/).filter((word) => word.length > 1).map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!words.length) return text;
  return text.split(new RegExp(`(${words.join("|")})`, "gi")).map((part, at) => (at % 2 ? html`<mark>${part}</mark>` : part));
}

class Sidebar extends Part {
  static properties = { filter: { state: true }, hits: { state: true }, over: { state: true } };
  over = ""; // the conversation that is pointed at
  private more = false; // places of what was said
  filter = "";
  hits: Payload[] = []; // where it was said
  private wait = 0;

  private find(text: string): void {
    this.filter = text;
    clearTimeout(this.wait);
    if (text.trim().length < 3 || !store.client.has("sessions.search")) this.hits = [];
    else this.wait = window.setTimeout(() => void this.look(text, 0), 250);
  }

  /** Where it was said, from the `offset`-th place on. */
  private async look(text: string, offset: number): Promise<void> {
    const found = await store.client.request<Payload>("sessions.search", { query: text, limit: offset ? 100 : 20, offset }).catch(() => null);
    if (this.filter !== text) return;
    this.more = Boolean(found?.more);
    this.hits = [...this.hits.slice(0, offset), ...(found?.hits ?? [])];
  }

  private move(event: KeyboardEvent): void {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...this.querySelectorAll<HTMLElement>(".session")];
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    event.preventDefault();
  }

  private session(row: Payload, stop: boolean): unknown {
    const active = store.view === "chat" && row.key === store.key;
    const asks = store.approvals.some((a) => !a.decision && a.request.sessionKey === row.key);
    const state = asks ? "asks" : row.hasActiveRun ? "running" : store.unread(row) ? "unread" : "";
    const words = { asks: `, ${tr`needs approval`}`, running: `, ${tr`running`}`, unread: `, ${tr`unread`}`, "": "" }[state];
    const near = active || this.over === row.key;
    return html`<div class="session-row ${near ? "near" : ""}" @pointerenter=${() => (this.over = row.key)} @focusin=${() => (this.over = row.key)}>
      <a class="session ${active ? "active" : ""} ${state} ${row.spawnedBy ? "child" : ""}" href="${BASE}/chat/${encodeURIComponent(row.key)}" aria-current=${active ? "page" : nothing} tabindex=${stop ? "0" : "-1"}>
      <span class="name">${row.pinned ? icon("pin") : nothing}${title(row)}<span class="sr">${row.pinned ? `, ${tr`pinned`}` : ""}${words}</span></span><span class="when">${state === "running" ? html`<i class="spin"></i>` : ago(row.updatedAt)}</span>
      ${row.lastMessagePreview ? html`<span class="preview">${row.lastMessagePreview.replace(/[*_`#>~|]+/g, "")}</span>` : nothing}${row.tags?.length ? html`<span class="tag-row">${row.tags.map((one: string) => html`<i class="tag">${one}</i>`)}</span>` : nothing}<i class="dot"></i></a>
      ${near ? html`<pal-menu class="more row-more" label=${tr`Actions for ${title(row)}`} shown="" glyph="more" .choices=${choices(row)} @choose=${(e: CustomEvent) => void act(row, e.detail)}></pal-menu>` : nothing}</div>`;
  }

  private opened(event: MouseEvent, key: string, entry: string): void {
    if (event.metaKey || event.ctrlKey || event.shiftKey) return;
    event.preventDefault();
    store.go("chat", key, entry);
    void store.seek();
    this.done();
  }

  /** Which conversations are listed: all, those of a place, of a tag, those put away. */
  private filters(): unknown {
    const { tag, channel, archived } = store.wanted;
    const places = Object.entries(store.origins);
    const list: Choice[] = [
      { value: "all", label: tr`All conversations` }, ...(store.archived ? [{ value: "archived", label: tr`Archived`, hint: String(store.archived) }] : []),
      ...(places.length > 1 ? places.map(([name, n]) => ({ value: `channel:${name}`, label: placed(name), hint: String(n), group: tr`Where` })) : []),
      ...Object.entries(store.tags).map(([name, n]) => ({ value: `tag:${name}`, label: name, hint: String(n), group: tr`Tags` })),
    ];
    if (list.length < 2 && !tag && !channel && !archived) return nothing;
    const value = tag ? `tag:${tag}` : channel ? `channel:${channel}` : archived ? "archived" : "all";
    const choose = (event: CustomEvent) => {
      const [kind, ...rest] = String(event.detail).split(":");
      store.filter(kind === "tag" ? { tag: rest.join(":") } : kind === "channel" ? { channel: rest.join(":") } : kind === "archived" ? { archived: "only" } : {});
    };
    return html`<pal-menu class="filter ${value === "all" ? "" : "on"}" label=${tr`Show`} shown=${tag ?? (channel ? placed(channel) : archived ? tr`Archived` : tr`All`)} glyph="tag" .choices=${list} .value=${value} @choose=${choose}></pal-menu>`;
  }

  private done(): void {
    document.body.classList.remove("side-open");
  }

  render(): unknown {
    const needle = this.filter.trim().toLowerCase();
    const rows = store.sessions.filter((row) => !store.hidden.has(row.key) && (!needle || `${title(row)} ${row.key} ${row.lastMessagePreview ?? ""}`.toLowerCase().includes(needle)));
    const stop = rows.find((row) => row.key === store.key)?.key ?? rows[0]?.key; // one stop for Tab; arrows go on
    let group = "";
    const waiting = store.approvals.filter((a) => !a.decision).length + store.devices;
    const now = theme();
    return html`<nav class="sidebar" aria-label=${tr`Sessions and pages`}>
      <header><a class="brand" href="${BASE}/">${picture()}<b>${NAME}</b></a>
        <button type="button" class="ghost icon-only" aria-label=${tr`Theme: ${now}`} title=${tr`Theme: ${now}`} @click=${() => { theme(true); this.requestUpdate(); }}>${icon({ dark: "moon", light: "sun" }[now] ?? "contrast")}</button></header>
      <button type="button" class="new" @click=${() => { void store.create(); this.done(); }}>${icon("plus")}<span>${tr`New conversation`}</span><kbd>Alt N</kbd></button>
      ${store.agents.length > 1 ? html`<pal-menu class="with" label=${tr`New conversation with`} shown=${tr`New conversation with…`} glyph="people" .choices=${store.agents.map((agent) => ({ value: agent.id, label: agent.identity?.name ?? agent.name, hint: agent.model?.primary }))} @choose=${(e: CustomEvent) => { void store.create(e.detail); this.done(); }}></pal-menu>` : nothing}
      <label class="find">${icon("search")}<input type="search" placeholder=${tr`Search sessions`} aria-label=${tr`Search sessions`} .value=${this.filter} @input=${(e: Event) => this.find((e.target as HTMLInputElement).value)}></label>${this.filters()}
      <div class="sessions" @keydown=${(e: KeyboardEvent) => this.move(e)}>
        ${rows.map((row) => {
          const name = row.pinned ? tr`Pinned` : day(row.updatedAt ?? 0);
          const head = name !== group ? html`<h2>${name}</h2>` : nothing;
          group = name;
          return html`${head}${this.session(row, row.key === stop)}`;
        })}
        ${needle && this.hits.length ? html`<h2>${tr`In messages`}</h2>${this.hits.map((hit) => html`<a class="session hit" href="${BASE}/chat/${encodeURIComponent(hit.key)}" @click=${(e: MouseEvent) => this.opened(e, hit.key, hit.messageId)}>
          <span class="name">${marked(hit.text, this.filter)}</span><span class="when">${ago(hit.at)}</span><span class="preview">${hit.role} · ${title(store.sessions.find((row) => row.key === hit.key) ?? { key: hit.key, displayName: hit.key.replace(/^agent:/, "") })}</span></a>`)}
          ${this.more ? html`<button type="button" class="ghost small older" @click=${() => void this.look(this.filter, this.hits.length)}>${tr`Show more`}</button>` : nothing}` : nothing}
        ${!needle && store.older > 0 ? html`<button type="button" class="ghost small older" @click=${() => store.listMore()}>${tr`Show older (${store.older})`}</button>` : nothing}
        ${store.sessionsLoaded && !rows.length && !this.hits.length ? html`<p class="none">${needle ? tr`No session matches.` : tr`No conversations yet.`}</p>` : nothing}
      </div>
      <div class="pages">${PAGES.map(([name, label, glyph]) => html`<a href="${BASE}/${name}" class=${store.view === name ? "active" : ""} aria-current=${store.view === name ? "page" : nothing}>${icon(glyph)}<span>${label}</span>${name === "access" && waiting ? html`<b class="badge">${waiting}</b>` : nothing}</a>`)}</div>
    </nav>`;
  }
}
customElements.define("pal-sidebar", Sidebar);

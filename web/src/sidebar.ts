// <pal-sidebar>: sessions by day, search, and the way to the other pages.
import { html, nothing, Part, store, type Payload } from "./base";
import { icon } from "./icons";
import "./menu";
import { ago, day } from "./text";
import { AVATAR, BASE, NAME } from "./place";
import { tr } from "./words";

export const PAGES: [string, string, string][] = [
  ["overview", tr`Overview`, "chart"], ["usage", tr`Usage`, "bolt"], ["channels", tr`Channels`, "plug"], ["sessions", tr`Sessions`, "archive"], ["agents", tr`Agents`, "people"],
  ["models", tr`Models`, "spark"], ["skills", tr`Skills`, "file"], ["integrations", tr`Integrations`, "tool"], ["memory", tr`Memory`, "brain"], ["cron", tr`Schedule`, "clock"],
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

class Sidebar extends Part {
  static properties = { filter: { state: true }, hits: { state: true } };
  filter = "";
  hits: Payload[] = []; // where it was said
  private wait = 0;

  private find(text: string): void {
    this.filter = text;
    clearTimeout(this.wait);
    if (text.trim().length < 3 || !store.client.has("sessions.search")) this.hits = [];
    else this.wait = window.setTimeout(async () => {
      const found = await store.client.request<Payload>("sessions.search", { query: text, limit: 20 }).catch(() => null);
      if (this.filter === text) this.hits = found?.hits ?? [];
    }, 250);
  }

  private move(event: KeyboardEvent): void {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...this.querySelectorAll<HTMLElement>(".session")];
    const at = links.indexOf(document.activeElement as HTMLElement);
    links[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
    event.preventDefault();
  }

  private session(row: Payload): unknown {
    const active = store.view === "chat" && row.key === store.key;
    const asks = store.approvals.some((a) => !a.decision && a.request.sessionKey === row.key);
    const state = asks ? "asks" : row.hasActiveRun ? "running" : store.unread(row) ? "unread" : "";
    const words = { asks: `, ${tr`needs approval`}`, running: `, ${tr`running`}`, unread: `, ${tr`unread`}`, "": "" }[state];
    return html`<a class="session ${active ? "active" : ""} ${state} ${row.spawnedBy ? "child" : ""}" href="${BASE}/chat/${encodeURIComponent(row.key)}" aria-current=${active ? "page" : nothing}
      @click=${(e: MouseEvent) => { if (e.metaKey || e.ctrlKey) return; e.preventDefault(); store.go("chat", row.key); this.done(); }}>
      <span class="name">${title(row)}<span class="sr">${words}</span></span><span class="when">${state === "running" ? html`<i class="spin"></i>` : ago(row.updatedAt)}</span>
      ${row.lastMessagePreview ? html`<span class="preview">${row.lastMessagePreview.replace(/[*_`#>~|]+/g, "")}</span>` : nothing}<i class="dot"></i></a>`;
  }

  private done(): void {
    document.body.classList.remove("side-open");
  }

  render(): unknown {
    const needle = this.filter.trim().toLowerCase();
    const rows = store.sessions.filter((row) => !needle || `${title(row)} ${row.key} ${row.lastMessagePreview ?? ""}`.toLowerCase().includes(needle));
    let group = "";
    const waiting = store.approvals.filter((a) => !a.decision).length + store.devices;
    const now = theme();
    return html`<nav class="sidebar" aria-label=${tr`Sessions and pages`}>
      <header><a class="brand" href="${BASE}/" @click=${(e: Event) => { e.preventDefault(); store.go("chat", store.main); this.done(); }}>${picture()}<b>${NAME}</b></a>
        <button type="button" class="ghost icon-only" aria-label=${tr`Theme: ${now}`} title=${tr`Theme: ${now}`} @click=${() => { theme(true); this.requestUpdate(); }}>${icon({ dark: "moon", light: "sun" }[now] ?? "contrast")}</button></header>
      <button type="button" class="new" @click=${() => { void store.create(); this.done(); }}>${icon("plus")}<span>${tr`New conversation`}</span><kbd>Alt N</kbd></button>
      ${store.agents.length > 1 ? html`<pal-menu class="with" label=${tr`New conversation with`} shown=${tr`New conversation with…`} glyph="people" .choices=${store.agents.map((agent) => ({ value: agent.id, label: agent.identity?.name ?? agent.name, hint: agent.model?.primary }))} @choose=${(e: CustomEvent) => { void store.create(e.detail); this.done(); }}></pal-menu>` : nothing}
      <label class="find">${icon("search")}<input type="search" placeholder=${tr`Search sessions`} aria-label=${tr`Search sessions`} .value=${this.filter} @input=${(e: Event) => this.find((e.target as HTMLInputElement).value)}></label>
      <div class="sessions" @keydown=${(e: KeyboardEvent) => this.move(e)}>
        ${rows.map((row) => {
          const name = day(row.updatedAt ?? 0);
          const head = name !== group ? html`<h2>${name}</h2>` : nothing;
          group = name;
          return html`${head}${this.session(row)}`;
        })}
        ${needle && this.hits.length ? html`<h2>${tr`In messages`}</h2>${this.hits.map((hit) => html`<a class="session hit" href="${BASE}/chat/${encodeURIComponent(hit.key)}" @click=${(e: MouseEvent) => { if (e.metaKey || e.ctrlKey) return; e.preventDefault(); store.go("chat", hit.key); this.done(); }}>
          <span class="name">${hit.text}</span><span class="when">${ago(hit.at)}</span><span class="preview">${hit.role} · ${title(store.sessions.find((row) => row.key === hit.key) ?? { key: hit.key, displayName: hit.key.replace(/^agent:/, "") })}</span></a>`)}` : nothing}
        ${!needle && store.older > 0 ? html`<button type="button" class="ghost small older" @click=${() => store.listMore()}>${tr`Show older (${store.older})`}</button>` : nothing}
        ${store.sessionsLoaded && !rows.length && !this.hits.length ? html`<p class="none">${needle ? tr`No session matches.` : tr`No conversations yet.`}</p>` : nothing}
      </div>
      <div class="pages">${PAGES.map(([name, label, glyph]) => html`<a href="${BASE}/${name}" class=${store.view === name ? "active" : ""} aria-current=${store.view === name ? "page" : nothing}
        @click=${(e: MouseEvent) => { e.preventDefault(); store.go(name); this.done(); }}>${icon(glyph)}<span>${label}</span>${name === "access" && waiting ? html`<b class="badge">${waiting}</b>` : nothing}</a>`)}</div>
    </nav>`;
  }
}
customElements.define("pal-sidebar", Sidebar);

// All conversations: find, choose several, put away, tag, delete; links that are out.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { icon } from "../icons";
import { act, archive, choices, remove } from "../keep";
import "../menu";
import { BASE } from "../place";
import { placed, title } from "../sidebar";
import { ago, count } from "../text";
import { plural, tr } from "../words";

class Sessions extends Page {
  static properties = { chosen: { state: true }, find: { state: true } };
  heading = tr`Sessions`;
  about = tr`Every conversation, on every channel.`;
  chosen = new Set<string>();
  find = "";

  protected async fetch(): Promise<Payload> {
    await store.list();
    return {};
  }

  private get rows(): Payload[] {
    const words = this.find.toLowerCase().split(/\s+/).filter(Boolean);
    return store.sessions.filter((row) => !store.hidden.has(row.key) && words.every((word) => `${title(row)} ${row.key} ${row.tags?.join(" ") ?? ""} ${row.lastMessagePreview ?? ""}`.toLowerCase().includes(word)));
  }

  private choose(key: string, yes: boolean): void {
    const now = new Set(this.chosen);
    if (yes) now.add(key);
    else now.delete(key);
    this.chosen = now;
  }

  private acts(rows: Payload[]): unknown {
    const keys = rows.map((row) => row.key).filter((key) => this.chosen.has(key));
    if (!keys.length) return nothing;
    const done = (run: () => void) => () => { run(); this.chosen = new Set(); };
    const away = store.wanted.archived === "only";
    const picked = rows.filter((row) => this.chosen.has(row.key));
    return html`<div class="bulk" role="toolbar" aria-label=${tr`For the chosen ones`}><b>${plural(keys.length, "1 chosen", "{n} chosen")}</b>
      <button type="button" class="plain small" @click=${done(() => void archive(keys, !away))}>${icon("archive")} ${away ? tr`Bring back` : tr`Archive`}</button>
      <button type="button" class="plain small" @click=${() => void import("../keeping").then((part) => part.ask("tags", picked))}>${icon("tag")} ${tr`Tags…`}</button>
      <button type="button" class="plain small" @click=${done(() => remove(keys))}>${icon("trash")} ${tr`Delete`}</button>
      <button type="button" class="ghost small" @click=${() => (this.chosen = new Set())}>${tr`Choose none`}</button></div>`;
  }

  private filters(): unknown {
    const { tag, channel, archived } = store.wanted;
    const option = (value: string, label: string, now: boolean) => html`<option value=${value} ?selected=${now}>${label}</option>`;
    const pick = (event: Event) => {
      const [kind, ...rest] = (event.target as HTMLSelectElement).value.split(":");
      store.filter(kind === "tag" ? { tag: rest.join(":") } : kind === "channel" ? { channel: rest.join(":") } : kind === "archived" ? { archived: "only" } : {});
      this.chosen = new Set();
    };
    return html`<div class="searchbar"><input type="search" placeholder=${tr`Search by name, tag or last words`} aria-label=${tr`Search by name, tag or last words`} .value=${this.find} @input=${(e: Event) => (this.find = (e.target as HTMLInputElement).value)}>
      <select aria-label=${tr`Show`} @change=${pick}>${option("all", tr`All conversations`, !tag && !channel && !archived)}${option("archived", `${tr`Archived`} (${store.archived})`, Boolean(archived))}
        ${Object.entries(store.origins).map(([name, n]) => option(`channel:${name}`, `${placed(name)} (${n})`, channel === name))}${Object.entries(store.tags).map(([name, n]) => option(`tag:${name}`, `# ${name} (${n})`, tag === name))}</select></div>`;
  }

  private row(row: Payload): unknown {
    const name = title(row);
    return html`<li class=${this.chosen.has(row.key) ? "chosen" : ""}>
      <input type="checkbox" aria-label=${tr`Choose ${name}`} .checked=${this.chosen.has(row.key)} ?disabled=${row.key === store.main} @change=${(e: Event) => this.choose(row.key, (e.target as HTMLInputElement).checked)}>
      <div class="grow"><a href="${BASE}/chat/${encodeURIComponent(row.key)}">${row.pinned ? icon("pin") : nothing}${name}</a>
        <p class="facts"><span>${placed(row.from ?? "web")}</span><span>${row.key.split(":")[1]}</span><span>${row.model}</span>${row.thinkingLevel ? html`<span>${row.thinkingLevel}</span>` : nothing}${row.totalTokens ? html`<span>${tr`${count(row.totalTokens)} tokens`}</span>` : nothing}
          ${(row.tags ?? []).map((one: string) => html`<span class="tag">${one}</span>`)}</p></div>
      <span class="dim when">${row.hasActiveRun ? tr`running` : ago(row.updatedAt)}</span>
      <pal-menu class="more" label=${tr`Actions for ${name}`} shown="" glyph="more" .choices=${choices(row)} @choose=${(e: CustomEvent) => void act(row, e.detail)}></pal-menu></li>`;
  }

  protected body(): unknown {
    const rows = this.rows;
    const able = rows.filter((row) => row.key !== store.main);
    const all = able.length > 0 && able.every((row) => this.chosen.has(row.key));
    return html`${this.filters()}
      ${rows.length ? html`<div class="bulk-line"><label><input type="checkbox" .checked=${all} @change=${(e: Event) => (this.chosen = new Set((e.target as HTMLInputElement).checked ? able.map((row) => row.key) : []))}> ${tr`Choose all`}</label>${this.acts(rows)}</div>
        <ul class="rows sessions-list">${rows.map((row) => this.row(row))}</ul>` : store.wanted.archived || this.find ? empty(tr`Nothing here`, tr`No conversation matches.`) : empty(tr`No sessions yet`, tr`They appear with the first message.`)}
      ${store.older > 0 ? html`<button type="button" class="ghost small older" @click=${() => store.listMore()}>${tr`Show older (${store.older})`}</button>` : nothing}`;
  }
}
customElements.define("pal-sessions", Sessions);

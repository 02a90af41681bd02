// <pal-keeping>: the small questions about a conversation: its name, its tags, a link for others, a file of it. Loaded
// when one is asked.
import { html, nothing } from "lit";
import { Part, store, type Payload } from "./base";
import { exported, print, tag } from "./keep";
import { writeConfig } from "./settings";
import { title } from "./sidebar";
import { ago, moment } from "./text";
import { tr } from "./words";

const LOOK = 500; // ms

class Keeping extends Part {
  static properties = { what: { state: true }, link: { state: true }, shares: { state: true } };
  what = "";
  rows: Payload[] = [];
  link = "";
  shares: Payload[] | null = null;

  async open(what: string, rows: Payload[]): Promise<void> {
    this.what = what;
    this.rows = rows;
    this.link = "";
    this.shares = null;
    this.requestUpdate();
    await this.updateComplete;
    this.querySelector("dialog")?.showModal();
    this.querySelector<HTMLInputElement>("dialog input[type=text]")?.select();
    if (what === "share") await this.links();
  }

  private async links(): Promise<void> {
    const found = await store.ask("shares.list");
    this.shares = found?.shares ?? [];
    if (found && !found.enabled) this.link = "off";
  }

  private close(): void {
    this.what = "";
  }

  private async share(event: Event): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const made = await store.ask("shares.create", { key: this.rows[0]!.key, days: Number(form.get("days")), title: String(form.get("title") ?? "") });
    if (!made) return;
    this.link = new URL(made.path, location.href).href;
    await navigator.clipboard?.writeText(this.link).then(() => store.toast(tr`The link is copied`), () => {});
    await this.links();
  }

  /** The owner's one click; it acts at once. */
  private async allow(): Promise<void> {
    try {
      await writeConfig({ gateway: { controlUi: { sharing: true } } });
      for (let look = 0; look < 10 && this.link === "off"; look++) {
        await new Promise((done) => setTimeout(done, LOOK)); // until the gateway has read its changed config
        this.link = "";
        await this.links();
      }
    } catch (error) {
      store.toast((error as Error).message, "error");
    }
  }

  private sharing(): unknown {
    const row = this.rows[0]!;
    if (this.link === "off") return html`<p>${tr`Links are off. With a link anybody who can reach this gateway reads that conversation without signing in, until the link ends or is revoked: your words and the answers, no files, no tools.`}</p>
      <div class="actions"><button type="button" class="primary" @click=${() => void this.allow()}>${tr`Allow links`}</button></div>`;
    const here = (this.shares ?? []).filter((one) => one.sessionKey === row.key);
    const elsewhere = (this.shares ?? []).filter((one) => one.sessionKey !== row.key);
    return html`<p class="dim">${tr`Whoever has the link reads what you and the agent have said until now: no files, no tools, nothing that is said later. It must be able to reach this gateway.`}</p>
      <form class="share-form" @submit=${(e: Event) => void this.share(e)}>
        <label>${tr`Title`}<input type="text" name="title" maxlength="200" .value=${title(row)}></label>
        <label>${tr`Ends after`}<select name="days">${[[1, tr`1 day`], [7, tr`7 days`], [30, tr`30 days`], [365, tr`1 year`]].map(([days, label]) => html`<option value=${days!} ?selected=${days === 7}>${label}</option>`)}</select></label>
        <button type="submit" class="primary">${tr`Make a link`}</button></form>
      ${this.link ? html`<p class="link"><input type="text" readonly aria-label=${tr`Link`} .value=${this.link} @focus=${(e: Event) => (e.target as HTMLInputElement).select()}></p><p class="dim">${tr`This is the only time it is shown.`}</p>` : nothing}
      ${this.list(tr`Links to this conversation`, here)}${this.list(tr`Other links`, elsewhere)}`;
  }

  private list(heading: string, shares: Payload[]): unknown {
    if (!shares.length) return nothing;
    const revoke = async (id: string) => { await store.ask("shares.revoke", { id }); await this.links(); };
    return html`<h3>${heading}</h3><ul class="rows">${shares.map((one) => html`<li><span class="grow"><b>${one.title || tr`Untitled`}</b><small class="dim"> ${tr`made ${ago(one.createdAtMs)}, ends ${moment(one.expiresAtMs)}`}</small></span>
      <button type="button" class="plain small" aria-label=${tr`Revoke ${one.title}`} @click=${() => void revoke(one.id)}>${tr`Revoke`}</button></li>`)}</ul>`;
  }

  private exporting(): unknown {
    const key = this.rows[0]!.key;
    const forms: [string, string, string][] = [["markdown", "Markdown", tr`to read and to edit`], ["html", "HTML", tr`one file, as a page`], ["json", "JSON", tr`everything, every branch`]];
    return html`<div class="ways-list">${forms.map(([value, label, hint]) => html`<button type="button" class="plain" @click=${() => { this.close(); void exported(key, value); }}><b>${label}</b> <small class="dim">${hint}</small></button>`)}
      ${key === store.key ? html`<button type="button" class="plain" @click=${() => { this.close(); void print(); }}><b>${"PDF"}</b> <small class="dim">${tr`through the browser's print window`}</small></button>` : nothing}</div>`;
  }

  private tagging(): unknown {
    const all = Object.keys(store.tags);
    const several = this.rows.length > 1;
    const has: string[] = [...new Set<string>(this.rows.flatMap((row) => row.tags ?? []))];
    const now = several ? [] : has;
    const done = (event: Event) => {
      event.preventDefault();
      const text = this.querySelector<HTMLInputElement>("dialog input[type=text]")!.value;
      const gone = [...this.querySelectorAll<HTMLInputElement>("dialog input[name=gone]:checked")].map((box) => box.value);
      this.close();
      void tag(this.rows, text.split(",").map((one) => one.trim()).filter(Boolean), several ? gone : has);
    };
    return html`<form @submit=${done}><label>${several ? tr`Tags to add, with commas between them` : tr`Tags, with commas between them`}<input type="text" list="known-tags" .value=${now.join(", ")} maxlength="400"></label>
      <datalist id="known-tags">${all.map((one) => html`<option value=${one}></option>`)}</datalist>
      ${all.length ? html`<p class="tag-row">${all.map((one) => html`<button type="button" class="tag" @click=${() => this.add(one)}>${one}</button>`)}</p>` : nothing}
      ${several && has.length ? html`<fieldset class="gone"><legend>${tr`Tags to take away`}</legend>${has.map((one) => html`<label><input type="checkbox" name="gone" value=${one}> ${one}</label>`)}</fieldset>` : nothing}
      <div class="actions"><button type="submit" class="primary">${tr`Save`}</button></div></form>`;
  }

  private add(one: string): void {
    const input = this.querySelector<HTMLInputElement>("dialog input[type=text]")!;
    const has = input.value.split(",").map((text) => text.trim()).filter(Boolean);
    input.value = has.includes(one) ? has.filter((text) => text !== one).join(", ") : [...has, one].join(", ");
  }

  private naming(): unknown {
    const row = this.rows[0]!;
    const done = async (event: Event) => {
      event.preventDefault();
      const text = this.querySelector<HTMLInputElement>("dialog input[type=text]")!.value.trim();
      this.close();
      await store.ask("sessions.patch", { key: row.key, label: text || null });
      await store.list();
    };
    return html`<form @submit=${(e: Event) => void done(e)}><label>${tr`Name`}<input type="text" maxlength="120" .value=${row.label ?? title(row)}></label>
      <div class="actions"><button type="submit" class="primary">${tr`Save`}</button></div></form>`;
  }

  render(): unknown {
    if (!this.what) return nothing;
    const [heading, body] = { share: [tr`Share`, () => this.sharing()], export: [tr`Export`, () => this.exporting()], tags: [tr`Tags`, () => this.tagging()], rename: [tr`Rename`, () => this.naming()] }[this.what] as [string, () => unknown];
    return html`<dialog class="edit keeping" aria-label=${heading} @close=${() => this.close()}>
      <header><h2>${heading}</h2><button type="button" class="ghost small" @click=${() => this.close()}>${tr`Close`}</button></header>${body()}</dialog>`;
  }
}
customElements.define("pal-keeping", Keeping);

export function ask(what: string, rows: Payload[]): void {
  let one = document.querySelector("pal-keeping") as Keeping | null;
  if (!one) document.body.append((one = document.createElement("pal-keeping") as Keeping));
  void one.open(what, rows);
}

// <pal-compare>: one question to two models, side by side. Each gets a branch of the conversation; the one that is kept
// goes on, the other is put away. Both are ordinary conversations, so nothing is lost with the page.
import { html, nothing } from "lit";
import { Part, store, type Payload } from "./base";
import { icon } from "./icons";
import { archive } from "./keep";
import { drawn } from "./message";
import { count, money, took, uuid } from "./text";
import { Transcript } from "./transcript";
import { tr } from "./words";

interface Side {
  model: string;
  key: string;
  talk: Transcript;
  began: number;
  took: number;
}

class Compare extends Part {
  static properties = { shown: { state: true }, models: { state: true }, sides: { state: true } };
  shown = false;
  models: [string, string] = ["", ""];
  sides: Side[] = [];
  private from = "";

  async open(): Promise<void> {
    const all = store.models.map((m) => `${m.provider}/${m.id}`);
    const now = store.info.model ? `${store.info.modelProvider}/${store.info.model}` : (all[0] ?? "");
    this.models = [now, all.find((one) => one !== now) ?? now];
    this.sides = [];
    this.from = store.key;
    this.shown = true;
    await this.updateComplete;
    this.querySelector("dialog")?.showModal();
    this.querySelector<HTMLTextAreaElement>("textarea")?.focus();
  }

  /** A conversation with what was said so far, for one of the two. */
  private async branch(model: string): Promise<string | null> {
    const begun = store.talk.items.some((item) => item.entry);
    const made = begun ? await store.ask("sessions.branch", { key: this.from, before: false }) : await store.ask("sessions.create", {});
    if (!made) return null;
    await store.ask("sessions.patch", { key: made.key, model });
    await store.client.request("sessions.messages.subscribe", { key: made.key });
    return made.key;
  }

  private async ask(event: Event): Promise<void> {
    event.preventDefault();
    const text = this.querySelector<HTMLTextAreaElement>("textarea")!.value.trim();
    if (!text) return;
    const made: Side[] = [];
    for (const model of this.models) {
      const key = await this.branch(model);
      if (!key) return;
      const talk = new Transcript();
      store.beside.set(key, talk);
      made.push({ model, key, talk, began: Date.now(), took: 0 });
    }
    this.sides = made;
    for (const side of made) {
      const run = uuid();
      side.talk.send(run, text, []);
      void store.ask("chat.send", { sessionKey: side.key, message: text, idempotencyKey: run }).then(() => { side.talk.mark(run, "waiting"); store.changed(); });
    }
  }

  willUpdate(): void {
    for (const side of this.sides) if (!side.took && side.talk.items.some((item) => item.kind === "assistant" && item.last) && !side.talk.running) side.took = Date.now() - side.began;
  }

  private close(): void {
    for (const side of this.sides) {
      store.beside.delete(side.key);
      if (side.key !== store.key) void store.client.request("sessions.messages.unsubscribe", { key: side.key }).catch(() => {});
    }
    this.shown = false;
    this.sides = [];
  }

  private async keep(side: Side): Promise<void> {
    const other = this.sides.filter((one) => one !== side).map((one) => one.key);
    this.close();
    store.go("chat", side.key);
    await archive(other);
  }

  private name(ref: string): string {
    return store.models.find((m) => `${m.provider}/${m.id}` === ref)?.name ?? ref;
  }

  private side(side: Side): unknown {
    const items = side.talk.all().filter((item) => item.kind !== "user");
    const usage: Payload | undefined = items.findLast((item) => item.usage)?.usage;
    const facts = [side.took ? took(side.took) : "", usage?.totalTokens ? tr`${count(usage.totalTokens)} tokens` : "", usage?.cost?.total ? money(usage.cost.total) : ""].filter(Boolean);
    return html`<section aria-label=${this.name(side.model)}><header><h3>${this.name(side.model)}</h3><span class="dim">${facts.join(" · ")}</span></header>
      <div class="compare-body" tabindex="0">${items.length ? items.map((item) => drawn({ ...item, last: false }, () => {})) : html`<div class="dots" role="status" aria-label=${tr`The assistant is working`}><i></i><i></i><i></i></div>`}</div>
      <button type="button" class="plain" ?disabled=${!side.took} @click=${() => void this.keep(side)}>${tr`Continue with ${this.name(side.model)}`}</button></section>`;
  }

  private form(): unknown {
    const pick = (at: 0 | 1) => html`<label>${at ? tr`Second model` : tr`First model`}<select @change=${(e: Event) => { this.models[at] = (e.target as HTMLSelectElement).value; }}>
      ${store.models.map((m) => html`<option value="${m.provider}/${m.id}" ?selected=${`${m.provider}/${m.id}` === this.models[at]}>${m.name} (${m.provider})</option>`)}</select></label>`;
    return html`<form @submit=${(e: Event) => void this.ask(e)}><div class="two">${pick(0)}${pick(1)}</div>
      <label>${tr`Question`}<textarea rows="4" required>${store.drafts[store.key] ?? ""}</textarea></label>
      <div class="actions"><button type="submit" class="primary">${tr`Ask both`}</button></div></form>`;
  }

  render(): unknown {
    if (!this.shown) return nothing;
    return html`<dialog class="edit compare ${this.sides.length ? "wide" : ""}" aria-label=${tr`Compare two models`} @close=${() => this.close()}>
      <header><h2>${tr`Compare two models`}</h2><button type="button" class="ghost icon-only" aria-label=${tr`Close`} @click=${() => this.close()}>${icon("close")}</button></header>
      ${this.sides.length ? html`<div class="two sides">${this.sides.map((side) => this.side(side))}</div>` : this.form()}</dialog>`;
  }
}
customElements.define("pal-compare", Compare);

export function begin(): void {
  let one = document.querySelector("pal-compare") as Compare | null;
  if (!one) document.body.append((one = document.createElement("pal-compare") as Compare));
  void one.open();
}

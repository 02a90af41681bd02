// <pal-prompts>: the texts a person keeps to write them again. They are the gateway's, so every browser has them.
import { html, nothing } from "lit";
import { Part, store, type Payload } from "./base";
import { icon } from "./icons";
import { loadPrompts } from "./offers";
import { tr } from "./words";

class Prompts extends Part {
  static properties = { list: { state: true }, edited: { state: true }, shown: { state: true } };
  list: Payload[] = [];
  edited: { name: string; text: string; old?: string } | null = null;
  shown = false;
  take: (text: string) => void = () => {};

  async open(draft: string, take: (text: string) => void): Promise<void> {
    this.take = take;
    this.shown = true;
    this.edited = draft.trim() ? { name: "", text: draft } : null;
    this.list = await loadPrompts(true);
    await this.updateComplete;
    const dialog = this.querySelector("dialog");
    if (dialog && !dialog.open) dialog.showModal();
  }

  private async keep(event: Event): Promise<void> {
    event.preventDefault();
    const form = new FormData(event.target as HTMLFormElement);
    const [name, text] = [String(form.get("name")).trim(), String(form.get("text"))];
    if (!name || !text.trim() || !(await store.ask("prompts.set", { name, text }))) return;
    if (this.edited?.old && this.edited.old !== name) await store.ask("prompts.remove", { name: this.edited.old });
    this.edited = null;
    this.list = await loadPrompts(true);
  }

  private async drop(one: Payload): Promise<void> {
    if (!(await store.ask("prompts.remove", { name: one.name }))) return;
    this.list = await loadPrompts(true);
    const back = async () => { await store.ask("prompts.set", { name: one.name, text: one.text }); this.list = await loadPrompts(true); };
    store.toast(tr`${one.name} is removed`, "info", { label: tr`Undo`, run: () => void back() });
  }

  private form(now: { name: string; text: string }): unknown {
    return html`<form @submit=${(e: Event) => void this.keep(e)}>
      <label>${tr`Name`}<input type="text" name="name" required maxlength="60" .value=${now.name} placeholder=${tr`Weekly report`}></label>
      <label>${tr`Text`}<textarea name="text" rows="6" required .value=${now.text}></textarea></label>
      <div class="actions"><button type="button" class="plain" @click=${() => (this.edited = null)}>${tr`Cancel`}</button><button type="submit" class="primary">${tr`Save`}</button></div></form>`;
  }

  render(): unknown {
    if (!this.shown) return nothing;
    const close = () => (this.shown = false);
    return html`<dialog class="edit keeping" aria-label=${tr`Prompts`} @close=${close}>
      <header><h2>${tr`Prompts`}</h2><button type="button" class="ghost small" @click=${close}>${tr`Close`}</button></header>
      ${this.edited ? this.form(this.edited) : html`
        <p class="dim">${tr`Texts to use again. In the composer, a slash and the name brings one.`}</p>
        <ul class="rows">${this.list.map((one) => html`<li><button type="button" class="linkish" @click=${() => { close(); this.take(one.text); }}><b>${one.name}</b><small class="dim clip">${one.text}</small></button>
          <button type="button" class="ghost icon-only" aria-label=${tr`Edit ${one.name}`} @click=${() => (this.edited = { name: one.name, text: one.text, old: one.name })}>${icon("edit")}</button>
          <button type="button" class="ghost icon-only" aria-label=${tr`Remove ${one.name}`} @click=${() => void this.drop(one)}>${icon("trash")}</button></li>`)}</ul>
        <div class="actions"><button type="button" class="primary" @click=${() => (this.edited = { name: "", text: "" })}>${tr`New prompt`}</button></div>`}
    </dialog>`;
  }
}
customElements.define("pal-prompts", Prompts);

export function open(draft: string, take: (text: string) => void): void {
  let one = document.querySelector("pal-prompts") as Prompts | null;
  if (!one) document.body.append((one = document.createElement("pal-prompts") as Prompts));
  void one.open(draft, take);
}

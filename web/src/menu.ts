// <pal-menu>: a button that opens a list to choose from. Keyboard: arrows, Home, End, Enter, Escape, typing to search.
import { html, LitElement, nothing } from "lit";
import { icon } from "./icons";
import { tr } from "./words";

export interface Choice {
  value: string;
  label: string;
  hint?: string;
  group?: string;
}

class Menu extends LitElement {
  static properties = {
    label: {}, choices: { attribute: false }, value: {}, shown: {}, glyph: {}, disabled: { type: Boolean }, open: { state: true }, at: { state: true }, filter: { state: true },
  };
  label = "";
  shown = "";
  glyph = "";
  value = "";
  disabled = false;
  choices: Choice[] = [];
  open = false;
  at = 0;
  filter = "";
  private uid = `m${Math.random().toString(36).slice(2, 8)}`;
  private away = (event: Event) => this.contains(event.target as Node) || this.close(false);

  createRenderRoot(): HTMLElement {
    return this;
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    document.removeEventListener("pointerdown", this.away);
  }

  get list(): Choice[] {
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    return this.choices.filter((c) => words.every((word) => `${c.label} ${c.value} ${c.hint ?? ""}`.toLowerCase().includes(word)));
  }

  async show(): Promise<void> {
    if (this.disabled) return;
    this.open = true;
    this.filter = "";
    this.at = Math.max(0, this.choices.findIndex((c) => c.value === this.value));
    document.addEventListener("pointerdown", this.away);
    await this.updateComplete;
    this.place();
    this.querySelector<HTMLElement>(".menu-filter, [role=listbox]")?.focus({ preventScroll: true });
    this.querySelector(".at")?.scrollIntoView({ block: "nearest" });
  }

  /** In the top layer, above the button if there is room, else below it. */
  private place(): void {
    const menu = this.querySelector<HTMLElement>(".menu");
    const button = this.querySelector("button")!.getBoundingClientRect();
    if (!menu) return;
    menu.showPopover();
    const { offsetWidth: width, offsetHeight: height } = menu;
    const above = button.top - height - 6;
    const below = Math.min(button.bottom + 6, innerHeight - height - 6);
    const up = above >= 6 && (button.top > innerHeight / 2 || below + height > innerHeight);
    menu.style.top = `${Math.max(6, up ? above : below)}px`;
    menu.style.left = `${Math.max(6, Math.min(button.left, innerWidth - width - 6))}px`;
  }

  close(focus = true): void {
    this.open = false;
    document.removeEventListener("pointerdown", this.away);
    if (focus) this.querySelector("button")?.focus();
  }

  private choose(choice: Choice | undefined): void {
    if (!choice) return;
    this.close();
    this.dispatchEvent(new CustomEvent("choose", { detail: choice.value, bubbles: true }));
  }

  private async key(event: KeyboardEvent): Promise<void> {
    const last = this.list.length - 1;
    const moves: Record<string, number> = { ArrowDown: Math.min(last, this.at + 1), ArrowUp: Math.max(0, this.at - 1), Home: 0, End: last };
    if (event.key in moves) this.at = moves[event.key]!;
    else if (event.key === "Enter") this.choose(this.list[this.at]);
    else if (event.key === "Escape" || event.key === "Tab") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
    await this.updateComplete;
    this.querySelector(".at")?.scrollIntoView({ block: "nearest" });
  }

  render(): unknown {
    return html`<button type="button" class="chip" ?disabled=${this.disabled} aria-haspopup="listbox" aria-expanded=${this.open}
        aria-label="${this.label}: ${this.shown}" title=${this.label} @click=${() => (this.open ? this.close() : void this.show())}>
        ${this.glyph ? icon(this.glyph) : nothing}<span>${this.shown}</span>${icon("down")}</button>
      ${this.open ? this.box() : nothing}`;
  }

  private box(): unknown {
    const long = this.choices.length > 9;
    const list = this.list;
    let group: string | undefined;
    return html`<div class="menu" popover="manual" @keydown=${(e: KeyboardEvent) => void this.key(e)}>
      ${long ? html`<input class="menu-filter" placeholder=${tr`Search…`} aria-label=${tr`Search`} aria-controls=${this.uid} aria-activedescendant="${this.uid}-${this.at}" role="combobox" aria-expanded="true"
            .value=${this.filter} @input=${(e: Event) => { this.filter = (e.target as HTMLInputElement).value; this.at = 0; }}>` : nothing}
      <ul role="listbox" id=${this.uid} tabindex="-1" aria-label=${this.label} aria-activedescendant="${this.uid}-${this.at}">
        ${list.map((choice, at) => {
          const head = choice.group !== group ? html`<li class="menu-group" role="presentation">${choice.group}</li>` : nothing;
          group = choice.group;
          return html`${head}<li role="option" id="${this.uid}-${at}" class=${at === this.at ? "at" : ""} aria-selected=${choice.value === this.value}
            @click=${() => this.choose(choice)} @pointermove=${() => this.at !== at && (this.at = at)}>
            <span><b>${choice.label}</b>${choice.hint ? html`<small>${choice.hint}</small>` : nothing}</span>${choice.value === this.value ? icon("check") : nothing}</li>`;
        })}
        ${list.length ? nothing : html`<li class="menu-none" role="presentation">${tr`Nothing matches.`}</li>`}
      </ul></div>`;
  }
}
customElements.define("pal-menu", Menu);

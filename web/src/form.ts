// A form in a dialog: fields that are told as values, what was written goes to `send`, and what it says is wrong stands there.
import { html, LitElement, nothing } from "lit";
import type { Payload } from "./client";
import { told } from "./text";
import { tr } from "./words";

export interface Field {
  name: string;
  label: string;
  kind?: "note" | "text" | "password" | "number" | "area" | "choice" | "check" | "url" | "datetime-local";
  value?: string | number | boolean;
  options?: [string, string][];
  hint?: unknown;
  holder?: string;
  required?: boolean;
  when?: (values: Payload) => boolean;
}

export interface Asked {
  title: string;
  about?: unknown;
  fields: Field[];
  word?: string;
  /** Nothing, or why it could not be done. `changed`: what is no longer as it was shown; the rest may be another by now. */
  send: (values: Payload, changed: Payload) => Promise<string | void>;
}

class FormDialog extends LitElement {
  static properties = { asked: { attribute: false }, values: { state: true }, problem: { state: true }, busy: { state: true } };
  asked!: Asked;
  values: Payload = {};
  private first: Payload = {}; // as they were shown
  problem = "";
  busy = false;

  createRenderRoot(): HTMLElement {
    return this;
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("asked")) this.values = this.first = Object.fromEntries(this.asked.fields.map((field) => [field.name, field.value ?? (field.kind === "check" ? false : field.kind === "choice" ? (field.options?.[0]?.[0] ?? "") : "")]));
  }

  firstUpdated(): void {
    this.querySelector("dialog")!.showModal();
  }

  private close(): void {
    this.remove();
  }

  private async submit(event: Event): Promise<void> {
    event.preventDefault();
    this.busy = true;
    this.problem = "";
    const shown = this.asked.fields.filter((field) => field.kind !== "note" && (!field.when || field.when(this.values)));
    const told = Object.fromEntries(shown.map((field) => [field.name, field.kind === "number" ? (this.values[field.name] === "" ? null : Number(this.values[field.name])) : typeof this.values[field.name] === "string" ? this.values[field.name].trim() : this.values[field.name]]));
    try {
      const changed = Object.entries(told).filter(([name]) => String(this.values[name]) !== String(this.first[name]));
      this.problem = (await this.asked.send(told, Object.fromEntries(changed))) || "";
      if (!this.problem) return this.close();
    } catch (error) {
      this.problem = (error as Error).message;
    } finally {
      this.busy = false;
    }
  }

  private set(name: string, value: unknown): void {
    this.values = { ...this.values, [name]: value };
  }

  private input(field: Field): unknown {
    const id = `form-${field.name}`;
    const value = this.values[field.name];
    const typed = (event: Event) => this.set(field.name, (event.target as HTMLInputElement).value);
    if (field.kind === "note") return html`<p class="banner">${told(field.label)}</p>`;
    if (field.kind === "check") return html`<label class="check"><input id=${id} type="checkbox" .checked=${Boolean(value)} @change=${(e: Event) => this.set(field.name, (e.target as HTMLInputElement).checked)}> ${field.label}</label>`;
    const inside = field.kind === "choice"
      ? html`<select id=${id} @change=${typed}>${(field.options ?? []).map(([name, label]) => html`<option value=${name} ?selected=${name === value}>${label}</option>`)}</select>`
      : field.kind === "area"
        ? html`<textarea id=${id} rows="4" ?required=${field.required} placeholder=${field.holder ?? ""} .value=${String(value ?? "")} @input=${typed}></textarea>`
        : html`<input id=${id} type=${field.kind ?? "text"} step="any" autocomplete="off" spellcheck="false" ?required=${field.required} placeholder=${field.holder ?? ""} .value=${String(value ?? "")} @input=${typed}>`;
    return html`<label for=${id}>${field.label}</label>${inside}`;
  }

  render(): unknown {
    const { title, about, fields, word } = this.asked;
    return html`<dialog class="edit form-dialog" aria-label=${title} @close=${() => this.close()}><form @submit=${(e: Event) => void this.submit(e)}>
      <h2>${title}</h2>${about ? html`<p class="dim">${about}</p>` : nothing}
      ${fields.filter((field) => !field.when || field.when(this.values)).map((field) => html`<div class="ask">${this.input(field)}${field.hint ? html`<p class="dim">${field.hint}</p>` : nothing}</div>`)}
      <div role="alert">${this.problem ? html`<p class="banner error">${told(this.problem)}</p>` : nothing}</div>
      <div class="actions"><button type="button" class="plain" @click=${() => this.close()}>${tr`Cancel`}</button><button type="submit" class="primary" ?disabled=${this.busy}>${word ?? tr`Save`}</button></div></form></dialog>`;
  }
}
customElements.define("pal-form", FormDialog);

/** Ask for something. */
export function fill(asked: Asked): void {
  const made = document.createElement("pal-form") as FormDialog;
  made.asked = asked;
  document.body.append(made);
}

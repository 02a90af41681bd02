// <pal-viewer>: a picture, a PDF or a text over the whole page; <pal-artifact>: a page that a model wrote, beside the
// conversation. Loaded when first needed.
import { html, nothing } from "lit";
import { Part, store } from "./base";
import { CodeBlock, save } from "./blocks";
import { icon } from "./icons";
import { stage } from "./stage";
import { tr } from "./words";

export interface Shown {
  kind: "picture" | "pdf" | "text";
  name: string;
  src?: string; // a data: or blob: address
  text?: string;
  language?: string;
}

class Viewer extends Part {
  static properties = { at: { state: true }, large: { state: true } };
  list: Shown[] = [];
  at = 0;
  large = false;

  async show(list: Shown[], at: number): Promise<void> {
    this.list = list;
    this.at = at;
    this.large = false;
    this.requestUpdate();
    await this.updateComplete;
    const dialog = this.querySelector("dialog");
    if (dialog && !dialog.open) dialog.showModal();
  }

  private close(): void {
    for (const one of this.list) if (one.src?.startsWith("blob:")) URL.revokeObjectURL(one.src);
    this.list = [];
    this.requestUpdate();
  }

  private key(event: KeyboardEvent): void {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step || this.list.length < 2) return;
    this.at = (this.at + step + this.list.length) % this.list.length;
    this.large = false;
    event.preventDefault();
  }

  private inside(one: Shown): unknown {
    if (one.kind === "picture")
      return html`<button type="button" class="viewer-picture ${this.large ? "large" : ""}" aria-label=${this.large ? tr`Fit to the window` : tr`Show at full size`} @click=${() => (this.large = !this.large)}><img src=${one.src!} alt=${one.name}></button>`;
    if (one.kind === "pdf") return html`<iframe class="viewer-pdf" title=${one.name} src=${one.src!}></iframe>`;
    return html`<div class="viewer-text">${new CodeBlock(one.text ?? "", one.language ?? "").node}</div>`;
  }

  private download(one: Shown): void {
    if (one.text !== undefined) { save(one.text, one.name); return; }
    const link = document.createElement("a");
    link.href = one.src!;
    link.download = one.name;
    link.click();
  }

  render(): unknown {
    const one = this.list[this.at];
    if (!one) return nothing;
    const many = this.list.length > 1;
    const step = (by: number, label: string, glyph: string) =>
      html`<button type="button" class="ghost icon-only" aria-label=${label} @click=${() => { this.at = (this.at + by + this.list.length) % this.list.length; this.large = false; }}>${icon(glyph)}</button>`;
    return html`<dialog class="viewer" aria-label=${one.name} @close=${() => this.close()} @keydown=${(e: KeyboardEvent) => this.key(e)} @click=${(e: Event) => e.target === e.currentTarget && this.querySelector("dialog")?.close()}>
      <header><h2>${one.name}</h2>${many ? html`${step(-1, tr`Previous`, "left")}<span class="dim">${this.at + 1}/${this.list.length}</span>${step(1, tr`Next`, "right")}` : nothing}
        <button type="button" class="ghost icon-only" aria-label=${tr`Save`} title=${tr`Save`} @click=${() => this.download(one)}>${icon("save")}</button>
        <button type="button" class="ghost icon-only" aria-label=${tr`Close`} @click=${() => this.querySelector("dialog")?.close()}>${icon("close")}</button></header>
      ${this.inside(one)}</dialog>`;
  }
}
customElements.define("pal-viewer", Viewer);

/** Show pictures, a PDF or a text over the page. */
export function view(list: Shown[], at = 0): void {
  let viewer = document.querySelector("pal-viewer") as Viewer | null;
  if (!viewer) document.body.append((viewer = document.createElement("pal-viewer") as Viewer));
  void viewer.show(list, at);
}

/** The pictures of the conversation around the one that was pressed. */
export function viewPicture(pressed: HTMLImageElement): void {
  const near = [...(pressed.closest(".log") ?? document).querySelectorAll<HTMLImageElement>("img.zooms")];
  const name = (image: HTMLImageElement) => image.alt || tr`Picture`;
  view(near.map((image) => ({ kind: "picture", name: name(image), src: image.src })), Math.max(0, near.indexOf(pressed)));
}

class Artifact extends Part {
  private drawn = "";

  updated(): void {
    const shown = store.artifact;
    const key = shown ? shown.html : "";
    if (key === this.drawn) return;
    this.drawn = key;
    const room = this.querySelector(".canvas-room");
    if (!shown || !room) return;
    room.replaceChildren(stage(shown.title, { type: "html", html: shown.html }, () => {}));
  }

  render(): unknown {
    const shown = store.artifact;
    if (!shown) return nothing;
    const close = () => { store.artifact = null; store.changed(); };
    return html`<aside class="canvas artifact" aria-label=${shown.title}>
      <header>${icon("canvas")}<h2>${shown.title}</h2>
        <button type="button" class="ghost icon-only" aria-label=${tr`Save`} title=${tr`Save`} @click=${() => save(shown.html, "page.html", "text/html")}>${icon("save")}</button>
        <button type="button" class="ghost icon-only" aria-label=${tr`Close`} title=${tr`Close`} @click=${close}>${icon("close")}</button></header>
      <div class="canvas-room"></div></aside>`;
  }
}
customElements.define("pal-artifact", Artifact);

/** A page that stands in a message as code, shown as a page: of no origin, without a network. */
export function showArtifact(text: string, language: string): void {
  const page = /^svg$/i.test(language) ? `<!doctype html><meta charset="utf-8"><style>html,body{margin:0;height:100%;display:grid;place-items:center}svg{max-width:100%;max-height:100%}</style>${text}` : text;
  const named = /<title>([^<]{1,80})<\/title>/i.exec(text)?.[1]?.trim();
  store.artifact = { title: named || tr`Preview`, html: page };
  store.changed();
}

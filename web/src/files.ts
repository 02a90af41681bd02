// Files that come with messages: made ready for sending, found again behind a message, played and saved.
import { html, LitElement, nothing } from "lit";
import { icon } from "./icons";
import { hints, spoken, UNHEARD, type Attachment, type FileRef } from "./attached";
import { store } from "./store";
import { size } from "./text";
import { tr } from "./words";

const READ = 2 * 1024 * 1024; // texts up to here are shown
const LONG = 1_800; // characters of a message that are shown at once
const PLAYED = 8 * 1024 * 1024; // recordings up to here are fetched to be played at once
export const BIGGEST = 17 * 1024 * 1024; // of one message: what the gateway takes in one frame, less base64's share

export async function attachment(file: File, voice = false): Promise<Attachment | string> {
  if (file.size > BIGGEST) return tr`${file.name} is larger than ${size(BIGGEST)}`;
  if (!file.size) return tr`${file.name} is empty`;
  const bytes = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let at = 0; at < bytes.length; at += 32_768) binary += String.fromCharCode(...bytes.subarray(at, at + 32_768));
  const mimeType = file.type.split(";")[0] || "application/octet-stream";
  return { name: file.name || "picture", mimeType, content: btoa(binary), bytes: file.size, ...(voice ? { voice } : {}) };
}

function blob(file: { mimeType: string; content: string }): Blob {
  const binary = atob(file.content);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  // Only sound keeps its kind: whatever else is opened must not run as part of this page.
  return new Blob([bytes], { type: file.mimeType.startsWith("audio/") ? file.mimeType : "application/octet-stream" });
}

// --- what a message says about its files --------------------------------------------------------------------------

const known = new Map<string, FileRef[]>();

/** The files of a message, as the gateway has them. */
export async function filesOf(item: string): Promise<FileRef[]> {
  const found = known.get(item);
  if (found) return found;
  const answer = await store.client.request<{ files: FileRef[] }>("chat.files", { item }).catch(() => null);
  if (answer) known.set(item, answer.files);
  return answer?.files ?? [];
}

async function content(file: FileRef, item: string, at: number): Promise<string | null> {
  if (file.content) return file.content;
  const answer = await store.ask("chat.file.get", { item, index: at });
  if (answer) file.content = answer.content;
  return file.content ?? null;
}

/** The files of a message once more, to be sent with another. */
export async function again(item: string | undefined, images: string[]): Promise<Attachment[]> {
  const made: Attachment[] = images.map((src, at) => {
    const [head = "", body = ""] = src.split(",");
    return { name: tr`picture ${at + 1}`, mimeType: head.slice(5).split(";")[0]!, content: body, bytes: body.length };
  });
  const files = item ? await filesOf(item) : [];
  for (const [at, file] of files.entries()) {
    const body = await content(file, item!, at);
    if (body) made.push({ name: file.name, mimeType: file.mimeType, content: body, bytes: file.size, ...(file.voice ? { voice: true } : {}) });
  }
  return made;
}

// --- showing them -------------------------------------------------------------------------------------------------

/** <pal-file>: one file: sound with a player, anything else with a button to save it. */
class FileCard extends LitElement {
  static properties = { file: { attribute: false }, item: {}, at: { type: Number }, url: { state: true } };
  file!: FileRef;
  item = "";
  at = 0;
  url = "";

  createRenderRoot(): HTMLElement {
    return this;
  }

  get sound(): boolean {
    return this.file.mimeType.startsWith("audio/");
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("file") && this.sound && this.file.size <= PLAYED) void this.ready();
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    if (this.url) URL.revokeObjectURL(this.url);
    this.url = "";
  }

  connectedCallback(): void {
    super.connectedCallback();
    if (this.file && this.sound && this.file.size <= PLAYED) void this.ready();
  }

  private async ready(): Promise<string> {
    if (this.url) return this.url;
    const body = await content(this.file, this.item, this.at);
    if (body && !this.url) this.url = URL.createObjectURL(blob({ mimeType: this.file.mimeType, content: body }));
    return this.url;
  }

  /** Whether it can be looked at here. */
  private get seen(): "pdf" | "text" | null {
    const { mimeType, name, size: bytes } = this.file;
    if (mimeType === "application/pdf") return "pdf";
    const text = /^text\/|json|xml|yaml|javascript/.test(mimeType) || /\.(?:md|txt|csv|tsv|log|ini|toml|py|rs|go|java|c|h|cpp|sh|sql)$/i.test(name);
    return text && bytes <= READ ? "text" : null;
  }

  private async look(): Promise<void> {
    const body = await content(this.file, this.item, this.at);
    if (!body) return;
    const { view } = await import("./viewer");
    const bytes = Uint8Array.from(atob(body), (char) => char.charCodeAt(0));
    const kind = this.seen === "pdf" && new TextDecoder("latin1").decode(bytes.subarray(0, 5)) === "%PDF-" ? "pdf" : "text";
    // The one kind besides sound that keeps its type: a browser's PDF viewer runs nothing as this page.
    if (kind === "pdf") view([{ kind, name: this.file.name, src: URL.createObjectURL(new Blob([bytes], { type: "application/pdf" })) }]);
    else view([{ kind, name: this.file.name, text: new TextDecoder().decode(bytes), language: this.file.name.split(".").pop() ?? "" }]);
  }

  private async save(): Promise<void> {
    const url = await this.ready();
    if (!url) return;
    const link = document.createElement("a");
    link.href = url;
    link.download = this.file.name.split(/[\\/]/).pop() || "file";
    link.click();
  }

  render(): unknown {
    const { name, size: bytes, voice } = this.file;
    const label = voice ? tr`Voice note` : name;
    if (this.sound && this.url) return html`<figure class="sound"><audio controls preload="metadata" src=${this.url} aria-label=${label}></audio>${voice ? nothing : html`<figcaption>${name}</figcaption>`}</figure>`;
    if (this.seen) return html`<span class="file-pair"><button type="button" class="file-chip" title=${tr`Open ${label}`} @click=${() => void this.look()}>${icon("file")}<span>${label}</span><small>${size(bytes)}</small></button><button type="button" class="ghost icon-only" aria-label=${tr`Save ${label}`} title=${tr`Save ${label}`} @click=${() => void this.save()}>${icon("save")}</button></span>`;
    return html`<button type="button" class="file-chip" title=${tr`Save ${label}`} @click=${() => void this.save()}>${icon(this.sound ? "mic" : "file")}<span>${label}</span><small>${size(bytes)}</small></button>`;
  }
}
customElements.define("pal-file", FileCard);

/** <pal-said>: what a person wrote, with the files that came along. */
class Said extends LitElement {
  static properties = { text: {}, item: {}, files: { attribute: false }, carries: { attribute: false }, found: { state: true }, whole: { state: true } };
  whole = false; // a long one, shown to its end
  carries = 0; // files of a message that waits
  text = "";
  item = "";
  files: FileRef[] = [];
  found: FileRef[] = [];

  createRenderRoot(): HTMLElement {
    return this;
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (!changed.has("text") && !changed.has("item")) return;
    this.found = known.get(this.item) ?? [];
    if (!this.found.length && this.item && (hints(this.text) || this.carries)) void this.look();
  }

  private async look(): Promise<void> {
    const item = this.item;
    const found = await filesOf(item);
    if (item === this.item) this.found = found;
  }

  render(): unknown {
    const files = this.files.length ? this.files : this.hinted || this.carries ? this.found : [];
    const confirmed = this.hinted && this.found.length > 0;
    const lines = confirmed ? spoken(this.text).split("\n") : [];
    const notes = lines.filter((line) => line.startsWith(UNHEARD));
    const said = confirmed ? lines.filter((line) => !line.startsWith(UNHEARD)).join("\n").trim() : this.text;
    const long = said.length > LONG * 1.3;
    return html`${files.length ? html`<div class="sent-files">${files.map((file, at) => html`<pal-file .file=${file} .item=${this.item} .at=${at}></pal-file>`)}</div>` : nothing}
      ${said ? html`<div class="said">${long && !this.whole ? `${said.slice(0, LONG).trimEnd()}…` : said}</div>` : nothing}
      ${long ? html`<button type="button" class="ghost small more-said" aria-expanded=${this.whole} @click=${() => (this.whole = !this.whole)}>${this.whole ? tr`Show less` : tr`Show all (${size(said.length)})`}</button>` : nothing}${notes.map((line) => html`<p class="dim heard">${line.slice(1, -1)}</p>`)}`;
  }

  private get hinted(): boolean {
    return hints(this.text);
  }
}
customElements.define("pal-said", Said);

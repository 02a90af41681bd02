// <pal-composer>: where people write. Files by drop, paste or button; slash commands; Enter sends, Escape stops.
import { data, picture, type Attachment } from "./attached";
import { attachment, BIGGEST } from "./files";
import { icon } from "./icons";
import { html, nothing, Part, store } from "./base";
import { loadPrompts, offers, type Offer } from "./offers";
import { pickers } from "./pickers";
import { able, Recorder } from "./recorder";
import { size, timer } from "./text";
import { voice } from "./voice";
import { tr } from "./words";

const LONG = 6_000; // characters that are pasted as words; more becomes a file
const TAP = 350; // ms: a shorter press is a tap
const laid = new Map<string, Attachment[]>(); // files of messages that are not sent yet, by conversation

class Composer extends Part {
  static properties = { files: { state: true }, over: { state: true }, offers: { state: true }, at: { state: true }, wide: { state: true }, recorder: { state: true }, hearing: { state: true } };
  wide = false;
  files: Attachment[] = [];
  over = false;
  offers: Offer[] = [];
  at = 0;
  recorder: Recorder | null = null;
  hearing = false; // what was spoken is being written down
  private key = "";
  private known = false; // the prompts have been asked for
  private picking = 0;
  private ticking = 0;

  get area(): HTMLTextAreaElement {
    return this.querySelector("textarea")!;
  }

  updated(): void {
    if (store.client.hello && !this.known) {
      this.known = true;
      void loadPrompts();
    }
    if (this.key === store.key) laid.set(this.key, this.files);
    else {
      this.key = store.key;
      this.area.value = store.drafts[store.key] ?? "";
      this.files = laid.get(store.key) ?? [];
      this.cancel();
      this.grow();
      if (matchMedia("(hover: hover)").matches) this.area.focus();
    }
  }

  /** What was written in another tab: also here, unless somebody writes here. */
  lay(): void {
    if (this.key !== store.key || (this.area.value && document.hasFocus())) return;
    this.area.value = store.drafts[this.key] ?? "";
    this.grow();
  }

  write(text: string): void {
    this.area.value = text;
    this.typed();
    this.area.focus();
  }

  /** What was taken back, to be changed. */
  restore(text: string, files: Attachment[]): void {
    this.files = files;
    this.write([text, this.area.value].filter(Boolean).join("\n\n"));
  }

  private grow(): void {
    const area = this.area;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, window.innerHeight * 0.4)}px`;
  }

  private typed(): void {
    const text = this.area.value;
    if (text) voice.interrupt();
    store.draft(text);
    this.grow();
    this.at = 0;
    void offers(text.slice(0, this.area.selectionStart), text).then((found) => { if (this.area?.value === text) this.offers = found; });
    this.requestUpdate();
  }

  private pick(offer: Offer | undefined): void {
    if (!offer) return;
    this.offers = [];
    this.write(offer.text);
    const blank = /\{\{[^{}]*\}\}/.exec(offer.text); // a prompt's first gap, to be filled in
    if (blank) this.area.setSelectionRange(blank.index, blank.index + blank[0].length);
  }

  async add(list: Iterable<File>): Promise<void> {
    for (const file of list) {
      this.picking++;
      const made = await attachment(file);
      this.picking--;
      this.take(made);
    }
  }

  private take(made: Attachment | string): void {
    const total = this.files.reduce((sum, file) => sum + file.bytes, 0);
    if (typeof made === "string") store.toast(made, "error");
    else if (total + made.bytes > BIGGEST) store.toast(tr`Together the files are larger than ${size(BIGGEST)}`, "error");
    else this.files = [...this.files, made];
  }

  private held = 0; // since when the button is held down

  /** While talking: held down it listens until it is let go, pressed shortly until the person pauses. */
  private async hold(): Promise<void> {
    this.held = Date.now();
    await this.record();
    if (!this.held) this.heed(); // let go before the microphone was there
  }

  private release(): void {
    const long = Date.now() - this.held > TAP;
    this.held = 0;
    if (this.recorder && long) void this.finish(true);
    else this.heed();
  }

  private heed(): void {
    this.recorder?.watch(voice.config.silenceTimeoutMs ?? 900, () => void this.finish(true));
  }

  private async record(): Promise<void> {
    voice.interrupt();
    try {
      this.recorder = await Recorder.begin();
      this.ticking = window.setInterval(() => this.requestUpdate(), 500);
    } catch (error) {
      const refused = (error as Error).name === "NotAllowedError";
      store.toast(refused ? tr`The browser gives this page no microphone.` : tr`There is no microphone.`, "error");
    }
  }

  /** The voice note is done: it stands among the files, or goes at once. */
  private async finish(send: boolean): Promise<void> {
    const recorder = this.recorder;
    if (!recorder) return;
    this.picking++;
    this.recorder = null;
    clearInterval(this.ticking);
    const made = await attachment(await recorder.end(), true);
    this.picking--;
    this.take(made);
    if (send) this.send();
  }

  private cancel(): void {
    this.recorder?.halt();
    this.recorder = null;
    clearInterval(this.ticking);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.cancel();
  }

  /** `after`: it waits for the end of the run, whatever is usual here. */
  private send(after = false): void {
    if (this.recorder) {
      void this.finish(true);
      return;
    }
    voice.interrupt();
    const text = this.area.value.trim();
    if ((!text && !this.files.length) || this.picking) return;
    void store.send(text, this.files, after ? { queue: "followup" } : {});
    this.files = [];
    this.area.value = "";
    this.typed();
    this.dispatchEvent(new CustomEvent("sent", { bubbles: true }));
  }

  private down(event: KeyboardEvent): void {
    if (event.isComposing) return;
    if (this.offers.length) {
      const last = this.offers.length - 1;
      const moves: Record<string, number> = { ArrowDown: Math.min(last, this.at + 1), ArrowUp: Math.max(0, this.at - 1) };
      if (event.key in moves) this.at = moves[event.key]!;
      else if (event.key === "Tab" || (event.key === "Enter" && this.area.value.trimEnd() !== this.offers[this.at]?.text.trimEnd() && !this.said)) this.pick(this.offers[this.at]);
      else if (event.key === "Escape") this.offers = [];
      else if (event.key === "Enter") { this.offers = []; this.send(); }
      else return;
      event.preventDefault();
      event.stopPropagation();
      void this.updateComplete.then(() => this.querySelector(".slash .at")?.scrollIntoView({ block: "nearest" }));
    } else if (event.key === "Enter" && !event.shiftKey && !matchMedia("(hover: none) and (pointer: coarse)").matches) { // a phone has no Shift
      event.preventDefault();
      this.send(event.altKey && store.talk.running);
    } else if (event.key === "ArrowUp" && !this.area.value) {
      const last = store.talk.all().findLast((item) => item.kind === "user");
      if (last) this.write(last.text);
      event.preventDefault();
    }
  }

  /** A command that is typed whole is done, whatever could follow. */
  private get said(): boolean {
    return store.commands.some((one) => one.textAliases.includes(this.area.value.trimEnd()));
  }

  private pasted(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])];
    const text = event.clipboardData?.getData("text/plain") ?? "";
    if (!files.length && text.length > LONG) files.push(new File([text], "pasted.txt", { type: "text/plain" }));
    if (!files.length) return;
    event.preventDefault();
    void this.add(files);
  }

  /** Files are attached; words and addresses are written. */
  private dropped(event: DragEvent): void {
    event.preventDefault();
    this.over = false;
    const text = event.dataTransfer?.getData("text/plain") ?? "";
    if (event.dataTransfer?.files.length) void this.add(event.dataTransfer.files);
    else if (text) this.write([this.area.value, text].filter(Boolean).join(" "));
  }

  /** A pasted text that became a file, as words again. */
  private unpack(at: number): void {
    const file = this.files[at]!;
    this.files = this.files.filter((_, n) => n !== at);
    const text = new TextDecoder().decode(Uint8Array.from(atob(file.content), (char) => char.charCodeAt(0)));
    this.write([this.area.value, text].filter(Boolean).join("\n\n"));
  }

  /** What was spoken, as words in the box. */
  private async dictate(): Promise<void> {
    const recorder = this.recorder;
    if (!recorder) return;
    this.recorder = null;
    clearInterval(this.ticking);
    this.hearing = true;
    const { dictated } = await import("./dictation");
    const text = await dictated(await recorder.end());
    this.hearing = false;
    if (text) this.write([this.area.value.trimEnd(), text].filter(Boolean).join(" "));
  }

  render(): unknown {
    const running = store.talk.running;
    const gone = store.client.link !== "open";
    return html`<form class="composer ${this.over ? "over" : ""}" @submit=${(e: Event) => { e.preventDefault(); this.send(); }}
        @dragover=${(e: DragEvent) => { e.preventDefault(); this.over = true; }} @dragleave=${() => (this.over = false)}
        @drop=${(e: DragEvent) => this.dropped(e)}>
      ${this.offers.length ? this.slash() : nothing}
      ${this.files.length ? html`<ul class="files" aria-label=${tr`Attached files`}>${this.files.map((file, at) => html`<li>
          ${picture(file) ? html`<img src=${data(file)} alt="">` : file.mimeType.startsWith("audio/") ? html`<pal-file .file=${{ ...file, size: file.bytes }}></pal-file>` : icon("file")}<span>${file.voice ? "" : file.name}</span>
          ${file.name === "pasted.txt" ? html`<button type="button" class="ghost small" @click=${() => this.unpack(at)}>${tr`As text`}</button>` : nothing}
          <button type="button" class="ghost icon-only" aria-label=${tr`Remove ${file.name}`} @click=${() => (this.files = this.files.filter((_, n) => n !== at))}>${icon("close")}</button></li>`)}</ul>` : nothing}
      <textarea rows="1" aria-label=${tr`Message`} placeholder=${running ? tr`Add something while the agent works` : tr`Message Palinurus…  (/ for commands)`} aria-autocomplete="list" aria-controls=${this.offers.length ? "slash" : nothing} aria-activedescendant=${this.offers.length ? `slash-${this.at}` : nothing}
        @input=${() => this.typed()} @keydown=${(e: KeyboardEvent) => this.down(e)} @paste=${(e: ClipboardEvent) => this.pasted(e)}></textarea>
      <div class="composer-bar">
        <label class="ghost icon-only attach" title=${tr`Attach files`}>${icon("clip")}<input type="file" multiple aria-label=${tr`Attach files`} @change=${(e: Event) => { const input = e.target as HTMLInputElement; void this.add([...(input.files ?? [])]); input.value = ""; }}></label>
        ${able() && (voice.talking || !this.recorder) ? this.microphone() : nothing}
        ${voice.able ? html`<button type="button" class="ghost icon-only talk" aria-pressed=${voice.talking} aria-label=${tr`Talk`} title=${tr`Talk: answers are read aloud as they come`} @click=${() => voice.talk(!voice.talking)}>${icon("wave")}</button>` : nothing}
        <button type="button" class="ghost icon-only library" aria-label=${tr`Prompts`} title=${tr`Prompts: texts to use again`} @click=${() => void import("./prompts").then((part) => part.open(this.area.value, (text) => this.pick({ label: "", text, more: false })))}>${icon("book")}</button>
        ${this.hearing ? html`<span class="recording" role="status"><i class="spin" aria-hidden="true"></i>${tr`Writing it down…`}</span>` : nothing}
        ${this.recorder ? this.recording(this.recorder) : pickers(this.wide, () => (this.wide = !this.wide))}
        <span class="grow"></span>
        ${running ? html`<button type="button" class="stop" aria-label=${tr`Stop`} title=${tr`Stop (Esc)`} @click=${() => store.stop()}>${icon("stop")}</button>` : nothing}
        ${running && store.client.has("chat.queue") ? html`<button type="button" class="ghost icon-only after" aria-label=${tr`Send after this reply`} title=${tr`Send after this reply (Alt Enter)`} @click=${() => this.send(true)}>${icon("clock")}</button>` : nothing}
        <button type="submit" class="send" aria-label=${running ? tr`Steer: send while it works` : tr`Send`} title=${gone ? tr`Sent as soon as the connection is back` : tr`Send (Enter)`}>${icon("send")}</button>
      </div>
      ${this.over ? html`<div class="drop" aria-hidden="true">${tr`Drop files here`}</div>` : nothing}
    </form>`;
  }

  private microphone(): unknown {
    if (!voice.talking) return html`<button type="button" class="ghost icon-only" aria-label=${tr`Record a voice note`} title=${tr`Record a voice note`} @click=${() => void this.record()}>${icon("mic")}</button>`;
    const key = (run: () => void) => (e: KeyboardEvent) => [" ", "Enter"].includes(e.key) && !e.repeat && (e.preventDefault(), run());
    return html`<button type="button" class="ghost icon-only ${this.recorder ? "rec-on" : ""}" aria-label=${tr`Hold to talk`} title=${tr`Hold to talk, or press and pause when you are done`}
      @pointerdown=${() => void this.hold()} @pointerup=${() => this.release()} @keydown=${key(() => void this.hold())} @keyup=${key(() => this.release())}>${icon("mic")}</button>`;
  }

  private recording(recorder: Recorder): unknown {
    return html`<span class="recording" role="status"><i class="rec" aria-hidden="true"></i>${tr`Recording`} <b>${timer(recorder.elapsed)}</b></span>
      <button type="button" class="ghost small" @click=${() => this.cancel()}>${tr`Cancel`}</button><button type="button" class="plain small" title=${tr`Write down what you said`} @click=${() => void this.dictate()}>${tr`To text`}</button><button type="button" class="plain small" @click=${() => void this.finish(false)}>${tr`Done`}</button>`;
  }

  private slash(): unknown {
    return html`<ul class="slash" id="slash" role="listbox" tabindex="0" aria-label=${tr`Commands`}>${this.offers.map((offer, at) => html`<li role="option" id="slash-${at}" aria-selected=${at === this.at} class=${at === this.at ? "at" : ""} @click=${() => this.pick(offer)}>
      <b>${offer.label}</b><small>${offer.usage ?? ""}</small><span>${offer.about ?? ""}</span></li>`)}</ul>`;
  }
}
customElements.define("pal-composer", Composer);

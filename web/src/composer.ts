// <pal-composer>: where people write. Files by drop, paste or button; slash commands; Enter sends, Escape stops.
import { attachment, BIGGEST, data, picture, type Attachment } from "./files";
import { icon } from "./icons";
import { html, nothing, Part, store, type Payload } from "./base";
import { pickers } from "./pickers";
import { able, Recorder } from "./recorder";
import { size, timer } from "./text";
import { voice } from "./voice";
import { tr } from "./words";

const TAP = 350; // ms: a shorter press is a tap

class Composer extends Part {
  static properties = { files: { state: true }, over: { state: true }, offers: { state: true }, at: { state: true }, wide: { state: true }, recorder: { state: true } };
  wide = false;
  files: Attachment[] = [];
  over = false;
  offers: Payload[] = [];
  at = 0;
  recorder: Recorder | null = null;
  private key = "";
  private picking = 0;
  private ticking = 0;

  get area(): HTMLTextAreaElement {
    return this.querySelector("textarea")!;
  }

  updated(): void {
    if (this.key !== store.key) {
      this.key = store.key;
      this.area.value = store.drafts[store.key] ?? "";
      this.files = [];
      this.cancel();
      this.grow();
      if (matchMedia("(hover: hover)").matches) this.area.focus();
    }
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
    const found = /^\/(\S*)$/.exec(text);
    const word = found?.[1]?.toLowerCase();
    const fits = (command: Payload) => command.textAliases.some((alias: string) => alias.slice(1).startsWith(word!));
    this.offers = word === undefined ? [] : store.commands.filter(fits).slice(0, 40);
    this.at = 0;
    this.requestUpdate();
  }

  private pick(command: Payload | undefined): void {
    if (!command) return;
    this.write(`/${command.name}${command.acceptsArgs ? " " : ""}`);
    this.offers = [];
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
    if (this.recorder && !this.held) this.release();
  }

  private release(): void {
    const long = Date.now() - this.held > TAP;
    this.held = 0;
    if (!this.recorder) return;
    if (long) void this.finish(true);
    else this.recorder.watch(voice.config.silenceTimeoutMs ?? 900, () => void this.finish(true));
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

  private send(): void {
    if (this.recorder) {
      void this.finish(true);
      return;
    }
    voice.interrupt();
    const text = this.area.value.trim();
    if ((!text && !this.files.length) || this.picking) return;
    void store.send(text, this.files);
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
      else if (event.key === "Tab" || (event.key === "Enter" && this.area.value !== `/${this.offers[this.at]?.name}`)) this.pick(this.offers[this.at]);
      else if (event.key === "Escape") this.offers = [];
      else if (event.key === "Enter") { this.offers = []; this.send(); }
      else return;
      event.preventDefault();
      event.stopPropagation();
      void this.updateComplete.then(() => this.querySelector(".slash .at")?.scrollIntoView({ block: "nearest" }));
    } else if (event.key === "Enter" && !event.shiftKey && !matchMedia("(hover: none) and (pointer: coarse)").matches) { // a phone has no Shift
      event.preventDefault();
      this.send();
    } else if (event.key === "ArrowUp" && !this.area.value) {
      const last = store.talk.all().findLast((item) => item.kind === "user");
      if (last) this.write(last.text);
      event.preventDefault();
    }
  }

  private pasted(event: ClipboardEvent): void {
    const files = [...(event.clipboardData?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    void this.add(files);
  }

  render(): unknown {
    const running = store.talk.running;
    const gone = store.client.link !== "open";
    return html`<form class="composer ${this.over ? "over" : ""}" @submit=${(e: Event) => { e.preventDefault(); this.send(); }}
        @dragover=${(e: DragEvent) => { e.preventDefault(); this.over = true; }} @dragleave=${() => (this.over = false)}
        @drop=${(e: DragEvent) => { e.preventDefault(); this.over = false; void this.add(e.dataTransfer?.files ?? []); }}>
      ${this.offers.length ? this.slash() : nothing}
      ${this.files.length ? html`<ul class="files" aria-label=${tr`Attached files`}>${this.files.map((file, at) => html`<li>
          ${picture(file) ? html`<img src=${data(file)} alt="">` : file.mimeType.startsWith("audio/") ? html`<pal-file .file=${{ ...file, size: file.bytes }}></pal-file>` : icon("file")}<span>${file.voice ? "" : file.name}</span>
          <button type="button" class="ghost icon-only" aria-label=${tr`Remove ${file.name}`} @click=${() => (this.files = this.files.filter((_, n) => n !== at))}>${icon("close")}</button></li>`)}</ul>` : nothing}
      <textarea rows="1" aria-label=${tr`Message`} placeholder=${running ? tr`Add something while the agent works` : tr`Message Palinurus…  (/ for commands)`} aria-autocomplete="list" aria-controls=${this.offers.length ? "slash" : nothing} aria-activedescendant=${this.offers.length ? `slash-${this.at}` : nothing}
        @input=${() => this.typed()} @keydown=${(e: KeyboardEvent) => this.down(e)} @paste=${(e: ClipboardEvent) => this.pasted(e)}></textarea>
      <div class="composer-bar">
        <label class="ghost icon-only attach" title=${tr`Attach files`}>${icon("clip")}<input type="file" multiple aria-label=${tr`Attach files`} @change=${(e: Event) => { const input = e.target as HTMLInputElement; void this.add([...(input.files ?? [])]); input.value = ""; }}></label>
        ${able() && (voice.talking || !this.recorder) ? this.microphone() : nothing}
        ${voice.able ? html`<button type="button" class="ghost icon-only talk" aria-pressed=${voice.talking} aria-label=${tr`Talk`} title=${tr`Talk: answers are read aloud as they come`} @click=${() => voice.talk(!voice.talking)}>${icon("wave")}</button>` : nothing}
        ${this.recorder ? this.recording(this.recorder) : pickers(this.wide, () => (this.wide = !this.wide))}
        <span class="grow"></span>
        ${running ? html`<button type="button" class="stop" aria-label=${tr`Stop`} title=${tr`Stop (Esc)`} @click=${() => store.stop()}>${icon("stop")}</button>` : nothing}
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
      <button type="button" class="ghost small" @click=${() => this.cancel()}>${tr`Cancel`}</button><button type="button" class="plain small" @click=${() => void this.finish(false)}>${tr`Done`}</button>`;
  }

  private slash(): unknown {
    return html`<ul class="slash" id="slash" role="listbox" aria-label=${tr`Commands`}>${this.offers.map((command, at) => html`<li role="option" id="slash-${at}" aria-selected=${at === this.at} class=${at === this.at ? "at" : ""} @click=${() => this.pick(command)}>
      <b>/${command.name}</b><small>${command.usage && command.usage !== `/${command.name}` ? command.usage : ""}</small><span>${command.description}</span></li>`)}</ul>`;
  }
}
customElements.define("pal-composer", Composer);

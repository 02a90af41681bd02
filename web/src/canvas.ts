// <pal-canvas>: what the agent shows beside the chat. The document is in a frame of no origin, which can reach neither this
// page nor anybody else; what it says comes as messages, and a person's action only just after a click or a key in it.
import { html, nothing, Part, store } from "./base";
import { icon } from "./icons";
import { BASE } from "./place";
import { uuid } from "./text";
import { tr } from "./words";

const PAUSE = 600; // ms between two actions: one click is one action
const LATE = 4000; // ms after which a document is shown that has not said it is ready
const [LEAST, MOST, STEP] = [25, 75, 5]; // percent of the room

class Canvas extends Part {
  static properties = { dragging: { state: true } };
  dragging = false;
  private drawn = ""; // what the newest frame shows: session and revision
  private frame: HTMLIFrameElement | null = null;
  private coming: HTMLIFrameElement | null = null;
  private acted = 0;
  private asked = new Set<string>(); // scripts that wait for an answer: nothing else is taken for one
  private looks = matchMedia("(prefers-color-scheme: dark)");
  private heard = (event: MessageEvent) => this.hear(event);
  private told = (event: Event) => this.tell((event as CustomEvent).detail);

  connectedCallback(): void {
    super.connectedCallback();
    addEventListener("message", this.heard);
    store.oncanvas.addEventListener("canvas", this.told);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    removeEventListener("message", this.heard);
    store.oncanvas.removeEventListener("canvas", this.told);
  }

  private get theme(): string {
    const now = document.documentElement.dataset.theme;
    return now === "light" || now === "dark" ? now : this.looks.matches ? "dark" : "light";
  }

  private get width(): number {
    return Math.min(MOST, Math.max(LEAST, Number(localStorage.getItem("canvas-width")) || 50));
  }

  private set width(percent: number) {
    localStorage.setItem("canvas-width", String(Math.round(percent)));
    this.requestUpdate();
  }

  /** To the document. It is of no origin, so no other can be named; nothing that is told is a secret. */
  private post(told: unknown): void {
    this.frame?.contentWindow?.postMessage({ palinurus: told }, "*");
  }

  private tell(news: any): void {
    if (news.action === "eval") {
      this.asked.add(news.id);
      if (this.frame) this.post({ type: "eval", id: news.id, code: news.javaScript });
      else this.answer(news.id, false, "the person has closed the canvas");
    } else if (news.action === "a2ui" && this.frame && !this.coming && this.drawn === `${store.key} ${news.revision - 1}`) {
      this.drawn = `${store.key} ${news.revision}`;
      if (store.canvas) store.canvas = { ...store.canvas, revision: news.revision };
      this.post({ type: "a2ui", messages: news.messages });
    } else void store.look();
  }

  private answer(id: string, ok: boolean, value: string | null): void {
    if (!this.asked.delete(id)) return;
    void store.client.request("canvas.result", { sessionKey: store.key, id, ok, value }).catch(() => {});
  }

  private hear(event: MessageEvent): void {
    const told = event.data?.palinurus;
    const from = [this.frame, this.coming].find((frame) => frame && frame.contentWindow === event.source);
    if (!from || !told || typeof told !== "object") return;
    if (told.type === "ready") {
      if (from === this.coming) this.swap();
      this.post({ type: "theme", theme: this.theme });
    } else if (told.type === "result" && from === this.frame) this.answer(String(told.id), told.ok === true, typeof told.value === "string" ? told.value : null);
    else if (told.type === "action" && from === this.frame) void this.act(told);
  }

  private async act(told: any): Promise<void> {
    const here = document.activeElement === this.frame && (navigator.userActivation?.isActive ?? true);
    if (!here || Date.now() - this.acted < PAUSE) return; // nobody pressed anything there
    this.acted = Date.now();
    const text = (value: unknown) => (typeof value === "string" ? value.slice(0, 200) : "");
    const params = { sessionKey: store.key, id: uuid(), name: text(told.name) || "action", surfaceId: text(told.surfaceId), sourceComponentId: text(told.sourceComponentId), context: told.context ?? {} };
    if (await store.ask("canvas.action", params)) store.toast(tr`Sent to the agent`);
  }

  /** The new document takes the place of the old one, which was seen until now. */
  private swap(): void {
    if (!this.coming) return;
    this.frame?.remove();
    this.frame = this.coming;
    this.coming = null;
    this.frame.classList.remove("coming");
  }

  private load(): void {
    const canvas = store.canvas!;
    this.drawn = `${store.key} ${canvas.revision}`;
    this.coming?.remove();
    const made = document.createElement("iframe");
    made.setAttribute("sandbox", "allow-scripts allow-forms");
    made.setAttribute("referrerpolicy", "no-referrer");
    made.title = canvas.title || tr`Canvas`;
    made.className = "coming";
    made.src = `${BASE}${canvas.path}?theme=${this.theme}`;
    this.coming = made;
    this.querySelector(".canvas-room")?.append(made);
    setTimeout(() => made === this.coming && this.swap(), LATE);
  }

  updated(): void {
    const canvas = store.canvas;
    if (!canvas || store.canvasClosed) {
      this.frame = this.coming = null;
      this.drawn = "";
    } else if (this.drawn !== `${store.key} ${canvas.revision}`) this.load();
    else this.post({ type: "theme", theme: this.theme });
    const side = this.querySelector<HTMLElement>(".canvas");
    if (side) side.style.width = `${this.width}%`;
  }

  private drag(event: PointerEvent): void {
    if (!this.dragging) return;
    const room = this.parentElement!.getBoundingClientRect();
    this.width = Math.min(MOST, Math.max(LEAST, ((room.right - event.clientX) / room.width) * 100));
  }

  private keys(event: KeyboardEvent): void {
    const by = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (!by) return;
    this.width = this.width + by;
    event.preventDefault();
  }

  render(): unknown {
    const canvas = store.canvas;
    if (!canvas || store.canvasClosed) return nothing;
    return html`<div class="canvas-edge" role="separator" tabindex="0" aria-orientation="vertical" aria-label=${tr`Width of the canvas`} aria-valuemin=${LEAST} aria-valuemax=${MOST} aria-valuenow=${Math.round(this.width)}
        @keydown=${(e: KeyboardEvent) => this.keys(e)} @pointermove=${(e: PointerEvent) => this.drag(e)} @pointerup=${() => (this.dragging = false)} @pointercancel=${() => (this.dragging = false)}
        @pointerdown=${(e: PointerEvent) => { this.dragging = true; (e.currentTarget as HTMLElement).setPointerCapture(e.pointerId); }}></div>
      <aside class="canvas ${this.dragging ? "dragging" : ""}" aria-label=${tr`Canvas`}>
        <header>${icon("canvas")}<h2>${canvas.title || tr`Canvas`}</h2>
          <button type="button" class="ghost icon-only" aria-label=${tr`Close the canvas`} title=${tr`Close`} @click=${() => { store.canvasClosed = true; store.changed(); }}>${icon("close")}</button></header>
        <div class="canvas-room"></div>
      </aside>`;
  }
}
customElements.define("pal-canvas", Canvas);

// <pal-app>: the frame: sidebar, the page in view, the state of the connection, quick switcher, keys.
import { voice } from "./voice";
import { html, nothing, Part, store } from "./base";
import { decideByKey } from "./cards";
import "./chat";
import "./control";
import { icon } from "./icons";
import "./login";
import { PAGES, title } from "./sidebar";
import "./sidebar";
import { BASE } from "./place";
import { placed } from "./store";
import { told } from "./text";
import { tr } from "./words";

class App extends Part {
  static properties = { switching: { state: true }, filter: { state: true }, at: { state: true } };
  switching = false;
  filter = "";
  at = 0;

  connectedCallback(): void {
    super.connectedCallback();
    addEventListener("popstate", () => void store.stepped());
    addEventListener("keydown", (event) => this.key(event));
    addEventListener("click", (event) => this.follow(event));
    // A file that is let go beside the composer is meant for it; the browser would leave the page and open it.
    addEventListener("dragover", (event) => event.preventDefault());
    addEventListener("drop", (event) => {
      if (event.defaultPrevented) return;
      event.preventDefault();
      const composer = document.querySelector("pal-composer") as (HTMLElement & { add(files: Iterable<File>): Promise<void> }) | null;
      if (event.dataTransfer?.files.length) void composer?.add(event.dataTransfer.files);
    });
    setInterval(() => store.client.link === "waiting" && this.requestUpdate(), 1000);
  }

  /** A link within the page. With a key held down, or another button, the browser does what it always does with links. */
  private follow(event: MouseEvent): void {
    const link = (event.target as Element).closest<HTMLAnchorElement>("a[href]");
    if (!link || link.target || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey || link.origin !== location.origin || !link.pathname.startsWith(`${BASE}/`)) return;
    event.preventDefault();
    document.body.classList.remove("side-open");
    const [view, key] = placed(link.pathname);
    store.go(view, key);
  }

  private key(event: KeyboardEvent): void {
    const control = event.ctrlKey || event.metaKey;
    if (control && event.key.toLowerCase() === "k") void this.switch();
    else if (event.altKey && event.code === "KeyN") { event.preventDefault(); void store.create(); }
    else if (event.altKey && !control && store.view === "chat" && decideByKey(event.code)) event.preventDefault();
    else if (control && event.key === "/") document.querySelector<HTMLElement>("pal-composer textarea")?.focus();
    else if (event.key === "Escape" && store.panel) { store.panel = null; store.changed(); }
    else if (event.key === "Escape" && voice.reading) voice.stop();
    else if (event.key === "Escape" && !this.switching && !document.querySelector("dialog[open]") && store.view === "chat" && store.talk.running) store.stop();
    else return;
    event.preventDefault();
  }

  private async switch(): Promise<void> {
    this.switching = true;
    this.filter = "";
    this.at = 0;
    await this.updateComplete;
    this.querySelector<HTMLDialogElement>("dialog.switcher")?.showModal();
  }

  private get found(): { label: string; hint: string; glyph: string; run: () => void }[] {
    const all = [
      ...store.sessions.map((row) => ({ label: title(row), hint: row.lastMessagePreview ?? row.key, glyph: "chat", run: () => store.go("chat", row.key) })),
      { label: tr`New conversation`, hint: "Alt N", glyph: "plus", run: () => void store.create() },
      ...PAGES.map(([name, label, glyph]) => ({ label, hint: tr`page`, glyph, run: () => store.go(name) })),
    ];
    const words = this.filter.toLowerCase().split(/\s+/).filter(Boolean);
    return all.filter((one) => words.every((word) => `${one.label} ${one.hint}`.toLowerCase().includes(word))).slice(0, 12);
  }

  private switcher(): unknown {
    const found = this.found;
    const close = () => (this.switching = false);
    const run = (at: number) => { close(); found[at]?.run(); };
    return html`<dialog class="switcher" aria-label=${tr`Go to`} @close=${close} @click=${(e: Event) => e.target === e.currentTarget && close()}>
      <input type="search" placeholder=${tr`Go to a conversation or page…`} aria-label=${tr`Go to`} .value=${this.filter} @input=${(e: Event) => { this.filter = (e.target as HTMLInputElement).value; this.at = 0; }}
        @keydown=${(e: KeyboardEvent) => {
          if (e.key === "ArrowDown") this.at = Math.min(found.length - 1, this.at + 1);
          else if (e.key === "ArrowUp") this.at = Math.max(0, this.at - 1);
          else if (e.key === "Enter") run(this.at);
          else if (e.key === "Escape") close(); // a search box would only be emptied by it
          else return;
          e.preventDefault();
        }}>
      <ul role="listbox" aria-label=${tr`Places`}>${found.map((one, at) => html`<li role="option" aria-selected=${at === this.at} class=${at === this.at ? "at" : ""} @click=${() => run(at)}>${icon(one.glyph)}<b>${one.label}</b><span>${one.hint}</span></li>`)}</ul>
    </dialog>`;
  }

  private line(): unknown {
    const client = store.client;
    if (client.link === "waiting") {
      const seconds = Math.max(0, Math.ceil((client.retryAt - Date.now()) / 1000));
      const why = client.refusal ? client.refusal.message : navigator.onLine ? tr`The gateway cannot be reached.` : tr`You are offline.`;
      return html`<div class="line" role="status">${why} <span>${seconds ? tr`Trying again in ${seconds} s` : tr`Trying again…`}</span> <button type="button" class="ghost small" @click=${() => client.hurry()}>${tr`Try now`}</button><span>${tr`What you write is kept and sent later.`}</span></div>`;
    }
    return client.link === "connecting" ? html`<div class="line" role="status">${tr`Reconnecting…`}</div>` : nothing;
  }

  updated(): void {
    const page = PAGES.find(([name]) => name === store.view);
    if (store.view !== "chat") document.title = `${page?.[1] ?? (store.view === "setup" ? tr`Set up` : tr`There is no such page`)} · Palinurus`;
  }

  private page(): unknown {
    if (store.view === "chat") return html`<pal-chat></pal-chat>`;
    return html`<pal-control .view=${store.view}></pal-control>`;
  }

  render(): unknown {
    const client = store.client;
    if (client.link === "refused") return html`<pal-login></pal-login>`;
    if (!client.hello && !client.tries && client.link === "connecting") return html`<div class="splash" role="status"><img src="${BASE}/favicon.svg" alt=""><p>${tr`Connecting…`}</p></div>`;
    return html`<a class="skip" href="#main" @click=${(e: Event) => { e.preventDefault(); (document.querySelector("pal-composer textarea, main") as HTMLElement | null)?.focus(); }}>${tr`Skip to the conversation`}</a>
      <div class="frame"><pal-sidebar></pal-sidebar><div class="scrim" @click=${() => document.body.classList.remove("side-open")}></div>
        <div class="content">${this.line()}${this.page()}</div></div>
      <div class="toasts" role="status" aria-live="polite">${store.toasts.map((toast) => html`<p class=${toast.tone}>${told(toast.text)}${toast.act ? html` <button type="button" class="ghost small" @click=${() => { store.untoast(toast.id); toast.act!.run(); }}>${toast.act.label}</button>` : nothing}</p>`)}</div>
      ${this.switching ? this.switcher() : nothing}`;
  }
}
customElements.define("pal-app", App);

// What every part of the page is: a Lit element without a shadow, drawn again when the store changes.
import { html, LitElement, nothing, type TemplateResult } from "lit";
import { Refusal, type Payload } from "./client";
import { store } from "./store";
import { told } from "./text";
import { tr } from "./words";

export { html, LitElement, nothing, store };
export type { Payload, TemplateResult };

export class Part extends LitElement {
  private off: (() => void) | null = null;

  createRenderRoot(): HTMLElement {
    return this;
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.off = store.listen(() => this.requestUpdate());
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.off?.();
  }
}

/** A page of the control part: loads, shows what it loaded, or says why it could not. */
export class Page extends Part {
  data: Payload | null = null;
  problem = "";
  private joins = 0;
  private timer = 0;
  private quiet: (() => void) | null = null;
  protected heading = "";
  protected about = "";
  protected every = 0; // ms after which it is read again while somebody looks
  protected hears = /^$/; // events after which it is

  connectedCallback(): void {
    super.connectedCallback();
    if (this.every) this.timer = window.setInterval(() => document.hidden || store.client.link !== "open" || this.again(), this.every);
    this.quiet = store.overhear((event) => this.hears.test(event) && this.again());
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
    this.quiet?.();
  }

  protected again(): void {
    void this.load();
  }

  /** What to ask; the answers become `data`. */
  protected async fetch(): Promise<Payload> {
    return {};
  }

  protected body(_data: Payload): unknown {
    return nothing;
  }

  protected tools(): unknown {
    return nothing;
  }

  protected ask<T = Payload>(method: string, params: unknown = {}): Promise<T> {
    return store.client.request<T>(method, params);
  }

  /** As `ask`, but null for what this gateway does not serve or refuses. */
  protected maybe<T = Payload>(method: string, params: unknown = {}): Promise<T | null> {
    return store.client.request<T>(method, params).catch(() => null);
  }

  async load(): Promise<void> {
    try {
      this.data = await this.fetch();
      this.problem = "";
    } catch (error) {
      if ((error as Refusal).code !== "OFFLINE") this.problem = (error as Error).message;
    }
    this.requestUpdate();
  }

  willUpdate(): void {
    if (this.joins === store.joins || store.client.link !== "open") return;
    this.joins = store.joins;
    void this.load();
  }

  render(): unknown {
    return html`<main class="page" tabindex="0">
      <header class="page-head"><div><h1>${this.heading}</h1><p>${this.about}</p></div><div class="tools">${this.tools()}</div></header>
      ${this.problem ? html`<p class="banner error" role="alert">${told(this.problem)}</p>` : nothing}
      ${this.data ? this.body(this.data) : this.problem ? nothing : skeleton()}
    </main>`;
  }
}

export const skeleton = (): TemplateResult =>
  html`<div class="skeleton" role="status" aria-label=${tr`loading`}><i></i><i></i><i></i><i></i></div>`;

export const empty = (title: string, text: unknown): TemplateResult =>
  html`<div class="empty-small"><strong>${title}</strong><p>${text}</p></div>`;

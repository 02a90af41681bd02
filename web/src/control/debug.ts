// Debug: any method of the gateway by hand, with what this device may; and the events as they come.
import { html, nothing, Part, store, type Payload } from "../base";
import { json } from "../text";
import { tr } from "../words";

const KEPT = 200;

class Debug extends Part {
  static properties = { method: { state: true }, answer: { state: true }, problem: { state: true }, follow: { state: true }, busy: { state: true } };
  method = "health";
  params = "{}";
  answer = "";
  problem = "";
  follow = true;
  busy = false;
  private events: { at: number; event: string; payload: Payload }[] = [];
  private quiet: (() => void) | null = null;

  connectedCallback(): void {
    super.connectedCallback();
    this.quiet = store.overhear((event, payload) => {
      if (!this.follow || event === "tick") return;
      this.events = [{ at: Date.now(), event, payload }, ...this.events].slice(0, KEPT);
      this.requestUpdate();
    });
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.quiet?.();
  }

  private async call(event: Event): Promise<void> {
    event.preventDefault();
    this.problem = this.answer = "";
    this.busy = true;
    try {
      this.answer = json(await store.client.request(this.method, JSON.parse(this.params || "{}")));
    } catch (error) {
      this.problem = (error as Error).message;
    }
    this.busy = false;
  }

  render(): unknown {
    const methods: string[] = store.client.hello?.features?.methods ?? [];
    return html`<main class="page" tabindex="0"><header class="page-head"><div><h1>${tr`Debug`}</h1><p>${tr`Call the gateway by hand, with the rights of this device: ${store.client.may.map((one) => one.replace("operator.", "")).join(", ")}`}</p></div></header>
      <form class="rpc" @submit=${(e: Event) => void this.call(e)}><label for="rpc-method">${tr`Method`}</label><input id="rpc-method" list="rpc-methods" spellcheck="false" autocomplete="off" required .value=${this.method} @input=${(e: Event) => (this.method = (e.target as HTMLInputElement).value)}><datalist id="rpc-methods">${methods.map((name) => html`<option value=${name}></option>`)}</datalist>
        <label for="rpc-params">${tr`Parameters (JSON)`}</label><textarea id="rpc-params" rows="4" spellcheck="false" .value=${this.params} @input=${(e: Event) => (this.params = (e.target as HTMLTextAreaElement).value)}></textarea>
        <button type="submit" class="primary" ?disabled=${this.busy}>${tr`Call`}</button></form>
      <div role="alert">${this.problem ? html`<p class="banner error">${this.problem}</p>` : nothing}</div>
      ${this.answer ? html`<section><h2>${tr`Answer`}</h2><pre class="loglines short" tabindex="0" aria-label=${tr`Answer`}>${this.answer}</pre></section>` : nothing}
      <section><h2>${tr`Events`} <label class="check units"><input type="checkbox" .checked=${this.follow} @change=${() => (this.follow = !this.follow)}> ${tr`Follow`}</label></h2>
        <div class="loglines short" tabindex="0" role="log" aria-label=${tr`Events`}>${this.events.map((one) => html`<details><summary><time>${new Date(one.at).toLocaleTimeString()}</time> <b>${one.event}</b> <span class="dim">${one.payload.sessionKey ?? ""}</span></summary><pre>${json(one.payload)}</pre></details>`)}${this.events.length ? nothing : html`<p class="dim">${tr`Nothing has happened since this page was opened.`}</p>`}</div></section></main>`;
  }
}
customElements.define("pal-debug", Debug);

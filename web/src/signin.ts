// <pal-signin>: signing in somewhere else from here: the page to open, the code to type, as a QR code too.
import { html, LitElement, nothing } from "lit";
import { encode } from "uqr";
import type { Payload } from "./client";
import { store } from "./store";
import { told } from "./text";
import { tr } from "./words";

const LOOK = 2_000; // ms between two looks

/** A QR code as a picture; drawn here, so that nobody else sees what is in it. */
export function drawn(text: string): unknown {
  const { data, size } = encode(text, { border: 2 });
  const path = data.flatMap((row, y) => row.map((on, x) => (on ? `M${x} ${y}h1v1h-1z` : ""))).join("");
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${size} ${size}"><path d="${path}"/></svg>`;
  return html`<img class="code" alt=${tr`QR code`} src="data:image/svg+xml,${encodeURIComponent(svg)}">`;
}

class SignIn extends LitElement {
  static properties = { family: {}, begun: { attribute: false }, problem: { state: true }, pasted: { state: true } };
  family: "models" | "mcp" = "models";
  begun!: Payload;
  problem = "";
  pasted = "";
  ended: (done: boolean) => void = () => {};
  private timer = 0;

  createRenderRoot(): HTMLElement {
    return this;
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => void this.look(), LOOK);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  firstUpdated(): void {
    this.querySelector("dialog")!.showModal();
  }

  private async look(): Promise<void> {
    const now = await store.client.request<Payload>(`${this.family}.login.poll`, { id: this.begun.id }).catch(() => null);
    if (now?.state === "done") {
      store.toast(now.account ? tr`Signed in as ${now.account}` : tr`Signed in`);
      this.end(true);
    } else if (now?.problem) this.problem = now.problem;
  }

  private async paste(event: Event): Promise<void> {
    event.preventDefault();
    const told = await store.ask(`${this.family}.login.paste`, { id: this.begun.id, address: this.pasted.trim() });
    this.problem = told?.problem ?? "";
  }

  private end(done: boolean): void {
    if (!done) void store.client.request(`${this.family}.login.cancel`, { id: this.begun.id }).catch(() => {});
    this.remove();
    this.ended(done);
  }

  render(): unknown {
    const { url, code, kind, note } = this.begun;
    return html`<dialog class="edit" aria-label=${tr`Sign in`} @close=${() => this.isConnected && this.end(false)}><h2>${tr`Sign in`}</h2>
      <p><a href=${url} target="_blank" rel="noopener noreferrer">${tr`Open the sign-in page`}</a></p>
      ${code ? html`<p>${tr`Type this code there:`}</p><p class="bigcode"><code>${code}</code></p><p class="dim">${tr`Never give this code to anybody who asks you for it.`}</p>` : nothing}
      ${drawn(url)}${note ? html`<p class="dim">${told(note)}</p>` : nothing}
      ${kind === "browser" ? html`<form @submit=${(e: Event) => void this.paste(e)}><label for="pasted">${tr`If the page you end at cannot be opened: paste its address here`}</label><input id="pasted" autocomplete="off" .value=${this.pasted} @input=${(e: Event) => (this.pasted = (e.target as HTMLInputElement).value)}><button type="submit" class="plain" ?disabled=${!this.pasted.trim()}>${tr`Continue`}</button></form>` : nothing}
      <div role="alert">${this.problem ? html`<p class="banner error">${told(this.problem)}</p>` : html`<p class="wait"><i class="spin" aria-hidden="true"></i>${tr`Waiting for you to sign in…`}</p>`}</div>
      <div class="actions"><button type="button" class="plain" @click=${() => this.end(false)}>${tr`Cancel`}</button></div></dialog>`;
  }
}
customElements.define("pal-signin", SignIn);

/** Begin to sign in; true when it is done. */
export async function signIn(family: "models" | "mcp", asked: Payload): Promise<boolean> {
  const begun = await store.ask(`${family}.login.start`, asked);
  if (!begun) return false;
  return new Promise((resolve) => {
    const made = document.createElement("pal-signin") as SignIn;
    Object.assign(made, { family, begun, ended: resolve });
    document.body.append(made);
  });
}

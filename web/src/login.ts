// <pal-login>: shown when the gateway does not let this browser in, with what to do about it.
import { html, nothing, Part, store } from "./base";
import { BASE } from "./place";
import { rich, tr } from "./words";

const texts: Record<string, [string, string]> = {
  PAIRING_REQUIRED: [tr`This browser needs approval`, tr`On the machine where Palinurus runs, approve this device: pal devices approve. Then try again.`],
  CONTROL_UI_DEVICE_IDENTITY_REQUIRED: [tr`This address is not secure enough`, tr`Open the page on https, or on localhost (for example through an SSH tunnel): only there does the browser give it a key of its own.`],
  CONTROL_UI_ORIGIN_NOT_ALLOWED: [tr`This address is not allowed`, tr`Add it to gateway.controlUi.allowedOrigins, or open the page at the gateway's own address.`],
  AUTH_RATE_LIMITED: [tr`Too many tries`, tr`Wait a minute, then try again.`],
  PROTOCOL_MISMATCH: [tr`This page is too old or too new`, tr`Reload it; the gateway speaks another version of the protocol.`],
};

class Login extends Part {
  render(): unknown {
    const refusal = store.client.refusal;
    const code = refusal?.details?.code ?? "";
    const password = code.startsWith("AUTH_PASSWORD");
    const wrong = code.endsWith("_MISMATCH") && code !== "PROTOCOL_MISMATCH";
    const [head, text] = texts[code] ?? [tr`Sign in to your gateway`, ""];
    return html`<main class="login"><form @submit=${(e: SubmitEvent) => this.enter(e, password)}>
      <img src="${BASE}/favicon.svg" alt=""><h1>${head}</h1>
      ${text ? html`<p>${text}</p>` : nothing}
      ${texts[code] ? html`<button type="submit" class="primary">${tr`Try again`}</button>` : html`
        <p>${password ? tr`Enter the gateway's password.` : html`${rich`Open the link that ${html`<code>pal dashboard</code>`} prints, or paste the gateway's token (${html`<code>gateway.token</code>`} in the state directory).`}`}</p>
        <label>${password ? tr`Gateway password` : tr`Gateway token`}<input name="secret" type="password" autocomplete="current-password" required autofocus aria-invalid=${wrong} aria-describedby="login-problem"></label>
        <p id="login-problem" class="warn" role="alert">${code === "AUTH_DEVICE_TOKEN_MISMATCH" ? tr`The access of this browser has ended, or was taken back.` : wrong ? password ? tr`That password is not the right one.` : tr`That token is not the right one.` : ""}</p>
        <button type="submit" class="primary">${tr`Sign in`}</button>`}
      ${refusal && !wrong && !code.endsWith("_MISSING") ? html`<p class="dim">${refusal.message}</p>` : nothing}
    </form></main>`;
  }

  private enter(event: SubmitEvent, password: boolean): void {
    event.preventDefault();
    const secret = String(new FormData(event.target as HTMLFormElement).get("secret") ?? "").trim();
    if (password) store.client.password = secret;
    else store.client.token = secret;
    store.client.connect();
  }
}
customElements.define("pal-login", Login);

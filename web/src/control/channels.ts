// The chat channels: how each account is, who asks to be let in, who was.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { icon } from "../icons";
import { ago, moment, upper } from "../text";
import { rich, tr } from "../words";

const tones: Record<string, string> = { ready: "good", starting: "", reconnecting: "warned", failed: "bad", signed_out: "bad", stopped: "" };
const words: Record<string, string> = { signed_out: tr`signed out`, ready: tr`connected` };

/** One word for how an account is. */
export function health(account: Payload): unknown {
  const state = account.healthState ?? (account.running ? "ready" : "stopped");
  return html`<span class="tag ${tones[state] ?? ""}">${words[state] ?? state}</span>`;
}

class Channels extends Page {
  heading = tr`Channels`;
  about = tr`Where people reach the agent, and who may.`;
  private timer = 0;
  private code: Payload | null = null; // the picture that a phone has to read now: {account, url}

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => store.client.link === "open" && void this.load(), 5000);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected async fetch(): Promise<Payload> {
    const [status, people] = await Promise.all([this.ask("channels.status"), this.maybe("pairing.list")]);
    return { status, requests: people?.requests ?? [], paired: people?.paired ?? [] };
  }

  private async act(method: string, params: Payload, text: string): Promise<void> {
    if (await store.ask(method, params)) store.toast(text);
    await this.load();
  }

  /** Link an account: show its code until a phone has read it; codes change while we wait. */
  private async link(account: string): Promise<void> {
    let told = await store.ask("web.login.start", { accountId: account });
    while (told && !told.connected && told.qrDataUrl && this.isConnected) {
      this.code = { account, url: told.qrDataUrl };
      this.requestUpdate();
      told = await store.ask("web.login.wait", { accountId: account, timeoutMs: 20000, currentQrDataUrl: told.qrDataUrl });
    }
    this.code = null;
    if (told) store.toast(told.connected ? tr`Linked` : told.message);
    await this.load();
  }

  private account(channel: string, label: string, one: Payload): unknown {
    const out = one.healthState === "signed_out";
    const [verb, method] = one.running ? [tr`Stop`, "channels.stop"] : [tr`Start`, "channels.start"];
    return html`<li>${icon("plug")}<div class="grow"><b>${label}</b>${one.accountId === "default" ? nothing : html` <span class="dim">${one.accountId}</span>`} ${health(one)}
        <p>${[one.name, one.dmPolicy ? tr`direct messages: ${one.dmPolicy}` : ""].filter(Boolean).join(" · ")}</p>
        ${one.lastError ? html`<p class="warn">${one.lastError}</p>` : nothing}
        ${this.code?.account === one.accountId && channel === "whatsapp" ? html`<p>${tr`Read this with your phone: Settings, Linked devices.`}</p><img class="code" alt=${tr`The code that links this account`} src=${this.code!.url} />` : nothing}
        ${out && channel !== "whatsapp" ? html`<p class="dim">${rich`Sign in on the gateway's machine: ${html`<code>pal channels login ${channel}</code>`}`}</p>` : nothing}</div>
      ${out && channel === "whatsapp" && !this.code ? html`<button type="button" class="primary" @click=${() => void this.link(one.accountId)}>${tr`Sign in`}</button>` : nothing}
      <button type="button" class="plain" aria-label="${verb} ${label}" @click=${() => void this.act(method, { channel }, one.running ? tr`Stopped until it is started again` : tr`Started`)}>${verb}</button></li>`;
  }

  protected body(d: Payload): unknown {
    const { channelOrder = [], channelLabels = {}, channelAccounts = {} } = d.status;
    const rows = channelOrder.flatMap((name: string) => (channelAccounts[name] ?? []).map((one: Payload) => this.account(name, channelLabels[name] ?? upper(name), one)));
    return html`${d.requests.length ? html`<section><h2>${tr`Requests`}</h2><ul class="rows big">${d.requests.map((one: Payload) => html`<li><div class="grow"><b>${one.name || one.id}</b> <span class="dim">${upper(one.channel)}</span><p>${rich`code ${html`<code>${one.code}</code>`} · ${ago(one.createdAtMs)}`}</p></div>
          <button type="button" class="primary" @click=${() => void this.act("pairing.approve", { code: one.code }, tr`Approved`)}>${tr`Approve`}</button><button type="button" class="danger" @click=${() => void this.act("pairing.reject", { code: one.code }, tr`Declined`)}>${tr`Decline`}</button></li>`)}</ul></section>` : nothing}
      <section>${d.requests.length ? html`<h2>${tr`Accounts`}</h2>` : nothing}${rows.length ? html`<ul class="rows big">${rows}</ul>` : empty(tr`No chat apps yet`, html`${rich`Here in the browser everything works already. To be reached elsewhere, on the gateway's machine: ${html`<code>pal channels add</code>`}, or under Settings, ${html`<code>channels</code>`}.`}`)}</section>
      ${d.paired.length ? html`<section><h2>${tr`People with access`}</h2><ul class="rows big">${d.paired.map((one: Payload) => html`<li><div class="grow"><b>${one.name || one.id}</b> <span class="dim">${upper(one.channel)}</span>${one.owner ? html` <span class="tag good">${tr`owner`}</span>` : nothing}<p>${tr`since ${moment(one.approvedAtMs)}`}</p></div>
          <button type="button" class="danger" @click=${() => confirm(tr`Remove access for ${one.name || one.id}?`) && void this.act("pairing.revoke", { who: `${one.channel}:${one.id}` }, tr`Access removed`)}>${tr`Remove`}</button></li>`)}</ul></section>` : nothing}`;
  }
}
customElements.define("pal-channels", Channels);

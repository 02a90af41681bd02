// The chat channels: how each account is, who asks to be let in, who was; adding one, and trying it.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { fill, type Field } from "../form";
import { icon } from "../icons";
import { readConfig, writeConfig } from "../settings";
import { placed } from "../sidebar";
import { ago, moment, told, uuid } from "../text";
import { sure } from "../sure";
import { tr } from "../words";
import { health } from "./health";

const lacks = (command: string): string => tr`Its library is missing. On the gateway's machine: ${`\`${command}\``}`;

/** A key of a chat app as a field; the optional ones are named as in the config. */
function asked(id: string, field: Payload, when: Field["when"]): Field {
  const on: [string, string][] = [["", tr`as usual`], ["true", tr`on`], ["false", tr`off`]];
  const kind = field.secret ? "password" : field.kind === "number" ? "number" : field.kind === "flag" ? "choice" : "text";
  const holder = { texts: "a, b", object: "{}" }[field.kind as string];
  return { name: `${id}.${field.key}`, label: field.about || field.key, kind, required: field.required, when, holder, options: kind === "choice" ? on : undefined };
}

/** Accounts that are set up and switched off: nobody runs them. */
function idle(config: Payload = {}): { channel: string; account: string }[] {
  return Object.entries<Payload | null>(config).flatMap(([channel, body]) => {
    if (body?.enabled === false) return [{ channel, account: "" }];
    return Object.entries<Payload | null>(body?.accounts ?? {}).filter(([, one]) => one?.enabled === false).map(([account]) => ({ channel, account }));
  });
}

/** What was typed, as the config has it. Throws what is wrong with it. */
function read(kind: string, value: string): unknown {
  if (kind === "flag") return value === "true";
  if (kind === "texts") return value.split(",").map((one) => one.trim()).filter(Boolean);
  return kind === "object" ? JSON.parse(value) : value;
}

class Channels extends Page {
  heading = tr`Channels`;
  about = tr`Where people reach the agent, and who may.`;
  protected every = 5000;
  private code: Payload | null = null; // the picture that a phone has to read now: {account, url}

  protected async fetch(): Promise<Payload> {
    const [status, people, forms, now] = await Promise.all([this.ask("channels.status"), this.maybe("pairing.list"), this.data ? null : this.maybe("channels.forms"), readConfig()]);
    const lacking = forms ? forms.channels.filter((one: Payload) => one.added && one.missing) : (this.data?.lacking ?? []);
    return { status, lacking, idle: idle(now.config?.channels), requests: people?.requests ?? [], paired: people?.paired ?? [] };
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

  private async add(): Promise<void> {
    const forms: Payload[] = (await store.ask("channels.forms"))?.channels ?? [];
    if (!forms.length) return;
    const is = (id: string) => (values: Payload) => values.channel === id;
    fill({
      title: tr`Add a chat app`, word: tr`Add`,
      about: tr`Strangers who write get a code first; you approve them here. The first one becomes the owner.`,
      fields: [
        { name: "channel", label: tr`App`, kind: "choice", options: forms.map((one) => [one.id, one.added ? tr`${placed(one.id)} (added)` : placed(one.id)]) },
        ...forms.filter((one) => one.missing).map((one): Field => ({ name: `${one.id}.missing`, kind: "note", label: lacks(one.missing), when: is(one.id) })),
        ...forms.flatMap((one) => one.fields.filter((field: Payload) => field.required).map((field: Payload) => asked(one.id, field, is(one.id)))),
        { name: "whatsapp.note", label: tr`After adding it, sign in by reading a code with the phone.`, kind: "note", when: is("whatsapp") },
        { name: "more", label: tr`More settings`, kind: "check" },
        ...forms.flatMap((one) => one.fields.filter((field: Payload) => !field.required).map((field: Payload) => asked(one.id, field, (values: Payload) => values.more && is(one.id)(values)))),
      ],
      send: async (values) => {
        const id = values.channel;
        const kinds = new Map<string, string>(forms.find((one) => one.id === id)!.fields.map((field: Payload) => [field.key, field.kind]));
        const keys = Object.entries(values).map(([name, value]) => [name.slice(id.length + 1), value, name.startsWith(`${id}.`)] as const).filter(([, value, own]) => own && value !== "" && value !== null).map(([key, value]) => [key, read(kinds.get(key)!, value)]);
        await writeConfig({ channels: { [id]: { ...Object.fromEntries(keys), enabled: true } } });
        await this.load();
      },
    });
  }

  private test(channel: string, account: string): void {
    fill({
      title: tr`Send a test message`, word: tr`Send`,
      fields: [{ name: "to", label: tr`To (a chat, number or address)`, required: true }, { name: "message", label: tr`Message`, required: true, value: tr`Hello from Palinurus` }],
      send: async (values) => {
        const done = await store.client.request<Payload>("send", { channel, accountId: account, ...values, idempotencyKey: uuid() });
        if (done.state && done.state !== "sent") return tr`It was not sent: ${done.problem ?? done.state}`;
        store.toast(tr`Sent`);
        return undefined;
      },
    });
  }

  protected tools(): unknown {
    return store.client.has("channels.forms") ? html`<button type="button" class="primary" @click=${() => void this.add()}>${icon("plus")} ${tr`Add a chat app`}</button>` : nothing;
  }

  private account(channel: string, label: string, one: Payload): unknown {
    const out = one.healthState === "signed_out";
    const verb = one.running ? tr`Stop` : tr`Start`;
    const account = one.accountId === "default" ? label : `${label} · ${one.accountId}`;
    return html`<li>${icon("plug")}<div class="grow"><b>${label}</b>${one.accountId === "default" ? nothing : html` <span class="dim">${one.accountId}</span>`} ${health(one)}
        <p>${[one.name, one.dmPolicy ? tr`direct messages: ${one.dmPolicy}` : ""].filter(Boolean).join(" · ")}</p>
        ${one.lastError ? html`<p class="warn">${told(one.lastError)}</p>` : nothing}
        ${this.code?.account === one.accountId && channel === "whatsapp" ? html`<p>${tr`Read this with your phone: Settings, Linked devices.`}</p><img class="code" alt=${tr`The code that links this account`} src=${this.code!.url} />` : nothing}
        ${out && channel !== "whatsapp" ? html`<p class="dim">${tr`Sign in on the gateway's machine:`} <code>pal channels login ${channel}</code></p>` : nothing}</div>
      ${out && channel === "whatsapp" && !this.code ? html`<button type="button" class="primary" @click=${() => void this.link(one.accountId)}>${tr`Sign in`}</button>` : nothing}
      ${one.running && !out ? html`<button type="button" class="plain" aria-label=${tr`Test ${label}`} @click=${() => this.test(channel, one.accountId)}>${tr`Test`}</button>` : nothing}
      <button type="button" class="plain" aria-label="${verb} ${label}" @click=${() => void this.act(one.running ? "channels.stop" : "channels.start", { channel }, one.running ? tr`Stopped until it is started again` : tr`Started`)}>${verb}</button>
      ${this.removal(channel, one.accountId, account)}</li>`;
  }

  private write(patch: Payload | ((config: Payload) => Payload)): void {
    void writeConfig(patch).then(() => this.load(), (error) => store.toast(error.message, "error"));
  }

  private removal(channel: string, account: string, label: string): unknown {
    const gone = (config: Payload) => ({ channels: { [channel]: config.channels?.[channel]?.accounts?.[account] ? { accounts: { [account]: null } } : null } });
    const remove = async () => (await sure(tr`Remove ${label}? Its settings are deleted.`, tr`Remove`)) && this.write(gone);
    return html`<button type="button" class="ghost icon-only" aria-label=${tr`Remove ${label}`} title=${tr`Remove`} @click=${remove}>${icon("trash")}</button>`;
  }

  private resting({ channel, account }: { channel: string; account: string }): unknown {
    const label = account ? `${placed(channel)} · ${account}` : placed(channel);
    const on = { enabled: true };
    return html`<li>${icon("plug")}<div class="grow"><b>${placed(channel)}</b>${account ? html` <span class="dim">${account}</span>` : nothing} <span class="tag">${tr`off`}</span></div>
      <button type="button" class="plain" aria-label="${tr`Turn on`} ${label}" @click=${() => this.write({ channels: { [channel]: account ? { accounts: { [account]: on } } : on } })}>${tr`Turn on`}</button>
      ${this.removal(channel, account, label)}</li>`;
  }

  protected body(d: Payload): unknown {
    const { channelOrder = [], channelAccounts = {} } = d.status;
    const running = channelOrder.flatMap((name: string) => (channelAccounts[name] ?? []).map((one: Payload) => this.account(name, placed(name), one)));
    const rows = [...running, ...d.idle.map((one: { channel: string; account: string }) => this.resting(one))];
    return html`${d.requests.length ? html`<section><h2>${tr`Requests`}</h2><ul class="rows big">${d.requests.map((one: Payload) => html`<li><div class="grow"><b>${one.name || one.id}</b> <span class="dim">${placed(one.channel)}</span><p>${tr`code`} <code>${one.code}</code> · ${ago(one.createdAtMs)}</p></div>
          <button type="button" class="primary" @click=${() => void this.act("pairing.approve", { code: one.code }, tr`Approved`)}>${tr`Approve`}</button><button type="button" class="danger" @click=${() => void this.act("pairing.reject", { code: one.code }, tr`Declined`)}>${tr`Decline`}</button></li>`)}</ul></section>` : nothing}
      <section>${d.requests.length ? html`<h2>${tr`Accounts`}</h2>` : nothing}${d.lacking.map((one: Payload) => html`<p class="banner"><b>${placed(one.id)}</b> ${told(lacks(one.missing))}</p>`)}${rows.length ? html`<ul class="rows big">${rows}</ul>` : empty(tr`No chat apps yet`, tr`Here in the browser everything works already. Add Telegram, Discord, Slack and others to be reached there.`)}</section>
      ${d.paired.length ? html`<section><h2>${tr`People with access`}</h2><ul class="rows big">${d.paired.map((one: Payload) => html`<li><div class="grow"><b>${one.name || one.id}</b> <span class="dim">${placed(one.channel)}</span>${one.owner ? html` <span class="tag good">${tr`owner`}</span>` : nothing}<p>${tr`since ${moment(one.approvedAtMs)}`}</p></div>
          <button type="button" class="danger" @click=${async () => { if (await sure(tr`Remove access for ${one.name || one.id}?`, tr`Remove`)) void this.act("pairing.revoke", { who: `${one.channel}:${one.id}` }, tr`Access removed`); }}>${tr`Remove`}</button></li>`)}</ul></section>` : nothing}`;
  }
}
customElements.define("pal-channels", Channels);

// Other machines that do something for the agent: who asks to be one, what each can, its name, and its end.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { fill } from "../form";
import { icon } from "../icons";
import { drawn } from "../signin";
import { ago, moment } from "../text";
import { BASE } from "../place";
import { sure } from "../sure";
import { rich, tr } from "../words";

const named = (one: Payload): string => one.displayName || String(one.nodeId).slice(0, 12);
const abilities = (one: Payload): unknown => (one.commands?.length ? one.commands.map((name: string) => html`<code>${name}</code> `) : tr`It offers nothing yet.`);

class Nodes extends Page {
  static properties = { code: { state: true } };
  heading = tr`Nodes`;
  about = tr`Other machines that run commands, show notices or take pictures for the agent.`;
  code: Payload | null = null; // with which one machine pairs itself
  protected every = 5000;
  protected hears = /^node\.pair\./;

  protected async fetch(): Promise<Payload> {
    const [known, pairs] = await Promise.all([this.ask("node.list"), this.maybe("node.pair.list")]);
    return { nodes: known.nodes, pending: pairs?.pending ?? [] };
  }

  private async act(method: string, params: Payload, text: string): Promise<void> {
    if (await store.ask(method, params)) store.toast(text);
    await this.load();
  }

  protected tools(): unknown {
    return html`<button type="button" class="primary" @click=${() => this.add()}>${icon("plus")} ${tr`Add a node`}</button>`;
  }

  private add(): void {
    fill({
      title: tr`Add a node`, word: tr`Make a code`, about: tr`A code pairs one machine, once, within ten minutes.`,
      fields: [{ name: "url", label: tr`How that machine reaches this gateway`, value: (location.origin + BASE).replace(/^http/, "ws"), required: true, hint: tr`Plain ws:// goes to this machine only; others need wss://.` }],
      send: async ({ url }) => {
        this.code = await store.client.request<Payload>("device.pair.setupCode", { url });
      },
    });
  }

  private approve(one: Payload): void {
    const asked: string[] = one.commands ?? [];
    fill({
      title: tr`Approve ${named(one)}`, word: tr`Approve`, about: tr`What it may be asked to do:`,
      fields: asked.map((name) => ({ name, label: name, kind: "check", value: true })),
      send: async (values) => {
        await store.client.request("node.pair.approve", { requestId: one.requestId, commands: asked.filter((name) => values[name]) });
        store.toast(tr`Approved`);
        await this.load();
      },
    });
  }

  private rename(one: Payload): void {
    fill({
      title: tr`Rename this node`, fields: [{ name: "displayName", label: tr`Name`, required: true, value: named(one) }],
      send: async ({ displayName }) => {
        await store.client.request("node.rename", { nodeId: one.nodeId, displayName });
        await this.load();
      },
    });
  }

  private node(one: Payload): unknown {
    const state = one.connected ? html`<span class="tag good">${tr`connected`}</span>` : html`<span class="tag">${one.lastSeenAtMs ? tr`last seen ${ago(one.lastSeenAtMs)}` : tr`not connected`}</span>`;
    return html`<li>${icon("plug")}<div class="grow"><b>${named(one)}</b> ${state}
        <p>${[one.platform, one.version, one.remoteIp, one.approvedAtMs ? tr`since ${moment(one.approvedAtMs)}` : ""].filter(Boolean).join(" · ")}</p><p class="dim">${abilities(one)}</p></div>
      ${one.paired ? html`<button type="button" class="plain" aria-label=${tr`Rename ${named(one)}`} @click=${() => this.rename(one)}>${tr`Rename`}</button>
        <button type="button" class="danger" aria-label=${tr`Remove ${named(one)}`} @click=${async () => { if (await sure(tr`Remove ${named(one)}? It stays out until somebody approves it again.`, tr`Remove`)) void this.act("node.pair.remove", { nodeId: one.nodeId }, tr`Access removed`); }}>${tr`Remove`}</button>` : nothing}</li>`;
  }

  protected body(d: Payload): unknown {
    return html`${this.code ? html`<section><h2>${tr`On the other machine`}</h2><p><code class="command">pal node run --code ${this.code.setupCode}</code></p>${drawn(this.code.setupCode)}<p class="dim">${tr`It ends ${moment(this.code.expiresAtMs)}.`} <button type="button" class="ghost small" @click=${() => (this.code = null)}>${tr`Close`}</button></p></section>` : nothing}
      ${d.pending.length ? html`<section><h2>${tr`Requests`}</h2><ul class="rows big">${d.pending.map((one: Payload) => html`<li><div class="grow"><b>${named(one)}</b> <span class="dim">${one.platform}</span><p>${abilities(one)}</p><small class="dim">${String(one.nodeId).slice(0, 12)}… ${one.ts ? `· ${ago(one.ts)}` : ""}</small></div>
          <button type="button" class="primary" aria-label=${tr`Approve ${named(one)}`} @click=${() => this.approve(one)}>${tr`Approve`}</button><button type="button" class="danger" aria-label=${tr`Decline ${named(one)}`} @click=${() => void this.act("node.pair.reject", { requestId: one.requestId }, tr`Declined`)}>${tr`Decline`}</button></li>`)}</ul></section>` : nothing}
      <section>${d.pending.length ? html`<h2>${tr`Nodes`}</h2>` : nothing}${d.nodes.length ? html`<ul class="rows big">${d.nodes.map((one: Payload) => this.node(one))}</ul>` : empty(tr`No nodes yet`, html`${rich`Add one with a code, or start it there with the gateway's token and approve it here: ${html`<code>pal node run</code>`}`}`)}</section>`;
  }
}
customElements.define("pal-nodes", Nodes);

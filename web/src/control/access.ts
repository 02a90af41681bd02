// Questions that wait for a yes or no, and the devices that may come in.
import { able, subscribe, subscribed, unsubscribe } from "../away";
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { approvalCard } from "../cards";
import { live } from "lit/directives/live.js";
import { fill } from "../form";
import { icon } from "../icons";
import { ago, moment, told } from "../text";
import { sure } from "../sure";
import { tr } from "../words";

const rights = (one: Payload): string => (one.scopes ?? []).map((name: string) => name.replace("operator.", "")).join(", ");

class Access extends Page {
  heading = tr`Approvals & devices`;
  about = tr`Requests, devices, and how safe this setup is.`;
  protected hears = /^device\.pair\.|approval\.resolved$/;

  protected async fetch(): Promise<Payload> {
    const [devices, rules, safety, notified] = await Promise.all([this.ask("device.pair.list"), this.maybe("exec.approvals.get"), this.maybe("security.audit"), subscribed()]);
    return { devices, rules, safety, notified };
  }

  private rename(one: Payload): void {
    fill({
      title: tr`Rename this device`, fields: [{ name: "name", label: tr`Name`, required: true, value: one.displayName ?? one.clientId }],
      send: async ({ name }) => {
        await store.client.request("device.pair.rename", { deviceId: one.deviceId, name });
        await this.load();
      },
    });
  }

  private async notify(on: boolean): Promise<void> {
    try {
      const problem = on ? await subscribe() : (await unsubscribe(), "");
      store.toast(problem || (on ? tr`This browser is notified from now on` : tr`No more notifications`), problem ? "error" : "info");
    } catch (error) {
      store.toast((error as Error).message, "error");
    }
    await this.load();
  }

  private notices(on: boolean): unknown {
    if (!able()) return nothing;
    return html`<section><h2>${tr`Notifications`}</h2><ul class="rows big"><li><div class="grow"><b>${tr`On this device`}</b><p>${tr`When something waits for your approval, or an answer is ready while you are away. The push service learns only that there is news.`}</p></div>
      <label class="switch"><input type="checkbox" role="switch" aria-label=${tr`Notify this device`} .checked=${live(on)} @change=${() => void this.notify(!on)}><i></i></label></li></ul></section>`;
  }

  // What was always allowed: by agent, the patterns of commands. Taken away one by one.
  private rules(d: Payload): unknown {
    const file: Payload = d.rules?.file ?? {};
    const rows = Object.entries<Payload>(file.agents ?? {}).flatMap(([agent, body]) => (body.allowlist ?? []).map((entry: Payload) => ({ agent, entry })));
    const remove = async (agent: string, entry: Payload) => {
      const left = file.agents[agent].allowlist.filter((one: Payload) => one !== entry);
      await this.act("exec.approvals.set", { baseHash: d.rules.hash, file: { ...file, agents: { ...file.agents, [agent]: { ...file.agents[agent], allowlist: left } } } });
    };
    return html`<section><h2>${tr`Always allowed`}</h2>${rows.length ? html`<ul class="rows">${rows.map(({ agent, entry }) => html`<li><code>${entry.pattern}</code><span class="dim">${agent}</span><span class="dim">${entry.lastUsedAt ? tr`last used ${ago(entry.lastUsedAt)}` : ""}</span><button type="button" class="ghost icon-only" aria-label=${tr`Ask again for ${entry.pattern}`} title=${tr`Ask again`} @click=${() => void remove(agent, entry)}>${icon("close")}</button></li>`)}</ul>` : html`<p class="dim">${tr`Nothing yet. “Always allow” on a question adds a rule here.`}</p>`}</section>`;
  }

  private device(one: Payload, d: Payload): unknown {
    const own = one.deviceId === d.self;
    const here = (d.connected ?? []).includes(one.deviceId);
    return html`<li><div class="grow"><b>${one.displayName ?? one.clientId}</b>${own ? html` <span class="tag good">${tr`this one`}</span>` : here ? html` <span class="tag good">${tr`connected`}</span>` : nothing}${one.push ? html` <span class="tag">${tr`notified`}</span>` : nothing} <span class="dim">${one.displayName ? "" : (one.platform ?? "")}</span><p class="dim">${rights(one)}</p><small class="dim">${tr`since ${moment(one.approvedAtMs ?? one.createdAtMs)}`}${one.lastSeenAtMs && !here ? ` · ${tr`last seen ${ago(one.lastSeenAtMs)}`}` : ""} · ${String(one.deviceId).slice(0, 12)}…</small></div>
      ${store.client.has("device.pair.rename") ? html`<button type="button" class="plain" aria-label=${tr`Rename ${one.displayName ?? one.clientId}`} @click=${() => this.rename(one)}>${tr`Rename`}</button>` : nothing}
      <button type="button" class="danger" @click=${async () => { if (await sure(own ? tr`This is the device you are using. Without access it can come back only when somebody runs pal devices approve on the gateway's machine. Remove it?` : tr`Remove this device's access?`, tr`Remove`)) void this.act("device.pair.remove", { deviceId: one.deviceId }); }}>${tr`Remove`}</button></li>`;
  }

  private async act(method: string, params: Payload): Promise<void> {
    await store.ask(method, params);
    await this.load();
  }

  protected body(d: Payload): unknown {
    const open = store.approvals.filter((a) => !a.decision);
    const { pending = [], paired = [] } = d.devices;
    return html`<section><h2>${tr`Approvals`}</h2>${open.length ? open.map((one) => approvalCard(one)) : empty(tr`Nothing to approve`, tr`When the agent needs permission, the question appears here and in its conversation.`)}</section>
      ${pending.length ? html`<section><h2>${tr`Device requests`}</h2><ul class="rows big">${pending.map((one: Payload) => html`<li><div class="grow"><b>${one.displayName ?? tr`${one.clientId} on ${one.platform ?? "?"}`}</b><p class="dim">${rights(one)} · ${ago(one.ts)}</p></div>
        <button type="button" class="primary" @click=${() => void this.act("device.pair.approve", { requestId: one.requestId })}>${tr`Approve`}</button><button type="button" class="danger" @click=${() => void this.act("device.pair.reject", { requestId: one.requestId })}>${tr`Reject`}</button></li>`)}</ul></section>` : nothing}
      ${this.rules(d)}${this.notices(d.notified)}
      <section><h2>${tr`Devices`}</h2><ul class="rows big">${paired.map((one: Payload) => this.device(one, d.devices))}</ul></section>
      ${d.safety ? this.safety(d.safety) : nothing}`;
  }

  // What `pal security audit` and `pal sandbox explain` say: what is not held, first; then settings that are weak.
  private safety(s: Payload): unknown {
    const row = (what: unknown, fix: string, grave: boolean) => html`<li><div class="grow">${what}<p class="dim">${told(fix)}</p></div><span class="tag ${grave ? "bad" : ""}">${grave ? tr`serious` : tr`minor`}</span></li>`;
    const gaps = s.commands.flatMap((one: Payload) => one.gaps.map((gap: Payload) => row(html`<b>${tr`Commands of ${one.agentId}`}</b> ${gap.what}`, gap.fix, false)));
    const weak = s.findings.map((one: Payload) => row(html`<b>${one.key}</b> ${one.what}`, one.fix, one.grave));
    return html`<section class="safety"><h2>${tr`Safety`}</h2><p class="dim">${s.commands.map((one: Payload) => html`${tr`Commands of ${one.agentId}: ${one.what}.`} `)}</p>
      ${gaps.length || weak.length ? html`<ul class="rows big">${gaps}${weak}</ul>` : empty(tr`No weak settings`, tr`${s.rows} settings were checked.`)}</section>`;
  }
}
customElements.define("pal-access", Access);

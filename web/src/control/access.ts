// Questions that wait for a yes or no, and the devices that may come in.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { approvalCard } from "../cards";
import { ago, moment } from "../text";
import { tr } from "../words";

class Access extends Page {
  heading = tr`Approvals & devices`;
  about = tr`Requests, devices, and how safe this setup is.`;

  protected async fetch(): Promise<Payload> {
    const [devices, rules, safety] = await Promise.all([this.ask("device.pair.list"), this.maybe("exec.approvals.get"), this.maybe("security.audit")]);
    return { devices, rules, safety };
  }

  private async act(method: string, params: Payload): Promise<void> {
    await store.ask(method, params);
    await this.load();
  }

  protected body(d: Payload): unknown {
    const open = store.approvals.filter((a) => !a.decision);
    const { pending = [], paired = [] } = d.devices;
    return html`<section><h2>${tr`Approvals`}</h2>${open.length ? open.map((one) => approvalCard(one)) : empty(tr`Nothing to approve`, tr`When the agent needs permission, the question appears here and in its conversation.`)}</section>
      ${pending.length ? html`<section><h2>${tr`Device requests`}</h2><ul class="rows big">${pending.map((one: Payload) => html`<li><div class="grow"><b>${tr`${one.clientId} on ${one.platform ?? "?"}`}</b><p class="dim">${(one.scopes ?? []).join(", ")} · ${ago(one.ts)}</p></div>
        <button type="button" class="primary" @click=${() => void this.act("device.pair.approve", { requestId: one.requestId })}>${tr`Approve`}</button><button type="button" class="danger" @click=${() => void this.act("device.pair.reject", { requestId: one.requestId })}>${tr`Reject`}</button></li>`)}</ul></section>` : nothing}
      <section><h2>${tr`Devices`}</h2><ul class="rows big">${paired.map((one: Payload) => html`<li><div class="grow"><b>${one.displayName ?? one.clientId}</b> <span class="dim">${one.displayName ? "" : (one.platform ?? "")}</span><p class="dim">${(one.scopes ?? []).map((s: string) => s.replace("operator.", "")).join(", ")}</p><small class="dim">${tr`since ${moment(one.approvedAtMs ?? one.createdAtMs)} · ${String(one.deviceId).slice(0, 12)}…`}</small></div>
        <button type="button" class="danger" @click=${() => confirm(tr`Remove this device's access?`) && void this.act("device.pair.remove", { deviceId: one.deviceId })}>${tr`Remove`}</button></li>`)}</ul></section>
      ${d.safety ? this.safety(d.safety) : nothing}`;
  }

  // What `pal security audit` and `pal sandbox explain` say: what is not held, first; then settings that are weak.
  private safety(s: Payload): unknown {
    const row = (what: unknown, fix: string, grave: boolean) => html`<li><div class="grow">${what}<p class="dim">${fix}</p></div><span class="tag ${grave ? "bad" : ""}">${grave ? tr`serious` : tr`minor`}</span></li>`;
    const gaps = s.commands.flatMap((one: Payload) => one.gaps.map((gap: Payload) => row(html`<b>${tr`Commands of ${one.agentId}`}</b> ${gap.what}`, gap.fix, false)));
    const weak = s.findings.map((one: Payload) => row(html`<b>${one.key}</b> ${one.what}`, one.fix, one.grave));
    return html`<section class="safety"><h2>${tr`Safety`}</h2><p class="dim">${s.commands.map((one: Payload) => html`${tr`Commands of ${one.agentId}: ${one.what}.`} `)}</p>
      ${gaps.length || weak.length ? html`<ul class="rows big">${gaps}${weak}</ul>` : empty(tr`No weak settings`, tr`${s.rows} settings were checked.`)}</section>`;
  }
}
customElements.define("pal-access", Access);

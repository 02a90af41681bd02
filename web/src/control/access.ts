// Questions that wait for a yes or no, and the devices that may come in.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { approvalCard } from "../cards";
import { ago, moment } from "../text";

class Access extends Page {
  heading = "Approvals & devices";
  about = "What waits for your word, and who may connect.";

  protected async fetch(): Promise<Payload> {
    const [devices, rules] = await Promise.all([this.ask("device.pair.list"), this.maybe("exec.approvals.get")]);
    return { devices, rules };
  }

  private async act(method: string, params: Payload): Promise<void> {
    await store.ask(method, params);
    await this.load();
  }

  protected body(d: Payload): unknown {
    const open = store.approvals.filter((a) => !a.decision);
    const { pending = [], paired = [] } = d.devices;
    return html`<section><h2>Approvals</h2>${open.length ? open.map((one) => approvalCard(one)) : empty("Nothing waits", "When the agent wants to run something it may not, the question appears here and in its conversation.")}</section>
      ${pending.length ? html`<section><h2>Devices that ask to come in</h2><ul class="rows big">${pending.map((one: Payload) => html`<li><div class="grow"><b>${one.clientId} on ${one.platform ?? "?"}</b><p class="dim">${(one.scopes ?? []).join(", ")} · ${ago(one.ts)}</p></div>
        <button type="button" class="primary" @click=${() => void this.act("device.pair.approve", { requestId: one.requestId })}>Approve</button><button type="button" class="danger" @click=${() => void this.act("device.pair.reject", { requestId: one.requestId })}>Reject</button></li>`)}</ul></section>` : nothing}
      <section><h2>Devices</h2><ul class="rows big">${paired.map((one: Payload) => html`<li><div class="grow"><b>${one.displayName ?? one.clientId}</b> <span class="dim">${one.displayName ? "" : (one.platform ?? "")}</span><p class="dim">${(one.scopes ?? []).map((s: string) => s.replace("operator.", "")).join(", ")}</p><small class="dim">since ${moment(one.approvedAtMs ?? one.createdAtMs)} · ${String(one.deviceId).slice(0, 12)}…</small></div>
        <button type="button" class="danger" @click=${() => confirm("Take this device's access away?") && void this.act("device.pair.remove", { deviceId: one.deviceId })}>Remove</button></li>`)}</ul></section>`;
  }
}
customElements.define("pal-access", Access);

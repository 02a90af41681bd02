// The gateways that share one state: how each is, what waits, and two orders.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { icon } from "../icons";
import { took } from "../text";
import { sure } from "../sure";
import { plural, rich, tr } from "../words";

const seconds = (value: number): string => took(Math.max(0, value) * 1000);

/** One word for how a node is. */
function state(node: Payload): unknown {
  if (node.left <= 0) return html`<span class="tag bad">${tr`lost ${seconds(-node.left)} ago`}</span>`;
  return node.draining ? html`<span class="tag warned">${tr`going`}</span>` : html`<span class="tag good">${tr`at work`}</span>`;
}

/** Which agents it runs. */
const serves = (node: Payload): string => (node.serves ? node.serves.map((one: string) => one.split(":")[1]).filter((one: string) => one && one !== "-").join(", ") || tr`no agent` : tr`all agents`);

class Fleet extends Page {
  heading = tr`Fleet`;
  about = tr`Gateways that share one PostgreSQL.`;
  protected every = 3000;

  protected fetch(): Promise<Payload> {
    return this.ask("fleet.status");
  }

  private async order(method: string, node: string, question: string, done: string): Promise<void> {
    if (!(await sure(question, method === "fleet.drain" ? tr`Drain` : tr`Evict`))) return;
    if (await store.ask(method, { node })) store.toast(done);
    await this.load();
  }

  private node(node: Payload, self: string): unknown {
    const stale = Object.values(node.stale as Record<string, number>).reduce((sum, one) => sum + one, 0);
    const facts = [tr`up ${seconds(node.age)}`, node.left > 0 ? tr`lease ${Math.round(node.left)} s` : "", plural(node.runs, "{n} run", "{n} runs"), tr`serves ${serves(node)}`, stale ? tr`${stale} refused as stale` : ""];
    return html`<li>${icon("plug")}<div class="grow"><b>${node.id}</b>${node.id === self ? html` <span class="dim">${tr`this one`}</span>` : nothing} ${state(node)}
        <p>${facts.filter(Boolean).join(" · ")}</p>
        <p class="dim">${[tr`version ${node.release}`, tr`tables ${node.version}`, tr`config ${node.config || "?"}`, node.holds.length ? tr`alone: ${node.holds.join(", ")}` : ""].filter(Boolean).join(" · ")}</p>
        ${Math.abs(node.skew) > 5000 ? html`<p class="warn">${tr`Its clock is ${seconds(Math.abs(node.skew) / 1000)} off the database's: let NTP set it.`}</p>` : nothing}</div>
      ${node.draining || node.left <= 0 ? nothing : html`<button type="button" class="plain" aria-label=${tr`Drain ${node.id}`} @click=${() => void this.order("fleet.drain", node.id, tr`Have ${node.id} finish what it runs, and go?`, tr`It takes nothing new, finishes and goes`)}>${tr`Drain`}</button>`}
      <button type="button" class="danger" aria-label=${tr`Evict ${node.id}`} @click=${() => void this.order("fleet.evict", node.id, tr`Take the work of ${node.id} from it at once? What it is doing begins again elsewhere.`, tr`It is out`)}>${tr`Evict`}</button></li>`;
  }

  protected body(d: Payload): unknown {
    if (!d.fleet) return empty(tr`One gateway, on its own`, html`${rich`It keeps its state on its own machine, and needs no fleet. When one machine is not enough: ${html`<code>pal fleet init postgresql://…</code>`}, see docs/fleet.md.`}`);
    return html`${d.differs ? html`<p class="banner error" role="alert">${tr`The configs of these gateways differ. Make them the same but for store, gateway, logging and diagnostics.`}</p>` : nothing}
      ${d.unserved.map((one: Payload) => html`<p class="banner error" role="alert">${tr`${plural(one.waiting, "{n} message", "{n} messages")} for the agent ${one.agent}, which no gateway runs: start the one that has its workspace.`}</p>`)}
      <section><h2>${tr`Gateways`}</h2>${d.nodes.length ? html`<ul class="rows big">${d.nodes.map((node: Payload) => this.node(node, d.self))}</ul>` : empty(tr`Nobody is here`, tr`No gateway has joined.`)}</section>
      <section><h2>${tr`Waiting`}</h2><p>${d.waiting ? tr`${plural(d.waiting, "{n} message", "{n} messages")}, the oldest for ${seconds(d.oldest)}` : tr`Nothing waits.`}</p></section>`;
  }
}
customElements.define("pal-fleet", Fleet);

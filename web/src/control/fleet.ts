// The gateways that share one state: how each is, what waits, and two orders.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { icon } from "../icons";
import { took } from "../text";

const seconds = (value: number): string => took(Math.max(0, value) * 1000);
const plural = (count: number, word: string): string => `${count} ${word}${count === 1 ? "" : "s"}`;

/** One word for how a node is. */
function state(node: Payload): unknown {
  if (node.left <= 0) return html`<span class="tag bad">lost ${seconds(-node.left)} ago</span>`;
  return node.draining ? html`<span class="tag warned">going</span>` : html`<span class="tag good">at work</span>`;
}

/** Which agents it runs. */
const serves = (node: Payload): string => (node.serves ? node.serves.map((one: string) => one.split(":")[1]).filter((one: string) => one && one !== "-").join(", ") || "no agent" : "all agents");

class Fleet extends Page {
  heading = "Fleet";
  about = "Gateways that share one PostgreSQL.";
  private timer = 0;

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => store.client.link === "open" && void this.load(), 3000);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected fetch(): Promise<Payload> {
    return this.ask("fleet.status");
  }

  private async order(method: string, node: string, question: string, done: string): Promise<void> {
    if (!confirm(question)) return;
    if (await store.ask(method, { node })) store.toast(done);
    await this.load();
  }

  private node(node: Payload, self: string): unknown {
    const stale = Object.values(node.stale as Record<string, number>).reduce((sum, one) => sum + one, 0);
    const facts = [`up ${seconds(node.age)}`, node.left > 0 ? `lease ${Math.round(node.left)} s` : "", plural(node.runs, "run"), `serves ${serves(node)}`, stale ? `${stale} refused as stale` : ""];
    return html`<li>${icon("plug")}<div class="grow"><b>${node.id}</b>${node.id === self ? html` <span class="dim">this one</span>` : nothing} ${state(node)}
        <p>${facts.filter(Boolean).join(" · ")}</p>
        <p class="dim">${[`version ${node.release}`, `tables ${node.version}`, `config ${node.config || "?"}`, node.holds.length ? `alone: ${node.holds.join(", ")}` : ""].filter(Boolean).join(" · ")}</p>
        ${Math.abs(node.skew) > 5000 ? html`<p class="warn">Its clock is ${seconds(Math.abs(node.skew) / 1000)} off the database's: let NTP set it.</p>` : nothing}</div>
      ${node.draining || node.left <= 0 ? nothing : html`<button type="button" class="plain" aria-label="Drain ${node.id}" @click=${() => void this.order("fleet.drain", node.id, `Have ${node.id} finish what it runs, and go?`, "It takes nothing new, finishes and goes")}>Drain</button>`}
      <button type="button" class="danger" aria-label="Evict ${node.id}" @click=${() => void this.order("fleet.evict", node.id, `Take the work of ${node.id} from it at once? What it is doing begins again elsewhere.`, "It is out")}>Evict</button></li>`;
  }

  protected body(d: Payload): unknown {
    if (!d.fleet) return empty("One gateway, on its own", html`It keeps its state on its own machine, and needs no fleet. When one machine is not enough: <code>pal fleet init postgresql://…</code>, see docs/fleet.md.`);
    return html`${d.differs ? html`<p class="banner error" role="alert">The configs of these gateways differ. Make them the same but for store, gateway, logging and diagnostics.</p>` : nothing}
      ${d.unserved.map((one: Payload) => html`<p class="banner error" role="alert">${plural(one.waiting, "message")} for the agent ${one.agent}, which no gateway runs: start the one that has its workspace.</p>`)}
      <section><h2>Gateways</h2>${d.nodes.length ? html`<ul class="rows big">${d.nodes.map((node: Payload) => this.node(node, d.self))}</ul>` : empty("Nobody is here", "No gateway has joined.")}</section>
      <section><h2>Waiting</h2><p>${d.waiting ? `${plural(d.waiting, "message")}, the oldest for ${seconds(d.oldest)}` : "Nothing waits."}</p></section>`;
  }
}
customElements.define("pal-fleet", Fleet);

// Looking into an agent's memory as the agent itself does; and what it would like to add, for the owner to decide.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { diff } from "../cards";
import { plural, tr } from "../words";

class Memory extends Page {
  static properties = { found: { state: true }, busy: { state: true }, edited: { state: true } };
  heading = tr`Memory`;
  about = tr`What the agent remembers, searched the way it searches, and what it would like to remember.`;
  found: Payload | null = null;
  busy = false;
  edited = ""; // the id of the proposal that is being changed

  protected async fetch(): Promise<Payload> {
    return (await this.maybe("learn.list", { every: true })) ?? {};
  }

  private async search(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const query = String(new FormData(event.target as HTMLFormElement).get("query") ?? "").trim();
    if (!query) return;
    this.busy = true;
    this.found = await store.ask("memory.search", { query, limit: 20 });
    this.busy = false;
  }

  private async decide(verb: "accept" | "refuse" | "undo", one: Payload, text?: string): Promise<void> {
    const done = await store.ask(`learn.${verb}`, text === undefined ? { id: one.id } : { id: one.id, text });
    if (done) store.toast(`${one.path}: ${done.state}`);
    this.edited = "";
    await this.load();
  }

  private save(event: SubmitEvent, one: Payload): void {
    event.preventDefault();
    void this.decide("accept", one, String(new FormData(event.target as HTMLFormElement).get("text") ?? ""));
  }

  private proposal(one: Payload): unknown {
    const sources: Payload[] = one.sources ?? [];
    const waits = one.state === "open";
    return html`<li class="proposal"><div class="grow"><b>${one.path}</b> <span class="tag ${waits ? "good" : ""}">${one.state}</span><p>${one.why}</p>
      ${one.taint?.length ? html`<p class="warn">${tr`Words from outside had been read there: ${one.taint.join(", ")}`}</p>` : nothing}
      ${this.edited === one.id ? html`<form @submit=${(e: SubmitEvent) => this.save(e, one)}><textarea name="text" rows="10" aria-label=${tr`New text of ${one.path}`} .value=${one.content}></textarea><p><button type="submit" class="primary">${tr`Save`}</button> <button type="button" class="plain" @click=${() => (this.edited = "")}>${tr`Cancel`}</button></p></form>` : diff(one.diff)}
      <details><summary>${plural(sources.length, "From {n} message", "From {n} messages")}</summary>${sources.map((from) => html`<p class="dim">${from.role}: ${from.text}</p>`)}</details>
      ${waits && this.edited !== one.id ? html`<p><button type="button" class="primary" @click=${() => void this.decide("accept", one)}>${tr`Remember`}</button> <button type="button" class="plain" @click=${() => (this.edited = one.id)}>${tr`Edit`}</button> <button type="button" class="plain" @click=${() => void this.decide("refuse", one)}>${tr`No`}</button></p>` : nothing}
      ${one.state === "accepted" ? html`<p><button type="button" class="plain" @click=${() => void this.decide("undo", one)}>${tr`Undo`}</button></p>` : nothing}</div></li>`;
  }

  protected body(d: Payload): unknown {
    if (!store.client.has("memory.search")) return empty(tr`Not served`, tr`This gateway does not offer memory.search.`);
    const results: Payload[] = this.found?.results ?? [];
    const proposals: Payload[] = d.proposals ?? [];
    return html`<form class="searchbar" role="search" @submit=${(e: SubmitEvent) => void this.search(e)}><input name="query" type="search" placeholder=${tr`What do you know about…`} aria-label=${tr`Search the memory`} autofocus><button type="submit" class="primary" ?disabled=${this.busy}>${tr`Search`}</button></form>
      ${this.found?.disabled ? empty(tr`Memory search is off`, this.found.reason) : this.found && !results.length ? empty(tr`Nothing found`, tr`Nothing in the memory is close to that.`) : ""}
      <ul class="rows big">${results.map((hit) => html`<li><div class="grow"><b>${hit.path}${hit.startLine ?? hit.start ? `:${hit.startLine ?? hit.start}` : ""}</b> <span class="tag">${typeof hit.score === "number" ? hit.score.toFixed(2) : ""}</span><pre tabindex="0">${hit.snippet ?? hit.text ?? ""}</pre></div></li>`)}</ul>
      ${proposals.length ? html`<h2>${tr`What it would like to remember`}</h2><ul class="rows big">${proposals.map((one) => this.proposal(one))}</ul>` : nothing}`;
  }
}
customElements.define("pal-memory", Memory);

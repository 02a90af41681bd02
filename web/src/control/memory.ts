// Looking into an agent's memory as the agent itself does.
import { empty, html, Page, store, type Payload } from "../base";

class Memory extends Page {
  static properties = { found: { state: true }, busy: { state: true } };
  heading = "Memory";
  about = "What the agent remembers, searched the way it searches.";
  found: Payload | null = null;
  busy = false;

  private async search(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    const query = String(new FormData(event.target as HTMLFormElement).get("query") ?? "").trim();
    if (!query) return;
    this.busy = true;
    this.found = await store.ask("memory.search", { query, limit: 20 });
    this.busy = false;
  }

  protected body(): unknown {
    if (!store.client.has("memory.search")) return empty("Not served", "This gateway does not offer memory.search.");
    const results: Payload[] = this.found?.results ?? [];
    return html`<form class="searchbar" role="search" @submit=${(e: SubmitEvent) => void this.search(e)}><input name="query" type="search" placeholder="What do you know about…" aria-label="Search the memory" autofocus><button type="submit" class="primary" ?disabled=${this.busy}>Search</button></form>
      ${this.found?.disabled ? empty("Memory search is off", this.found.reason) : this.found && !results.length ? empty("Nothing found", "Nothing in the memory is close to that.") : ""}
      <ul class="rows big">${results.map((hit) => html`<li><div class="grow"><b>${hit.path}${hit.startLine ?? hit.start ? `:${hit.startLine ?? hit.start}` : ""}</b> <span class="tag">${typeof hit.score === "number" ? hit.score.toFixed(2) : ""}</span><pre tabindex="0">${hit.snippet ?? hit.text ?? ""}</pre></div></li>`)}</ul>`;
  }
}
customElements.define("pal-memory", Memory);

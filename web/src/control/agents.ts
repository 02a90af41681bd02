// Agents, and the files in their workspace that shape them.
import { html, nothing, Page, store, type Payload } from "../base";
import { ago, size } from "../text";
import { tr } from "../words";

class Agents extends Page {
  static properties = { agent: { state: true }, file: { state: true }, dirty: { state: true } };
  heading = tr`Agents`;
  about = tr`Who answers, and the files that make them who they are.`;
  agent = "";
  file: Payload | null = null;
  dirty = false;

  connectedCallback(): void {
    super.connectedCallback();
    store.guard = () => !this.dirty || confirm(tr`Leave without saving?`);
    addEventListener("beforeunload", this.unload);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    store.guard = () => true;
    removeEventListener("beforeunload", this.unload);
  }

  private unload = (event: Event) => this.dirty && event.preventDefault();

  protected async fetch(): Promise<Payload> {
    const agents = await this.ask("agents.list");
    this.agent ||= agents.defaultId;
    return { ...agents, files: await this.maybe("agents.files.list", { agentId: this.agent }) };
  }

  private async open(name: string): Promise<void> {
    if (this.dirty && !confirm(tr`Leave without saving?`)) return;
    const answer = await store.ask("agents.files.get", { agentId: this.agent, name });
    if (answer) this.file = { content: "", ...answer.file };
    this.dirty = false;
    await this.updateComplete;
    this.querySelector("textarea")?.focus();
  }

  private async save(): Promise<void> {
    const content = this.querySelector("textarea")!.value;
    const done = await store.ask("agents.files.set", { agentId: this.agent, name: this.file!.name, content });
    if (!done) return;
    store.toast(tr`${this.file!.name} saved`);
    this.dirty = false;
    void this.load();
  }

  private async pick(agent: string): Promise<void> {
    this.agent = agent;
    this.file = null;
    await this.load();
  }

  protected body(d: Payload): unknown {
    return html`<div class="cards">${d.agents.map((one: Payload) => html`<button type="button" class="card ${one.id === this.agent ? "active" : ""}" aria-pressed=${one.id === this.agent} @click=${() => void this.pick(one.id)}>
        <b>${one.identity?.emoji ?? ""} ${one.identity?.name ?? one.name}</b><small>${one.model?.primary}</small><small class="dim">${one.workspace}</small></button>`)}</div>
      <div class="split"><ul class="rows files-list" aria-label=${tr`Workspace files`}>${(d.files?.files ?? []).map((one: Payload) => html`<li><button type="button" class="linkish ${this.file?.name === one.name ? "active" : ""}" @click=${() => void this.open(one.name)}>${one.name}</button><span class="dim">${one.missing ? tr`not there` : `${size(one.size)} · ${ago(one.updatedAtMs)}`}</span></li>`)}</ul>
      <section class="editor">${this.file ? html`<header><b>${this.file.name}</b><button type="button" class="primary" ?disabled=${!this.dirty} @click=${() => void this.save()}>${tr`Save`}</button></header>
        <textarea spellcheck="false" aria-label=${tr`Content of ${this.file.name}`} .value=${this.file.content} @input=${() => (this.dirty = true)} @keydown=${(e: KeyboardEvent) => { if ((e.ctrlKey || e.metaKey) && e.key === "s") { e.preventDefault(); void this.save(); } }}></textarea>` : html`<p class="dim pad">${tr`Choose a file to read or change it.`}</p>`}</section></div>${nothing}`;
  }
}
customElements.define("pal-agents", Agents);

// Agents, and the files in their workspace that shape them.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { keyed } from "lit/directives/keyed.js";
import { fill } from "../form";
import { icon } from "../icons";
import { readConfig, writeConfig } from "../settings";
import { ago, size, upper } from "../text";
import { sure } from "../sure";
import { guard, leave } from "../unsaved";
import { tr } from "../words";

class Agents extends Page {
  static properties = { agent: { state: true }, file: { state: true }, dirty: { state: true } };
  heading = tr`Agents`;
  about = tr`Who answers, and the files that make them who they are.`;
  agent = "";
  file: Payload | null = null;
  dirty = false;
  private known = ""; // the file as it was read or written here

  private unguard = () => {};

  connectedCallback(): void {
    super.connectedCallback();
    this.unguard = guard(() => this.dirty);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.unguard();
  }

  protected async fetch(): Promise<Payload> {
    const agents = await this.ask("agents.list");
    this.agent ||= agents.defaultId;
    const [files, config, channels] = await Promise.all([this.maybe("agents.files.list", { agentId: this.agent }), readConfig(), this.maybe("channels.status")]);
    return { ...agents, files, bindings: config.config?.bindings ?? [], entries: config.config?.agents?.list ?? Object.entries<Payload>(config.config?.agents?.entries ?? {}).map(([id, body]) => ({ id, ...body })), channels: channels?.channelOrder ?? [] };
  }

  /** Whether the file that is open may be closed. */
  private async left(): Promise<boolean> {
    if (this.dirty && !(await leave())) return false;
    this.dirty = false;
    return true;
  }

  private async open(name: string): Promise<void> {
    if (!(await this.left())) return;
    const answer = await store.ask("agents.files.get", { agentId: this.agent, name });
    if (!answer) return;
    this.file = { content: "", ...answer.file };
    this.known = this.file!.content;
    await this.updateComplete;
    this.querySelector("textarea")?.focus();
  }

  private async save(): Promise<void> {
    const content = this.querySelector("textarea")!.value;
    const name: string = this.file!.name;
    const now = await store.ask("agents.files.get", { agentId: this.agent, name });
    if (!now || ((now.file.content ?? "") !== this.known && !(await sure(tr`${name} was changed elsewhere meanwhile, perhaps by the agent. Replace it with what stands here?`, tr`Replace`)))) return;
    const done = await store.ask("agents.files.set", { agentId: this.agent, name, content });
    if (!done) return;
    store.toast(tr`${name} saved`);
    this.known = content;
    this.dirty = this.querySelector("textarea")?.value !== content;
    void this.load();
  }

  private async pick(agent: string): Promise<void> {
    if (!(await this.left())) return;
    this.agent = agent;
    this.file = null;
    await this.load();
  }

  private write(one?: Payload): void {
    const models: [string, string][] = store.models.map((m) => [`${m.provider}/${m.id}`, `${m.name} (${m.provider})`]);
    const entry: Payload | undefined = one && (this.data!.entries.find((own: Payload) => own.id === one.id) ?? {});
    const now: string = entry?.model?.primary ?? entry?.model ?? ""; // its own; what it uses may be everybody's
    fill({
      title: one ? tr`Edit ${one.identity?.name ?? one.name}` : tr`New agent`, word: one ? tr`Save` : tr`Create`,
      fields: [
        { name: "name", label: tr`Name`, required: true, value: entry?.name ?? one?.name ?? "" },
        { name: "emoji", label: tr`Emoji`, value: entry?.identity?.emoji ?? "" },
        { name: "workspace", label: tr`Folder of its files`, required: true, value: entry?.workspace ?? one?.workspace ?? "", holder: "~/agents/research", hint: tr`On the gateway's machine. Each agent has its own.` },
        { name: "model", label: tr`Model`, kind: "choice", value: now, options: [["", tr`As by default`], ...(now && !models.some(([ref]) => ref === now) ? [[now, now] as [string, string]] : []), ...models] },
      ],
      send: async (values, changed) => {
        const told = Object.fromEntries(Object.entries(values).filter(([, value]) => value));
        await store.client.request(one ? "agents.update" : "agents.create", one ? { agentId: one.id, ...changed } : told);
        store.toast(tr`Saved`);
        void store.menus();
        await this.load();
      },
    });
  }

  private async dismiss(one: Payload): Promise<void> {
    if (!(await this.left()) || !(await sure(tr`Delete the agent ${one.name}? Its files stay.`, tr`Delete`))) return;
    this.file = null;
    if (await store.ask("agents.delete", { agentId: one.id, deleteFiles: false })) store.toast(tr`Deleted`);
    this.agent = "";
    await this.load();
    void store.menus();
  }

  private async bind(make: (now: Payload[]) => Payload[]): Promise<void> {
    await writeConfig(({ bindings = [] }) => ({ bindings: make(bindings) }), ["bindings"]);
    await this.load();
  }

  private add(d: Payload): void {
    fill({
      title: tr`New rule`, about: tr`Messages that fit go to this agent; the first rule that fits counts.`, word: tr`Add`,
      fields: [
        { name: "agentId", label: tr`Agent`, kind: "choice", value: this.agent, options: d.agents.map((one: Payload): [string, string] => [one.id, one.identity?.name ?? one.name]) },
        { name: "channel", label: tr`App`, kind: "choice", options: d.channels.map((one: string): [string, string] => [one, upper(one)]), required: true },
        { name: "kind", label: tr`From`, kind: "choice", options: [["", tr`Everybody`], ["direct", tr`One person`], ["group", tr`One group`]] },
        { name: "peer", label: tr`Its id there`, required: true, when: (values) => values.kind !== "" },
      ],
      send: async (values) => {
        if (!values.channel) return tr`Add a chat app first.`;
        const match = { channel: values.channel, ...(values.kind ? { peer: { kind: values.kind, id: values.peer } } : {}) };
        await this.bind((now) => [...now, { agentId: values.agentId, match }]);
        return undefined;
      },
    });
  }

  private bindings(d: Payload): unknown {
    if (d.agents.length < 2 && !d.bindings.length) return nothing;
    const said = (one: Payload) => [upper(one.match?.channel ?? "?"), one.match?.accountId, one.match?.peer ? `${one.match.peer.kind} ${one.match.peer.id}` : ""].filter(Boolean).join(" · ");
    return html`<section><h2>${tr`Who answers where`}</h2>${d.bindings.length ? html`<ul class="rows">${d.bindings.map((one: Payload) => html`<li><b>${one.agentId}</b><span>${said(one)}</span><button type="button" class="ghost icon-only" aria-label=${tr`Remove the rule ${said(one)}`} @click=${() => void this.bind((now) => now.filter((other) => JSON.stringify(other) !== JSON.stringify(one))).catch((error) => store.toast(error.message, "error"))}>${icon("close")}</button></li>`)}</ul>` : empty(tr`The default agent answers everywhere`, tr`Rules send an app, a person or a group to another agent.`)}<p><button type="button" class="plain" @click=${() => this.add(d)}>${tr`New rule`}</button></p></section>`;
  }

  protected tools(): unknown {
    const one = this.data?.agents.find((agent: Payload) => agent.id === this.agent);
    return html`${one && store.client.has("agents.update") ? html`<button type="button" class="plain" @click=${() => this.write(one)}>${tr`Edit`}</button>` : nothing}${one && one.id !== this.data?.defaultId ? html`<button type="button" class="danger" @click=${() => void this.dismiss(one)}>${tr`Delete`}</button>` : nothing}
      ${store.client.has("agents.create") ? html`<button type="button" class="primary" @click=${() => this.write()}>${icon("plus")} ${tr`New agent`}</button>` : nothing}`;
  }

  protected body(d: Payload): unknown {
    return html`<div class="cards">${d.agents.map((one: Payload) => html`<button type="button" class="card ${one.id === this.agent ? "active" : ""}" aria-pressed=${one.id === this.agent} @click=${() => void this.pick(one.id)}>
        <b>${one.identity?.emoji ?? ""} ${one.identity?.name ?? one.name}</b><small>${one.model?.primary}</small><small class="dim">${one.workspace}</small></button>`)}</div>
      <div class="split"><ul class="rows files-list" aria-label=${tr`Workspace files`}>${(d.files?.files ?? []).map((one: Payload) => html`<li><button type="button" class="linkish ${this.file?.name === one.name ? "active" : ""}" @click=${() => void this.open(one.name)}>${one.name}</button><span class="dim">${one.missing ? tr`not there` : `${size(one.size)} · ${ago(one.updatedAtMs)}`}</span></li>`)}</ul>
      <section class="editor">${this.file ? html`<header><b>${this.file.name}</b><button type="button" class="primary" ?disabled=${!this.dirty} @click=${() => void this.save()}>${tr`Save`}</button></header>
        ${keyed(this.file, html`<textarea spellcheck="false" aria-label=${tr`Content of ${this.file.name}`} .value=${this.file.content} @input=${() => (this.dirty = true)} @keydown=${(e: KeyboardEvent) => { if ((e.ctrlKey || e.metaKey) && e.key === "s") { e.preventDefault(); void this.save(); } }}></textarea>`)}` : html`<p class="dim pad">${tr`Choose a file to read or change it.`}</p>`}</section></div>${this.bindings(d)}`;
  }
}
customElements.define("pal-agents", Agents);

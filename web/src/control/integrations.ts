// Tools of others: MCP servers (add, sign in, their tools) and plugins (switch, settings).
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { live } from "lit/directives/live.js";
import { fill, type Field } from "../form";
import { icon } from "../icons";
import { readConfig, writeConfig } from "../settings";
import { signIn } from "../signin";
import { told } from "../text";
import { sure } from "../sure";
import { rich, tr } from "../words";

const states: Record<string, [string, string]> = { connected: [tr`connected`, "good"], starting: [tr`starting`, ""], stopped: [tr`stopped`, ""], off: [tr`off`, ""] };

/** A value as people write it in a form, from and to the config. */
const shown = (value: unknown): string | number | boolean => (typeof value === "object" && value !== null ? JSON.stringify(value) : ((value as string) ?? ""));

class Integrations extends Page {
  static properties = { open: { state: true } };
  heading = tr`Integrations`;
  about = tr`Tools and plugins that other programs bring.`;
  open: Payload | null = null; // a server, with its tools

  protected async fetch(): Promise<Payload> {
    const [servers, plugins] = await Promise.all([this.maybe("mcp.list"), this.maybe("plugins.list")]);
    return { servers: servers?.servers ?? [], plugins: plugins?.plugins ?? [] };
  }

  private async write(patch: Payload, whole: string[] = []): Promise<void> {
    try {
      await writeConfig(patch, whole);
    } catch (error) {
      store.toast((error as Error).message, "error");
    }
    await this.load();
  }

  private add(): void {
    const remote = (values: Payload) => values.kind === "url";
    fill({
      title: tr`Add an MCP server`, word: tr`Add`, about: tr`Programs run contained, without your keys. The gateway starts again to connect it.`,
      fields: [
        { name: "name", label: tr`Name`, required: true, holder: "github" },
        { name: "kind", label: tr`Where is it?`, kind: "choice", options: [["url", tr`At an address`], ["command", tr`A program on the gateway's machine`]] },
        { name: "url", label: tr`Address`, kind: "url", required: true, holder: "https://mcp.example.com/mcp", when: remote },
        { name: "header", label: tr`Authorization header, if it wants one`, kind: "password", when: remote, hint: tr`Leave empty to sign in afterwards.` },
        { name: "command", label: tr`Command`, required: true, holder: "npx -y @modelcontextprotocol/server-everything", when: (values) => !remote(values) },
      ],
      send: async (values) => {
        if (this.data!.servers.some((one: Payload) => one.name === values.name)) return tr`There is a server of that name already.`;
        const [command, ...args] = String(values.command ?? "").split(/\s+/);
        const body = values.kind === "url" ? { url: values.url, ...(values.header ? { headers: { Authorization: values.header } } : {}) } : { command, args };
        await writeConfig({ mcp: { servers: { [values.name]: body } } });
        await this.load();
        return undefined;
      },
    });
  }

  private async look(name: string): Promise<void> {
    this.open = this.open?.name === name ? null : await store.ask("mcp.status", { name });
  }

  private server(one: Payload): unknown {
    const [word, tone] = states[one.state] ?? [one.state, ""];
    const enter = async () => { if (await signIn("mcp", { name: one.name })) await this.load(); };
    const leave = async () => { if (await store.ask("mcp.logout", { name: one.name })) store.toast(tr`Signed out`); await this.load(); };
    return html`<li>${icon("plug")}<div class="grow"><b>${one.name}</b> <span class="tag ${tone}">${word}</span>${one.signedIn ? html` <span class="tag good">${tr`signed in`}</span>` : nothing}<p>${[one.server, one.where, one.contained ? tr`contained` : ""].filter(Boolean).join(" · ")}</p>
        ${one.problem ? html`<p class="warn">${told(one.problem)}</p>` : nothing}${one.waiting?.length ? html`<p class="warn">${tr`Changed tools wait for your yes: ${one.waiting.join(", ")}`} <code>pal mcp trust ${one.name}</code></p>` : nothing}
        ${this.open?.name === one.name ? html`<dl class="told-tools">${(this.open!.listed ?? []).map((tool: Payload) => html`<dt><code>${tool.name}</code></dt><dd>${tool.description}</dd>`)}${this.open!.listed?.length ? nothing : html`<dd>${tr`No tools are known yet.`}</dd>`}</dl>` : nothing}</div>
      ${one.wantsSignIn || (one.signedIn === false && one.state !== "connected") ? html`<button type="button" class="primary" aria-label=${tr`Sign in to ${one.name}`} @click=${() => void enter()}>${tr`Sign in`}</button>` : nothing}
      ${one.signedIn ? html`<button type="button" class="plain" @click=${() => void leave()}>${tr`Sign out`}</button>` : nothing}
      <button type="button" class="plain" aria-expanded=${this.open?.name === one.name} aria-label=${tr`Tools of ${one.name}`} @click=${() => void this.look(one.name)}>${tr`Tools`}${one.tools ? ` (${one.tools})` : ""}</button>
      <button type="button" class="plain" aria-label="${one.enabled ? tr`Turn off` : tr`Turn on`} ${one.name}" @click=${() => void this.write({ mcp: { servers: { [one.name]: { enabled: !one.enabled } } } })}>${one.enabled ? tr`Turn off` : tr`Turn on`}</button>
      <button type="button" class="ghost icon-only" aria-label=${tr`Remove ${one.name}`} title=${tr`Remove`} @click=${async () => { if (await sure(tr`Remove ${one.name}?`, tr`Remove`)) void this.write({ mcp: { servers: { [one.name]: null } } }); }}>${icon("trash")}</button></li>`;
  }

  /** A plugin's settings, from the form that it declares. */
  private async settings(one: Payload): Promise<void> {
    const now = (await readConfig()).config?.plugins?.entries?.[one.id]?.config ?? {};
    const properties = Object.entries<Payload>(one.schema?.properties ?? {});
    const kind = (schema: Payload): Field["kind"] => (schema.enum ? "choice" : schema.type === "boolean" ? "check" : ["number", "integer"].includes(schema.type) ? "number" : "text");
    fill({
      title: tr`Settings of ${one.name || one.id}`,
      fields: properties.map(([name, schema]) => ({ name, label: schema.title ?? name, hint: schema.description, kind: kind(schema), value: shown(now[name] ?? schema.default), options: schema.enum?.map((word: string): [string, string] => [word, word]), required: one.schema.required?.includes(name) && kind(schema) !== "check" })),
      send: async (_values, changed) => {
        await writeConfig({ plugins: { entries: { [one.id]: { config: Object.fromEntries(Object.entries(changed).map(([name, value]) => [name, value === "" ? null : value])) } } } });
        await this.load();
      },
    });
  }

  private plugin(one: Payload): unknown {
    return html`<li>${icon("tool")}<div class="grow"><b>${one.name || one.id}</b> <span class="tag ${one.broken ? "bad" : one.enabled ? "good" : ""}">${one.broken ? tr`broken` : one.enabled ? tr`on` : tr`off`}</span><p>${one.description}</p>${one.capabilities?.length ? html`<p class="dim">${tr`May bring: ${one.capabilities.join(", ")}`}</p>` : nothing}${one.reason ? html`<small class="dim">${told(one.reason)}</small>` : nothing}</div>
      ${one.schema?.properties ? html`<button type="button" class="plain" aria-label=${tr`Settings of ${one.name || one.id}`} @click=${() => void this.settings(one)}>${tr`Settings`}</button>` : nothing}
      ${one.broken ? nothing : html`<label class="switch"><input type="checkbox" role="switch" aria-label=${tr`Use ${one.id}`} .checked=${live(one.enabled)} @change=${async () => (one.enabled || (await sure(tr`Plugins run inside the program. Use ${one.id}?`, tr`Use ${one.id}`, false)) ? void this.write({ plugins: { entries: { [one.id]: { enabled: !one.enabled } } } }) : void this.load())}><i></i></label>`}</li>`;
  }

  protected tools(): unknown {
    return store.client.has("mcp.list") ? html`<button type="button" class="primary" @click=${() => this.add()}>${icon("plus")} ${tr`Add an MCP server`}</button>` : nothing;
  }

  protected body(d: Payload): unknown {
    return html`<section><h2>${tr`MCP servers`}</h2>${d.servers.length ? html`<ul class="rows big">${d.servers.map((one: Payload) => this.server(one))}</ul>` : empty(tr`No MCP servers`, tr`They bring tools: calendars, issue trackers, databases.`)}</section>
      <section><h2>${tr`Plugins`}</h2>${d.plugins.length ? html`<ul class="rows big">${d.plugins.map((one: Payload) => this.plugin(one))}</ul>` : empty(tr`No plugins`, rich`They live in the folder ${html`<code>plugins</code>`}; ${html`<code>pal plugins new</code>`} makes one.`)}</section>`;
  }
}
customElements.define("pal-integrations", Integrations);

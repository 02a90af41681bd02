// <pal-setup>: the first run: who answers, where the agent works. A key is tried before it is written down.
import { html, nothing, Part, skeleton, store, type Payload } from "./base";
import type { Refusal } from "./client";
import { SKIPPED } from "./firstrun";
import { icon } from "./icons";
import { BASE } from "./place";
import { told } from "./text";
import { rich, tr } from "./words";

type Way = "key" | "local" | "server";
const PATIENCE = 25_000; // ms until the gateway should be back with the new model
const LOOK = 400; // ms between two looks
const PROGRESS = 1_000; // ms between two looks at how far an import is
const NAMES: Record<string, string> = { openclaw: "OpenClaw", hermes: "hermes", nanobot: "nanobot" };

class Setup extends Part {
  static properties = {
    status: { state: true }, way: { state: true }, provider: { state: true }, busy: { state: true }, problem: { state: true }, kept: { state: true }, homes: { state: true },
  };
  status: Payload | null = null;
  way: Way = "key";
  provider = "";
  busy = ""; // what is being done, for people
  problem = "";
  kept: Payload | null = null; // what did not answer, and could be taken all the same
  homes: Payload[] = []; // of other agent programs on this machine
  private joins = 0;
  private assumed: string[] = []; // what the server does not say of its model

  willUpdate(): void {
    if (this.joins === store.joins || store.client.link !== "open") return;
    this.joins = store.joins;
    if (!this.busy) void this.look();
    void this.find();
  }

  private async find(): Promise<void> {
    if (store.client.has("import.status")) this.homes = (await store.client.request<Payload>("import.status").catch(() => null))?.homes ?? [];
  }

  /** Bring one over. How far it is, is asked meanwhile; the gateway may start anew at the end, then it is asked again. */
  private async bring(home: Payload): Promise<void> {
    this.problem = "";
    const total = Object.values(home.counts as Record<string, number>).reduce((a, b) => a + b, 0);
    const tell = (done: number) => (this.busy = tr`Importing from ${home.program}: ${Math.min(done, total)} of ${total}…`);
    tell(home.done);
    const look = setInterval(() => void this.find().then(() => tell(this.homes.find((one) => one.program === home.program)?.done ?? 0)), PROGRESS);
    try {
      await store.client.request<Payload>("import.start", { program: home.program });
    } catch (error) {
      this.problem = tr`${(error as Refusal).message} What was imported stays; try again to continue.`;
    }
    clearInterval(look);
    this.busy = "";
    await this.find();
    await this.look();
  }

  private offer(home: Payload): unknown {
    const counts = Object.entries((home.counts ?? {}) as Record<string, number>).map(([part, many]) => `${many} ${part}`).join(", ");
    const report: Payload | undefined = home.report;
    return html`<fieldset class="foreign" ?disabled=${Boolean(this.busy)}><legend>${tr`${NAMES[home.program] ?? home.program} is on this machine`}</legend>
      <p class="dim"><code>${home.home}</code>: ${home.problem ?? counts}. ${tr`It is only read, so you can keep using it there.`}</p>
      ${report ? html`<table class="brought"><thead><tr><th></th><th>${tr`found`}</th><th>${tr`kept`}</th><th>${tr`changed`}</th><th>${tr`lost`}</th></tr></thead><tbody>${report.parts.map((row: Payload) => html`<tr><th scope="row">${row.part}</th><td>${row.found}</td><td>${row.kept}</td><td>${row.changed}</td><td>${row.lost}</td></tr>`)}</tbody></table>
        ${report.other.length ? html`<details><summary>${tr`What changed (${report.other.length})`}</summary><ul>${report.other.map((line: Payload) => html`<li>${line.part}: ${line.name}: ${line.why}</li>`)}</ul></details>` : nothing}` : nothing}
      ${home.problem ? nothing : html`<button type="button" class=${report ? "plain" : "primary"} @click=${() => void this.bring(home)}>${report ? tr`Import what is new` : tr`Import everything`}</button>`}</fieldset>`;
  }

  private async look(): Promise<void> {
    const status = await store.ask("setup.status");
    if (!status) return;
    const first = !this.status;
    this.status = status;
    if (!first) return;
    const found = status.providers.find((one: Payload) => one.source);
    this.provider = found?.id ?? status.providers[0]?.id ?? "";
    if (!found && status.local.models.length) this.way = "local";
  }

  private answers(): Payload {
    const form = new FormData(this.querySelector("form")!);
    const said = (name: string) => String(form.get(name) ?? "").trim();
    const made: Payload = { workspace: said("workspace") };
    if (this.way === "key") Object.assign(made, { provider: this.provider, model: said("model"), key: said("key"), baseUrl: said("address") });
    if (this.way === "local") Object.assign(made, { provider: this.status!.local.provider, model: said("model") });
    if (this.way === "server") Object.assign(made, { baseUrl: said("address"), key: said("key") });
    return made;
  }

  private async begin(event: Event): Promise<void> {
    event.preventDefault();
    const chosen = this.answers();
    this.problem = "";
    this.kept = null;
    this.busy = tr`Testing the model…`;
    try {
      const tried = await store.client.request<Payload>("setup.try", chosen);
      this.assumed = tried.assumed ?? [];
      if (tried.ok) return await this.write(chosen);
      this.problem = tr`It does not answer: ${tried.problem}`;
      this.kept = chosen;
    } catch (error) {
      this.problem = (error as Refusal).message;
    }
    this.busy = "";
  }

  private async write(chosen: Payload): Promise<void> {
    this.busy = tr`Saving…`;
    try {
      const done = await store.client.request<Payload>("setup.apply", chosen);
      if (["off", "hot"].includes(done.reload)) {
        this.problem = tr`It is saved. This gateway does not restart by itself: run \`pal gateway restart\`.`;
        this.busy = "";
      } else await this.started(done.model);
    } catch (error) {
      this.problem = (error as Refusal).message;
      this.busy = "";
    }
  }

  /** Wait until the gateway is back with it. */
  private async started(model: string): Promise<void> {
    this.busy = tr`Starting with ${model}…`;
    const late = Date.now() + PATIENCE;
    while (Date.now() < late) {
      await new Promise((done) => setTimeout(done, LOOK));
      const status = await store.client.request<Payload>("setup.status").catch(() => null);
      if (status?.model !== model) continue;
      store.demo = false;
      this.busy = "";
      this.leave([tr`${model} answers from now on.`, ...this.assumed].join(" "));
      return;
    }
    this.busy = "";
    this.problem = tr`It is saved, but the gateway has not started with it yet. The log says why.`;
  }

  private leave(text: string): void {
    store.go("chat", store.main);
    void store.menus();
    void store.load(); // who answers may have changed
    store.toast(text);
  }

  private skip(): void {
    localStorage.setItem(SKIPPED, "1");
    this.leave(tr`The demo model answers. You can connect a real one under Overview at any time.`);
  }

  private tab(way: Way, glyph: string, label: string): unknown {
    return html`<button type="button" aria-pressed=${this.way === way} @click=${() => { this.way = way; this.problem = ""; this.kept = null; }}>${icon(glyph)}<span>${label}</span></button>`;
  }

  private keyed(status: Payload): unknown {
    const provider: Payload = status.providers.find((one: Payload) => one.id === this.provider) ?? {};
    return html`<label>${tr`Provider`}<select name="provider" @change=${(e: Event) => (this.provider = (e.target as HTMLSelectElement).value)}>${status.providers.map((one: Payload) => html`<option value=${one.id} ?selected=${one.id === this.provider}>${one.source ? tr`${one.name} (key found)` : one.name}</option>`)}</select></label>
      <label>${tr`Model`}<select name="model">${(provider.models ?? []).map((one: Payload) => html`<option value=${one.id}>${one.name}</option>`)}</select></label>
      <label class="whole">${tr`API key`}<input name="key" type="password" autocomplete="off" spellcheck="false" ?required=${!provider.source} placeholder=${provider.source ? tr`found in ${provider.source}; leave empty to use it` : tr`stored on this machine, sent only to the provider`}></label>
      <details class="whole"><summary>${tr`Another address`}</summary><label>${tr`Address`}<input name="address" type="url" placeholder=${tr`only behind a proxy of your own`}></label></details>`;
  }

  private local(status: Payload): unknown {
    const { models, name } = status.local;
    if (!models.length) return html`<p class="whole dim">${tr`No ${name} answers on this machine. Start it, pull a model, then`} <button type="button" class="linkish inline" @click=${() => void this.look()}>${tr`look again`}</button>.</p>`;
    return html`<label class="whole">${name}<select name="model">${models.map((one: string) => html`<option value=${one}>${one}</option>`)}</select></label>`;
  }

  private server(): unknown {
    return html`<label class="whole">${tr`Address`}<input name="address" type="url" required placeholder="http://127.0.0.1:8080/v1"></label>
      <label class="whole">${tr`Key, if it wants one`}<input name="key" type="password" autocomplete="off"></label>`;
  }

  private form(status: Payload): unknown {
    const none = this.way === "local" && !status.local.models.length;
    return html`${this.homes.map((home) => this.offer(home))}<form @submit=${(e: Event) => void this.begin(e)}>
      <fieldset ?disabled=${Boolean(this.busy)}><legend><b>1</b> ${tr`Choose a model`}</legend>
        <div class="ways" role="group" aria-label=${tr`Choose a model`}>${this.tab("key", "spark", tr`With an API key`)}${this.tab("local", "terminal", tr`On this machine`)}${this.tab("server", "globe", tr`Another server`)}</div>
        <div class="asks">${this.way === "key" ? this.keyed(status) : this.way === "local" ? this.local(status) : this.server()}</div></fieldset>
      <fieldset ?disabled=${Boolean(this.busy)}><legend><b>2</b> ${tr`Where should the agent keep its files?`}</legend>
        <div class="asks"><label class="whole"><span class="sr">${tr`Workspace`}</span><input name="workspace" spellcheck="false" .value=${status.workspace}></label></div></fieldset>
      <fieldset><legend>${tr`Chat apps`}</legend><p class="dim">${rich`You can add them later under Channels, or with ${html`<code>pal channels add</code>`}.`}</p></fieldset>
      <div role="alert">${this.problem ? html`<p class="banner error">${told(this.problem)}</p>` : nothing}</div>
      <div class="actions">
        ${this.busy ? html`<span class="wait" role="status"><i class="spin" aria-hidden="true"></i>${this.busy}</span>` : html`<button type="submit" class="primary" ?disabled=${none}>${tr`Test and start`}</button>`}
        ${this.kept && !this.busy ? html`<button type="button" class="plain" @click=${() => void this.write(this.kept!)}>${tr`Use it anyway`}</button>` : nothing}
        <span class="grow"></span><button type="button" class="ghost skip-setup" ?disabled=${Boolean(this.busy)} @click=${() => this.skip()}>${tr`Skip: use the demo model`}</button></div>
    </form>`;
  }

  render(): unknown {
    return html`<main class="setup" tabindex="0"><div class="setup-card"><header><img src="${BASE}/favicon.svg" alt=""><div><h1>${store.demo ? tr`Welcome aboard` : tr`Another model`}</h1>
      <p class="dim">${store.demo ? tr`Two questions, and you can start.` : tr`${this.status?.model ?? "…"} answers now.`}</p></div></header>
      ${this.status ? this.form(this.status) : skeleton()}</div></main>`;
  }
}
customElements.define("pal-setup", Setup);

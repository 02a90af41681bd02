// <pal-chat>: the open conversation: its head, the messages, questions that wait, the composer.
import { approvalCard } from "./cards";
import "./canvas";
import { children } from "./children";
import { html, nothing, Part, skeleton, store, type Payload } from "./base";
import "./composer";
import { hints, spoken } from "./attached";
import { icon } from "./icons";
import "./list";
import { act, choices } from "./keep";
import type { List } from "./list";
import { drawn, replace, resend } from "./message";
import { picture, title } from "./sidebar";
import { count, money } from "./text";
import type { Item } from "./transcript";
import "./why";
import { BASE, NAME } from "./place";
import { tr } from "./words";

const IDEAS = [tr`What can you do?`, tr`List the files in the workspace`, tr`Remember that I like short answers`, "/status"];

class Chat extends Part {
  static properties = { edited: { state: true }, naming: { state: true } };
  edited: Item | null = null;
  naming = false;
  private key = "";
  private drawn = (item: Item) => drawn(item, (one) => void this.edit(one));
  private back = () => void store.back();

  private async edit(item: Item): Promise<void> {
    this.edited = item;
    await this.updateComplete;
    const dialog = this.querySelector<HTMLDialogElement>("dialog.edit");
    dialog?.showModal();
  }

  updated(): void {
    this.entitle();
    if (this.key !== store.key) {
      this.key = store.key;
      this.naming = false;
      this.querySelector<List>("pal-list")?.forget();
    }
    const sought = store.sought && store.talk.items.find((item) => item.entry === store.sought);
    if (!sought || store.loading) return;
    store.sought = "";
    void this.querySelector<List>("pal-list")?.updateComplete.then(() => this.querySelector<List>("pal-list")?.show(sought.id));
  }

  private entitle(): void {
    document.title = `${title(store.info.key ? { ...store.info, ...this.row } : { key: store.key })} · Palinurus`;
  }

  private get row(): Payload {
    return store.sessions.find((one) => one.key === store.key) ?? (store.info.key === store.key ? store.info : { key: store.key });
  }

  private async rename(event: Event): Promise<void> {
    const text = (event.target as HTMLInputElement).value.trim();
    if (!this.naming) return;
    this.naming = false;
    if (text !== (this.row.label ?? "")) await store.patch({ label: text || null });
  }

  private async chosen(event: CustomEvent): Promise<void> {
    const key = store.key;
    const acts: Record<string, () => unknown> = {
      rename: () => { this.naming = true; },
      reset: () => store.ask("sessions.reset", { key, reason: "new" }),
      compact: async () => {
        const done = await store.ask("sessions.compact", { key });
        if (done) store.toast(done.message ?? tr`Compacted`);
      },
      copy: () => navigator.clipboard.writeText(key),
      compare: async () => (await import("./compare")).begin(),
    };
    if (acts[event.detail]) await acts[event.detail]!();
    else await act(this.row, event.detail);
    this.requestUpdate();
    if (event.detail === "rename") {
      await this.updateComplete;
      this.querySelector<HTMLInputElement>(".rename")?.select();
    }
  }

  private head(): unknown {
    const row = this.row;
    const info = store.info;
    const used = info.totalTokens && info.contextTokens ? Math.min(1, info.totalTokens / info.contextTokens) : 0;
    const list = [
      ...choices(row), { value: "compare", label: tr`Compare two models…` }, { value: "compact", label: tr`Compact`, hint: tr`summarise older messages` }, { value: "reset", label: tr`Clear conversation`, hint: tr`keeps its name, starts empty` },
      { value: "copy", label: tr`Copy session key` },
    ];
    const parent = info.parentSessionKey ?? info.spawnedBy;
    return html`<header class="chat-head">
      <button type="button" class="ghost icon-only burger" aria-label=${tr`Sessions`} @click=${() => document.body.classList.toggle("side-open")}>${icon("menu")}</button>
      <div class="chat-title">
        ${this.naming
          ? html`<input class="rename" aria-label=${tr`Name of this conversation`} maxlength="120" .value=${row.label ?? title(row)} @blur=${(e: Event) => void this.rename(e)} @keydown=${(e: KeyboardEvent) => { if (e.key === "Enter") void this.rename(e); if (e.key === "Escape") { this.naming = false; e.stopPropagation(); } }}>`
          : html`<h1 title=${store.key} @dblclick=${() => void this.chosen(new CustomEvent("x", { detail: "rename" }))}>${title(row)}</h1>`}
        ${parent ? html`<a class="parent" href="${BASE}/chat/${encodeURIComponent(parent)}">${icon("branch")} ${tr`from ${title(store.sessions.find((one) => one.key === parent) ?? { key: parent })}`}</a>` : nothing}
      </div>
      ${info.estimatedCostUsd ? html`<span class="dim cost">${money(info.estimatedCostUsd)}</span>` : nothing}
      ${used ? html`<span class="meter" role="meter" aria-label=${tr`Context used`} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${Math.round(used * 100)} title=${tr`${count(info.totalTokens)} of ${count(info.contextTokens)} tokens of context`}><i .style=${`width:${Math.round(used * 100)}%`}></i></span>` : nothing}
      ${store.canvas && store.canvasClosed ? html`<button type="button" class="plain small show-canvas" @click=${() => { store.canvasClosed = false; store.changed(); }}>${icon("canvas")} ${tr`Canvas`}</button>` : nothing}
      <pal-menu class="more" label=${tr`Conversation`} shown="" glyph="more" .choices=${list} @choose=${(e: CustomEvent) => void this.chosen(e)}></pal-menu>
    </header>`;
  }

  private welcome(): unknown {
    const agent = store.agents.find((one) => store.key.startsWith(`agent:${one.id}:`));
    const name = agent?.identity?.name ?? agent?.name ?? NAME;
    return html`<div class="welcome">${picture()}<h2>${name === "main" ? NAME : name}</h2>
      <p>${tr`Your agent, on your own machine. It reads and writes in its workspace, runs commands you allow, and remembers.`}</p>
      ${store.demo ? html`<p class="demo-note">${tr`The demo model answers from a script.`} <a href="${BASE}/setup">${tr`Connect a real one`}</a></p>` : nothing}
      <div class="ideas">${IDEAS.map((idea) => html`<button type="button" @click=${() => void store.send(idea)}>${idea}</button>`)}</div></div>`;
  }

  render(): unknown {
    const items = store.talk.all();
    const asks = store.approvals.filter((a) => a.request.sessionKey === store.key && !a.decision);
    const fresh = !items.length && !store.loading && !store.failed && store.client.link === "open";
    const zoom = (event: Event) => {
      const image = event.target as HTMLImageElement;
      if (!image.classList?.contains("zooms") || (event instanceof KeyboardEvent && event.key !== "Enter")) return;
      event.preventDefault();
      void import("./viewer").then((part) => part.viewPicture(image));
    };
    return html`<main class="chat" @click=${zoom} @keydown=${zoom}>
      ${this.head()}
      <div class="stage">
        ${store.failed ? html`<div class="welcome"><h2>${tr`This conversation could not be opened`}</h2><p role="alert">${store.failed}</p><button type="button" class="primary" @click=${() => void store.load()}>${tr`Try again`}</button></div>` : nothing}
        ${store.loading && !items.length ? html`<div class="column">${skeleton()}</div>` : nothing}
        ${fresh ? this.welcome() : nothing}
        <pal-list .items=${items} .drawn=${this.drawn} .ontop=${this.back} ?busy=${store.loading}></pal-list>
      </div>
      <div class="column dock">${asks.map((one) => approvalCard(one))}${children(store.key)}
        <pal-composer @sent=${() => this.querySelector<List>("pal-list")?.end()}></pal-composer></div>
      <div class="sr" role="status" aria-live="polite">${store.talk.running ? tr`The assistant is working` : ""}${store.canvas && !store.canvasClosed ? ` ${tr`A canvas is shown`}` : ""}</div>
      ${this.edited ? this.editor(this.edited) : nothing}
    </main>${store.artifact ? html`<pal-artifact></pal-artifact>` : html`<pal-canvas></pal-canvas>`}${store.panel ? html`<pal-why .panel=${store.panel}></pal-why>` : nothing}`;
  }

  private editor(item: Item): unknown {
    const close = () => (this.edited = null);
    return html`<dialog class="edit" aria-label=${tr`Edit`} @close=${close}>
      <form method="dialog" @submit=${(e: SubmitEvent) => {
        e.preventDefault();
        const text = this.querySelector<HTMLTextAreaElement>("dialog.edit textarea")!.value.trim();
        const apart = (e.submitter as HTMLButtonElement | null)?.value === "branch";
        close();
        if (text) void (apart ? resend(item, text) : replace(item, text));
      }}>
        <h2>${tr`Edit`}</h2><p class="dim">${tr`The conversation goes on from here with your changed message. What was said before stays, one click away.`}</p>
        <textarea rows="6" aria-label=${tr`Your message`} .value=${hints(item.text) ? spoken(item.text) : item.text}></textarea>
        <div class="actions"><button type="button" class="plain" @click=${close}>${tr`Cancel`}</button><button type="submit" class="plain" value="branch">${tr`Send in a new conversation`}</button><button type="submit" class="primary">${tr`Send`}</button></div>
      </form></dialog>`;
  }
}
customElements.define("pal-chat", Chat);

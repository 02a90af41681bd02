// All sessions in a table: open, rename, delete.
import { empty, html, Page, store, type Payload } from "../base";
import { icon } from "../icons";
import { title } from "../sidebar";
import { ago, count } from "../text";
import { tr } from "../words";

class Sessions extends Page {
  heading = tr`Sessions`;
  about = tr`Every conversation, on every channel.`;

  protected async fetch(): Promise<Payload> {
    await store.list();
    return {};
  }

  protected body(): unknown {
    if (!store.sessions.length) return empty(tr`No sessions yet`, tr`They appear with the first message.`);
    return html`<div class="scroll" tabindex="0" role="region" aria-label=${tr`Sessions`}><table class="grid"><thead><tr><th>${tr`Conversation`}</th><th>${tr`Agent`}</th><th>${tr`Model`}</th><th>${tr`Thinking`}</th><th>${tr`Tokens`}</th><th>${tr`Updated`}</th><th><span class="sr">${tr`Actions`}</span></th></tr></thead>
      <tbody>${store.sessions.map((row) => html`<tr>
        <td><a href="/chat/${encodeURIComponent(row.key)}" @click=${(e: Event) => { e.preventDefault(); store.go("chat", row.key); }}>${title(row)}</a><small>${row.key}</small></td>
        <td>${row.key.split(":")[1]}</td><td>${row.model}</td><td>${row.thinkingLevel ?? tr`Inherited: ${row.thinkingDefault ?? "off"}`}</td><td>${count(row.totalTokens)}</td><td>${row.hasActiveRun ? tr`running` : ago(row.updatedAt)}</td>
        <td>${row.key === store.main ? "" : html`<button type="button" class="ghost icon-only" aria-label=${tr`Delete ${title(row)}`} @click=${() => confirm(tr`Delete “${title(row)}”?`) && void store.ask("sessions.delete", { key: row.key })}>${icon("trash")}</button>`}</td></tr>`)}</tbody></table></div>`;
  }
}
customElements.define("pal-sessions", Sessions);

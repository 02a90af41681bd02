// Sub-agents at work, as cards: each with what it says and does now, those below it inside, and a way to stop it.
import { html, nothing } from "lit";
import type { Payload } from "./client";
import { icon } from "./icons";
import { title } from "./sidebar";
import { store } from "./store";
import { took } from "./text";
import { BASE } from "./place";
import { tr } from "./words";

const DEEPEST = 4; // cards in cards; more than that nobody can read

function card(row: Payload, depth: number): unknown {
  const now = store.children[row.key];
  const stop = () => void store.ask("subagents.kill", { sessionKey: row.spawnedBy, target: row.key }).then((done) => done && store.toast(tr`Stopped`));
  const since = row.startedAt ? took(Math.max(0, Date.now() - row.startedAt)) : "";
  return html`<section class="child-card" aria-label=${tr`Sub-agent ${title(row)}`}>
    <header><i class="spin" aria-hidden="true"></i><a href="${BASE}/chat/${encodeURIComponent(row.key)}">${title(row)}</a><span class="dim">${[row.model, since].filter(Boolean).join(" · ")}</span>
      ${store.client.has("subagents.kill") ? html`<button type="button" class="ghost icon-only" aria-label=${tr`Stop ${title(row)}`} title=${tr`Stop`} @click=${stop}>${icon("stop")}</button>` : nothing}</header>
    ${now?.tool ? html`<p class="child-tool">${icon("tool")}<code>${now.tool}</code></p>` : nothing}
    <p class="child-text">${now?.text?.slice(-240) || tr`working…`}</p>
    ${depth < DEEPEST ? below(row.key, depth + 1) : nothing}
  </section>`;
}

function below(key: string, depth: number): unknown {
  return store.sessions.filter((row) => row.spawnedBy === key && row.hasActiveRun).map((row) => card(row, depth));
}

/** The cards of a session. */
export const children = (key: string): unknown => below(key, 1);

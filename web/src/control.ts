// <pal-control>: which page of the control part is in view. Each page is a file in control/.
import { html, LitElement } from "lit";
import { icon } from "./icons";
import "./control/access";
import "./control/agents";
import "./control/channels";
import "./control/config";
import "./control/cron";
import "./control/fleet";
import "./control/logs";
import "./control/memory";
import "./control/overview";
import "./control/sessions";
import "./control/skills";
import "./setup";

const views: Record<string, () => unknown> = {
  overview: () => html`<pal-overview></pal-overview>`,
  channels: () => html`<pal-channels></pal-channels>`,
  sessions: () => html`<pal-sessions></pal-sessions>`,
  agents: () => html`<pal-agents></pal-agents>`,
  skills: () => html`<pal-skills></pal-skills>`,
  memory: () => html`<pal-memory></pal-memory>`,
  cron: () => html`<pal-cron></pal-cron>`,
  fleet: () => html`<pal-fleet></pal-fleet>`,
  access: () => html`<pal-access></pal-access>`,
  config: () => html`<pal-config></pal-config>`,
  setup: () => html`<pal-setup></pal-setup>`,
  logs: () => html`<pal-logs></pal-logs>`,
};

class Control extends LitElement {
  static properties = { view: {} };
  view = "";

  createRenderRoot(): HTMLElement {
    return this;
  }

  render(): unknown {
    const page = Object.hasOwn(views, this.view) ? views[this.view]!() : html`<main class="page"><h1>There is no such page</h1></main>`;
    return html`<button type="button" class="ghost icon-only burger" aria-label="Menu" @click=${() => document.body.classList.toggle("side-open")}>${icon("menu")}</button>${page}`;
  }
}
customElements.define("pal-control", Control);

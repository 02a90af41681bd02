// <pal-control>: which page of the control part is in view. Each page is a file in control/, loaded when it is first opened.
import { html, LitElement, skeleton } from "./base";
import { icon } from "./icons";
import { BASE } from "./place";
import { tr } from "./words";

const views: Record<string, [() => Promise<unknown>, () => unknown]> = {
  overview: [() => import("./control/overview"), () => html`<pal-overview></pal-overview>`],
  usage: [() => import("./control/usage"), () => html`<pal-usage></pal-usage>`],
  channels: [() => import("./control/channels"), () => html`<pal-channels></pal-channels>`],
  sessions: [() => import("./control/sessions"), () => html`<pal-sessions></pal-sessions>`],
  agents: [() => import("./control/agents"), () => html`<pal-agents></pal-agents>`],
  models: [() => import("./control/models"), () => html`<pal-models></pal-models>`],
  skills: [() => import("./control/skills"), () => html`<pal-skills></pal-skills>`],
  integrations: [() => import("./control/integrations"), () => html`<pal-integrations></pal-integrations>`],
  memory: [() => import("./control/memory"), () => html`<pal-memory></pal-memory>`],
  cron: [() => import("./control/cron"), () => html`<pal-cron></pal-cron>`],
  nodes: [() => import("./control/nodes"), () => html`<pal-nodes></pal-nodes>`],
  fleet: [() => import("./control/fleet"), () => html`<pal-fleet></pal-fleet>`],
  access: [() => import("./control/access"), () => html`<pal-access></pal-access>`],
  config: [() => import("./control/config"), () => html`<pal-config></pal-config>`],
  logs: [() => import("./control/logs"), () => html`<pal-logs></pal-logs>`],
  debug: [() => import("./control/debug"), () => html`<pal-debug></pal-debug>`],
  setup: [() => import("./setup"), () => html`<pal-setup></pal-setup>`],
};

class Control extends LitElement {
  static properties = { view: {}, problem: { state: true } };
  view = "";
  problem = "";
  private loaded = new Set<string>();

  createRenderRoot(): HTMLElement {
    return this;
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("view") && Object.hasOwn(views, this.view) && !this.loaded.has(this.view)) void this.load(this.view);
  }

  private async load(view: string): Promise<void> {
    this.problem = "";
    try {
      await views[view]![0]();
      this.loaded.add(view);
    } catch {
      this.problem = tr`This page could not be loaded. Reload to try again.`; // a newer build has other names, or the gateway is away
    }
    this.requestUpdate();
  }

  private page(): unknown {
    if (!Object.hasOwn(views, this.view)) return html`<main class="page"><div class="empty"><h1>${tr`There is no such page`}</h1><p><code>${location.pathname}</code></p><p><a href="${BASE}/">${tr`To the conversations`}</a></p></div></main>`;
    if (this.loaded.has(this.view)) return views[this.view]![1]();
    return html`<main class="page">${this.problem ? html`<p class="banner error" role="alert">${this.problem}</p>` : skeleton()}</main>`;
  }

  render(): unknown {
    return html`<button type="button" class="ghost icon-only burger" aria-label=${tr`Menu`} @click=${() => document.body.classList.toggle("side-open")}>${icon("menu")}</button>${this.page()}`;
  }
}
customElements.define("pal-control", Control);

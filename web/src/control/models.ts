// Models: who answers by default, who steps in, which providers can be used, keys and sign-ins.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { live } from "lit/directives/live.js";
import { fill } from "../form";
import { icon } from "../icons";
import { readConfig, writeConfig } from "../settings";
import { signIn } from "../signin";
import { count, moment, told } from "../text";
import { sure } from "../sure";
import { tr } from "../words";

class Models extends Page {
  heading = tr`Models`;
  about = tr`Which model answers, which steps in when it cannot, and how you pay for them.`;

  protected async fetch(): Promise<Payload> {
    const [models, keys, setup, places, config] = await Promise.all([this.ask("models.list", {}), this.ask("models.authStatus"), this.maybe("setup.status"), this.maybe("models.login.list"), readConfig()]);
    const chosen = config.config?.agents?.defaults?.model;
    return { models: models.models, keys: keys.providers, setup, places, primary: typeof chosen === "string" ? chosen : (chosen?.primary ?? setup?.model ?? ""), fallbacks: typeof chosen === "object" ? (chosen?.fallbacks ?? []) : [] };
  }

  /** `make`: who steps in, from those who do now. */
  private async save(primary: string | null, make = (fallbacks: string[]) => fallbacks): Promise<void> {
    try {
      await writeConfig((config) => {
        const now = config.agents?.defaults?.model;
        const [first, fallbacks] = [primary ?? (typeof now === "string" ? now : now?.primary) ?? this.data!.primary, make(now?.fallbacks ?? [])];
        return { agents: { defaults: { model: fallbacks.length ? { primary: first, fallbacks } : first } } };
      }, ["agents.defaults.model.fallbacks"]);
    } catch (error) {
      store.toast((error as Error).message, "error");
    }
    await this.load();
    void store.menus();
  }

  private add(d: Payload): void {
    const providers: Payload[] = d.setup?.providers ?? [];
    const known = (values: Payload) => values.provider !== "";
    fill({
      title: tr`Add a provider`, word: tr`Test and add`, about: tr`The key is tried before it is stored. It stays on the gateway's machine and is sent only to the provider.`,
      fields: [
        { name: "provider", label: tr`Provider`, kind: "choice", options: [...providers.map((one): [string, string] => [one.id, one.name]), ["", tr`Another server`]] },
        { name: "key", label: tr`API key`, kind: "password", required: true, when: known },
        { name: "baseUrl", label: tr`Address`, kind: "url", required: true, holder: "http://127.0.0.1:8080/v1", when: (values) => !known(values) },
        { name: "serverKey", label: tr`Key, if it wants one`, kind: "password", when: (values) => !known(values) },
        { name: "primary", label: tr`Use it by default`, kind: "check" },
        { name: "anyway", label: tr`Add it even if the test fails`, kind: "check" },
      ],
      send: async (values) => {
        const chosen = { ...(values.provider ? { provider: values.provider, key: values.key } : { baseUrl: values.baseUrl, key: values.serverKey ?? "" }), primary: values.primary };
        const tried = await store.client.request<Payload>("setup.try", chosen);
        if (!tried.ok && !values.anyway) return tr`It does not answer: ${tried.problem}`;
        await store.client.request("setup.apply", chosen);
        store.toast([tr`${tried.model} can be used`, ...(tried.assumed ?? [])].join(" "));
        await this.load();
        return undefined;
      },
    });
  }

  protected tools(): unknown {
    return this.data?.setup ? html`<button type="button" class="primary" @click=${() => this.add(this.data!)}>${icon("plus")} ${tr`Add a provider`}</button>` : nothing;
  }

  private async enter(provider: string, device: boolean): Promise<void> {
    if (await signIn("models", { provider, device })) await this.load();
  }

  private async leave(provider: string): Promise<void> {
    if (!(await sure(tr`Sign out of ${provider}?`, tr`Sign out`))) return;
    const done = await store.ask("models.logout", { provider });
    if (done) store.toast(done.done.join("; "));
    await this.load();
  }

  private places(d: Payload): unknown {
    const rows: Payload[] = d.places?.places ?? [];
    if (!rows.length) return nothing;
    const inside = new Map<string, Payload>((d.places.signIns ?? []).map((one: Payload) => [one.provider, one]));
    return html`<section><h2>${tr`Sign in with a subscription`}</h2><ul class="rows big">${rows.map((one) => {
      const now = inside.get(one.id);
      const ways = String(one.ways).split(" ").filter(Boolean);
      return html`<li><div class="grow"><b>${one.name}</b> ${now ? html`<span class="tag ${now.out ? "bad" : "good"}">${now.out ? tr`signed out` : tr`signed in`}</span>` : nothing}<p>${now ? [now.account, now.expiresAt ? tr`until ${moment(now.expiresAt)}` : ""].filter(Boolean).join(" · ") : told(one.closed)}</p></div>
        ${now ? html`<button type="button" class="danger" @click=${() => void this.leave(one.id)}>${tr`Sign out`}</button>` : nothing}
        ${one.closed ? nothing : ways.map((way) => html`<button type="button" class="plain" aria-label="${way === "device" ? tr`Sign in with a code` : tr`Sign in`}: ${one.name}" @click=${() => void this.enter(one.id, way === "device")}>${way === "device" ? tr`With a code` : tr`Sign in`}</button>`)}</li>`;
    })}</ul></section>`;
  }

  protected body(d: Payload): unknown {
    const models: Payload[] = d.models;
    const ref = (m: Payload) => `${m.provider}/${m.id}`;
    const others = models.filter((m) => ref(m) !== d.primary && !d.fallbacks.includes(ref(m)));
    const pick = (label: string, value: string, list: Payload[], done: (value: string) => void, none = "") => html`<select aria-label=${label} .value=${live(value)} @change=${(e: Event) => done((e.target as HTMLSelectElement).value)}>${none ? html`<option value="">${none}</option>` : nothing}${value && !list.some((m) => ref(m) === value) ? html`<option value=${value} selected>${value}</option>` : nothing}${list.map((m) => html`<option value=${ref(m)} ?selected=${ref(m) === value}>${m.name} (${m.provider})</option>`)}</select>`;
    return html`<section><h2>${tr`By default`}</h2><p>${pick(tr`Default model`, d.primary, models, (value) => void this.save(value))}</p></section>
      <section><h2>${tr`If it cannot answer`}</h2>${d.fallbacks.length ? html`<ul class="rows">${d.fallbacks.map((one: string, at: number) => html`<li><span class="dim">${at + 1}.</span><b>${one}</b><button type="button" class="ghost icon-only" aria-label=${tr`Remove ${one}`} @click=${() => void this.save(null, (now) => now.filter((other) => other !== one))}>${icon("close")}</button></li>`)}</ul>` : nothing}
        <p>${pick(tr`Add a fallback`, "", others, (value) => value && void this.save(null, (now) => [...now.filter((other) => other !== value), value]), tr`Add a fallback…`)}</p></section>
      ${this.places(d)}
      <section><h2>${tr`Providers`}</h2>${d.keys.length ? html`<ul class="rows">${d.keys.map((one: Payload) => html`<li><b>${one.provider}</b><span class="tag good">${tr`ready`}</span><span class="dim">${one.source}</span></li>`)}</ul>` : empty(tr`No provider can be used yet`, tr`Add one with its key, or sign in.`)}</section>
      <section><h2>${tr`All models`}</h2><div class="scroll" tabindex="0" role="region" aria-label=${tr`All models`}><table class="grid"><thead><tr><th>${tr`Model`}</th><th>${tr`Provider`}</th><th>${tr`Context`}</th><th>${tr`Abilities`}</th></tr></thead><tbody>${models.map((m) => html`<tr><td>${m.name}<small>${ref(m)}</small></td><td>${m.provider}</td><td>${count(m.contextWindow)}</td><td>${[m.reasoning ? tr`thinks` : "", m.input?.includes("image") ? tr`sees pictures` : ""].filter(Boolean).join(", ")}</td></tr>`)}</tbody></table></div></section>`;
  }
}
customElements.define("pal-models", Models);

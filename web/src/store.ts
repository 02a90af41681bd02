// What the page knows: the connection, the sessions, the open conversation, questions that wait. Views read it.
import { Client, Refusal, type Payload } from "./client";
import { data, picture, type Attachment } from "./attached";
import { drop, jot, jotted, list, put } from "./kept";
import { BASE } from "./place";
import { uuid } from "./text";
import { Transcript } from "./transcript";
import { tr } from "./words";

export interface Approval {
  id: string;
  request: Payload;
  createdAtMs: number;
  expiresAtMs: number;
  decision?: string;
}

export interface ToastAct {
  label: string;
  run: () => void;
  ms?: number; // how long it is offered
}

export interface Toast {
  id: number;
  text: string;
  act?: ToastAct;
  tone: "info" | "error";
}

/** A message on its way; it is kept by the browser until the gateway has it. */
interface Outgoing {
  run: string;
  key: string;
  text: string;
  files: Attachment[];
  more: Payload;
  at: number;
  failed?: boolean; // the gateway would not take it
  bare?: boolean; // it had files, which are not here
}

const OUTGOING = "outgoing:";
const SLOW = 2_000; // ms: a browser that has not kept a file by then is not waited for
const PAGE = 200; // messages of one look back
const kept = (name: string): any => {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
};

/** The page and the conversation of an address; what is cut off in the middle of a letter is taken as it is. */
export function placed(path: string): [view: string, key: string] {
  const [, view = "", rest = ""] = path.slice(BASE.length).split("/");
  try {
    return [view || "chat", decodeURIComponent(rest) || (view ? "" : store.main)];
  } catch {
    return [view || "chat", rest];
  }
}

export class Store {
  client = new Client();
  sessions: Payload[] = [];
  sessionsLoaded = false;
  older = 0; // sessions that are not listed yet
  tags: Record<string, number> = {}; // which there are, and how many conversations have them
  origins: Record<string, number> = {};
  archived = 0; // how many are put away
  wanted: { tag?: string; channel?: string; archived?: "only" } = {}; // which conversations are listed
  hidden = new Set<string>(); // those about to be deleted
  sought = ""; // an entry to show when the conversation is there
  private listed = 200;
  private here = ""; // the address of what is shown
  key = "";
  view = "chat";
  talk = new Transcript();
  info: Payload = {};
  loading = false;
  failed = "";
  more = false;
  models: Payload[] = [];
  commands: Payload[] = [];
  agents: Payload[] = [];
  approvals: Approval[] = [];
  devices = 0; // requests to pair that wait
  toasts: Toast[] = [];
  drafts: Record<string, string> = kept("drafts") ?? {};
  seen: Record<string, number> = kept("seen") ?? {};
  children: Record<string, { text?: string; tool?: string }> = {}; // what running sub-agents say and do
  panel: { kind: "why" | "trace" | "changes"; item: string; entry?: string } | null = null;
  canvas: { revision: number; title: string; path: string; kind: string } | null = null; // what the agent shows here
  canvasClosed = false; // by the person, until something new is shown
  artifact: { title: string; html: string } | null = null; // a page out of a message, shown beside it
  oncanvas = new EventTarget(); // news of it
  outgoing = new Map<string, Outgoing>();
  beside = new Map<string, Transcript>(); // conversations that are followed besides the open one, by key
  joins = 0;
  guard: () => boolean | Promise<boolean> = () => true; // whether the page in view may be left
  demo = false; // nobody chose a model yet
  onready: () => void = () => {}; // the gateway is there, and may be another than before
  begin: () => Promise<boolean> = async () => false; // whether a first run is wanted
  private listeners = new Set<() => void>();
  private overhearers = new Set<(event: string, payload: Payload) => void>();
  private queued = false;
  private keeping = Promise.resolve(); // the file of a message before
  private rewound = false; // what stands beside the newest message is known at the end of its run
  private lists = 0;
  private relist = 0;
  private loads = 0;
  private held: (() => void)[] | null = null;

  constructor() {
    this.client.onchange = () => this.changed();
    this.client.onevent = (event, payload) => {
      for (const one of this.overhearers) one(event, payload);
      this.event(event, payload);
    };
    this.client.onjoin = (resumed) => void this.joined(resumed);
  }

  listen(listener: () => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  /** Hear of every event as it came. */
  overhear(listener: (event: string, payload: Payload) => void): () => void {
    this.overhearers.add(listener);
    return () => this.overhearers.delete(listener);
  }

  changed(): void {
    if (this.queued) return;
    this.queued = true;
    queueMicrotask(() => {
      this.queued = false;
      for (const listener of this.listeners) listener();
    });
  }

  toast(text: string, tone: Toast["tone"] = "info", act?: ToastAct): void {
    const id = Math.random();
    this.toasts = [...this.toasts.slice(-3), { id, text, tone, act }];
    setTimeout(() => this.untoast(id), act?.ms ?? (tone === "error" || act ? 8000 : 3000));
    this.changed();
  }

  untoast(id: number): void {
    this.toasts = this.toasts.filter((toast) => toast.id !== id);
    this.changed();
  }

  /** Ask the gateway; a refusal is shown and gives null. */
  async ask<T = Payload>(method: string, params: unknown = {}): Promise<T | null> {
    try {
      return await this.client.request<T>(method, params);
    } catch (error) {
      this.toast((error as Refusal).code === "OFFLINE" ? tr`The gateway cannot be reached.` : (error as Error).message, "error");
      return null;
    }
  }

  // --- places ---------------------------------------------------------------------------------------------------

  get main(): string {
    return this.client.hello?.snapshot?.sessionDefaults?.mainSessionKey ?? "agent:main:main";
  }

  go(view: string, key = "", entry = ""): void {
    const may = this.guard();
    if (may instanceof Promise) void may.then((yes) => yes && this.move(view, key, entry));
    else if (may) this.move(view, key, entry);
  }

  private move(view: string, key: string, entry: string): void {
    this.sought = entry;
    const path = [BASE, view, ...(view === "chat" ? [encodeURIComponent(key || this.key || this.main)] : key ? [encodeURIComponent(key)] : [])].join("/");
    if (path !== location.pathname) history.pushState(null, "", path);
    this.route();
  }

  /** Back or forward: what is not saved is asked about first, at the address it belongs to. */
  async stepped(): Promise<void> {
    const may = this.guard();
    if (may instanceof Promise) {
      const to = location.pathname;
      history.pushState(null, "", this.here);
      if (!(await may)) return;
      history.replaceState(null, "", to);
    }
    this.route();
  }

  route(): void {
    this.here = location.pathname;
    const [view, named] = placed(location.pathname);
    this.view = view;
    this.panel = null;
    const key = named || this.main;
    if (view === "chat" && key !== this.key) void this.open(key);
    this.changed();
  }

  async open(key: string): Promise<void> {
    const before = this.key;
    this.key = key;
    this.talk = new Transcript();
    this.info = this.sessions.find((row) => row.key === key) ?? {};
    this.more = false;
    this.failed = "";
    this.canvas = null;
    this.canvasClosed = false;
    this.artifact = null;
    for (const out of this.outgoing.values()) this.show(out);
    this.looked(key);
    if (this.client.link !== "open") return;
    if (before && before !== key) void this.client.request("sessions.messages.unsubscribe", { key: before }).catch(() => {});
    await this.load();
  }

  /** Read the open conversation from the gateway. What happens meanwhile is held back and told after it. */
  async load(): Promise<void> {
    const key = this.key;
    const turn = ++this.loads;
    this.loading = true;
    this.held ??= [];
    this.changed();
    void this.look();
    try {
      await this.client.request("sessions.messages.subscribe", { key });
      const answer = await this.client.request<Payload>("chat.history", { sessionKey: key, limit: PAGE });
      if (turn !== this.loads || key !== this.key) return;
      this.key = answer.sessionKey ?? key;
      this.talk.reset(answer);
      this.info = { ...this.info, ...answer.sessionInfo, defaults: answer.defaults };
      this.more = (answer.messages?.[0]?.__openclaw?.seq ?? 1) > 1;
      this.failed = "";
    } catch (error) {
      if ((error as Refusal).code !== "OFFLINE") this.failed = (error as Error).message;
    } finally {
      if (turn === this.loads) {
        this.loading = false;
        const held = this.held ?? [];
        this.held = null;
        for (const act of held) act();
      }
      this.changed();
    }
  }

  /** What the agent shows beside the open conversation. */
  async look(): Promise<void> {
    const key = this.key;
    if (!this.client.has("canvas.get")) return;
    const found = await this.client.request<Payload>("canvas.get", { sessionKey: key }).catch(() => null);
    if (key !== this.key || !found) return;
    if (found.shown && found.revision !== this.canvas?.revision) this.canvasClosed = false;
    this.canvas = found.shown ? (found as any) : null;
    this.changed();
  }

  /** Older messages, when somebody scrolls up to them. */
  async back(): Promise<boolean> {
    if (!this.more || this.loading || this.held) return false;
    this.more = false;
    const talk = this.talk;
    try {
      const params = { sessionKey: this.key, limit: 1000, before: talk.oldest };
      const answer = await this.client.request<Payload>("chat.history", params);
      if (talk !== this.talk) return false;
      talk.prepend(answer.messages ?? []);
      this.more = (answer.messages?.[0]?.__openclaw?.seq ?? 1) > 1;
      this.changed();
      return true;
    } catch {
      return false; // a gateway that cannot look further back shows what it has
    }
  }

  /** Load older messages until the entry that is looked for is among them; the list then shows it. */
  async seek(): Promise<void> {
    const wanted = this.sought;
    while (wanted && wanted === this.sought && !this.talk.items.some((item) => item.entry === wanted)) {
      if (this.loading || this.held) await new Promise((done) => setTimeout(done, 50));
      else if (!this.more || !(await this.back())) break;
    }
    this.changed();
  }

  // --- joining --------------------------------------------------------------------------------------------------

  private async joined(resumed: boolean): Promise<void> {
    this.joins++;
    const client = this.client;
    if (["", "/", "/chat"].includes(location.pathname.slice(BASE.length))) history.replaceState(null, "", `${BASE}/chat/${encodeURIComponent(this.main)}`);
    void client.request("sessions.subscribe").catch(() => {});
    void this.pending();
    if (this.key) void this.look(); // also after a moment without a connection: news of it are not kept
    if (resumed) return;
    void this.list();
    const first = !this.key;
    this.route();
    if (this.joins === 1 && this.view === "chat") void this.begin().then((yes) => yes && this.view === "chat" && this.go("setup"));
    if (!first && this.view === "chat") void this.load();
    await this.menus();
    this.onready();
  }

  /** What can be chosen: models, commands, agents. */
  async menus(): Promise<void> {
    const quiet = <T>(method: string) => this.client.request<T>(method, {}).catch(() => null);
    const [metadata, agents] = await Promise.all([quiet<Payload>("chat.metadata"), quiet<Payload>("agents.list")]);
    this.models = metadata?.models ?? [];
    this.commands = metadata?.commands ?? [];
    this.agents = agents?.agents ?? [];
    this.changed();
  }

  private async pending(): Promise<void> {
    const lists = ["exec.approval.list", "plugin.approval.list"].filter((name) => this.client.has(name));
    const found = await Promise.all(lists.map((name) => this.client.request<Approval[]>(name).catch(() => [] as Approval[])));
    this.approvals = found.flat();
    const pairs = await this.client.request<Payload>("device.pair.list").catch(() => null);
    this.devices = pairs?.pending?.length ?? 0;
    this.changed();
  }

  async list(): Promise<void> {
    const turn = ++this.lists;
    const params = { limit: this.listed, includeDerivedTitles: true, includeLastMessage: true, pinnedFirst: true, includeFacets: true, ...this.wanted };
    const answer = await this.client.request<Payload>("sessions.list", params).catch(() => null);
    if (!answer || turn !== this.lists) return;
    this.sessions = answer.sessions;
    this.tags = answer.tags ?? {};
    this.origins = answer.channels ?? {};
    this.archived = answer.archivedCount ?? 0;
    this.older = (answer.totalCount ?? 0) - this.sessions.length;
    this.sessionsLoaded = true;
    for (const row of this.sessions) this.seen[row.key] ??= row.updatedAt ?? 0;
    this.changed();
  }

  /** List others than before. */
  filter(change: Store["wanted"]): void {
    this.wanted = change;
    this.listed = 200;
    void this.list();
    this.changed();
  }

  listMore(): void {
    this.listed += 200;
    void this.list();
  }

  // --- events ---------------------------------------------------------------------------------------------------

  private event(event: string, payload: Payload): void {
    const act = () => this.take(event, payload);
    if (this.held && payload.sessionKey === this.key) this.held.push(act);
    else act();
    this.changed();
  }

  private take(event: string, payload: Payload): void {
    const here = payload.sessionKey === this.key;
    const beside = this.beside.get(payload.sessionKey);
    if (beside) this.follow(beside, event, payload);
    if (event === "session.message" && here) this.talk.commit(payload.message);
    else if ((event === "agent" || event === "session.tool") && here) this.talk.agent(payload);
    else if (event === "agent" && payload.stream === "item") this.does(payload);
    else if (event === "chat") this.said(payload, here);
    else if (event === "sessions.changed") this.row(payload);
    else if (event === "session.operation" && here && payload.operation === "steer") this.talk.mark(payload.runId, "taken");
    else if (event.endsWith(".approval.requested")) this.approvals = [...this.approvals.filter((a) => a.id !== payload.id), payload as Approval];
    else if (event.endsWith(".approval.resolved")) this.approvals = this.approvals.map((a) => (a.id === payload.id ? { ...a, decision: payload.decision ?? "expired" } : a));
    else if (event.startsWith("device.pair.")) void this.pending();
    else if (event === "canvas" && here) this.oncanvas.dispatchEvent(new CustomEvent("canvas", { detail: payload }));
    this.changed();
  }

  /** A conversation that is shown beside the open one: two models that are compared. */
  private follow(talk: Transcript, event: string, payload: Payload): void {
    if (event === "session.message") talk.commit(payload.message);
    else if (event === "agent" || event === "session.tool") talk.agent(payload);
    else if (event === "chat" && payload.state !== "delta") talk.end(payload);
  }

  private said(payload: Payload, here: boolean): void {
    if (payload.state === "delta") {
      if (!here) this.children[payload.sessionKey] = { text: (payload.message?.content?.[0]?.text ?? "").slice(-400) };
      return;
    }
    delete this.children[payload.sessionKey];
    if (payload.message?.command) void this.refresh(payload.sessionKey); // a directive may have changed a level
    const look = here && this.talk.end(payload);
    if (here && this.rewound) {
      this.rewound = false;
      void this.load();
    }
    if (!look) return;
    const talk = this.talk;
    // The lines on disk follow at once; if they do not, look.
    setTimeout(async () => {
      const waits = talk.unsent.some((p) => p.run === payload.runId);
      if (talk !== this.talk || !(talk.live?.over || waits)) return;
      await this.load();
      talk.answered(payload.runId);
      this.changed();
    }, 900);
  }

  /** A tool of a run elsewhere begins or ends. */
  private does(payload: Payload): void {
    const { phase, name, title: shown } = payload.data ?? {};
    const now = (this.children[payload.sessionKey] ??= {});
    now.tool = phase === "end" ? undefined : [name, shown === name ? "" : shown].filter(Boolean).join(" ");
  }

  private row(payload: Payload): void {
    const key = payload.sessionKey;
    if (payload.reason === "delete") {
      this.sessions = this.sessions.filter((row) => row.key !== key);
      if (key === this.key && this.view === "chat") this.evict();
      return;
    }
    if (!payload.session) return;
    const old = this.sessions.find((row) => row.key === key);
    // The gateway's rows hold no titles; a level that was cleared is missing, so the rest is taken whole.
    const row = { ...payload.session, hasActiveRun: payload.hasActiveRun, derivedTitle: old?.derivedTitle, lastMessagePreview: old?.lastMessagePreview, from: old?.from };
    const rest = this.sessions.filter((one) => one.key !== key);
    const listed = old || (!this.wanted.tag && !this.wanted.channel && !this.wanted.archived); // else the gateway knows whether it belongs here
    this.sessions = (listed && Boolean(row.archived) === (this.wanted.archived === "only") ? [row, ...rest] : rest).sort((a, b) => Number(b.pinned ?? 0) - Number(a.pinned ?? 0) || (b.updatedAt ?? 0) - (a.updatedAt ?? 0));
    if (key === this.key) {
      this.info = { ...row, defaults: this.info.defaults };
      this.looked(key);
    }
    if (payload.reason === "reset" && key === this.key) this.canvas = null;
    if (["reset", "rewind", "queue"].includes(payload.reason) && key === this.key) void this.load();
    const edge = payload.phase === "end" || payload.phase === "error";
    if (old?.derivedTitle && !edge) return;
    clearTimeout(this.relist); // many may change at once
    this.relist = window.setTimeout(() => void this.list(), 300);
  }

  /** The open conversation was deleted elsewhere: on to the main one, with what was being written. */
  private evict(): void {
    const typed = this.drafts[this.key];
    this.draft("");
    this.go("chat", this.main);
    if (typed && !this.drafts[this.key]) this.draft(typed);
    this.toast(tr`This conversation was deleted elsewhere.`);
  }

  looked(key: string): void {
    const row = this.sessions.find((one) => one.key === key);
    this.seen[key] = Math.max(Date.now(), row?.updatedAt ?? 0);
    jot("seen", this.seen);
  }

  unread(row: Payload): boolean {
    return row.key !== this.key && (row.updatedAt ?? 0) > (this.seen[row.key] ?? 0) && !row.hasActiveRun;
  }

  // --- acts -----------------------------------------------------------------------------------------------------

  async send(text: string, files: Attachment[] = [], more: Payload = {}): Promise<void> {
    const out: Outgoing = { run: uuid(), key: this.key, text, files, more, at: Date.now() };
    this.outgoing.set(out.run, out);
    jot(OUTGOING + out.run, { ...out, files: [], bare: files.length > 0 });
    const whole = put(OUTGOING + out.run, out);
    if (files.length) this.keeping = Promise.race([whole, new Promise<void>((done) => setTimeout(done, SLOW))]); // what is shown is kept
    await this.keeping; // in their order
    this.show(out);
    await this.deliver(out);
  }

  /** What was written before this page was opened and is not with the gateway yet. */
  async restore(): Promise<void> {
    const whole = await list<Outgoing>(OUTGOING);
    const jots = jotted<Outgoing>(OUTGOING).filter((one) => !whole.some((out) => out.run === one.run));
    for (const { run, key, text } of jots.filter((one) => one.bare)) { // nothing is sent without its files
      this.drafts[key] ??= text;
      jot("drafts", this.drafts);
      this.forget(run);
    }
    for (const out of [...whole, ...jots.filter((one) => !one.bare)].sort((a, b) => a.at - b.at)) {
      this.outgoing.set(out.run, out);
      this.show(out);
      if (!out.failed) void this.deliver(out);
    }
  }

  private show(out: Outgoing): void {
    if (out.key !== this.key) return;
    this.talk.send(out.run, out.text, out.files.filter(picture).map(data), out.files);
    if (out.failed) this.talk.mark(out.run, "failed");
    this.changed();
  }

  /** Bring it to the gateway. Asked twice it is taken once: the run's name is its key. */
  private async deliver(out: Outgoing): Promise<void> {
    const sent = out.files.map((a) => ({ type: picture(a) ? "image" : "file", mimeType: a.mimeType, fileName: a.name, content: a.content, ...(a.voice ? { voice: true } : {}) }));
    const params = { sessionKey: out.key, message: out.text, idempotencyKey: out.run, ...(sent.length ? { attachments: sent } : {}), ...out.more };
    try {
      const answer = await this.client.request<Payload>("chat.send", params, true);
      this.forget(out.run);
      if (out.key === this.key) this.talk.mark(out.run, answer.aborted !== undefined || answer.status === "ok" ? null : "waiting", answer.after);
    } catch (error) {
      out.failed = true;
      void put(OUTGOING + out.run, out);
      if (out.key === this.key) this.talk.mark(out.run, "failed");
      this.toast((error as Error).message, "error");
    }
    this.changed();
  }

  private forget(run: string): void {
    this.outgoing.delete(run);
    localStorage.removeItem(OUTGOING + run);
    void drop(OUTGOING + run);
  }

  /** Take back a message that waits, here or at the gateway. Whether it could be. */
  async takeBack(run: string): Promise<boolean> {
    const here = this.outgoing.get(run)?.failed;
    if (!here && !(await this.ask("chat.abort", { sessionKey: this.key, runId: run }))?.aborted) return false;
    this.forget(run);
    this.talk.mark(run, null);
    this.changed();
    return true;
  }

  /** Put a message that waits before or behind its neighbour; or have the run that goes on read it. */
  async arrange(run: string, how: "up" | "down" | "steer"): Promise<void> {
    const order = this.talk.line;
    const at = order.indexOf(run);
    const to = how === "up" ? at - 1 : at + 1;
    if (how !== "steer") [order[at], order[to]] = [order[to]!, order[at]!];
    const key = this.key;
    const answer = await this.ask("chat.queue", { sessionKey: key, ...(how === "steer" ? { steer: run } : { order }) });
    if (!answer || key !== this.key) return;
    if (how === "steer" && !answer.steered) this.toast(tr`This reply reads nothing more; it is answered next.`);
    this.talk.wait(answer.queued);
    this.changed();
  }

  /** Say something in the place of an earlier message; what was said there before stays beside it. */
  async instead(entry: string, text: string, more: Payload = {}, files: Attachment[] = []): Promise<void> {
    const key = this.key;
    if (!(await this.ask("sessions.rewind", { key, entry, before: true })) || key !== this.key) return;
    await this.load();
    this.rewound = true;
    await this.send(text, files, more);
  }

  /** Go to what else was said in a place. */
  async version(entry: string): Promise<void> {
    if (await this.ask("sessions.rewind", { key: this.key, entry, newest: true })) await this.load();
  }

  stop(): void {
    void this.ask("chat.abort", { sessionKey: this.key });
  }

  async patch(change: Payload): Promise<void> {
    const key = this.key;
    if (await this.ask("sessions.patch", { key, ...change })) await this.refresh(key);
  }

  /** What applies to a session may have changed: look. */
  private async refresh(key: string): Promise<void> {
    const answer = await this.client.request<Payload>("sessions.describe", { key }).catch(() => null);
    if (answer?.session) this.row({ sessionKey: key, session: answer.session, hasActiveRun: answer.session.hasActiveRun });
    this.changed();
  }

  async create(agent?: string): Promise<void> {
    const [before, had] = [this.key, this.drafts[this.key]];
    // One that nobody wrote into yet is as good as a new one.
    const empty = agent ? undefined : this.sessions.find((row) => row.key !== this.main && /:(?:dashboard|web):[0-9a-f-]+$/.test(row.key) && !row.label && !row.lastMessagePreview && !row.hasActiveRun && (!row.derivedTitle || row.derivedTitle === row.key));
    const made = empty ?? (await this.ask("sessions.create", agent ? { agentId: agent } : {}));
    if (made && this.wanted.tag) { // begun in a tag, it has it
      await this.ask("sessions.patch", { key: made.key, tags: [this.wanted.tag] });
      await this.list();
    }
    const typed = this.drafts[before];
    if (made && typed && typed !== had && before === this.key && made.key !== before) { // typed while it was made: it is for the new one
      this.drafts[made.key] = typed;
      this.draft(had ?? "");
    }
    if (made) this.go("chat", made.key);
  }

  /** A new conversation with what was said before `entry`; then `text` is said in it. */
  async branch(entry: string | undefined, text: string | null, before = true, more: Payload = {}, files: Attachment[] = []): Promise<void> {
    const made = await this.ask("sessions.branch", { key: this.key, ...(entry ? { entryId: entry, before } : {}) });
    if (!made) return;
    this.go("chat", made.key);
    if (text !== null) await this.send(text, files, more);
    else this.toast(tr`This is a new branch; the other conversation is unchanged.`);
  }

  async decide(approval: Approval, decision: string): Promise<void> {
    const family = approval.id.startsWith("plugin:") ? "plugin" : "exec";
    const done = await this.ask(`${family}.approval.resolve`, { id: approval.id, decision });
    if (done) {
      this.approvals = this.approvals.map((a) => (a.id === approval.id ? { ...a, decision } : a));
      this.toast({ "allow-once": tr`Allowed once`, "allow-always": tr`Always allowed`, deny: tr`Denied` }[decision] ?? decision);
    }
    this.changed();
  }

  draft(text: string): void {
    if (text) this.drafts[this.key] = text;
    else delete this.drafts[this.key];
    jot("drafts", this.drafts);
  }
}

export const store = new Store();

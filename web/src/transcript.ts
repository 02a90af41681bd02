// One conversation as the page shows it: what is on disk, what is being said, what waits. Events in, items out; no I/O.
import type { Payload } from "./client";
import { hints, type Attachment, type FileRef } from "./attached";
import { plain, uuid } from "./text";
import { tr } from "./words";

export interface Tool {
  id: string;
  name: string;
  args: unknown;
  output: string;
  images: string[];
  diff?: string; // what it changed in a file
  source?: string; // where words in its output came from
  state: "running" | "done" | "failed";
  started: number;
  ended: number;
}

export type Block = { type: "text" | "thinking"; text: string } | { type: "tool"; tool: Tool };

export interface Item {
  id: string;
  kind: "user" | "assistant" | "note" | "summary" | "told";
  program?: string; // what the program told the agent
  blocks: Block[];
  text: string;
  images: string[];
  files?: FileRef[]; // of a message that is on its way
  given?: Attachment[]; // the same with all that was attached, to send it again
  at: number;
  model?: string;
  usage?: Payload;
  error?: string;
  stop?: string;
  live?: boolean;
  tone?: "error" | "info";
  entry?: string; // its line in the transcript
  item?: string; // the message it answers, in the inbox
  seq?: number;
  wait?: Wait;
  after?: boolean; // it waits for the end of the run, rather than being read by it
  carries?: number; // files that came with it, to be asked for
  bound?: boolean; // it has pictures that are not here: it cannot be written anew
  versions?: string[]; // what was said in its place, itself among it
  source?: string; // who wrote it, where that is not the owner
  last?: boolean; // the last of a turn: carries the buttons
}

export type Wait = "sending" | "waiting" | "taken" | "failed";

interface Pending {
  run: string;
  said: string; // what its line on disk will hold
  item: Item;
}

interface Live {
  run: string;
  blocks: Block[];
  over: boolean;
  status?: string; // why nothing comes
}

const data = (block: Payload): string => `data:${block.mimeType};base64,${block.data}`;
const pictures = (content: unknown): string[] =>
  Array.isArray(content) ? content.filter((b) => b.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(b.mimeType)).map(data) : [];

export class Transcript {
  items: Item[] = [];
  live: Live | null = null;
  private pending: Pending[] = [];
  private known = new Set<string>();
  private taken = new Set<string>(); // runs and inbox items that are lines: a list of what waits may be older than they are
  private tools = new Map<string, Tool>();
  private shown: Item[] | null = null;
  private notes = 0;

  /** Everything to show, in order. The same array until something changes. */
  all(): Item[] {
    if (this.shown) return this.shown;
    const current = this.pending.filter((p) => p.run === this.live?.run);
    const later = this.pending.filter((p) => p.run !== this.live?.run);
    const made = [...this.items, ...current.map((p) => p.item)];
    if (this.live && (this.live.blocks.length || !this.live.over)) {
      const id = `live:${this.live.run}`;
      made.push({ id, kind: "assistant", blocks: this.live.blocks, text: "", images: [], at: 0, live: true });
    }
    made.push(...later.map((p) => p.item));
    made.forEach((item, at) => {
      const next = made[at + 1];
      item.last = item.kind === "assistant" && !item.live && next?.kind !== "assistant";
    });
    this.shown = made;
    return made;
  }

  get running(): boolean {
    return Boolean(this.live && !this.live.over);
  }

  /** Whether a tool is at work. */
  get busy(): boolean {
    return [...this.tools.values()].some((tool) => tool.state === "running");
  }

  get oldest(): number {
    return this.items.find((item) => item.seq)?.seq ?? 1;
  }

  touch(): void {
    this.shown = null;
  }

  /** Begin again from what is on disk. */
  reset(answer: Payload): void {
    this.touch();
    // What failed is told by the lines themselves.
    const notes = this.items.filter((item) => (item.kind === "note" && item.tone !== "error") || (item.kind === "user" && !item.entry));
    this.items = [];
    this.known.clear();
    const running = [...this.tools.values()].filter((tool) => tool.state === "running");
    for (const message of answer.messages ?? []) this.commit(message);
    for (const note of notes) this.place(note);
    this.wait(answer.queued ?? []);
    const flight = answer.inFlightRun;
    if (!flight) {
      this.live = null;
      return;
    }
    let text: string = flight.text ?? "";
    for (const item of this.items.slice(this.items.findLastIndex((one) => one.kind === "user") + 1)) {
      const said = item.blocks.map((b) => (b.type === "text" ? b.text : "")).join("");
      if (said && text.startsWith(said)) text = text.slice(said.length);
    }
    const kept = new Set(this.items.flatMap((item) => item.blocks.map((b) => (b.type === "tool" ? b.tool : null))));
    const blocks: Block[] = running.filter((tool) => tool.state === "running" && !kept.has(tool)).map((tool) => ({ type: "tool", tool }));
    if (text.trim()) blocks.push({ type: "text", text });
    this.live = { run: flight.runId, blocks, over: false };
  }

  /** Messages that wait on the gateway, in their order there: those sent from here, from elsewhere, or before this page was loaded. */
  wait(queued: Payload[]): void {
    this.touch();
    for (const one of queued) {
      if (this.taken.has(one.runId) || this.taken.has(one.item)) continue;
      const known = this.pending.find((p) => p.run === one.runId);
      if (known) known.item = { ...known.item, after: one.after, item: one.item };
      else this.pending.push({ run: one.runId, said: one.text.trim(), item: { id: `sent:${one.runId}`, kind: "user", blocks: [], text: one.text, images: [], at: one.at, wait: "waiting", after: one.after, item: one.item, carries: one.files, bound: one.images > 0 } });
    }
    const place = (p: Pending) => queued.findIndex((one) => one.runId === p.run) + 1 || queued.length + 1;
    this.pending.sort((a, b) => place(a) - place(b));
  }

  /** Those that wait for the end of the run and can be moved, in their order. */
  get line(): string[] {
    return this.pending.filter((p) => p.item.after && p.item.wait === "waiting").map((p) => p.run);
  }

  /** Older lines, put in front. */
  prepend(messages: Payload[]): void {
    const now = this.items;
    this.items = [];
    for (const message of messages) this.commit(message);
    this.items = [...this.items, ...now];
    this.touch();
  }

  /** A line of the transcript. */
  commit(message: Payload): void {
    const ours = message.__openclaw ?? {};
    if (ours.id && this.known.has(ours.id)) return;
    if (ours.id) this.known.add(ours.id);
    this.touch();
    const base = { id: ours.id ?? uuid(), entry: ours.id, seq: ours.seq, item: message.item, at: message.timestamp ?? 0 };
    if (message.role === "toolResult") this.result(message);
    else if (message.role === "user") this.user(message, base);
    else if (message.role === "assistant") this.assistant(message, base);
    else this.items.push({ ...base, kind: "summary", blocks: [], text: plain(message.content), images: [] });
  }

  private place(item: Item): void {
    const at = this.items.findIndex((one) => one.at > item.at);
    if (at < 0) this.items.push(item);
    else this.items.splice(at, 0, item);
  }

  private user(message: Payload, base: Payload): void {
    const text = plain(message.content);
    if (message.program) { // the program's words to the agent, not a person's
      this.items.push({ ...(base as Item), kind: "told", blocks: [], text, images: [], program: message.program });
      return;
    }
    // What files came along stands in the text; around a person's words there may be more that is not theirs.
    const shown = message.spoken && !hints(text) ? message.spoken : text;
    this.items.push({ ...(base as Item), kind: "user", blocks: [], text: shown, images: pictures(message.content), versions: message.versions, source: message.source });
    if (message.failed) this.items.push({ id: `failed:${base.id}`, kind: "note", blocks: [], text: message.failed, images: [], at: base.at, tone: "error" });
    if (message.item) this.taken.add(message.item);
    const same = (p: Pending) => text.includes(p.said) && p.item.wait !== "failed";
    const own = this.pending.find((p) => p.item.item && p.item.item === message.item) ?? this.pending.find(same);
    if (!own) return;
    this.taken.add(own.run);
    this.pending = this.pending.filter((p) => p !== own);
  }

  private assistant(message: Payload, base: Payload): void {
    const blocks: Block[] = [];
    for (const block of Array.isArray(message.content) ? message.content : []) {
      if (block.type === "text") blocks.push({ type: "text", text: block.text });
      if (block.type === "thinking") blocks.push({ type: "thinking", text: block.thinking });
    }
    for (const call of message.toolCalls ?? []) {
      const tool = this.tool(call.id, call.name, call.arguments);
      tool.started ||= message.timestamp;
      blocks.push({ type: "tool", tool });
    }
    const error = message.stopReason === "error" ? message.errorMessage || tr`The model failed.` : undefined;
    const model = message.model && message.model !== "gateway-injected" ? `${message.provider}/${message.model}` : undefined;
    if (error) this.items = this.items.filter((item) => !(item.kind === "note" && item.tone === "error" && item.text === error)); // told while it came
    if (blocks.length || error)
      this.items.push({ ...(base as Item), kind: "assistant", blocks, text: "", images: [], model, usage: message.usage, error, stop: message.stopReason });
    if (this.live) this.settled(blocks);
  }

  /** What is on disk now need not be shown as coming any more. */
  private settled(blocks: Block[]): void {
    const live = this.live!;
    const drop = (type: string) => {
      const at = live.blocks.findIndex((block) => block.type === type);
      if (at >= 0) live.blocks.splice(at, 1);
    };
    for (const type of ["text", "thinking"]) if (blocks.some((block) => block.type === type)) drop(type);
    live.blocks = live.blocks.filter((b) => b.type !== "tool" || !blocks.some((o) => o.type === "tool" && o.tool.id === b.tool.id));
    if (live.over && !live.blocks.some((b) => b.type === "text")) this.live = null;
  }

  private result(message: Payload): void {
    const tool = this.tool(message.toolCallId, message.toolName, undefined);
    tool.output = plain(message.content);
    tool.images = pictures(message.content);
    tool.diff = message.details?.diff;
    tool.source = message.source;
    tool.state = message.isError ? "failed" : "done";
    tool.ended ||= message.timestamp ?? 0;
  }

  /** What a tool showed: pictures of a page, of a camera, of a canvas. */
  seen(call: string): string[] {
    return this.tools.get(call)?.images ?? [];
  }

  private tool(id: string, name: string, args: unknown): Tool {
    let tool = this.tools.get(id);
    if (!tool) {
      tool = { id, name, args, output: "", images: [], state: "running", started: 0, ended: 0 };
      this.tools.set(id, tool);
    }
    if (args !== undefined) tool.args = args;
    return tool;
  }

  // --- what is being said ---------------------------------------------------------------------------------------

  private run(id: string): Live {
    if (!this.live || (this.live.over && this.live.run !== id)) this.live = { run: id, blocks: [], over: false };
    return this.live;
  }

  /** An event of the stream `agent` (or `session.tool`). */
  agent(event: Payload): void {
    this.touch();
    const { stream, data: told, runId } = event;
    if (stream === "lifecycle" && told.phase === "start") this.run(runId);
    if (stream === "assistant") this.said(runId, told.text, Boolean(told.replace));
    if (stream === "thinking") this.thought(runId, told.delta ?? "");
    if (stream === "tool") this.called(runId, told, event.ts);
    if (stream === "status") this.run(runId).status = told.text;
    else if (this.live && stream !== "lifecycle") this.live.status = undefined;
  }

  private said(run: string, text: string, replace: boolean): void {
    const live = this.run(run);
    if (live.over) return;
    const last = live.blocks.at(-1);
    if (last?.type === "text" && (replace || text.startsWith(last.text))) last.text = text;
    else if (text) live.blocks.push({ type: "text", text });
  }

  private thought(run: string, delta: string): void {
    const live = this.run(run);
    const last = live.blocks.at(-1);
    if (last?.type === "thinking") last.text += delta;
    else live.blocks.push({ type: "thinking", text: delta });
  }

  private called(run: string, told: Payload, at: number): void {
    const fresh = !this.tools.has(told.toolCallId);
    const tool = this.tool(told.toolCallId, told.name, told.args);
    if (fresh) this.run(run).blocks.push({ type: "tool", tool });
    if (told.phase === "start") tool.started = at;
    if (told.phase === "update") tool.output = plain(told.partialResult?.content);
    if (told.phase === "result") {
      tool.output = plain(told.result?.content) || tool.output;
      tool.images = pictures(told.result?.content);
      tool.diff = told.result?.details?.diff;
      tool.state = told.isError ? "failed" : "done";
      tool.ended = at;
      if (told.durationMs) tool.started = at - told.durationMs; // the two events may travel together
    }
  }

  /** A run came to its end. Returns whether the page should look at the disk again if nothing more comes. */
  end(event: Payload): boolean {
    this.touch();
    const text = plain(event.message?.content);
    if (event.message?.command) {
      this.answered(event.runId);
      if (text) this.note(text, "info");
      return false;
    }
    if (event.state === "aborted" && event.runId !== this.live?.run && this.pending.some((p) => p.run === event.runId && p.item.wait === "waiting")) {
      this.mark(event.runId, null); // taken back, perhaps in another tab
      return false;
    }
    for (const notice of event.notices ?? []) this.note(String(notice), "info");
    if (event.state === "error") this.note(event.errorMessage ?? tr`The run failed.`, "error");
    const live = this.live;
    if (live && live.run === event.runId) {
      live.over = true;
      // Its lines may be here already: a page that came in the middle reads them before it is told of the run.
      const since = this.items.slice(this.items.findLastIndex((one) => one.kind === "user") + 1).flatMap((one) => one.blocks);
      const here = (b: Block) => b.type === "tool" || since.some((o) => o.type === b.type && "text" in o && o.text.trim() === b.text.trim());
      if (live.blocks.every(here) && (since.length || !live.blocks.length)) this.live = null;
    }
    return Boolean(this.live?.over) || this.pending.some((p) => p.run === event.runId);
  }

  note(text: string, tone: "error" | "info"): void {
    this.touch();
    const last = this.items.at(-1);
    if ((last?.kind === "note" && last.text === text) || (last && last.error === text)) return;
    this.items.push({ id: `note:${++this.notes}`, kind: "note", blocks: [], text, images: [], at: Date.now(), tone });
  }

  // --- what people send -----------------------------------------------------------------------------------------

  send(run: string, text: string, images: string[], given: Attachment[] = []): void {
    this.touch();
    const files = given.filter((one) => !images.includes(`data:${one.mimeType};base64,${one.content}`)).map((one) => ({ ...one, size: one.bytes }));
    const item: Item = { id: `sent:${run}`, kind: "user", blocks: [], text, images, files, given, at: Date.now(), wait: "sending" };
    this.pending.push({ run, said: text.trim(), item });
  }

  /** A sent message changed its state; `null` takes it away. */
  mark(run: string, wait: Wait | null, after?: boolean): void {
    this.touch();
    const found = this.pending.find((p) => p.run === run);
    if (!found) return;
    if (wait) found.item = { ...found.item, wait, after };
    else this.pending = this.pending.filter((p) => p !== found);
  }

  get unsent(): Pending[] {
    return this.pending;
  }

  /** A sent message that the program itself answered stays where it is. */
  answered(run: string): void {
    const found = this.pending.find((p) => p.run === run);
    if (!found) return;
    this.pending = this.pending.filter((p) => p !== found);
    this.items.push({ ...found.item, wait: undefined });
  }
}

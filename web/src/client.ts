// The gateway protocol from the browser's side: login, requests, events, coming back after a lost connection.
import { device, savedToken, saveToken } from "./identity";
import { BASE } from "./place";
import { uuid } from "./text";

export type Link = "connecting" | "open" | "waiting" | "refused";
export type Payload = Record<string, any>;

const SCOPES = ["operator.admin", "operator.read", "operator.write", "operator.approvals", "operator.pairing"];
const SLOWEST = 10_000; // ms between two tries
const PATIENCE = 30_000; // ms a request may take
const SILENCE = 75_000; // ms without any frame before the line counts as dead
const FINAL = new Set([
  "AUTH_TOKEN_MISSING", "AUTH_TOKEN_MISMATCH", "AUTH_PASSWORD_MISSING", "AUTH_PASSWORD_MISMATCH",
  "AUTH_DEVICE_TOKEN_MISMATCH", "AUTH_RATE_LIMITED", "PAIRING_REQUIRED", "PROTOCOL_MISMATCH",
  "CONTROL_UI_DEVICE_IDENTITY_REQUIRED", "CONTROL_UI_ORIGIN_NOT_ALLOWED", "AUTH_UNAUTHORIZED",
]);

/** What people call this browser. */
function browser(): string {
  const known: [RegExp, string][] = [[/Edg\//, "Edge"], [/Firefox\//, "Firefox"], [/Chrom(e|ium)\//, "Chrome"], [/Safari\//, "Safari"]];
  return known.find(([pattern]) => pattern.test(navigator.userAgent))?.[1] ?? "Browser";
}

/** What the gateway answered instead of a result. */
export class Refusal extends Error {
  constructor(message: string, readonly code = "", readonly details: Payload = {}) {
    super(message);
  }
}

interface Waiting {
  method: string;
  params: unknown;
  keep: boolean;
  done(value: any): void;
  fail(error: Error): void;
  timer: number;
}

export class Client {
  link: Link = "connecting";
  hello: Payload | null = null;
  refusal: Refusal | null = null;
  token = ""; // given by hand or in the address
  password = "";
  retryAt = 0;
  since = Date.now(); // when it was let in
  onchange: () => void = () => {};
  onevent: (event: string, payload: Payload) => void = () => {};
  onjoin: (resumed: boolean) => void = () => {};

  private socket: WebSocket | null = null;
  private waiting = new Map<string, Waiting>();
  tries = 0; // how often the line was lost since it last stood
  private timer = 0;
  private heard = 0;
  private resume: { epoch: string; pos: number; connId: string } | null = null;

  constructor() {
    addEventListener("online", () => this.hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
    setInterval(() => this.watch(), 15_000);
  }

  /** Whether the gateway serves a method. */
  has(method: string): boolean {
    return this.hello?.features?.methods?.includes(method) ?? false;
  }

  get may(): string[] {
    return this.hello?.auth?.scopes ?? [];
  }

  connect(): void {
    clearTimeout(this.timer);
    this.socket?.close();
    this.link = "connecting";
    this.refusal = null;
    this.onchange();
    const url = new URL(`${BASE}/`, location.href);
    url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(url);
    this.socket = socket;
    this.heard = Date.now();
    socket.onmessage = (frame) => {
      if (socket !== this.socket) return;
      this.heard = Date.now();
      this.receive(JSON.parse(frame.data));
    };
    socket.onclose = () => socket === this.socket && this.lost();
  }

  /** Ask for something. `keep`: asked again after a lost connection, so it must be safe to ask twice. */
  request<T = any>(method: string, params: unknown = {}, keep = false): Promise<T> {
    return new Promise((done, fail) => {
      const id = uuid();
      const entry: Waiting = { method, params, keep, done, fail, timer: 0 };
      if (this.link !== "open" && !keep) return fail(new Refusal("not connected", "OFFLINE"));
      this.waiting.set(id, entry);
      if (this.link === "open") this.ask(id, entry);
      return undefined;
    });
  }

  /** Try again now instead of later. */
  hurry(): void {
    if (this.link === "waiting") this.connect();
  }

  private ask(id: string, entry: Waiting): void {
    clearTimeout(entry.timer);
    if (!entry.keep) // the others are asked again when the line is found dead: a gateway that is slow may have taken them
      entry.timer = window.setTimeout(() => {
        this.waiting.delete(id);
        entry.fail(new Refusal(`${entry.method} took too long`, "TIMEOUT"));
      }, PATIENCE);
    this.send(id, entry.method, entry.params);
  }

  private send(id: string, method: string, params: unknown): void {
    this.socket?.send(JSON.stringify({ type: "req", id, method, params }));
  }

  private receive(frame: Payload): void {
    if (frame.type === "event") {
      if (typeof frame.pos === "number" && this.resume) this.resume.pos = frame.pos;
      if (frame.event === "connect.challenge") void this.login(frame.payload);
      else this.onevent(frame.event, frame.payload ?? {});
      return;
    }
    if (frame.type !== "res") return;
    const entry = this.waiting.get(frame.id);
    if (!entry || frame.payload?.status === "accepted") return;
    this.waiting.delete(frame.id);
    clearTimeout(entry.timer);
    if (frame.ok) entry.done(frame.payload);
    else entry.fail(new Refusal(frame.error?.message ?? "refused", frame.error?.code, frame.error?.details ?? {}));
  }

  private async login({ nonce, ts }: Payload): Promise<void> {
    const own = await device();
    const kept = this.token ? "" : ((await savedToken()) ?? "");
    const auth = this.token
      ? { token: this.token }
      : { ...(this.password ? { password: this.password } : {}), ...(kept ? { deviceToken: kept } : {}) };
    const client = { id: "openclaw-control-ui", version: "palinurus-web", platform: navigator.platform || "web", mode: "webchat", displayName: `${browser()} on ${navigator.platform || "the web"}` };
    const params: Payload = {
      minProtocol: 4, maxProtocol: 4, client, role: "operator", scopes: SCOPES, caps: ["resume"], auth,
      locale: navigator.language, userAgent: navigator.userAgent,
    };
    if (own) {
      const signedAt = ts ?? Date.now(); // by the gateway's clock: ours may be wrong
      const parts = [own.id, client.id, client.mode, "operator", SCOPES.join(","), signedAt, this.token || kept, nonce];
      const signature = await own.sign(`v3|${[...parts, client.platform.trim().toLowerCase(), ""].join("|")}`);
      params.device = { id: own.id, publicKey: own.publicKey, signature, signedAt, nonce };
    }
    if (this.resume) params.resume = this.resume;
    const id = uuid();
    const fail = (error: Error) => this.refused(error as Refusal);
    this.waiting.set(id, { method: "connect", params, keep: false, timer: 0, fail, done: (hello) => this.joined(hello) });
    this.send(id, "connect", params);
  }

  private joined(hello: Payload): void {
    this.hello = hello;
    this.tries = 0;
    this.since = Date.now();
    this.link = "open";
    if (hello.auth?.deviceToken) {
      void saveToken(hello.auth.deviceToken);
      this.token = this.password = "";
    }
    const resumed = Boolean(this.resume && hello.resume?.ok);
    const pos = resumed ? this.resume!.pos : (hello.resume?.pos ?? 0);
    this.resume = hello.resume ? { epoch: hello.resume.epoch, pos, connId: hello.server.connId } : null;
    for (const [id, entry] of this.waiting) if (entry.keep) this.ask(id, entry);
    this.onjoin(resumed);
    this.onchange();
  }

  private refused(error: Refusal): void {
    this.refusal = error;
    const code = error.details?.code ?? "";
    if (code === "AUTH_TOKEN_MISMATCH" && this.token) this.token = ""; // the one this browser was given may still do
    if (code === "AUTH_DEVICE_TOKEN_MISMATCH") void saveToken("");
    if (FINAL.has(code)) {
      this.link = "refused";
      this.onchange();
    }
  }

  private lost(): void {
    this.socket = null;
    for (const [id, entry] of this.waiting) {
      clearTimeout(entry.timer);
      if (entry.keep) continue;
      this.waiting.delete(id);
      if (entry.method !== "connect") entry.fail(new Refusal("the connection was lost", "OFFLINE"));
    }
    if (this.link === "refused") return;
    const wait = Math.min(SLOWEST, 300 * 2 ** this.tries++) * (0.7 + Math.random() * 0.3);
    this.link = "waiting";
    this.retryAt = Date.now() + wait;
    this.timer = window.setTimeout(() => this.connect(), wait);
    this.onchange();
  }

  private watch(): void {
    if (this.socket && Date.now() - this.heard > SILENCE) this.socket.close(4000, "tick timeout");
  }
}

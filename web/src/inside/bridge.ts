// Runs inside a canvas, before anything of its document: what the document may say to the page around it, and what that
// page may ask here. A document can undo all of this; it has nothing to gain, as nothing here is secret.
import { draw } from "./a2ui";

type Told = { type: string; [name: string]: any };
const MOST = 64_000; // characters of one answer

const say = (told: Told) => parent.postMessage({ palinurus: told }, "*");

/** A person's action, for the agent: the page around lets it through only just after a click or a key in here. */
export function send(name: string, context: unknown = {}, surfaceId = "", sourceComponentId = ""): void {
  const data = context && typeof context === "object" && !Array.isArray(context) ? context : { value: context };
  say({ type: "action", name: String(name), context: JSON.parse(JSON.stringify(data)), surfaceId, sourceComponentId });
}

/** The same as OpenClaw's documents say it. */
function sendUserAction(action: any): boolean {
  const told = action?.userAction ?? action ?? {};
  send(told.name ?? "action", told.context ?? {}, told.surfaceId ?? "", told.sourceComponentId ?? "");
  return true;
}

function shown(value: unknown): string | null {
  if (value === undefined) return null;
  if (value instanceof Node) return (value as Element).outerHTML ?? value.textContent;
  try {
    return JSON.stringify(value) ?? String(value);
  } catch {
    return String(value);
  }
}

async function run(id: string, code: string): Promise<void> {
  try {
    const value = shown(await (0, eval)(code));
    say({ type: "result", id, ok: true, value: value && value.length > MOST ? `${value.slice(0, MOST)}…` : value });
  } catch (error) {
    say({ type: "result", id, ok: false, value: String(error).slice(0, 2000) });
  }
}

const surface = { push: (_: any[]) => {} };
addEventListener("message", (event) => {
  const told = event.source === parent ? event.data?.palinurus : null;
  if (told?.type === "eval") void run(told.id, told.code);
  else if (told?.type === "a2ui") surface.push(told.messages);
  else if (told?.type === "theme") document.documentElement.dataset.theme = told.theme;
});

const theme = new URLSearchParams(location.search).get("theme");
if (theme) document.documentElement.dataset.theme = theme;
Object.assign(globalThis, {
  palinurus: { send },
  OpenClaw: { sendUserAction, postMessage: sendUserAction },
  openclawSendUserAction: sendUserAction,
});
const kept = document.getElementById("a2ui");
if (kept) surface.push = draw(document.querySelector("main")!, JSON.parse(kept.textContent ?? "[]"), send);
if (document.readyState === "complete") say({ type: "ready" });
else addEventListener("load", () => say({ type: "ready" }));

// What can be done with conversations as things that are kept: pin, name, tag, put away, take away, hand on. Used by the
// sidebar, the conversation's own menu and the page of all sessions.
import type { Payload } from "./client";
import type { Choice } from "./menu";
import { store } from "./store";
import { plural, tr } from "./words";

const UNDO = 7_000; // ms in which a deletion can be taken back: until then nothing is deleted

/** Which of them were changed. */
async function patch(keys: string[], change: Payload): Promise<string[]> {
  const done = await Promise.all(keys.map((key) => store.ask("sessions.patch", { key, ...change })));
  await store.list();
  return keys.filter((_, at) => done[at]);
}

/** Give the conversations their tags: each keeps those it has, but for the ones taken away. */
export async function tag(rows: Payload[], added: string[], removed: string[]): Promise<void> {
  const made = (row: Payload): string[] => [...new Set([...(row.tags ?? []), ...added])].filter((one) => added.includes(one) || !removed.includes(one));
  await Promise.all(rows.map((row) => store.ask("sessions.patch", { key: row.key, tags: made(row).length ? made(row) : null })));
  await store.list();
}

/** Put away, or bring back; either can be taken back. */
export async function archive(keys: string[], away = true): Promise<void> {
  keys = await patch(keys, { archived: away });
  if (!keys.length) return;
  const text = away ? plural(keys.length, "1 conversation archived", "{n} conversations archived") : plural(keys.length, "1 conversation is back", "{n} conversations are back");
  store.toast(text, "info", { label: tr`Undo`, run: () => void patch(keys, { archived: !away }) });
}

/** Take conversations out of sight at once, and delete them when nobody has taken it back. */
export function remove(keys: string[]): void {
  const gone = keys.filter((key) => key !== store.main);
  if (!gone.length) return;
  for (const key of gone) store.hidden.add(key);
  if (gone.includes(store.key) && store.view === "chat") store.go("chat", store.main);
  const end = async () => {
    removeEventListener("pagehide", now);
    clearTimeout(timer);
    // While the gateway is away they stay hidden, and are deleted when it is back.
    await Promise.all(gone.map((key) => store.client.request("sessions.delete", { key }, true).catch((error) => store.toast(error.message, "error"))));
    for (const key of gone) store.hidden.delete(key);
    await store.list();
  };
  const now = () => void end(); // whoever leaves has not taken it back
  const timer = window.setTimeout(now, UNDO);
  addEventListener("pagehide", now);
  const back = () => {
    clearTimeout(timer);
    removeEventListener("pagehide", now);
    for (const key of gone) store.hidden.delete(key);
    store.changed();
  };
  store.toast(plural(gone.length, "1 conversation deleted", "{n} conversations deleted"), "info", { label: tr`Undo`, run: back, ms: UNDO });
  store.changed();
}

export async function exported(key: string, format: string): Promise<void> {
  const made = await store.ask("sessions.export", { key, format });
  if (!made) return;
  const { save } = await import("./blocks");
  save(made.text, made.name, made.mimeType);
}

/** The conversation on paper, or as a PDF: all of it, not only what is drawn. */
export async function print(): Promise<void> {
  while (await store.back()) await new Promise((done) => setTimeout(done));
  const { printed } = await import("./print");
  await printed();
}

/** What a conversation's menu offers. */
export function choices(row: Payload): Choice[] {
  const can = (method: string) => store.client.has(method);
  return [
    { value: "pin", label: row.pinned ? tr`Unpin` : tr`Pin` }, { value: "rename", label: tr`Rename` }, { value: "tags", label: tr`Tags…`, hint: row.tags?.join(", ") },
    ...(can("shares.create") ? [{ value: "share", label: tr`Share…`, hint: tr`a link for others, read-only` }] : []),
    ...(can("sessions.export") ? [{ value: "export", label: tr`Export…`, hint: tr`Markdown, HTML, JSON, PDF` }] : []),
    { value: "archive", label: row.archived ? tr`Bring back` : tr`Archive` },
    ...(row.key === store.main ? [] : [{ value: "delete", label: tr`Delete` }]),
  ];
}

/** Do what was chosen; false: it is somebody else's matter. */
export async function act(row: Payload, chosen: string): Promise<boolean> {
  if (chosen === "pin") await patch([row.key], { pinned: !row.pinned });
  else if (chosen === "archive") await archive([row.key], !row.archived);
  else if (chosen === "delete") remove([row.key]);
  else if (["tags", "share", "export", "rename"].includes(chosen)) (await import("./keeping")).ask(chosen, [row]);
  else return false;
  return true;
}

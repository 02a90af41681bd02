// What could follow in the composer: commands and their arguments after a slash, prompts that are kept, files after an @.
import type { Payload } from "./client";
import { store } from "./store";
import { tr } from "./words";

export interface Offer {
  label: string;
  about?: string;
  usage?: string;
  text: string; // what the composer holds when it is taken
  more: boolean; // something may follow
  act?: () => void; // done instead
}

const SHOWN = 40;
let prompts: Payload[] | null = null;

/** The prompts that are kept, asked for once and again after each change. */
export async function loadPrompts(fresh = false): Promise<Payload[]> {
  if (fresh || !prompts) prompts = store.client.has("prompts.list") ? ((await store.client.request<Payload>("prompts.list").catch(() => null))?.prompts ?? []) : [];
  return prompts!;
}

/** What a command can be followed by: its levels, the models, or the words that its usage names. */
function words(name: string): string[] {
  const levels = (store.info.thinkingLevels ?? store.info.defaults?.thinkingLevels ?? []).map((level: Payload) => level.id);
  if (name === "think") return ["default", ...levels];
  if (name === "model") return ["default", ...store.models.map((m) => `${m.provider}/${m.id}`)];
  const usage: string = store.commands.find((one) => one.textAliases.includes(`/${name}`))?.usage ?? "";
  return /[\w-]+(?:\|[\w-]+)+/.exec(usage)?.[0].split("|") ?? [];
}

function commands(text: string): Offer[] {
  const [name = "", rest] = text.slice(1).split(/\s+([\s\S]*)/);
  if (/^\/\S+\s/.test(text)) {
    const typed = (rest ?? "").trim().toLowerCase();
    const known = words(name);
    if (known.includes(typed)) return []; // typed whole
    const found = known.filter((word) => word.toLowerCase().includes(typed));
    return found.slice(0, SHOWN).map((word) => ({ label: word, text: `/${name} ${word}`, more: false }));
  }
  const fits = (command: Payload) => command.textAliases.some((alias: string) => alias.slice(1).startsWith(name.toLowerCase()));
  const kept = (prompts ?? []).filter((one) => one.name.toLowerCase().includes(name.toLowerCase()));
  return [
    ...store.commands.filter(fits).map((command) => ({ label: `/${command.name}`, usage: command.usage && command.usage !== `/${command.name}` ? command.usage : "", about: command.description, text: `/${command.name}${command.acceptsArgs ? " " : ""}`, more: Boolean(command.acceptsArgs) })),
    ...kept.map((one) => ({ label: one.name, usage: tr`prompt`, about: one.text.split("\n")[0]!.slice(0, 120), text: one.text, more: false })),
  ].slice(0, SHOWN);
}

let asked = 0;

/** What fits to the text before the caret. Files are asked for; an answer that comes too late is nothing. */
export async function offers(before: string, whole: string): Promise<Offer[]> {
  const turn = ++asked;
  if (/^\/[^\n]*$/.test(whole)) return commands(whole);
  const found = /(?:^|\s)@(\S{0,200})$/.exec(before);
  if (!found || !store.client.has("workspace.files")) return [];
  const agent = /^agent:([^:]+):/.exec(store.key)?.[1];
  const answer = await store.client.request<Payload>("workspace.files", { query: found[1]!.replace(/^\.\//, ""), ...(agent ? { agentId: agent } : {}) }).catch(() => null);
  if (turn !== asked) return [];
  const start = before.length - found[1]!.length - 1;
  // Tools take the path as it is.
  return (answer?.files ?? []).map((path: string) => ({ label: path, text: `${whole.slice(0, start)}./${path} ${whole.slice(before.length)}`, more: false }));
}

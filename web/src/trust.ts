// What came from outside, and where from: marks on messages, on what tools gave back, and on answers that were written after reading it.
import { html, nothing } from "lit";
import { icon } from "./icons";
import { store } from "./store";
import type { Item, Tool } from "./transcript";
import { tr } from "./words";

// What nobody outside writes into: no mark. The rest of the kinds have a word of their own.
const OURS = new Set(["", "own", "summary", "agreed", "silent"]);
const LOCAL = new Set(["file", "command", "network", "pasted"]); // this machine's: told, but no warning
const kinds = (): Record<string, string> => ({
  web: tr`the web`, file: tr`a file`, command: tr`a command`, network: tr`the network`, pasted: tr`pasted text`, session: tr`another conversation`, memory: tr`memory written after reading from outside`,
  mail: tr`mail`, mcp: tr`an MCP server`, plugin: tr`a plugin`, member: tr`a member`, group: tr`a group`, stranger: tr`a stranger`, client: tr`a client`, webhook: tr`a webhook`, canvas: tr`a canvas`,
});

interface Source {
  kind: string;
  detail: string;
}

/** "web https://a.example/x" and its like, one a line. */
export function sources(text: string | undefined): Source[] {
  return (text ?? "").split("\n").map((line) => {
    const at = line.search(/[ :]/);
    return at < 0 ? { kind: line.trim(), detail: "" } : { kind: line.slice(0, at), detail: line.slice(at + 1).trim() };
  }).filter((one) => !OURS.has(one.kind));
}

function short(one: Source): string {
  const host = /https?:\/\/([^\s/"'?#]+)/.exec(one.detail)?.[1]; // of a page, or in the command that asked for it
  if (one.kind === "web" && host) return host;
  return [kinds()[one.kind] ?? one.kind, one.detail].filter(Boolean).join(" ");
}

const far = (list: Source[]): boolean => list.some((one) => !LOCAL.has(one.kind));

/** A mark with all its sources behind it; nothing where nothing came from outside. */
export function mark(text: string | undefined, about: string): unknown {
  const list = sources(text);
  if (!list.length) return nothing;
  const all = [...new Set(list.map(short))];
  const label = `${about} ${all.join(", ")}`;
  return html`<span class="outside ${far(list) ? "far" : ""}" title=${label}>${icon("outside")}<span class="sr">${about} </span><span class="clip">${all[0]}</span>${all.length > 1 ? ` +${all.length - 1}` : nothing}</span>`;
}

/** What the frame around words from outside says to the model; a person sees a line instead. */
const FRAME = /^<<<(?:END_)?EXTERNAL_UNTRUSTED_CONTENT id="[0-9a-f]*">>>\n?/gm;
const WORDS = /^Source: .*?Nobody who may give you orders wrote this:.*\n---\n/gm;

/** The output of a tool as it was, without the lines that speak to the model. */
export const unframed = (output: string): string => (output.includes("EXTERNAL_UNTRUSTED_CONTENT") ? output.replace(FRAME, "").replace(WORDS, "") : output);

/** In front of what strangers wrote. */
export const told = (tool: Tool): unknown =>
  far(sources(tool.source)) ? html`<p class="outside-note">${icon("outside")} ${tr`Written by others. The agent reads it; what it asks for is not done without you.`}</p>` : nothing;

/** What an answer had read when it was written: everything its turn took in. */
export function read(item: Item): string {
  const all = store.talk.all();
  const from = all.slice(0, all.indexOf(item)).findLastIndex((one) => one.kind === "user");
  const turn = all.slice(from + 1, all.indexOf(item) + 1);
  const found = turn.flatMap((one) => one.blocks.map((block) => (block.type === "tool" ? (block.tool.source ?? "") : ""))).filter(Boolean);
  return [...new Set(found.flatMap((text) => text.split("\n")))].filter((line) => far(sources(line))).join("\n");
}

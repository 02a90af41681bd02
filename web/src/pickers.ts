// What applies to the open session, and changing it: model, thinking, fast, verbose, reasoning. Written at once.
import { html, nothing } from "lit";
import type { Payload } from "./client";
import { icon } from "./icons";
import "./menu";
import type { Choice } from "./menu";
import { store } from "./store";
import { count, upper } from "./text";
import { tr } from "./words";

const NONE = "\u0000inherit"; // the value of "no override"

const choose = (field: string) => (event: CustomEvent) => void store.patch({ [field]: event.detail === NONE ? null : event.detail });

function thinking(row: Payload): unknown {
  const levels: { id: string; label: string }[] = row.thinkingLevels ?? row.defaults?.thinkingLevels ?? [];
  if (!levels.length) return nothing;
  const name = (id: string | undefined) => upper(levels.find((level) => level.id === id)?.label ?? id ?? tr`Off`);
  const inherited = tr`Inherited: ${name(row.thinkingDefault ?? row.defaults?.thinkingDefault)}`;
  const choices: Choice[] = [{ value: NONE, label: inherited }, ...levels.map((level) => ({ value: level.id, label: upper(level.label) }))];
  const value = row.thinkingLevel ?? NONE;
  return html`<pal-menu class="pick-thinking" label=${tr`Thinking`} glyph="brain" .shown=${value === NONE ? inherited : name(value)} .choices=${choices} .value=${value} @choose=${choose("thinkingLevel")}></pal-menu>`;
}

function model(row: Payload): unknown {
  const current = row.model ? `${row.modelProvider}/${row.model}` : "";
  const choices: Choice[] = store.models.map((m) => ({
    value: `${m.provider}/${m.id}`, label: m.name, group: m.provider, hint: [m.contextWindow ? tr`${count(m.contextWindow)} context` : "", m.reasoning ? tr`thinks` : "", m.input?.includes("image") ? tr`sees` : ""].filter(Boolean).join(" · "),
  }));
  const usual = row.defaults?.model ? `${row.defaults.modelProvider}/${row.defaults.model}` : "";
  choices.unshift({ value: NONE, label: tr`Default`, hint: usual });
  const known = store.models.find((m) => `${m.provider}/${m.id}` === current);
  return html`<pal-menu class="pick-model" label=${tr`Model`} glyph="spark" .shown=${known?.name ?? row.model ?? tr`Model`} .choices=${choices} .value=${row.modelOverride || row.providerOverride ? current : current === usual ? NONE : current} @choose=${choose("model")}></pal-menu>`;
}

const NAMES: Record<string, string> = { on: tr`On`, off: tr`Off`, auto: tr`Auto`, full: tr`Full`, stream: tr`Stream` };
const named = (word: string): string => NAMES[word] ?? upper(word);
const words = (...names: string[]): Choice[] => names.map((name) => ({ value: name, label: named(name) }));

function simple(row: Payload, field: string, label: string, glyph: string, choices: Choice[]): unknown {
  const raw = row[field];
  const value = raw === undefined || raw === null ? NONE : raw === true ? "on" : raw === false ? "off" : String(raw);
  const usual = String(row.defaults?.[field] ?? "off");
  const all = [{ value: NONE, label: tr`Inherited: ${named(usual)}` }, ...choices];
  const shown = `${label}: ${named(value === NONE ? usual : value)}`;
  return html`<pal-menu class="pick-${field.replace(/(Mode|Level)$/, "")}" label=${label} glyph=${glyph} .shown=${shown} .choices=${all} .value=${value}
    @choose=${(e: CustomEvent) => void store.patch({ [field]: e.detail === NONE ? null : field === "fastMode" && e.detail !== "auto" ? e.detail === "on" : e.detail })}></pal-menu>`;
}

/** `open`: whether narrow screens show the rarer ones too. */
export function pickers(open: boolean, toggle: () => void): unknown {
  const row = store.info;
  return html`<div class="pickers" role="toolbar" aria-label=${tr`Session settings`}>
    ${model(row)}${thinking(row)}
    <button type="button" class="ghost icon-only more-picks" aria-label=${tr`More settings`} title=${tr`Fast, verbose, reasoning`} aria-expanded=${open} @click=${toggle}>${icon("gear")}</button>
    <span class="extra-picks ${open ? "open" : ""}">
    ${simple(row, "fastMode", tr`Fast`, "bolt", words("on", "off", "auto"))}
    ${simple(row, "verboseLevel", tr`Verbose`, "list", words("on", "full", "off"))}
    ${simple(row, "reasoningLevel", tr`Reasoning`, "chat", words("on", "stream", "off"))}</span>
  </div>`;
}

// Small words: times, sizes, durations, the text of messages.
import { html } from "lit";
import type { Payload } from "./client";
import { language, tr } from "./words";

const units: [number, Intl.RelativeTimeFormatUnit][] = [[86_400_000, "day"], [3_600_000, "hour"], [60_000, "minute"]];
const short = new Intl.NumberFormat(language(), { notation: "compact", maximumFractionDigits: 1 });
const usd = (digits: number) => new Intl.NumberFormat(language(), { style: "currency", currency: "USD", currencyDisplay: "narrowSymbol", minimumFractionDigits: digits, maximumFractionDigits: digits });
const [nought, dollars, cents] = [usd(0), usd(2), usd(4)];
const relative = new Intl.RelativeTimeFormat(language(), { numeric: "auto", style: "narrow" });

export function ago(ms: number | null | undefined): string {
  if (!ms) return "";
  const past = Date.now() - ms;
  if (past > 30 * 86_400_000) return new Date(ms).toLocaleDateString(language());
  for (const [size, unit] of units) if (Math.abs(past) >= size) return relative.format(-Math.round(past / size), unit);
  return tr`now`;
}

/** A sentence of the gateway, the `commands` in it as such. */
export function told(text: unknown): unknown {
  const parts = String(text ?? "").split("`");
  return parts.length % 2 ? parts.map((part, at) => (at % 2 ? html`<code>${part}</code>` : part)) : text;
}

export const clock = (ms: number): string => new Date(ms).toLocaleTimeString(language(), { hour: "2-digit", minute: "2-digit" });
export const moment = (ms?: number | null): string => (ms ? new Date(ms).toLocaleString(language(), { dateStyle: "medium", timeStyle: "short" }) : "–");

export function took(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const parts: [number, string][] = [[Math.floor(ms / 86_400_000), "d"], [Math.floor(ms / 3_600_000) % 24, "h"], [Math.floor(ms / 60_000) % 60, "min"], [Math.floor(ms / 1000) % 60, "s"]];
  const first = parts.findIndex(([n]) => n);
  return parts.slice(first, first + 2).filter(([n]) => n).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

export const timer = (ms: number): string => `${Math.floor(ms / 60_000)}:${String(Math.floor(ms / 1000) % 60).padStart(2, "0")}`;

export function count(n: number | undefined | null): string {
  if (!n) return "0";
  return short.format(n);
}

export const money = (usd: number | undefined): string => (usd ? (usd < 0.01 ? cents : dollars).format(usd) : nought.format(0));
/** What calls cost: one without a price is not free. */
export const spent = (totals: Payload): string => (totals.missingCostEntries && !totals.totalCost ? tr`unpriced` : money(totals.totalCost));
export const size = (bytes: number): string => (bytes < 1024 ? `${bytes} B` : bytes < 1048576 ? `${(bytes / 1024).toFixed(1)} kB` : `${(bytes / 1048576).toFixed(1)} MB`);
export const upper = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

export function plain(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content.map((block: Payload) => (block.type === "text" ? (block.text ?? "") : "")).join("");
}

export function json(value: unknown): string {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

export function day(ms: number): string {
  const start = new Date();
  start.setHours(0, 0, 0, 0);
  const days = (start.getTime() - ms) / 86_400_000;
  if (days <= 0) return tr`Today`;
  if (days <= 1) return tr`Yesterday`;
  return days <= 7 ? tr`Last 7 days` : days <= 30 ? tr`Last 30 days` : tr`Older`;
}

/** A random id. Browsers give `randomUUID` only to https and localhost. */
export const uuid = (): string =>
  crypto.randomUUID?.() ?? "10000000-1000-4000-8000-100000000000".replace(/[018]/g, (c) => (Number(c) ^ (crypto.getRandomValues(new Uint8Array(1))[0]! & (15 >> (Number(c) / 4)))).toString(16));

/** The date between messages: today, yesterday, else with the weekday. */
export function dated(ms: number): string {
  const then = new Date(ms);
  const days = Math.round((new Date().setHours(0, 0, 0, 0) - new Date(ms).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days === 0) return tr`Today`;
  if (days === 1) return tr`Yesterday`;
  return then.toLocaleDateString(language(), { weekday: "long", day: "numeric", month: "long", ...(then.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" }) });
}

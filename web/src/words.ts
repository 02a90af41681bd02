// What the page says, in the language of whoever reads it. The English text stands in the source and is the key; the
// other tables (words/*.json) are loaded before anything is drawn, and only the one that is wanted.
export type Table = Record<string, string | Record<string, string>>;

export const LANGUAGES: Record<string, string> = { en: "English", de: "Deutsch", es: "Español", fr: "Français", hi: "हिन्दी", ja: "日本語", pt: "Português", zh: "中文" };
const tables: Record<string, () => Promise<{ default: Table }>> = {
  de: () => import("./words/de.json"), es: () => import("./words/es.json"), fr: () => import("./words/fr.json"), hi: () => import("./words/hi.json"),
  ja: () => import("./words/ja.json"), pt: () => import("./words/pt.json"), zh: () => import("./words/zh.json"),
};
const CHOSEN = "language";
let table: Table = {};
let locale = "en";
let rules = new Intl.PluralRules("en");
const keys = new WeakMap<TemplateStringsArray, string>();

/** What the person chose here; empty: as the browser says. */
export const chosen = (): string => localStorage.getItem(CHOSEN) ?? "";

/** The language now, for dates and numbers with the country that the browser names. */
export const language = (): string => locale;

/** Choose another one; the page is loaded again with it. */
export function choose(name: string): void {
  if (name) localStorage.setItem(CHOSEN, name);
  else localStorage.removeItem(CHOSEN);
  location.reload();
}

/** Find the language and its table. A table that cannot be had leaves English. */
export async function learn(): Promise<void> {
  const wanted = chosen() ? [chosen()] : navigator.languages;
  const found = wanted.find((one) => one.split("-")[0]! in LANGUAGES) ?? "en";
  const name = found.split("-")[0]!;
  try {
    if (tables[name]) table = (await tables[name]()).default;
    locale = navigator.languages.find((one) => one.split("-")[0] === name) ?? name;
  } catch {
    locale = "en";
  }
  rules = new Intl.PluralRules(locale);
  document.documentElement.lang = locale;
}

/** The key of a text: its words, with {0}, {1} … where something is put in. */
function keyed(strings: TemplateStringsArray): string {
  let key = keys.get(strings);
  if (key === undefined) keys.set(strings, (key = strings.reduce((all, part, at) => `${all}{${at - 1}}${part}`)));
  return key;
}

function lookup(key: string): string {
  const found = table[key];
  return typeof found === "string" ? found : key;
}

/** A text in the language of the page. */
export function tr(strings: TemplateStringsArray, ...values: unknown[]): string {
  return lookup(keyed(strings)).replace(/\{(\d)\}/g, (_, at) => String(values[Number(at)] ?? ""));
}

/** The same with parts that are more than text: what can stand in a template. */
export function rich(strings: TemplateStringsArray, ...values: unknown[]): unknown[] {
  return lookup(keyed(strings)).split(/\{(\d)\}/).map((part, at) => (at % 2 ? values[Number(part)] : part));
}

/** So many of something; `{n}` is the number. Languages have their own forms of it. */
export function plural(count: number, one: string, other: string): string {
  const forms = table[other];
  const form = typeof forms === "object" ? (forms[rules.select(count)] ?? forms.other!) : typeof forms === "string" ? forms : rules.select(count) === "one" ? one : other;
  return form.replace("{n}", new Intl.NumberFormat(locale).format(count));
}

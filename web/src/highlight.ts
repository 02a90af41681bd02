// A small highlighter: comments, strings, numbers, keywords. One pattern per family of languages; no grammar.
type Family = { line?: string; block?: [string, string]; words: string; strings?: string };

const C = "break case catch class const continue default delete do else enum export extends false finally for function if implements import in instanceof interface let new null of package private protected public return static super switch this throw true try type typeof undefined var void while with yield async await as from readonly abstract";
const families: Record<string, Family> = {
  js: { line: "//", block: ["/*", "*/"], words: C, strings: "\"'`" },
  c: { line: "//", block: ["/*", "*/"], words: `${C} int char float double long short unsigned signed struct union sizeof bool string fn mut impl trait pub use mod match where self func defer go chan map range var val fun when object override namespace using template virtual auto` },
  py: { line: "#", words: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return True try while with yield self match case" },
  sh: { line: "#", words: "if then else elif fi for while until do done case esac in function return export local echo cd exit set unset source sudo" },
  sql: { line: "--", words: "select from where and or not in insert into values update set delete create table index drop alter join left right inner outer on group by order limit as distinct null primary key references union all having count sum avg min max" },
  data: { line: "#", words: "true false null yes no on off" },
  html: { block: ["<!--", "-->"], words: "" },
  css: { block: ["/*", "*/"], words: "important media supports keyframes from to" },
};
const names: Record<string, string> = {
  javascript: "js", js: "js", jsx: "js", ts: "js", typescript: "js", tsx: "js", json: "data", jsonc: "js", json5: "js", mermaid: "js", scala: "c", dart: "c", lua: "sql", r: "py", perl: "py", powershell: "sh", ps1: "sh", vue: "html", svelte: "html", less: "css", graphql: "py", nix: "py", hcl: "data", tf: "data", env: "data", properties: "data", zig: "c", csharp: "c", cjs: "js", mjs: "js",
  python: "py", py: "py", rb: "py", ruby: "py", sh: "sh", bash: "sh", zsh: "sh", shell: "sh", console: "sh",
  dockerfile: "sh", make: "sh", makefile: "sh", sql: "sql", yaml: "data", yml: "data", toml: "data", ini: "data",
  c: "c", cpp: "c", "c++": "c", cs: "c", java: "c", go: "c", rust: "c", rs: "c", kotlin: "c", swift: "c", php: "c",
  html: "html", xml: "html", svg: "html", css: "css", scss: "css",
};
const LONGEST = 60_000; // characters; beyond that code stays plain

const quoted = (text: string): string => text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
const made = new Map<string, RegExp>();

function pattern(family: Family, name: string): RegExp {
  const known = made.get(name);
  if (known) return known;
  const parts: string[] = [];
  const comments: string[] = [];
  if (family.block) comments.push(`${quoted(family.block[0])}[\\s\\S]*?(?:${quoted(family.block[1])}|$)`);
  if (family.line) comments.push(`${family.line === "#" ? "(?<![\\w$&])#" : quoted(family.line)}[^\\n]*`);
  parts.push(`(?<comment>${comments.join("|") || "(?!)"})`);
  const marks = [...(family.strings ?? "\"'")].map((q) => `${q}(?:\\\\.|[^${q}\\\\${q === "`" ? "" : "\\n"}])*${q}?`);
  parts.push(`(?<string>${marks.join("|")})`);
  parts.push("(?<number>\\b\\d[\\d_.]*(?:e[+-]?\\d+)?\\b|\\b0x[\\da-f]+\\b)");
  const words = family.words.split(" ").filter(Boolean).join("|");
  parts.push(`(?<keyword>${words ? `\\b(?:${words})\\b` : "(?!)"})`);
  parts.push(name === "html" ? "(?<name><\\/?[\\w:-]+|\\/?>)" : "(?<name>\\b[A-Za-z_$][\\w$]*(?=\\())");
  const regex = new RegExp(parts.join("|"), name === "sql" ? "gi" : "g");
  made.set(name, regex);
  return regex;
}

/** Lines that were added and taken away. */
function changed(code: string): DocumentFragment {
  const out = document.createDocumentFragment();
  for (const [at, line] of code.split("\n").entries()) {
    const span = document.createElement("span");
    span.className = /^\+(?!\+\+)/.test(line) ? "hl-add" : /^-(?!--)/.test(line) ? "hl-del" : /^@@/.test(line) ? "hl-hunk" : "";
    span.textContent = line;
    out.append(at ? "\n" : "", span);
  }
  return out;
}

/** The code as text nodes and spans. */
export function highlight(code: string, language: string): DocumentFragment {
  const out = document.createDocumentFragment();
  if (/^(?:diff|patch)$/i.test(language)) return changed(code);
  const name = names[language.toLowerCase()];
  const family = name ? families[name] : undefined;
  if (!name || !family || code.length > LONGEST) {
    out.append(code);
    return out;
  }
  let at = 0;
  for (const found of code.matchAll(pattern(family, name))) {
    if (found.index > at) out.append(code.slice(at, found.index));
    const kind = Object.entries(found.groups ?? {}).find(([, text]) => text !== undefined)?.[0];
    const span = document.createElement("span");
    span.className = `hl-${kind}`;
    span.textContent = found[0];
    out.append(span);
    at = found.index + found[0].length;
  }
  out.append(code.slice(at));
  return out;
}

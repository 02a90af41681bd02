// What our Markdown knows beyond GitHub's: mathematics, footnotes, details. The parser alone; what it makes is cleaned in markdown.ts.
import { Marked, type Token, type Tokens } from "marked";

// HTML in a message is shown, not followed; these few tags carry nothing but looks.
const PLAIN = /^<\/?(?:b|br|del|em|i|kbd|s|strong|sub|sup|u)\s*\/?>$/i;
export const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

// A backslash in mathematics is not Markdown's. One dollar alone is money: it opens a formula only where what follows looks like one.
const INLINE = /^(?:\\\([^\n]+?\\\)|\\\[[\s\S]+?\\\]|\$\$[\s\S]+?\$\$|\$(?!\s)(?:[A-Za-z]|(?=[^$\n]*[\\^_{=])[^$\n]*?[^\s$\\])\$(?![\d\w]))/;
const BLOCK = /^ {0,3}(?:\$\$[\s\S]+?\$\$|\\\[[\s\S]+?\\\])[ \t]*(?:\n|$)/;
const NOTE = /^\[\^([^\]\s]{1,40})\]:[ \t]+([^\n]*(?:\n(?:[ \t]+[^\n]+))*)(?:\n|$)/;
const REFERENCE = /^\[\^([^\]\s]{1,40})\]/;

const code = (raw: string): string => `<code class="math">${escaped(raw.trim())}</code>`;

/** The end of a <details>, with those inside counted; -1: it is still coming. */
function closing(src: string): number {
  let depth = 0;
  for (const found of src.matchAll(/<(\/?)details\b[^>]*>/gi)) {
    depth += found[1] ? -1 : 1;
    if (!depth) return found.index + found[0].length;
  }
  return -1;
}

export const marked = new Marked({
  gfm: true,
  breaks: true,
  async: false,
  renderer: { html: ({ text }) => (PLAIN.test(text.trim()) ? text : escaped(text)) },
});
marked.use({
  extensions: [
    {
      name: "math",
      level: "inline",
      start: (src: string) => { const at = src.search(/\\[([]|\$/); return at < 0 ? undefined : at; },
      tokenizer: (src: string) => { const found = INLINE.exec(src); return found ? { type: "math", raw: found[0] } : undefined; },
      renderer: (token) => code(token.raw),
    },
    {
      name: "formula",
      level: "block",
      start: (src: string) => { const at = src.search(/(?:^|\n) {0,3}(?:\$\$|\\\[)/); return at < 0 ? undefined : at; },
      tokenizer: (src: string) => { const found = BLOCK.exec(src); return found ? { type: "formula", raw: found[0] } : undefined; },
      renderer: (token) => `<p>${code(token.raw)}</p>`,
    },
    {
      name: "footnote",
      level: "block",
      start: (src: string) => { const at = src.search(/(?:^|\n)\[\^/); return at < 0 ? undefined : at; },
      tokenizer(src: string) {
        const found = NOTE.exec(src);
        if (!found) return undefined;
        return { type: "footnote", raw: found[0], name: found[1], tokens: this.lexer.inlineTokens(found[2]!.replace(/\n[ \t]+/g, "\n"), []) };
      },
      renderer(token) {
        return `<p class="footnote" data-note="${escaped(token.name)}"><sup>${escaped(token.name)}</sup> ${this.parser.parseInline(token.tokens as Token[])}</p>`;
      },
    },
    {
      name: "noteref",
      level: "inline",
      start: (src: string) => { const at = src.indexOf("[^"); return at < 0 ? undefined : at; },
      tokenizer: (src: string) => { const found = REFERENCE.exec(src); return found && src[found[0].length] !== "(" ? { type: "noteref", raw: found[0], name: found[1] } : undefined; },
      renderer: (token) => `<sup class="noteref" data-to="${escaped(token.name)}">${escaped(token.name)}</sup>`,
    },
    {
      name: "details",
      level: "block",
      start: (src: string) => { const at = src.search(/(?:^|\n)<details\b/i); return at < 0 ? undefined : at; },
      tokenizer(src: string) {
        const open = /^<details(?:\s+open)?\s*>\s*/i.exec(src);
        if (!open) return undefined;
        const end = closing(src);
        const raw = end < 0 ? src : src.slice(0, end);
        const inside = raw.slice(open[0].length).replace(end < 0 ? /$^/ : /<\/details\s*>$/i, "");
        const head = /^<summary\s*>([\s\S]*?)<\/summary\s*>/i.exec(inside);
        return {
          type: "details", raw, head: this.lexer.inlineTokens((head?.[1] ?? "…").trim(), []),
          tokens: this.lexer.blockTokens(inside.slice(head?.[0].length ?? 0), []),
        };
      },
      renderer(token) {
        return `<details><summary>${this.parser.parseInline(token.head as Token[])}</summary>${this.parser.parse(token.tokens as Token[])}</details>`;
      },
    },
  ],
});

export type { Token, Tokens };

// <pal-md>: Markdown that may still be coming. Only the blocks that changed are made again; everything passes DOMPurify.
import DOMPurify from "dompurify";
import { Marked, type Token, type TokensList } from "marked";
import { highlight } from "./highlight";
import { tr } from "./words";

// HTML in a message is shown, not followed; these few tags carry nothing but looks.
const PLAIN = /^<\/?(?:b|br|del|em|i|kbd|s|strong|sub|sup|u)\s*\/?>$/i;
const escaped = (text: string): string => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
const marked = new Marked({
  gfm: true,
  breaks: true,
  async: false,
  renderer: { html: ({ text }) => (PLAIN.test(text.trim()) ? text : escaped(text)) },
});
// Mathematics is shown as it was written: a backslash in it is not Markdown's.
const MATH = /^(?:\\\([^\n]+?\\\)|\\\[[\s\S]+?\\\]|\$\$[\s\S]+?\$\$)/;
marked.use({
  extensions: [{
    name: "math",
    level: "inline",
    start: (src: string) => { const at = src.search(/\\[([]|\$\$/); return at < 0 ? undefined : at; },
    tokenizer: (src: string) => { const found = MATH.exec(src); return found ? { type: "math", raw: found[0] } : undefined; },
    renderer: (token) => `<code class="math">${escaped(token.raw)}</code>`,
  }],
});
const RULES = {
  RETURN_DOM_FRAGMENT: true as const,
  ALLOWED_TAGS: [
    "a", "b", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "input", "li",
    "ol", "p", "pre", "s", "strong", "sub", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul", "kbd",
  ],
  ALLOWED_ATTR: ["href", "src", "alt", "title", "class", "checked", "disabled", "type", "align", "start"],
  ADD_URI_SAFE_ATTR: ["align", "start"], // no addresses, so the pattern below is not for them
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);)/i,
};

function safe(html: string): DocumentFragment {
  const made = DOMPurify.sanitize(html, RULES) as unknown as DocumentFragment;
  for (const link of made.querySelectorAll("a")) {
    link.target = "_blank";
    link.rel = "noopener noreferrer";
  }
  for (const image of made.querySelectorAll("img")) {
    // A picture from elsewhere would tell its server that it was looked at: a link does not.
    if (image.src.startsWith("data:image/")) continue;
    const link = document.createElement("a");
    link.textContent = `🖼 ${image.alt || image.src}`;
    if (/^https?:/i.test(image.src)) link.href = image.src;
    link.target = "_blank";
    link.rel = "noopener noreferrer";
    image.replaceWith(link);
  }
  for (const input of made.querySelectorAll("input")) {
    input.type = "checkbox";
    input.disabled = true;
    input.setAttribute("aria-label", input.checked ? tr`done` : tr`not done`);
  }
  for (const table of made.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "scroll";
    frame.tabIndex = 0;
    frame.setAttribute("role", "region");
    frame.setAttribute("aria-label", "table");
    table.replaceWith(frame);
    frame.append(table);
  }
  return made;
}

/** A block of code with its language and a copy button. */
export function codeBlock(text: string, language: string): HTMLElement {
  const box = document.createElement("div");
  box.className = "code";
  const head = document.createElement("div");
  head.className = "code-head";
  const name = document.createElement("span");
  name.textContent = language || "text";
  const copy = document.createElement("button");
  copy.type = "button";
  copy.className = "ghost small";
  copy.textContent = tr`Copy`;
  copy.onclick = async () => {
    await navigator.clipboard.writeText(text);
    copy.textContent = tr`Copied`;
    setTimeout(() => (copy.textContent = tr`Copy`), 1500);
  };
  head.append(name, copy);
  const pre = document.createElement("pre");
  pre.tabIndex = 0;
  const code = document.createElement("code");
  code.append(highlight(text, language));
  pre.append(code);
  box.append(head, pre);
  return box;
}

function made(token: Token, links: TokensList["links"]): Node {
  if (token.type === "code") return codeBlock(token.text, (token.lang ?? "").split(/\s/)[0] ?? "");
  const list = [token] as unknown as TokensList;
  list.links = links;
  return safe(marked.parser(list));
}

class Markdown extends HTMLElement {
  private source = "";
  private blocks: { raw: string; node: HTMLElement }[] = [];

  set text(value: string) {
    if (value === this.source) return;
    this.source = value;
    const tokens = marked.lexer(value);
    const wanted = tokens.filter((token) => token.type !== "space" && token.type !== "def");
    wanted.forEach((token, at) => {
      const old = this.blocks[at];
      if (old?.raw === token.raw) return;
      const node = document.createElement("div");
      node.className = "block";
      node.append(made(token, tokens.links));
      if (old) old.node.replaceWith(node);
      else this.append(node);
      this.blocks[at] = { raw: token.raw, node };
    });
    for (const extra of this.blocks.splice(wanted.length)) extra.node.remove();
  }

  get text(): string {
    return this.source;
  }
}
customElements.define("pal-md", Markdown);

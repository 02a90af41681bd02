// <pal-md>: Markdown that may still be coming. Only the blocks that changed are made again; everything passes DOMPurify.
import DOMPurify from "dompurify";
import type { TokensList } from "marked";
import { alerted, CodeBlock, framed } from "./blocks";
import { Diagram } from "./diagram";
import { marked, type Token } from "./marking";
import { tr } from "./words";

const RULES = {
  RETURN_DOM_FRAGMENT: true as const,
  ALLOWED_TAGS: [
    "a", "b", "blockquote", "br", "code", "del", "details", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "i", "img", "input", "li",
    "ol", "p", "pre", "s", "strong", "sub", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr", "u", "ul", "kbd",
  ],
  ALLOWED_ATTR: ["href", "src", "alt", "title", "class", "checked", "disabled", "type", "align", "start"],
  ADD_URI_SAFE_ATTR: ["align", "start"], // no addresses, so the pattern below is not for them
  ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|data:image\/(?:png|jpeg|gif|webp);)/i,
};

function outside(link: HTMLAnchorElement): void {
  link.target = "_blank";
  link.rel = "noopener noreferrer";
}

/** A picture from elsewhere would tell its server that it was looked at: a link does not. */
function linked(image: HTMLImageElement): void {
  if (image.src.startsWith("data:image/")) {
    image.classList.add("zooms");
    return;
  }
  const link = document.createElement("a");
  link.textContent = `🖼 ${image.alt || image.src}`;
  link.title = tr`Not loaded: its server would learn that you looked`;
  if (/^https?:/i.test(image.src)) link.href = image.src;
  outside(link);
  image.replaceWith(link);
}

const each = <T extends Element>(made: DocumentFragment, selector: string, act: (one: T) => void): void => made.querySelectorAll<T>(selector).forEach(act);

function noted(mark: HTMLElement): void {
  mark.tabIndex = 0;
  mark.setAttribute("role", "doc-noteref");
  const go = () => {
    const to = [...(mark.closest("pal-md")?.querySelectorAll<HTMLElement>("[data-note]") ?? [])].find((one) => one.dataset.note === mark.dataset.to);
    to?.scrollIntoView({ block: "center" });
    to?.classList.add("shown");
  };
  mark.onclick = go;
  mark.onkeydown = (event) => event.key === "Enter" && go();
}

/** Mathematics is drawn when the part that can is here; until then, and where it cannot, it stands as it was written. */
function formula(node: HTMLElement): void {
  const raw = node.textContent ?? "";
  void import("./math").then((part) => node.isConnected && part.draw(node, raw)).catch(() => {});
}

function safe(html: string): DocumentFragment {
  const made = DOMPurify.sanitize(html, RULES) as unknown as DocumentFragment;
  each<HTMLElement>(made, "p, ul, ol, h1, h2, h3, h4, h5, h6, blockquote, table", (one) => { one.dir = "auto"; }); // as it is written: from the right, too
  each<HTMLAnchorElement>(made, "a", outside);
  each<HTMLImageElement>(made, "img", linked);
  each<HTMLInputElement>(made, "input", (input) => {
    input.type = "checkbox";
    input.disabled = true;
    input.setAttribute("aria-label", input.checked ? tr`done` : tr`not done`);
  });
  each<HTMLElement>(made, "pre > code", (code) => {
    const language = /(?:^|\s)language-(\S+)/.exec(code.className)?.[1] ?? "";
    code.parentElement!.replaceWith(new CodeBlock((code.textContent ?? "").replace(/\n$/, ""), language).node);
  });
  each<HTMLTableElement>(made, "table", framed);
  each<HTMLElement>(made, "blockquote", alerted);
  each<HTMLElement>(made, "sup.noteref", noted);
  return made;
}

interface Made {
  raw: string;
  node: HTMLElement;
  code?: CodeBlock;
}

const named = (token: Token): string => ("lang" in token ? ((token.lang as string) ?? "").split(/\s/)[0]! : "");
/** A fence is closed, or stands alone: what is still written is no diagram yet. */
const whole = (token: Token): boolean => /(`{3,}|~{3,})\s*$/.test(token.raw.trimEnd());

class Markdown extends HTMLElement {
  private source = "";
  private blocks: Made[] = [];

  set text(given: string) {
    const value = given.replace(/\r\n?/g, "\n");
    if (value === this.source) return;
    // What grows at its end leaves all but its last two blocks as they are.
    const keep = value.startsWith(this.source) ? Math.max(0, this.blocks.length - 2) : 0;
    const done = this.blocks.slice(0, keep).reduce((sum, block) => sum + block.raw.length, 0);
    this.source = value;
    const tokens = marked.lexer(value.slice(done));
    let at = keep;
    let gap = ""; // blank lines belong to the block before them, so that the lengths add up
    for (const token of tokens) {
      if (token.type === "space" || token.type === "def") {
        if (this.blocks[at - 1] && at > keep) this.blocks[at - 1]!.raw += token.raw;
        else gap += token.raw;
        continue;
      }
      this.place(at++, token, gap, tokens.links);
      gap = "";
    }
    for (const extra of this.blocks.splice(at)) extra.node.remove();
    if (gap && this.blocks[at - 1]) this.blocks[at - 1]!.raw += gap;
    for (const one of this.querySelectorAll<HTMLElement>("code.math:not([data-seen])")) {
      one.dataset.seen = "";
      formula(one);
    }
  }

  private place(at: number, token: Token, gap: string, links: TokensList["links"]): void {
    const old = this.blocks[at];
    const raw = gap + token.raw;
    if (old && old.raw.trimEnd() === raw.trimEnd()) {
      old.raw = raw;
      return;
    }
    const language = token.type === "code" ? named(token) : "";
    if (token.type === "code" && old?.code?.language === language && !(language === "mermaid" && whole(token))) {
      old.code.grow(token.text);
      old.raw = raw;
      return;
    }
    const node = document.createElement("div");
    node.className = "block";
    const made: Made = { raw, node };
    if (token.type === "code") {
      made.code = new CodeBlock(token.text, language);
      node.append(language === "mermaid" && whole(token) ? new Diagram(made.code).node : made.code.node);
    } else {
      const list = [token] as unknown as TokensList;
      list.links = links;
      node.append(safe(marked.parser(list)));
    }
    if (old) old.node.replaceWith(node);
    else this.append(node);
    this.blocks[at] = made;
  }

  get text(): string {
    return this.source;
  }
}
customElements.define("pal-md", Markdown);

// Blocks of a message that can be worked with: code, tables, notes in boxes. Made of nodes, never of markup.
import { highlight } from "./highlight";
import { tr } from "./words";

const LONG = 30; // lines of code that are shown at once
const SPARE = 8; // fewer hidden ones are not worth a button
const ENDINGS: Record<string, string> = {
  javascript: "js", typescript: "ts", python: "py", bash: "sh", shell: "sh", zsh: "sh", markdown: "md", rust: "rs", ruby: "rb", csharp: "cs", kotlin: "kt", "c++": "cpp", dockerfile: "Dockerfile", text: "txt",
};

export function button(label: string, run: (made: HTMLButtonElement) => void): HTMLButtonElement {
  const made = document.createElement("button");
  made.type = "button";
  made.className = "ghost small";
  made.textContent = label;
  made.onclick = () => run(made);
  return made;
}

/** Put it on the clipboard and say so on the button. */
async function copied(made: HTMLButtonElement, text: string): Promise<void> {
  const label = made.textContent;
  await navigator.clipboard.writeText(text);
  made.textContent = tr`Copied`;
  setTimeout(() => (made.textContent = label), 1500);
}

/** Have the browser save a text as a file. */
export function save(text: string, name: string, type = "text/plain"): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A block of code that may grow while it is written. */
export class CodeBlock {
  readonly node = document.createElement("div");
  private code = document.createElement("code");
  private pre = document.createElement("pre");
  private fold: HTMLButtonElement | null = null;
  private folded = true;

  constructor(public text: string, readonly language: string) {
    this.node.className = "code";
    const head = document.createElement("div");
    head.className = "code-head";
    const name = document.createElement("span");
    name.textContent = language || "text";
    const wrap = button(tr`Wrap`, () => wrap.setAttribute("aria-pressed", String(this.node.classList.toggle("wrap"))));
    wrap.setAttribute("aria-pressed", "false");
    const acts = document.createElement("span");
    acts.className = "code-acts";
    if (/^(?:html|svg)$/i.test(language)) acts.append(button(tr`Show`, () => void import("./viewer").then((part) => part.showArtifact(this.text, language))));
    acts.append(wrap, button(tr`Save`, () => save(this.text, `code.${ENDINGS[language.toLowerCase()] ?? (language.toLowerCase().replace(/[^a-z0-9]/g, "") || "txt")}`)));
    const copy = button(tr`Copy`, () => void copied(copy, this.text));
    copy.classList.add("copy");
    acts.append(copy);
    head.append(name, acts);
    this.pre.tabIndex = 0;
    this.pre.append(this.code);
    this.node.append(head, this.pre);
    this.draw();
  }

  /** More of the same has come: whoever scrolled or pressed something here is not disturbed. */
  grow(text: string): void {
    this.text = text;
    this.draw();
  }

  private draw(): void {
    this.code.replaceChildren(highlight(this.text, this.language));
    const lines = this.text.split("\n").length;
    if (lines <= LONG + SPARE) return;
    if (!this.fold) {
      this.fold = button("", () => { this.folded = !this.folded; this.draw(); });
      this.fold.classList.add("fold");
      this.node.append(this.fold);
    }
    this.node.classList.toggle("folded", this.folded);
    this.fold.textContent = this.folded ? tr`Show all ${lines} lines` : tr`Show less`;
    this.fold.setAttribute("aria-expanded", String(!this.folded));
  }
}

/** A table as CSV, as RFC 4180 writes it. What a spreadsheet would take for a formula stays text. */
export function csv(table: HTMLTableElement): string {
  const cell = (text: string) => {
    const safe = /^[=+@\t\r]|^-(?![\d.])/.test(text) ? `'${text}` : text;
    return /[",\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return [...table.rows].map((row) => [...row.cells].map((one) => cell((one.textContent ?? "").trim())).join(",")).join("\r\n");
}

/** A frame that scrolls, with what can be done with the table. */
export function framed(table: HTMLTableElement): HTMLElement {
  const box = document.createElement("div");
  box.className = "table";
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", tr`table`);
  const acts = document.createElement("div");
  acts.className = "table-acts";
  const copy = button(tr`Copy as CSV`, () => void copied(copy, csv(table)));
  acts.append(copy, button(tr`Save`, () => save(csv(table), "table.csv", "text/csv")));
  table.replaceWith(box);
  scroll.append(table);
  box.append(scroll, acts);
  return box;
}

const ALERT = /^\[!(NOTE|TIP|IMPORTANT|WARNING|CAUTION)\]\s*/i;
const titles = (): Record<string, string> => ({ note: tr`Note`, tip: tr`Tip`, important: tr`Important`, warning: tr`Warning`, caution: tr`Caution` });

/** GitHub's boxes: a quote that begins with [!NOTE] and its like. */
export function alerted(quote: HTMLElement): void {
  const first = quote.firstElementChild;
  const begin = first?.firstChild;
  const found = begin?.nodeType === Node.TEXT_NODE ? ALERT.exec(begin.textContent ?? "") : null;
  if (!first || !begin || !found) return;
  const kind = found[1]!.toLowerCase();
  begin.textContent = begin.textContent!.slice(found[0].length);
  if (!begin.textContent && first.firstElementChild?.tagName === "BR") first.firstElementChild.remove();
  if (!first.textContent?.trim() && !first.children.length) first.remove();
  quote.className = `alert ${kind}`;
  const title = document.createElement("strong");
  title.textContent = titles()[kind]!;
  quote.prepend(title);
}

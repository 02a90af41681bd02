// Mathematics as MathML, which browsers draw themselves. Loaded with the first formula; its nodes are built, not parsed.
import temml from "temml";

const LONGEST = 4_000; // characters of one formula

/** The formula without its marks, and whether it stands by itself. */
function read(raw: string): [string, boolean] {
  if (raw.startsWith("\\(")) return [raw.slice(2, -2), false];
  if (raw.startsWith("\\[") || raw.startsWith("$$")) return [raw.slice(2, -2), true];
  return [raw.slice(1, -1), false];
}

/** Put the drawn formula in the place of the written one. What cannot be understood stays as it was written. */
export function draw(node: HTMLElement, raw: string): void {
  const [tex, display] = read(raw);
  if (tex.length > LONGEST) return;
  const made = document.createElement("span");
  made.className = display ? "formula display" : "formula";
  made.title = raw;
  try {
    temml.render(tex, made, { displayMode: display, throwOnError: true, trust: false, maxExpand: 500, maxSize: [20, 20] });
  } catch {
    return;
  }
  // For whoever copies it: the words of the formula, not its drawing.
  made.addEventListener("copy", (event) => {
    event.clipboardData?.setData("text/plain", raw);
    event.preventDefault();
  });
  node.replaceWith(made);
}

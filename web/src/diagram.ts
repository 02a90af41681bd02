// A block of mermaid, drawn in a frame of no origin; its source is one click away.
import { button, type CodeBlock } from "./blocks";
import { dark, stage } from "./stage";
import { tr } from "./words";

const HIGHEST = 900; // pixels

export class Diagram {
  readonly node = document.createElement("div");
  private room = document.createElement("div");

  constructor(private code: CodeBlock) {
    this.node.className = "diagram";
    this.room.className = "diagram-room";
    this.room.setAttribute("role", "group");
    this.room.setAttribute("aria-label", tr`Diagram`);
    const source = button(tr`Source`, () => this.turn(this.room.isConnected));
    const acts = document.createElement("div");
    acts.className = "table-acts";
    acts.append(source);
    this.node.append(this.room, acts);
    this.begin();
  }

  private turn(source: boolean): void {
    if (source) this.room.replaceWith(this.code.node);
    else this.code.node.replaceWith(this.room);
    if (!source) this.begin(); // a frame that was taken out begins again
  }

  private begin(): void {
    const frame = stage(tr`Diagram`, { type: "diagram", text: this.code.text, dark: dark() }, (told) => {
      if (told.type === "size" && told.height) {
        frame.style.height = `${Math.min(HIGHEST, told.height)}px`;
        frame.classList.add("ready");
      } else if (told.type === "bad") {
        this.turn(true);
        this.node.title = String(told.text ?? "").slice(0, 300);
      }
    });
    this.room.replaceChildren(frame);
  }
}

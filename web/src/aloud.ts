// <pal-aloud>: the button below a message that reads it aloud, and stops that again. Absent where nobody can speak.
import { html, nothing, Part } from "./base";
import { icon } from "./icons";
import { voice } from "./voice";
import { tr } from "./words";

class Aloud extends Part {
  static properties = { ident: {}, text: {} };
  ident = "";
  text = "";

  render(): unknown {
    if (!voice.able) return nothing;
    const now = voice.reading === this.ident;
    const label = now ? tr`Stop reading` : tr`Read aloud`;
    return html`<button type="button" class="ghost icon-only" aria-label=${label} title=${label} @click=${() => voice.toggle(this.ident, this.text)}>${icon(now ? "stop" : "speaker")}</button>`;
  }
}
customElements.define("pal-aloud", Aloud);

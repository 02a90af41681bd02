// The gateway's log, as it is written.
import { html, Page, store, type Payload } from "../base";

class Logs extends Page {
  static properties = { lines: { state: true }, filter: { state: true }, follow: { state: true } };
  heading = "Logs";
  about = "What the gateway says about its own work.";
  lines: string[] = [];
  filter = "";
  follow = true;
  private cursor: number | undefined;
  private timer = 0;

  connectedCallback(): void {
    super.connectedCallback();
    this.timer = window.setInterval(() => this.follow && store.client.link === "open" && void this.load(), 2000);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    clearInterval(this.timer);
  }

  protected async fetch(): Promise<Payload> {
    const answer = await this.ask("logs.tail", this.cursor === undefined ? { limit: 500 } : { cursor: this.cursor, limit: 500 });
    this.cursor = answer.cursor;
    if (answer.lines.length) this.lines = [...(answer.reset ? [] : this.lines), ...answer.lines].slice(-2000);
    return answer;
  }

  protected tools(): unknown {
    return html`<input type="search" placeholder="Filter" aria-label="Filter the log" .value=${this.filter} @input=${(e: Event) => (this.filter = (e.target as HTMLInputElement).value)}>
      <label class="check"><input type="checkbox" .checked=${this.follow} @change=${() => (this.follow = !this.follow)}> Follow</label>`;
  }

  updated(): void {
    const box = this.querySelector(".loglines");
    if (this.follow && box) box.scrollTop = box.scrollHeight;
  }

  protected body(d: Payload): unknown {
    const needle = this.filter.toLowerCase();
    const shown = this.lines.filter((line) => line.toLowerCase().includes(needle));
    const tone = (line: string) => (/\b(ERROR|CRITICAL|error)\b/.test(line) ? "bad" : /\bWARN/i.test(line) ? "warn" : "");
    return html`<div class="loglines" tabindex="0" role="log" aria-label="Log lines">${shown.map((line) => html`<div class=${tone(line)}>${line}</div>`)}${shown.length ? "" : html`<p class="dim">${this.lines.length ? "No line matches." : `Nothing is in ${d.file} yet.`}</p>`}</div>`;
  }
}
customElements.define("pal-logs", Logs);

// The gateway's log, as it is written.
import { html, nothing, Page, type Payload } from "../base";
import { language, tr } from "../words";

interface Entry {
  message: string;
  time?: string;
  level?: string;
  subsystem?: string;
  trace?: string;
}

const LEVELS = ["debug", "info", "warning", "error", "critical"];

/** A line of the file; what is no JSON stands as it is. */
function parsed(line: string): Entry {
  try {
    const found = JSON.parse(line);
    if (typeof found?.message === "string") return found;
  } catch {
    // as it is
  }
  return { message: line };
}

class Logs extends Page {
  static properties = { lines: { state: true }, filter: { state: true }, least: { state: true }, follow: { state: true } };
  heading = tr`Logs`;
  about = tr`What the gateway says about its own work.`;
  lines: string[] = [];
  filter = "";
  least = LEVELS[0]!;
  follow = true;
  private cursor: number | undefined;
  protected every = 2000;

  protected again(): void {
    if (this.follow) void this.load();
  }

  protected async fetch(): Promise<Payload> {
    const answer = await this.ask("logs.tail", this.cursor === undefined ? { limit: 500 } : { cursor: this.cursor, limit: 500 });
    this.cursor = answer.cursor;
    if (answer.lines.length) this.lines = [...(answer.reset ? [] : this.lines), ...answer.lines].slice(-2000);
    return answer;
  }

  protected tools(): unknown {
    return html`<input type="search" placeholder=${tr`Filter`} aria-label=${tr`Filter the log`} .value=${this.filter} @input=${(e: Event) => (this.filter = (e.target as HTMLInputElement).value)}>
      <select aria-label=${tr`Least level`} @change=${(e: Event) => (this.least = (e.target as HTMLSelectElement).value)}>${LEVELS.slice(0, 4).map((level) => html`<option value=${level} ?selected=${level === this.least}>${level === "debug" ? tr`all` : level}</option>`)}</select>
      <label class="check"><input type="checkbox" .checked=${this.follow} @change=${() => (this.follow = !this.follow)}> ${tr`Follow`}</label>`;
  }

  updated(): void {
    const box = this.querySelector(".loglines");
    if (this.follow && box) box.scrollTop = box.scrollHeight;
  }

  /** Who scrolls up wants to read; at the end it goes on. */
  private scrolled(box: HTMLElement): void {
    this.follow = box.scrollTop + box.clientHeight > box.scrollHeight - 40;
  }

  private line(entry: Entry): unknown {
    if (!entry.level) return html`<div>${entry.message}</div>`;
    const tone = entry.level === "error" || entry.level === "critical" ? "bad" : entry.level === "warning" ? "warn" : "";
    return html`<div class=${tone}><time title=${entry.time ?? ""}>${new Date(entry.time ?? "").toLocaleTimeString(language())}</time> <b>${entry.level}</b> <span class="dim">${entry.subsystem}</span> ${entry.message}${entry.trace ? html`<details><summary>${tr`Traceback`}</summary><pre>${entry.trace}</pre></details>` : nothing}</div>`;
  }

  protected body(d: Payload): unknown {
    const needle = this.filter.toLowerCase();
    const least = LEVELS.indexOf(this.least);
    const shown = this.lines.filter((line) => line.toLowerCase().includes(needle)).map(parsed).filter((one) => !least || LEVELS.indexOf(one.level ?? "") >= least);
    return html`<div class="loglines" tabindex="0" @scroll=${(e: Event) => this.scrolled(e.target as HTMLElement)} role="log" aria-label=${tr`Log lines`}>${shown.map((one) => this.line(one))}${shown.length ? "" : html`<p class="dim">${this.lines.length ? tr`No line matches.` : tr`Nothing is in ${d.file} yet.`}</p>`}</div>`;
  }
}
customElements.define("pal-logs", Logs);

// <pal-list>: a long conversation of which only the visible part exists. Keeps its place when heights turn out
// different from the guess, and stays at the end while somebody reads along.
import { html, LitElement, nothing } from "lit";
import { repeat } from "lit/directives/repeat.js";
import { icon } from "./icons";
import { dated } from "./text";
import type { Item } from "./transcript";
import { tr } from "./words";

const GUESS = 110; // pixels of a message nobody has seen yet
const MARGIN = 900; // pixels drawn above and below what is visible
const NEAR = 60; // this close to the end counts as the end

export class List extends LitElement {
  static properties = { items: { attribute: false }, busy: { type: Boolean }, from: { state: true }, to: { state: true }, away: { state: true } };
  items: Item[] = [];
  busy = false;
  from = 0;
  to = 0;
  away = false; // scrolled up
  drawn: (item: Item) => unknown = () => nothing;
  ontop: () => void = () => {};
  private heights = new Map<string, number>();
  private stick = true;
  private seen = new ResizeObserver(() => this.measured());
  private frame = 0;
  private last = 0; // where it stood
  private anchor: { id: string; top: number } | null = null;

  createRenderRoot(): HTMLElement {
    return this;
  }

  connectedCallback(): void {
    super.connectedCallback();
    this.seen.observe(this);
  }

  disconnectedCallback(): void {
    super.disconnectedCallback();
    this.seen.disconnect();
  }

  /** Go to the newest message and stay there. */
  end(): void {
    this.stick = true;
    this.away = false;
    this.requestUpdate();
  }

  forget(): void {
    this.heights.clear();
    this.end();
  }

  private height(at: number): number {
    return this.heights.get(this.items[at]!.id) ?? GUESS;
  }

  private get box(): HTMLElement | null {
    return this.querySelector(".log");
  }

  /** Which items are near the visible part. */
  private range(): void {
    const box = this.box;
    const view = box?.clientHeight || 800;
    const total = this.items.length;
    if (this.stick || !box) {
      let room = view + MARGIN;
      let at = total;
      while (at > 0 && room > 0) room -= this.height(--at);
      this.from = at;
      this.to = total;
      return;
    }
    let y = 0;
    let at = 0;
    const top = this.goal(box) - MARGIN;
    while (at < total && y + this.height(at) < top) y += this.height(at++);
    this.from = at;
    while (at < total && y < top + view + 2 * MARGIN) y += this.height(at++);
    this.to = at;
  }

  /** Where the list will stand: where it is, or where the held item has moved to. */
  private goal(box: HTMLElement): number {
    const held = this.anchor ? this.items.findIndex((item) => item.id === this.anchor!.id) : -1;
    if (held < 0) return box.scrollTop;
    let above = -this.anchor!.top;
    for (let at = 0; at < held; at++) above += this.height(at);
    return Math.max(0, above);
  }

  willUpdate(changed: Map<string, unknown>): void {
    if (changed.has("items")) this.anchor ??= this.held();
    this.range();
  }

  /** The first visible item and where it stands. */
  private held(): { id: string; top: number } | null {
    const box = this.box;
    if (!box || this.stick) return null;
    const edge = box.getBoundingClientRect().top;
    for (const node of box.querySelectorAll<HTMLElement>(":scope > .row")) {
      const place = node.getBoundingClientRect();
      if (place.bottom > edge) return { id: node.dataset.id!, top: place.top - edge };
    }
    return null;
  }

  updated(): void {
    this.pads();
    this.measured();
  }

  private measured(): void {
    const box = this.box;
    if (!box) return;
    let moved = false;
    for (const node of box.querySelectorAll<HTMLElement>(":scope > .row")) {
      const height = node.offsetHeight;
      this.seen.observe(node);
      if (height && this.heights.get(node.dataset.id!) !== height) {
        this.heights.set(node.dataset.id!, height);
        moved = true;
      }
    }
    if (moved) this.pads();
    if (this.stick) {
      box.scrollTop = box.scrollHeight;
      this.last = box.scrollTop;
    } else if (this.anchor) {
      const node = box.querySelector<HTMLElement>(`:scope > .row[data-id="${CSS.escape(this.anchor.id)}"]`);
      if (node) box.scrollTop += node.getBoundingClientRect().top - box.getBoundingClientRect().top - this.anchor.top;
    }
    this.anchor = null;
  }

  /** The room of what is not drawn. */
  private pads(): void {
    let above = 0;
    let below = 0;
    for (let at = 0; at < this.from; at++) above += this.height(at);
    for (let at = this.to; at < this.items.length; at++) below += this.height(at);
    const [head, tail] = [this.querySelector<HTMLElement>(".pad-top"), this.querySelector<HTMLElement>(".pad-end")];
    if (head) head.style.height = `${above}px`;
    if (tail) tail.style.height = `${below}px`;
  }

  private scrolled(): void {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => {
      const box = this.box;
      if (!box) return;
      const near = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR;
      // What grew below is no reason to leave the end: only somebody who scrolls up does.
      const end = near || (this.stick && box.scrollTop >= this.last);
      if (end && !near) box.scrollTop = box.scrollHeight;
      this.last = box.scrollTop;
      this.stick = end;
      this.away = !end;
      if (box.scrollTop < 600 && this.items.length) this.ontop();
      if (end) return;
      const [from, to] = [this.from, this.to];
      this.range();
      if (this.from === from && this.to === to) return;
      this.anchor = this.held();
      this.requestUpdate();
    });
  }

  private key(event: KeyboardEvent): void {
    if (event.key === "End" && event.target === this.box) this.end();
  }

  private named(item: Item): string {
    return item.kind === "user" ? tr`You` : item.kind === "assistant" ? tr`Assistant` : tr`Note`;
  }

  /** The date, where a day begins. */
  private day(item: Item, at: number): unknown {
    let last = at - 1;
    while (last > 0 && !this.items[last]!.at) last--; // what is being said has no time yet
    const before = this.items[last];
    if (!item.at || item.kind !== "user" || (before && new Date(before.at).toDateString() === new Date(item.at).toDateString())) return nothing;
    if (!before && new Date(item.at).toDateString() === new Date().toDateString()) return nothing;
    return html`<h2 class="day">${dated(item.at)}</h2>`;
  }

  /** Bring an item into view. */
  async show(id: string): Promise<void> {
    const at = this.items.findIndex((item) => item.id === id);
    if (at < 0) return;
    this.stick = false;
    this.away = true;
    this.anchor = { id, top: 60 };
    this.requestUpdate();
    await this.updateComplete;
    const node = this.box?.querySelector<HTMLElement>(`:scope > .row[data-id="${CSS.escape(id)}"]`);
    node?.scrollIntoView({ block: "center" });
    node?.classList.add("found");
    setTimeout(() => node?.classList.remove("found"), 2500);
  }

  render(): unknown {
    const rows = this.items.slice(this.from, this.to);
    return html`<div class="log" role="log" aria-label=${tr`Conversation`} aria-live="off" aria-busy=${this.busy} tabindex="0"
        @scroll=${() => this.scrolled()} @keydown=${(e: KeyboardEvent) => this.key(e)}
        @wheel=${(e: WheelEvent) => { if (e.deltaY < 0) this.stick = false; }} @touchmove=${() => { this.stick = false; }}>
      <div class="pad-top"></div>
      ${repeat(rows, (item) => item.id, (item, at) => html`<article class="row ${item.kind}" data-id=${item.id} aria-label=${this.named(item)}>${this.day(item, this.from + at)}${this.drawn(item)}</article>`)}
      <div class="pad-end"></div></div>
      ${this.away ? html`<button type="button" class="to-end" @click=${() => this.end()} aria-label=${tr`Go to the newest message`}>${icon("down")}</button>` : nothing}`;
  }
}
customElements.define("pal-list", List);

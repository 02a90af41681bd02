// Reading aloud: answers as sound, sentence by sentence, so that the first is heard while the rest is still being made or
// written. The gateway's voice if it has one, else the browser's own. One thing is read at a time; whoever speaks or writes
// interrupts it.
import { store } from "./store";
import type { Payload } from "./client";

const FIRST = 40; // characters of the first piece at least: heard soon
const PIECE = 180; // and of the others: said in one breath
const LONGEST = 1500;

/** What there is to be said of Markdown: no code, no tables, no pictures. */
export const words = (text: string): string =>
  text.replace(/^(```|~~~)[^\n]*\n[\s\S]*?(?:^\1[^\n]*$|$(?![\s\S]))/gm, "").replace(/^\|.*$/gm, "").replace(/!\[[^\]]*\]\([^)]*\)/g, "");

/** How many characters of `text` from `at` on are whole sentences, enough for a piece; 0 if there is none yet. */
export function piece(text: string, at: number, last: boolean): number {
  const rest = text.slice(at);
  if (!rest.trim()) return 0;
  const least = at ? PIECE : FIRST;
  const ends = /[.!?…。！？]["'»”)\]*_]*(?=\s)|\n/g;
  for (let found = ends.exec(rest); found; found = ends.exec(rest)) {
    const end = found.index + found[0].length;
    if (end > LONGEST) break;
    if (rest.slice(0, end).trim().length >= least) return end;
  }
  return last ? Math.min(rest.length, LONGEST) : rest.length > LONGEST ? LONGEST : 0;
}

class Voice {
  reading = ""; // what is read: a message, or a run whose answer grows
  talking = false; // every answer is read as it comes
  config: Payload = {}; // talk.config
  private text = "";
  private at = 0;
  private whole = false;
  private turn = 0;
  private queue: Promise<() => Promise<void>>[] = [];
  private playing = false;
  private sound: HTMLAudioElement | null = null;
  private done = ""; // the run that was read, or interrupted, last

  /** Whether anybody can read aloud: the gateway, or the browser. */
  get able(): boolean {
    return store.client.has("talk.speak") && (Boolean(this.config.provider) || Boolean(window.speechSynthesis?.getVoices().length));
  }

  async learn(): Promise<void> {
    const answer = await store.client.request<Payload>("talk.config").catch(() => null);
    this.config = answer?.config?.talk ?? {};
    store.changed();
  }

  /** Read a message that is there, or stop reading it. */
  toggle(id: string, text: string): void {
    if (this.reading === id) return this.stop();
    this.begin(id);
    this.feed(text, true);
  }

  talk(on: boolean): void {
    this.talking = on;
    this.done = store.talk.live?.run ?? ""; // what is being said already is not read from its middle
    if (!on) this.stop();
    void store.client.request("talk.mode", { enabled: on }).catch(() => {});
    store.changed();
  }

  /** Somebody speaks or writes. */
  interrupt(): void {
    if (this.config.interruptOnSpeech !== false) this.stop();
  }

  stop(): void {
    this.turn++;
    this.queue = [];
    this.done = this.reading || this.done;
    this.reading = "";
    this.playing = false;
    this.sound?.pause();
    this.sound = null;
    window.speechSynthesis?.cancel();
    store.changed();
  }

  /** Something has changed in the conversation: an answer may have grown. */
  look(): void {
    const live = store.talk.live;
    if (live && this.talking && live.run !== this.done && this.reading !== live.run) this.begin(live.run);
    if (!this.reading || this.whole || (live && live.run !== this.reading)) return;
    const text = live?.blocks.map((one) => (one.type === "text" ? one.text : "")).filter(Boolean).join("\n\n") ?? "";
    this.feed(words(text).length >= this.at ? text : this.text, !live || live.over);
  }

  private begin(id: string): void {
    this.stop();
    this.reading = id;
    this.text = "";
    this.at = 0;
    this.whole = false;
    store.changed();
  }

  private feed(text: string, whole: boolean): void {
    this.text = text || this.text;
    const said = words(this.text);
    this.whole = whole;
    for (let size = piece(said, this.at, whole); size; size = piece(said, this.at, whole)) {
      this.queue.push(this.make(said.slice(this.at, this.at + size).trim()));
      this.at += size;
    }
    if (!this.playing) void this.play();
  }

  /** Ask for the sound at once; what is returned plays it. */
  private async make(text: string): Promise<() => Promise<void>> {
    if (this.config.provider) {
      const answer = await store.client.request<Payload>("talk.speak", { text }).catch((error: Error) => error);
      if (!(answer instanceof Error)) return () => this.hear(answer);
      if (!window.speechSynthesis?.getVoices().length) store.toast(answer.message, "error");
    }
    return () => this.utter(text);
  }

  private async play(): Promise<void> {
    const turn = this.turn;
    this.playing = true;
    while (turn === this.turn && this.queue.length) {
      const run = await this.queue[0]!;
      if (turn !== this.turn) return;
      this.queue.shift();
      await run();
    }
    if (turn !== this.turn) return;
    this.playing = false;
    if (this.whole) this.stop();
  }

  private hear(answer: Payload): Promise<void> {
    const bytes = Uint8Array.from(atob(answer.audioBase64), (letter) => letter.charCodeAt(0));
    const url = URL.createObjectURL(new Blob([bytes], { type: answer.mimeType }));
    const sound = (this.sound = new Audio(url));
    return new Promise((resolve) => {
      sound.onended = sound.onerror = sound.onpause = () => {
        URL.revokeObjectURL(url);
        resolve();
      };
      sound.play().catch(() => resolve()); // the browser lets nobody speak before the person has touched the page
    });
  }

  private utter(text: string): Promise<void> {
    if (!window.speechSynthesis?.getVoices().length) return Promise.resolve();
    const said = new SpeechSynthesisUtterance(text);
    if (this.config.speechLocale) said.lang = this.config.speechLocale;
    return new Promise((resolve) => {
      said.onend = said.onerror = () => resolve();
      window.speechSynthesis.speak(said);
    });
  }
}

export const voice = new Voice();
store.listen(() => voice.look());
store.onready = () => void voice.learn();

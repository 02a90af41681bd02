// A voice note, while it is spoken: the microphone, the time, and the file in the end. Knows nothing of messages.
const LONGEST = 10 * 60_000; // ms; then it stops by itself
const LOUD = 0.02; // what counts as speech, of 1
const KINDS = ["audio/webm;codecs=opus", "audio/mp4", "audio/ogg;codecs=opus"];
const ENDINGS: Record<string, string> = { "audio/webm": "webm", "audio/mp4": "m4a", "audio/ogg": "ogg" };

/** Whether this browser can record here (it needs https or localhost). */
export const able = (): boolean => Boolean(navigator.mediaDevices?.getUserMedia) && "MediaRecorder" in window;

export class Recorder {
  started = 0;
  private chunks: Blob[] = [];
  private done: Promise<void>;
  private timer: number;

  private constructor(private stream: MediaStream, private machine: MediaRecorder) {
    machine.ondataavailable = (event) => this.chunks.push(event.data);
    this.done = new Promise((resolve) => (machine.onstop = () => resolve()));
    machine.start(1000);
    this.started = Date.now();
    this.timer = window.setTimeout(() => this.halt(), LONGEST);
  }

  /** Begin. Rejects when the person or the machine gives no microphone. */
  static async begin(): Promise<Recorder> {
    const stream = await navigator.mediaDevices.getUserMedia({ audio: true });
    const mimeType = KINDS.find((kind) => MediaRecorder.isTypeSupported(kind));
    return new Recorder(stream, new MediaRecorder(stream, mimeType ? { mimeType } : {}));
  }

  /** Call `done` when somebody has spoken and then been quiet for so many milliseconds. */
  watch(quiet: number, done: () => void): void {
    const context = new AudioContext();
    const ear = context.createAnalyser();
    context.createMediaStreamSource(this.stream).connect(ear);
    const wave = new Float32Array(ear.fftSize);
    let heard = 0;
    const timer = window.setInterval(() => {
      ear.getFloatTimeDomainData(wave);
      const loud = Math.sqrt(wave.reduce((sum, one) => sum + one * one, 0) / wave.length) > LOUD;
      if (loud) heard = Date.now();
      const over = this.machine.state === "inactive";
      if (!over && (!heard || Date.now() - heard < quiet)) return;
      clearInterval(timer);
      void context.close();
      if (!over) done();
    }, 50);
  }

  get elapsed(): number {
    return Date.now() - this.started;
  }

  /** End, with what was said. */
  async end(): Promise<File> {
    this.halt();
    await this.done;
    const kind = (this.machine.mimeType || "audio/webm").split(";")[0]!;
    return new File(this.chunks, `voice note.${ENDINGS[kind] ?? "webm"}`, { type: kind });
  }

  /** Stop listening. */
  halt(): void {
    clearTimeout(this.timer);
    if (this.machine.state !== "inactive") this.machine.stop();
    for (const track of this.stream.getTracks()) track.stop();
  }
}

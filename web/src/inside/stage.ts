// What runs in a stage: a page of no origin and without a network. It is told what to show, once, and tells its measures.
interface Mermaid {
  initialize(options: Record<string, unknown>): void;
  render(id: string, text: string): Promise<{ svg: string }>;
}

const own = document.currentScript as HTMLScriptElement;
const tell = (told: Record<string, unknown>): void => parent.postMessage({ palinurus: told }, "*");

function load(src: string): Promise<void> {
  return new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = src;
    script.onload = () => done();
    script.onerror = () => fail(new Error("the part that draws could not be loaded"));
    document.head.append(script);
  });
}

async function draw(text: string, dark: boolean): Promise<void> {
  document.documentElement.style.colorScheme = dark ? "dark" : "light";
  try {
    await load(own.dataset.mermaid!);
    const mermaid = (window as unknown as { mermaid: Mermaid }).mermaid;
    mermaid.initialize({ startOnLoad: false, securityLevel: "strict", theme: dark ? "dark" : "neutral", suppressErrorRendering: true, fontFamily: "system-ui, sans-serif" });
    document.body.innerHTML = (await mermaid.render("drawn", text)).svg;
    const svg = document.querySelector("svg")!;
    const measure = () => tell({ type: "size", width: svg.scrollWidth, height: Math.ceil(svg.getBoundingClientRect().height) + 8 });
    new ResizeObserver(measure).observe(svg);
    measure();
  } catch (error) {
    tell({ type: "bad", text: (error as Error).message });
  }
}

addEventListener("message", (event) => {
  const told = event.data?.palinurus;
  if (event.source !== parent || !told) return;
  if (told.type === "diagram") void draw(String(told.text), Boolean(told.dark));
  if (told.type === "html") {
    document.open();
    document.write(String(told.html));
    document.close();
  }
});
tell({ type: "ready" });

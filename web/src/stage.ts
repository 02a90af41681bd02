// A frame of no origin for what models draw: diagrams and pages. It can reach neither this page nor anybody else; what it
// shows is given to it by message, and all that comes back are its measures.
import { BASE } from "./place";

export interface Told {
  type: string;
  width?: number;
  height?: number;
  text?: string;
}

/** A frame that shows `what` as soon as it is there. */
export function stage(title: string, what: Record<string, unknown>, hear: (told: Told) => void): HTMLIFrameElement {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts");
  frame.setAttribute("referrerpolicy", "no-referrer");
  frame.title = title;
  frame.src = `${BASE}/stage.html`;
  const heard = (event: MessageEvent) => {
    if (event.source !== frame.contentWindow) return;
    if (!frame.isConnected) { removeEventListener("message", heard); return; }
    const told = event.data?.palinurus as Told | undefined;
    if (!told || typeof told !== "object") return;
    // It is of no origin, so no other can be named; what it is told is no secret to itself.
    if (told.type === "ready") frame.contentWindow?.postMessage({ palinurus: what }, "*");
    else hear(told);
  };
  addEventListener("message", heard);
  return frame;
}

export const dark = (): boolean => {
  const now = document.documentElement.dataset.theme;
  return now === "dark" || (now !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
};

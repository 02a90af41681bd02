// Line icons, drawn for a 24 pixel square. Decoration only: the control around an icon carries the name.
import { html, svg, type TemplateResult } from "lit";

const paths: Record<string, string> = {
  plus: "M12 5v14M5 12h14",
  search: "M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  menu: "M4 7h16M4 12h16M4 17h16",
  close: "M6 6l12 12M18 6L6 18",
  copy: "M9 9h10v10H9zM5 15V5h10",
  edit: "M4 20h4L19 9l-4-4L4 16zM13 7l4 4",
  branch: "M7 5v14M7 12c6 0 10-1 10-6M17 6V5M5 19h4M5 5h4M15 5h4",
  retry: "M20 12a8 8 0 1 1-2.300-5.700M20 4v5h-5",
  why: "M9.500 9a2.700 2.700 0 1 1 4 2.400c-1 .6-1.500 1.100-1.500 2.300M12 17.200v.1M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z",
  down: "M6 9l6 6 6-6",
  right: "M9 6l6 6-6 6",
  check: "M5 12.500l4.500 4.500L19 7.500",
  tool: "M14.500 6.500a4 4 0 0 0 5 5L12 19a2.800 2.800 0 0 1-4-4l7.500-7.500zM14.500 6.500L17 4a5 5 0 0 1 3 3l-2.500 2.500",
  terminal: "M5 7l5 5-5 5M12 18h7",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
  globe: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM3 12h18M12 3c3 3 3 15 0 18M12 3c-3 3-3 15 0 18",
  brain: "M9 4a3 3 0 0 0-3 3 3 3 0 0 0-2 5 3 3 0 0 0 2 5 3 3 0 0 0 6 0V7a3 3 0 0 0-3-3zM15 4a3 3 0 0 1 3 3 3 3 0 0 1 2 5 3 3 0 0 1-2 5 3 3 0 0 1-6 0V7a3 3 0 0 1 3-3z",
  clip: "M19 11l-7.500 7.500a4.500 4.500 0 0 1-6.400-6.400L13 4.300a3 3 0 0 1 4.200 4.200L9.500 16.300a1.500 1.500 0 0 1-2.100-2.100L14.500 7",
  sun: "M12 16a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM12 3v2M12 19v2M3 12h2M19 12h2M5.600 5.600L7 7M17 17l1.400 1.400M5.600 18.400L7 17M17 7l1.400-1.400",
  moon: "M20 14.500A8 8 0 0 1 9.500 4 8 8 0 1 0 20 14.500z",
  gear: "M12 15a3 3 0 1 0 0-6 3 3 0 0 0 0 6zM19 12l2-1-1.500-4-2.200.5-1.600-1.300L15.500 4h-4l-.7 2.200-1.800.8L7 6 4.500 9.300 6 11v2l-1.500 1.700L7 18l2-1 1.800.8.7 2.200h4l.4-2.200 1.600-1.300 2.200.5L21 13z",
  chat: "M4 5h16v11H9l-5 4z",
  chart: "M5 20V10M12 20V4M19 20v-7",
  people: "M9 11a3.500 3.500 0 1 0 0-7 3.500 3.500 0 0 0 0 7zM2.500 20c.5-4 3-6 6.500-6s6 2 6.500 6M16 4.500a3.500 3.500 0 0 1 0 6M18 14.500c2 .8 3.200 2.600 3.500 5.500",
  spark: "M12 3l2 6.500L20 12l-6 2.500L12 21l-2-6.500L4 12l6-2.500z",
  clock: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 7v5l3.500 2",
  shield: "M12 3l7 3v6c0 4.500-3 7.500-7 9-4-1.500-7-4.500-7-9V6z",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.1M4 12h.1M4 18h.1",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  more: "M5 12h.1M12 12h.1M19 12h.1",
  bolt: "M13 3L5 14h6l-1 7 8-11h-6z",
  contrast: "M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18zM12 3v18M12 8h7.500M12 12h9M12 16h7.500",
  archive: "M4 5h16v4H4zM6 9v11h12V9M10 13h4",
};

export const icon = (name: string): TemplateResult =>
  html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">${svg`<path d=${paths[name] ?? ""}></path>`}</svg>`;

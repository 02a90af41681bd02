// Files of a message as values: what they are, and what a message says about them. Knows neither the store nor a view.
export interface Attachment {
  name: string;
  mimeType: string;
  content: string; // base64
  bytes: number;
  voice?: boolean; // spoken just now
}

/** A file of a message: at hand, or to be asked for. */
export interface FileRef {
  name: string;
  mimeType: string;
  size: number;
  voice?: boolean;
  content?: string;
}

const PICTURES = ["image/png", "image/jpeg", "image/gif", "image/webp"];
export const picture = (file: { mimeType: string }): boolean => PICTURES.includes(file.mimeType);
export const data = (file: { mimeType: string; content: string }): string => `data:${file.mimeType};base64,${file.content}`;

// What the lines that tell the model of files look like.
const LINES: [RegExp, (found: RegExpExecArray) => string][] = [
  [/^\[file .+ \([^()]+\) at .+\]$/, () => ""],
  [/^\[voice note(?:, \d+ s)?\] ?(.*)$/, (found) => found[1]!],
  [/^\[(?:voice note|recording .+?)(?:, \d+ s)?: (could not be [^;]*?)(?:; .*)?\]$/, (found) => `(${found[1]})`],
];

export const UNHEARD = "(could not be "; // as above

/** Whether the text looks as if files had come along. */
export const hints = (text: string): boolean => /^\[(?:file |voice note|recording )/m.test(text);

/** What the person said, without the lines that tell the model of files. */
export function spoken(text: string): string {
  const lines = text.split("\n").map((line) => {
    for (const [pattern, made] of LINES) {
      const found = pattern.exec(line);
      if (found) return made(found);
    }
    return line;
  });
  return lines.join("\n").replace(/\n{3,}/g, "\n\n").trim();
}

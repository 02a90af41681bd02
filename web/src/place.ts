// Where the page stands: "" or gateway.controlUi.basePath. Its script lies beside it.
const meta = (name: string): string => document.querySelector<HTMLMetaElement>(`meta[name=${name}]`)?.content ?? "";
// What the config's `ui` says of the page: the assistant's name and picture (an image, or a letter or two), its colour.
export const NAME = meta("assistant") || "Palinurus";
export const AVATAR = meta("avatar");
export const SEAM = meta("seam");
export const BASE = new URL(".", import.meta.url).pathname.slice(0, -1);

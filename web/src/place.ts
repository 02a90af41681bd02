// Where the page stands: "" or gateway.controlUi.basePath. Its script lies beside it.
export const BASE = new URL(".", import.meta.url).pathname.slice(0, -1);

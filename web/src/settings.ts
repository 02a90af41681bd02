// Writing a part of the config from a page: as it was when it was read, or not at all.
import { store } from "./base";
import type { Payload } from "./client";
import { tr } from "./words";

export const readConfig = (): Promise<Payload> => store.client.request<Payload>("config.get");

/** Lay a patch over the config; a list is made of the one that is there now, which may be another than the page has shown.
 * Whether a restart is needed is said. Throws what is wrong. */
export async function writeConfig(patch: Payload | ((config: Payload) => Payload), whole: string[] = []): Promise<void> {
  const now = await readConfig();
  const made = typeof patch === "function" ? patch(now.config ?? {}) : patch;
  const done = await store.client.request<Payload>("config.patch", { raw: JSON.stringify(made), baseHash: now.hash, ...(whole.length ? { replacePaths: whole } : {}) });
  store.toast(done.restartRequired?.length ? tr`Saved. It takes effect after a restart.` : tr`Saved`);
}

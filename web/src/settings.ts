// Writing a part of the config from a page: as it was when it was read, or not at all.
import { store } from "./base";
import type { Payload } from "./client";
import { tr } from "./words";

export const readConfig = (): Promise<Payload> => store.client.request<Payload>("config.get");

/** Lay `patch` over the config. Whether a restart is needed is said. Throws what is wrong. */
export async function writeConfig(patch: Payload, whole: string[] = []): Promise<void> {
  const now = await readConfig();
  const done = await store.client.request<Payload>("config.patch", { raw: JSON.stringify(patch), baseHash: now.hash, ...(whole.length ? { replacePaths: whole } : {}) });
  store.toast(done.restartRequired?.length ? tr`Saved. It takes effect after a restart.` : tr`Saved`);
}

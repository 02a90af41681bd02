// Whether the page begins with the first run's questions; they themselves are loaded then.
import type { Payload } from "./client";
import { store } from "./store";

export const SKIPPED = "setup.skipped";

/** Whether the page should begin with these questions: a new install, and nobody said no. */
export async function wanted(): Promise<boolean> {
  const client = store.client;
  if (!client.has("setup.status") || !client.may.includes("operator.admin")) return false;
  const status = await client.request<Payload>("setup.status").catch(() => null);
  store.demo = Boolean(status?.needed);
  return store.demo && !localStorage.getItem(SKIPPED);
}

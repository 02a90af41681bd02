// The page as an app: its service worker, notices while nobody looks, several tabs in step, swipes on a phone.
import { base64url } from "./identity";
import { drop, get, put } from "./kept";
import { BASE } from "./place";
import { theme } from "./sidebar";
import { store } from "./store";
import { tr } from "./words";

const LATER = 2_500; // ms: after everything that somebody waits for
const EDGE = 28; // px from the left where a swipe begins
const FAR = 60; // px that make a swipe

/** Browsers take only an address that a policy made; this one makes ours. */
const policy = (window as any).trustedTypes?.createPolicy("palinurus", { createScriptURL: (name: string) => `${BASE}/${name}` });
const worker = (): Promise<ServiceWorkerRegistration> => navigator.serviceWorker.register(policy ? policy.createScriptURL("sw.js") : `${BASE}/sw.js`, { scope: `${BASE}/` });

/** Whether this browser could be notified at all. */
export const able = (): boolean => isSecureContext && "serviceWorker" in navigator && "PushManager" in window && "Notification" in window && store.client.has("push.subscribe");

export const subscribed = async (): Promise<boolean> => Boolean(await get("push"));

/** Ask the browser, then the gateway, to notify this device. Why not, if not. */
export async function subscribe(): Promise<string> {
  if ((await Notification.requestPermission()) !== "granted") return tr`The browser does not allow notifications for this page.`;
  const { publicKey } = await store.client.request("push.key");
  const own = await worker();
  await navigator.serviceWorker.ready;
  const raw = Uint8Array.from(atob(publicKey.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0));
  let now = await own.pushManager.getSubscription();
  if (now && base64url(now.options.applicationServerKey!) !== publicKey) now = (await now.unsubscribe(), null); // of another gateway
  now ??= await own.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: raw });
  const { secret } = await store.client.request("push.subscribe", { endpoint: now.endpoint });
  await put("push", { secret, words: { approval: tr`Palinurus needs your approval`, done: tr`Palinurus has answered`, failed: tr`Palinurus could not answer`, other: tr`Something happened in Palinurus` } });
  return "";
}

export async function unsubscribe(): Promise<void> {
  await store.client.request("push.unsubscribe").catch(() => null);
  await drop("push");
  const own = await navigator.serviceWorker.getRegistration(`${BASE}/`);
  await (await own?.pushManager.getSubscription())?.unsubscribe();
}

/** What was changed in another tab. */
function other(event: StorageEvent): void {
  if (event.key === "theme") theme();
  else if (event.key === "language") location.reload();
  else if (event.key === "seen") store.seen = { ...store.seen, ...JSON.parse(event.newValue ?? "{}") };
  else if (event.key === "drafts") {
    store.drafts = JSON.parse(event.newValue ?? "{}");
    (document.querySelector("pal-composer") as (HTMLElement & { lay(): void }) | null)?.lay();
  }
  else return;
  store.changed();
}

/** From the edge to the right: the list of conversations; to the left: away with it. */
function swipes(): void {
  let from: Touch | null = null;
  addEventListener("touchstart", (event) => {
    const touch = event.touches[0]!;
    from = event.touches.length === 1 && (touch.clientX < EDGE || document.body.classList.contains("side-open")) ? touch : null;
  }, { passive: true });
  addEventListener("touchend", (event) => {
    const to = event.changedTouches[0]!;
    if (!from || Math.abs(to.clientY - from.clientY) > FAR) return;
    const moved = to.clientX - from.clientX;
    if (moved > FAR) document.body.classList.add("side-open");
    else if (moved < -FAR) document.body.classList.remove("side-open");
  }, { passive: true });
}

export function live(): void {
  addEventListener("storage", other);
  swipes();
  if (isSecureContext && "serviceWorker" in navigator) setTimeout(() => void worker().catch(() => {}), LATER);
}

// This browser as a device: an Ed25519 key that never leaves it, and the token the gateway gave it.
const DB = "palinurus";
const SHELF = "kept";

export interface Device {
  id: string;
  publicKey: string;
  sign(text: string): Promise<string>;
}

interface Stored {
  id: string;
  publicKey: string;
  key: CryptoKey;
}

const memory = new Map<string, unknown>(); // where IndexedDB is closed to us (private windows)

function open(): Promise<IDBDatabase> {
  return new Promise((done, fail) => {
    const asked = indexedDB.open(DB, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(SHELF);
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => fail(asked.error);
  });
}

async function shelf<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const db = await open();
  try {
    return await new Promise<T>((done, fail) => {
      const asked = act(db.transaction(SHELF, mode).objectStore(SHELF));
      asked.onsuccess = () => done(asked.result);
      asked.onerror = () => fail(asked.error);
    });
  } finally {
    db.close();
  }
}

async function get<T>(name: string): Promise<T | undefined> {
  try {
    return (await shelf("readonly", (store) => store.get(name))) as T | undefined;
  } catch {
    return memory.get(name) as T | undefined;
  }
}

async function put(name: string, value: unknown): Promise<void> {
  memory.set(name, value);
  try {
    await shelf("readwrite", (store) => store.put(value, name));
  } catch {
    // the copy in memory serves until the window closes
  }
}

export const base64url = (bytes: ArrayBuffer): string =>
  btoa(String.fromCharCode(...new Uint8Array(bytes)))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replace(/=+$/, "");

const hex = (bytes: ArrayBuffer): string =>
  [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");

/** The device, made on first use; null where the browser gives no keys (plain http away from localhost). */
export async function device(): Promise<Device | null> {
  if (!globalThis.crypto?.subtle) return null;
  let kept = await get<Stored>("device");
  if (!kept) {
    const pair = (await crypto.subtle.generateKey("Ed25519", false, ["sign", "verify"])) as CryptoKeyPair;
    const raw = await crypto.subtle.exportKey("raw", pair.publicKey);
    kept = { id: hex(await crypto.subtle.digest("SHA-256", raw)), publicKey: base64url(raw), key: pair.privateKey };
    await put("device", kept);
  }
  const { id, publicKey, key } = kept;
  const sign = async (text: string) => base64url(await crypto.subtle.sign("Ed25519", key, new TextEncoder().encode(text)));
  return { id, publicKey, sign };
}

export const savedToken = (): Promise<string | undefined> => get<string>("token");
export const saveToken = (token: string): Promise<void> => put("token", token);

/** The token handed over in the address, which is cleaned at once. */
export function tokenInAddress(): string {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) history.replaceState(history.state, "", location.pathname + location.search);
  return found ?? "";
}

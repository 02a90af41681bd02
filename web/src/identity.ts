// This browser as a device: an Ed25519 key that never leaves it, and the token the gateway gave it.
import { get, put } from "./kept";

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

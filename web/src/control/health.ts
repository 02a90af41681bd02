// One word for how an account of a chat app is.
import { html, type Payload } from "../base";
import { tr } from "../words";

const tones: Record<string, string> = { ready: "good", starting: "", reconnecting: "warned", failed: "bad", signed_out: "bad", stopped: "" };
const words: Record<string, string> = { signed_out: tr`signed out`, ready: tr`connected`, starting: tr`starting`, reconnecting: tr`reconnecting`, failed: tr`failed`, stopped: tr`stopped` };

export function health(account: Payload): unknown {
  const state = account.healthState ?? (account.running ? "ready" : "stopped");
  return html`<span class="tag ${tones[state] ?? ""}">${words[state] ?? state}</span>`;
}

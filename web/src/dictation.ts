// Speech into the composer: a recording goes to the gateway's ears and comes back as words, to be changed before they are sent.
import { savedToken } from "./identity";
import { BASE } from "./place";
import { store } from "./store";
import { tr } from "./words";

/** The words of a recording; null, and said, if nobody could hear them. */
export async function dictated(sound: File): Promise<string | null> {
  const form = new FormData();
  form.append("file", sound, sound.name);
  form.append("model", "openclaw");
  const token = (await savedToken()) || store.client.token;
  try {
    const answer = await fetch(`${BASE}/v1/audio/transcriptions`, { method: "POST", body: form, headers: { Authorization: `Bearer ${token}` } });
    const told = await answer.json();
    if (answer.ok) return String(told.text ?? "").trim();
    store.toast(told.error?.message ?? tr`It could not be written down.`, "error");
  } catch {
    store.toast(tr`It could not be written down.`, "error");
  }
  return null;
}

// The service worker: the page opens without the gateway, and notices are shown while nobody looks. It keeps the page's
// own files and nothing else: no answer, no token, nothing that the gateway says.
import { get } from "./kept";

declare const FILES: string[]; // put in by the build
declare const self: any;

const SHELF = `shell-${FILES.join(" ").split("").reduce((sum, letter) => (sum * 31 + letter.charCodeAt(0)) >>> 0, 7).toString(36)}`;
const SCOPE = new URL(self.registration.scope).pathname; // ends with a slash
const LASTING = /^[a-z]+-[0-9A-Z]{8}\.(?:js|css)$/;

self.addEventListener("install", (event: any) => {
  event.waitUntil(caches.open(SHELF).then((shelf) => shelf.addAll(["", ...FILES].map((name) => SCOPE + name))).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event: any) => {
  event.waitUntil(caches.keys().then((names) => Promise.all(names.filter((name) => name !== SHELF).map((name) => caches.delete(name)))).then(() => self.clients.claim()));
});

self.addEventListener("fetch", (event: any) => {
  const asked: Request = event.request;
  const url = new URL(asked.url);
  if (asked.method !== "GET" || url.origin !== self.location.origin || !url.pathname.startsWith(SCOPE)) return;
  const name = url.pathname.slice(SCOPE.length);
  if (asked.mode === "navigate" && !/^(?:docs|v1|__openclaw__|share)(?:\/|$)/.test(name)) event.respondWith(fetch(asked).catch(() => caches.match(SCOPE).then((page) => page ?? Response.error())));
  else if (LASTING.test(name)) event.respondWith(caches.match(url.pathname).then((kept) => kept ?? fetch(asked)));
});

interface Words {
  approval: string;
  done: string;
  failed: string;
  other: string;
}

async function tell(): Promise<void> {
  const kept = await get<{ secret: string; words: Words }>("push");
  if (!kept) return;
  const found = await fetch(`${SCOPE}push/news`, { headers: { Authorization: `Bearer ${kept.secret}` }, cache: "no-store" }).then((answer) => (answer.ok ? answer.json() : { notes: [] }), () => ({ notes: [] }));
  const looking = (await self.clients.matchAll({ type: "window" })).some((one: any) => one.focused);
  if (looking) return; // the page says it
  if (found.notes.length) for (const vague of await self.registration.getNotifications({ tag: "other" })) vague.close(); // now it is known what happened
  const notes = found.notes.length ? found.notes : [{ kind: "other", id: "other" }];
  for (const note of notes) await self.registration.showNotification(kept.words[note.kind as keyof Words] ?? kept.words.other, { body: note.title ?? note.body ?? "", tag: note.id, icon: `${SCOPE}icon-192.png`, data: { path: note.kind === "approval" || !note.sessionKey ? "access" : `chat/${encodeURIComponent(note.sessionKey)}` } });
}

self.addEventListener("push", (event: any) => event.waitUntil(tell()));

self.addEventListener("notificationclick", (event: any) => {
  event.notification.close();
  const url = SCOPE + (event.notification.data?.path ?? "");
  event.waitUntil(self.clients.matchAll({ type: "window" }).then((all: any[]) => (all.length ? all[0].focus().then((one: any) => one.navigate(url)) : self.clients.openWindow(url))));
});

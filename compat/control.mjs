// Drives the real Control UI in headless Chromium. Arguments: playwright's folder, the browser, the page's address,
// a folder for screenshots, the token, OpenClaw's version. Frames are kept beside the screenshots. Prints one JSON line per check: {name, ok, said}.
import { createRequire } from "node:module";
import { appendFileSync } from "node:fs";
import path from "node:path";

const [library, browserPath, address, shots, token, version] = process.argv.slice(2);
const rewinds = Number(version?.split(".")[1]) >= 9;
const { chromium } = createRequire(path.join(library, "package.json"))(library);
const tell = (name, ok, said = "") => console.log(JSON.stringify({ name: `control: ${name}`, ok: Boolean(ok), said: String(said) }));

const browser = await chromium.launch({
  executablePath: browserPath,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
const WAIT = 60; // seconds until something is seen: the machine may have other things to do
page.setDefaultTimeout(WAIT * 1000);
const failed = []; // calls that were refused, as they went over the socket: method, params, words
const errors = [];
const waiting = new Set(); // calls without an answer
let last = Date.now(); // when the socket was last used
page.on("websocket", (socket) => {
  const asked = new Map();
  const read = (frame) => { try { return JSON.parse(frame.payload); } catch { return {}; } };
  const keep = (way) => (frame) => appendFileSync(path.join(shots, "frames.jsonl"), `{"way":"${way}","frame":${String(frame.payload)}}\n`);
  socket.on("framesent", keep("asked"));
  socket.on("framereceived", keep("told"));
  socket.on("close", () => { for (const id of asked.keys()) waiting.delete(id); }); // nobody will answer these
  socket.on("framesent", (frame) => { const one = read(frame); if (one.type === "req" && one.method !== "connect") waiting.add(one.id); if (one.type === "req") asked.set(one.id, one); last = Date.now(); });
  socket.on("framereceived", (frame) => {
    const one = read(frame), call = asked.get(one.id);
    if (one.type === "res") waiting.delete(one.id) && (last = Date.now());
    if (one.type === "res" && one.ok === false && call && call.method !== "connect") failed.push(`${call.method} ${JSON.stringify(call.params)}: ${one.error.message}`);
  });
});
page.on("console", (message) => {
  const text = message.text();
  if (message.type() === "error" && !/favicon|manifest|Failed to load resource/.test(text)) errors.push(text);
});
page.on("pageerror", (error) => errors.push(String(error)));

const shot = (name) => page.screenshot({ path: path.join(shots, `control-${name}.png`), timeout: 40000 }).catch(() => {}); // a picture is no check
const body = () => page.evaluate(() => {
  const walk = (node) => (node.shadowRoot ? [...node.shadowRoot.childNodes] : []).concat([...node.childNodes])
    .map((child) => (child.nodeType === 3 ? child.textContent : child.nodeType === 1 && !/STYLE|SCRIPT/.test(child.tagName) ? walk(child) : "")).join(" ");
  return walk(document.body).replace(/\s+/g, " ");
});
const until = async (look, seconds = WAIT) => {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    if (await look()) return true;
    if (Date.now() > end) return false;
    await page.waitForTimeout(200);
  }
};
const said = () => page.locator(".chat-text:visible").allInnerTexts(); // without what hides in menus and previews
const sees = (pattern, seconds) => until(async () => pattern.test(await body()), seconds);
const quiet = () => until(() => !waiting.size && Date.now() - last > 700, 20); // nothing is asked any more, or always
const check = async (name, pattern, seconds) => {
  const ok = await sees(pattern, seconds);
  await shot(name.replaceAll(" ", "-"));
  tell(name, ok, ok ? "" : `${pattern} not in: ${(await body()).slice(-1500)}`);
  return ok;
};
const say = async (text) => {
  const box = page.locator("textarea:visible").first();
  await box.click();
  await box.fill(text);
  await page.keyboard.press("Enter");
};
const step = async (name, work) => {
  try {
    await work();
  } catch (error) {
    await shot(name.replaceAll(" ", "-"));
    tell(name, false, error);
    if (name === "load") {
      await browser.close();
      process.exit(1);
    }
  }
};

await step("load", async () => {
  await page.goto(address, { waitUntil: "load", timeout: WAIT * 2000 });
  const confirm = page.locator('openclaw-modal-dialog button:has-text("Confirm"), button:has-text("Switch to 127")').first();
  const box = page.locator("textarea:visible").first(), secret = page.locator('input[type="password"]:visible').first();
  await until(async () => {
    if (await confirm.isVisible()) await confirm.click({ timeout: 3000 }).catch(() => {}); // yes, another gateway than the one its files come from
    else if (await secret.isVisible()) {
      // it comes and goes while the page looks for a gateway
      await secret.fill(token, { timeout: 3000 }).catch(() => {});
      await page.locator('button:has-text("Connect")').first().click({ timeout: 3000 }).catch(() => {});
    }
    return box.isVisible();
  });
  await box.waitFor();
  await quiet();
  errors.length = 0; // before the confirmation the page looks for a gateway where its files are
  await check("load", /Chat|Message main/);
});
await step("chat", async () => {
  await say("SAY ahoy from the browser");
  await check("chat", /(?<!SAY )ahoy from the browser/);
});
await step("tool card", async () => {
  await say('TOOL read {"path": "notes.txt"}');
  await check("tool card", /\bread\b/i);
  await sees(/echo: TOOL read/);
});
await step("abort", async () => {
  await say("STALL 400");
  await sees(/(?<!\S )echo: ST/);
  const stop = page.locator('button:has-text("Stop"), button[title*="Stop"], button[aria-label*="Stop"]');
  await stop.first().click({ force: true }); // it pulses
  const ended = await until(async () => !(await stop.count()));
  await shot("abort");
  tell("abort", ended);
});
await step("think", async () => {
  await say("/think high");
  await check("think", /\bhigh\b/i);
});
await step("approval", async () => {
  await say('TOOL exec {"command": "uname -a | cat"}');
  const allow = page.locator('button:has-text("Allow once")').first();
  await allow.waitFor();
  await shot("approval");
  await allow.click();
  tell("approval modal", true);
  await check("approval answered", /echo: TOOL exec/);
});
await step("once", async () => {
  await quiet();
  const shown = await said();
  const twice = ["ahoy from the browser", "echo: TOOL read", "echo: ST", "echo: TOOL exec"].filter((text) => shown.filter((one) => one.trim().startsWith(text)).length !== 1);
  tell("every answer stands there once", !twice.length, `${twice.join("; ")} in ${JSON.stringify(shown)}`);
});
await step("new session", async () => {
  await page.locator('button:has-text("New session"), button[title*="New session"], button[aria-label*="New session"], a[aria-label="New conversation"]').first().click();
  await until(async () => !(/ahoy from the browser/.test(await body())), 15); // in the old page it stays in the list
  await page.locator("textarea:visible").first().waitFor();
  await quiet();
  await say("SAY a second room");
  await check("new session", /(?<!SAY )a second room/);
});
await step("session switch", async () => {
  // since 2026.9 the first session of an agent is its "Home"
  await page.locator('a:has-text("Main Session"), button:has-text("Main Session"), [role="button"]:has-text("Main Session"), a:has-text("Home")').last().click();
  await check("session switch", /(?<!SAY )ahoy from the browser/);
});
await step("model menu", async () => {
  // it names the model in use and its level: "Model · High"
  const newer = page.locator('summary[aria-label^="Chat model"]').first(); // since 2026.9 two menus
  if (await newer.count()) await newer.click();
  else await page.locator('button, [role="button"], summary').filter({ hasText: /^\s*[^·]{1,40} · \S+\s*$/ }).last().click();
  await check("model menu", /Second/);
  const levels = page.locator('summary[aria-label^="Chat thinking level"]').first();
  if (await levels.count()) await levels.click();
  tell("thinking menu", await sees(/Minimal/i, 15) && await sees(/Medium/i, 15));
  await page.keyboard.press("Escape");
});
// Since 2026.9 what a person said can be written anew, here or in a new session: in the menu of the message.
const choose = async (text, words) => {
  await page.locator(".chat-group.user, .chat-line.user, [data-message-id]").filter({ hasText: text }).last().click({ button: "right" });
  const item = page.locator('[role="menu"] button').filter({ hasText: words }).first();
  if (!(await until(() => item.isVisible(), 5))) return false;
  await item.click();
  const sure = page.locator('.chat-confirm-wrap button, [role="dialog"] button').filter({ hasText: /^\s*(Rewind|Fork|Confirm|Delete|Yes)\s*$/ }).first();
  if (await until(() => sure.isVisible(), 3)) await sure.click();
  return true;
};
const drafts = async (text) => (await page.locator("textarea:visible").evaluateAll((all) => all.map((one) => one.value))).filter((one) => one === text).length;
const written = (text, before) => until(async () => (await drafts(text)) > before); // every session has a field of its own
if (rewinds) {
  await step("fork", async () => {
    const before = await drafts("STALL 400"), found = await choose("STALL 400", /Fork/i);
    const there = async () => { // not the old one, which is left a moment later
      return (await said()).at(-1)?.startsWith("echo: TOOL read"); // panes of other sessions stay before it, out of sight
    };
    const ok = found && await until(there) && await written("STALL 400", before);
    await shot("fork");
    tell("fork: what came before, and the message to be written anew", ok, JSON.stringify(await said()));
    await page.goBack().catch(() => {});
    await sees(/echo: TOOL exec/);
  });
  await step("rewind", async () => {
    const before = await drafts("STALL 400"), found = await choose("STALL 400", /Rewind/i);
    const ok = found && await written("STALL 400", before) && await until(async () => !(await said()).some((one) => one.startsWith("echo: TOOL exec")));
    await shot("rewind");
    tell("rewind: what came after is gone, the message is to be written anew", ok, JSON.stringify(await said()));
  });
}
for (const tab of ["overview", "sessions", "cron", "config", "logs", "agents", "skills", "nodes", "usage", "debug", "channels", "instances"]) {
  await step(tab, async () => {
    const from = failed.length, broken = errors.length;
    await page.evaluate((to) => { history.pushState({}, "", to + location.search); dispatchEvent(new PopStateEvent("popstate")); }, `/${tab}`);
    await page.waitForTimeout(500);
    await quiet();
    await shot(`tab-${tab}`);
    const missing = failed.slice(from).filter((text) => !/: method not supported: /.test(text));
    const news = errors.slice(broken);
    tell(`tab ${tab}`, !missing.length && !news.length, [...missing, ...news].join("\n"));
  });
}
const strange = failed.filter((text) => !/: method not supported: /.test(text));
tell("every call is understood", !strange.length, [...new Set(strange)].join("\n"));
tell("console without errors", errors.length === 0, errors.join("\n"));
console.log(JSON.stringify({ failed }));
await browser.close();

// Drives the real Control UI in headless Chromium. Arguments: playwright's folder, the browser, the page's address,
// a folder for screenshots, the token. Prints one JSON line per check: {name, ok, said}.
import { createRequire } from "node:module";
import path from "node:path";

const [library, browserPath, address, shots, token] = process.argv.slice(2);
const { chromium } = createRequire(path.join(library, "package.json"))(library);
const tell = (name, ok, said = "") => console.log(JSON.stringify({ name: `control: ${name}`, ok: Boolean(ok), said: String(said) }));

const browser = await chromium.launch({
  executablePath: browserPath,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"],
});
const page = await browser.newPage({ viewport: { width: 1360, height: 900 } });
const failed = [];
const errors = [];
page.on("console", (message) => {
  const text = message.text();
  if (text.includes("control-ui.rpc") && /ok:\s*false/.test(text)) failed.push(text);
  else if (message.type() === "error" && !/favicon|manifest|Failed to load resource/.test(text)) errors.push(text);
});
page.on("pageerror", (error) => errors.push(String(error)));

const shot = (name) => page.screenshot({ path: path.join(shots, `control-${name}.png`) });
const body = () => page.evaluate(() => {
  const walk = (node) => (node.shadowRoot ? [...node.shadowRoot.childNodes] : []).concat([...node.childNodes])
    .map((child) => (child.nodeType === 3 ? child.textContent : child.nodeType === 1 && !/STYLE|SCRIPT/.test(child.tagName) ? walk(child) : "")).join(" ");
  return walk(document.body).replace(/\s+/g, " ");
});
const sees = async (pattern, seconds = 15) => {
  const end = Date.now() + seconds * 1000;
  for (;;) {
    const text = await body();
    if (pattern.test(text)) return true;
    if (Date.now() > end) return false;
    await page.waitForTimeout(200);
  }
};
const check = async (name, pattern, seconds) => {
  const ok = await sees(pattern, seconds);
  await shot(name.replaceAll(" ", "-"));
  tell(name, ok, ok ? "" : `${pattern} not in: ${(await body()).slice(-1500)}`);
  return ok;
};
const say = async (text) => {
  const box = page.locator("textarea").first();
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
  await page.goto(address, { waitUntil: "load" });
  await page.waitForTimeout(2500);
  const confirm = page.locator('openclaw-modal-dialog button:has-text("Confirm")').first(); // the other gateway
  if (await confirm.count()) await confirm.click();
  await page.waitForTimeout(1500);
  if (!(await page.locator("textarea").count())) {
    await page.fill('input[type="password"]', token).catch(() => {});
    await page.locator('button:has-text("Connect")').first().click({ timeout: 3000 }).catch(() => {});
  }
  await page.locator("textarea").first().waitFor({ timeout: 20000 });
  errors.length = 0; // before the confirmation the page looks for a gateway where its files are
  await check("load", /Chat/);
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
  await page.waitForTimeout(2000);
  const stop = page.locator('button:has-text("Stop"), button[title*="Stop"], button[aria-label*="Stop"]').first();
  await stop.click({ timeout: 8000 });
  await page.waitForTimeout(2000);
  await shot("abort");
  tell("abort", (await page.locator('button:has-text("Stop"), button[title*="Stop"], button[aria-label*="Stop"]').count()) === 0);
});
await step("think", async () => {
  await say("/think high");
  await check("think", /high/i);
});
await step("approval", async () => {
  await say('TOOL exec {"command": "uname -a | cat"}');
  const allow = page.locator('button:has-text("Allow once")').first();
  await allow.waitFor({ timeout: 15000 });
  await shot("approval");
  await allow.click();
  tell("approval modal", true);
  await check("approval answered", /echo: TOOL exec/);
});
await step("new session", async () => {
  await page.locator('button:has-text("New session"), button[title*="New session"], button[aria-label*="New session"]').first().click({ timeout: 8000 });
  await page.waitForTimeout(2500);
  await say("SAY a second room");
  await check("new session", /(?<!SAY )a second room/);
});
await step("session switch", async () => {
  await page.locator('a:has-text("Main Session"), button:has-text("Main Session"), [role="button"]:has-text("Main Session")').last().click({ timeout: 8000 });
  await check("session switch", /(?<!SAY )ahoy from the browser/);
});
await step("model menu", async () => {
  // it names the model in use and its level: "Model · High"
  await page.locator('button, [role="button"], summary').filter({ hasText: /^\s*[^·]{1,40} · \S+\s*$/ }).last().click({ timeout: 8000 });
  await check("model menu", /Second/);
  tell("thinking menu", await sees(/Minimal/i, 3) && await sees(/Medium/i, 3));
  await page.keyboard.press("Escape");
});
for (const tab of ["overview", "sessions", "cron", "config", "logs", "agents", "skills", "nodes", "usage", "debug", "channels", "instances"]) {
  await step(tab, async () => {
    const from = failed.length, broken = errors.length;
    await page.evaluate((to) => { history.pushState({}, "", to + location.search); dispatchEvent(new PopStateEvent("popstate")); }, `/${tab}`);
    await page.waitForTimeout(2500);
    await shot(`tab-${tab}`);
    const missing = failed.slice(from).filter((text) => !/unknown method/.test(text));
    const news = errors.slice(broken);
    tell(`tab ${tab}`, !missing.length && !news.length, [...missing, ...news].join("\n"));
  });
}
tell("console without errors", errors.length === 0, errors.join("\n"));
console.log(JSON.stringify({ failed }));
await browser.close();

// Builds the page into the Python package: one script, one style sheet, names that change with their content.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/palinurus/gateway/static");

const made = await build({
  entryPoints: [join(here, "src/main.ts"), join(here, "src/style.css")],
  outdir: out,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["es2022"],
  legalComments: "none",
  write: false,
});

// What runs inside a canvas: a file of its own, which the gateway serves with the canvas's policy.
const inside = await build({ entryPoints: [join(here, "src/inside/bridge.ts")], bundle: true, minify: true, format: "iife", target: ["es2022"], legalComments: "none", write: false });

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
let page = await readFile(join(here, "src/index.html"), "utf8");
for (const file of made.outputFiles) {
  const script = file.path.endsWith(".js");
  const hash = createHash("sha256").update(file.contents).digest("hex").slice(0, 12);
  const name = script ? `app-${hash}.js` : `style-${hash}.css`;
  await writeFile(join(out, name), file.contents);
  page = page.replace(script ? "%script%" : "%style%", name);
}
await writeFile(join(out, "canvas.js"), inside.outputFiles[0].contents);
await writeFile(join(out, "favicon.svg"), await readFile(join(here, "src/favicon.svg")));
await writeFile(join(out, "index.html"), page);

// Builds the page into the Python package: a style sheet, a script that begins, and parts that are loaded when they are
// first needed; names change with their content.
import { build } from "esbuild";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/palinurus/gateway/static");
const usual = { bundle: true, minify: true, target: ["es2022"], legalComments: "none", charset: "utf8" };

await rm(out, { recursive: true, force: true });
await mkdir(out, { recursive: true });
const made = await build({
  ...usual,
  entryPoints: [join(here, "src/main.ts"), join(here, "src/style.css")],
  outdir: out,
  format: "esm",
  splitting: true,
  metafile: true,
  entryNames: "[name]-[hash]",
  chunkNames: "[name]-[hash]",
});
// What runs inside a canvas: a file of its own, which the gateway serves with the canvas's policy.
await build({ ...usual, entryPoints: [join(here, "src/inside/bridge.ts")], format: "iife", outfile: join(out, "canvas.js") });
// What runs in a stage (diagrams, pages that models write): the same, and mermaid as its makers built it.
const named = { outdir: out, entryNames: "[name]-[hash]", metafile: true };
const inside = await build({ ...usual, ...named, entryPoints: [join(here, "src/inside/stage.ts")], format: "iife" });
const drawer = await build({ ...named, entryPoints: { mermaid: join(here, "node_modules/@mermaid-js/tiny/dist/mermaid.tiny.js") }, loader: { ".js": "copy" } });

const files = Object.entries(made.metafile.outputs);
const from = (source) => files.find(([, file]) => file.entryPoint?.endsWith(source));
// The page is one step behind its language: what it needs is fetched meanwhile.
const soon = new Set();
const reach = (name) => {
  if (soon.has(name)) return;
  soon.add(name);
  for (const one of made.metafile.outputs[name].imports) if (one.kind === "import-statement") reach(one.path);
};
reach(from("src/start.ts")[0]);
const preload = [...soon].map((name) => `<link rel="modulepreload" href="/${basename(name)}">`).join("\n");
const page = (await readFile(join(here, "src/index.html"), "utf8"))
  .replace("%style%", basename(from("src/style.css")[0])).replace("%script%", basename(from("src/main.ts")[0])).replace("%preload%", preload);
const [drawn, mermaid] = [inside, drawer].map((one) => basename(Object.keys(one.metafile.outputs)[0]));
await writeFile(join(out, "stage.html"), (await readFile(join(here, "src/stage.html"), "utf8")).replace("%stage%", drawn).replace("%mermaid%", mermaid));
// What the page needs to open without the gateway; the rest is fetched when it is asked for.
const shell = [...soon, from("src/main.ts")[0], from("src/style.css")[0]].map((name) => basename(name));
await build({ ...usual, entryPoints: [join(here, "src/sw.ts")], format: "iife", outfile: join(out, "sw.js"), define: { FILES: JSON.stringify([...shell, "favicon.svg"]) } });
for (const name of ["manifest.webmanifest", "icon-192.png", "icon-512.png"]) await writeFile(join(out, name), await readFile(join(here, "src", name)));
await writeFile(join(out, "favicon.svg"), await readFile(join(here, "src/favicon.svg")));
await writeFile(join(out, "index.html"), page);

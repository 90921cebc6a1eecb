/** Makes the page's files in src/regraft/view/bundle from the sources here: `node build.mjs`, or `make ui`. */

import { createHash } from "node:crypto";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";

import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = process.argv[2] ?? join(here, "..", "src", "regraft", "view", "bundle");
rmSync(target, { recursive: true, force: true });
mkdirSync(target, { recursive: true });

const result = await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.tsx" },
  bundle: true,
  minify: true,
  format: "iife",
  target: ["chrome103", "firefox113", "safari16.4"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "ascii",
  legalComments: "none",
  metafile: true,
  outdir: target,
});
await build({ absWorkingDir: here, entryPoints: { page: "src/style.css" }, bundle: true, minify: true, outdir: target });
cpSync(join(here, "node_modules", "elkjs", "lib", "elk-worker.min.js"), join(target, "worker.js"));

/** The packages whose code is in the bundle, with the licence of each. */
const packages = new Map([["elkjs", join(here, "node_modules", "elkjs")]]);
for (const input of Object.keys(result.metafile.inputs)) {
  const found = /^(.*node_modules\/((?:@[^/]+\/)?[^/]+))\//.exec(input);
  if (found) packages.set(found[2], join(here, found[1]));
}
const texts = [...packages].sort(([one], [other]) => (one < other ? -1 : 1)).map(([name, folder]) => {
  const about = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  if (file === undefined) throw new Error(`${name} comes without a licence text`);
  const source = typeof about.repository === "string" ? about.repository : (about.repository?.url ?? "");
  return `${name} ${about.version} (${about.license}) ${source}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`;
});
writeFileSync(join(target, "LICENSES.txt"), `The page's script is built from these packages.\n\n${texts.join(`\n${"-".repeat(100)}\n\n`)}`);

/** What the bundle was built from, so that a test can say when it is older than its sources. */
const sources = [...readdirSync(join(here, "src")).map((name) => join("src", name)), "build.mjs", "package.json", "package-lock.json", "tsconfig.json"];
const hash = createHash("sha256");
for (const name of sources.sort()) {
  hash.update(`${name.split("\\").join("/")}\n`);
  hash.update(readFileSync(join(here, name)));
}
writeFileSync(join(target, "sources.sha256"), `${hash.digest("hex")}\n`);
console.log([...packages.keys()].sort().join(" "), existsSync(target) ? `-> ${relative(process.cwd(), target)}` : "");

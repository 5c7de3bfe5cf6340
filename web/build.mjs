// Writes the report's template: one HTML file with script and style inside, and a place for data.
//   node build.mjs OUT.html
// Run it in the folder that holds node_modules, which need not be this one.

import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { licences } from "./licences.mjs";

const MARKER = "/*DATA*/";
const here = fileURLToPath(new URL(".", import.meta.url));
const modules = join(process.cwd(), "node_modules");
const esbuild = createRequire(join(modules, "here"))("esbuild");

// Files of which something is left in the bundle.
function inputsOf(metafile) {
  const [{ inputs }] = Object.values(metafile.outputs);
  return Object.keys(inputs).filter((input) => inputs[input].bytesInOutput > 0);
}

async function bundle(entry) {
  const { outputFiles, metafile } = await esbuild.build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    write: false,
    minify: true,
    charset: "utf8",
    format: "iife",
    target: ["chrome100", "firefox100", "safari15.4"],
    nodePaths: [modules],
    legalComments: "none",
    metafile: true,
  });
  return { text: outputFiles[0].text.trim(), inputs: inputsOf(metafile) };
}

function insert(template, mark, text) {
  if (template.split(mark).length !== 2) throw new Error(`index.html must have ${mark} once`);
  return template.split(mark).join(text);
}

const [out] = process.argv.slice(2);
if (!out) throw new Error("usage: node build.mjs OUT.html");
const [{ text: script, inputs }, { text: style }, page] = await Promise.all([
  bundle("main.js"),
  bundle("style.css"),
  readFile(join(here, "src", "index.html"), "utf8"),
]);
if (/<\/script|<!--/i.test(script) || /<\/style/i.test(style))
  throw new Error("the bundle would end its own element");
// The script's hash lets it run and nothing else, and no address may be asked for anything.
const hash = createHash("sha256").update(script).digest("base64");
let html = insert(page, "HASH", hash);
html = insert(html, "LICENCES", (await licences(inputs, modules)).replaceAll("--", "- -"));
html = insert(html, "/*STYLE*/", style);
html = insert(html, "/*SCRIPT*/", script);
if (html.split(MARKER).length !== 2) throw new Error(`${MARKER} must be there once`);
await writeFile(out, html);

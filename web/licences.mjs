// The notices that the licences of bundled packages ask for, each text once.

import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

const packageOf = (input) => input.match(/.*node_modules\/((?:@[^/]+\/)?[^/]+)\//)?.[1];

async function licenceOf(folder) {
  const file = (await readdir(folder)).find((name) => /^licen[cs]e/i.test(name));
  if (!file) return null;
  const lines = (await readFile(join(folder, file), "utf8")).trim().split(/\r?\n/);
  const isNotice = (line) => /^copyright/i.test(line.trim());
  return {
    notices: lines.filter(isNotice),
    text: lines
      .filter((line) => !isNotice(line))
      .join("\n")
      .trim()
      .replace(/\n{3,}/g, "\n\n"),
  };
}

/** @param {string[]} inputs  files of a bundle, as esbuild's metafile names them */
export async function licences(inputs, modules) {
  const byText = new Map();
  for (const name of [...new Set(inputs.map(packageOf).filter(Boolean))].sort()) {
    const { version, license } = JSON.parse(
      await readFile(join(modules, name, "package.json"), "utf8"),
    );
    const found = (await licenceOf(join(modules, name))) ?? {
      notices: [],
      text: `Licence: ${license}`,
    };
    if (!byText.has(found.text)) byText.set(found.text, []);
    byText.get(found.text).push([`${name} ${version}`, ...found.notices].join(". "));
  }
  return [...byText].map(([text, packages]) => `${packages.join("\n")}\n\n${text}`).join("\n\n");
}

/** The license texts of an executable: those of the packages, and those of `license_texts/` where a package has none. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Licensed, Licenses } from "../../src/cli/licenses.ts";
import type { Ingredient } from "./components.ts";
import { WITHOUT_TEXT } from "./license_table.ts";

const TEXTS = "scripts/packages/license_texts";

const LICENSE_FILE = /^(licen[cs]es?|notice|copying|copyright\w*|third[-_]?party\w*)([-.][\w.-]+)?$/i;
const CODE = /\.(c?js|mjs|ts|json|map)$/;

/** Verk itself first, then by name. Throws for a component whose text is neither in its package nor in the table. */
export function licensesOf(root: string, version: string, ingredients: readonly Ingredient[]): Licenses {
  const shelf = createShelf();
  const own = shelf.put(filesOf(root));
  const verk = { name: "verk", version, license: "Apache-2.0", inside: null, note: null, texts: own };
  const others = ingredients.flatMap((each): Licensed[] => {
    const { note, texts } = textsFor(root, each);
    const { name, license } = each;
    const whole = { name, version: each.version ?? null, license, inside: null, note, texts: shelf.put(texts) };
    const parts = each.parts.map((part) => ({
      name: part.name,
      version: part.version ?? null,
      license: part.license,
      inside: name,
      note: null,
      texts: shelf.put(spdxTexts(root, part.license)),
    }));
    return [whole, ...parts];
  });
  const order = new Intl.Collator("en").compare;
  return { components: [verk, ...others.sort((a, b) => order(a.name, b.name))], texts: shelf.texts };
}

function textsFor(root: string, { name, license, folder }: Ingredient): { note: string | null; texts: string[] } {
  const found = folder === undefined ? [] : filesOf(folder);
  if (found.length > 0) return { note: null, texts: found };
  const missing = WITHOUT_TEXT[name];
  if (missing === undefined)
    throw new Error(`${name} has no license file: name it in scripts/packages/license_table.ts, with the reason`);
  const stated = (missing.files ?? []).map((file) => readText(join(folder ?? root, file)));
  return { note: missing.note, texts: [...stated, ...spdxTexts(root, license)] };
}

const filesOf = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isFile() && LICENSE_FILE.test(entry.name) && !CODE.test(entry.name))
    .map((entry) => entry.name)
    .sort()
    .map((name) => readText(join(folder, name)));

/** `expression`: identifiers of SPDX with AND, OR and WITH between them. The text of Apache-2.0 is Verk's own. */
function spdxTexts(root: string, expression: string): string[] {
  const ids = expression.replaceAll(/[()]/g, "").split(/ (?:AND|OR|WITH) /);
  return ids.map((id) => {
    const file = id === "Apache-2.0" ? join(root, "LICENSE") : join(root, TEXTS, `${id}.txt`);
    if (!existsSync(file)) throw new Error(`${TEXTS}/${id}.txt does not exist: add the text of this license`);
    return readText(file);
  });
}

/** Line ends and spaces around a text are no difference between two texts. */
const readText = (file: string): string =>
  readFileSync(file, "utf8")
    .replaceAll("\r\n", "\n")
    .replaceAll(/^\s*\n|\s+$/g, "");

function createShelf() {
  const texts: string[] = [];
  const put = (each: readonly string[]): number[] =>
    each.map((text) => {
      const known = texts.indexOf(text);
      return known >= 0 ? known : texts.push(text) - 1;
    });
  return { texts, put };
}

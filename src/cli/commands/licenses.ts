import { UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { command, EXIT, JSON_FLAG } from "../args.ts";
import { type Licensed, type Licenses, loadLicenses } from "../licenses.ts";
import { columns, print, printJson } from "../output.ts";
import { allTexts, textsOf } from "../text/licenses.ts";

export const licenses = command({
  summary: "Print the licenses of everything inside the executable",
  takes: ["NAME?"],
  flags: {
    list: { type: "boolean", doc: "Print name, version and license (SPDX), one line each, without the texts" },
    json: JSON_FLAG,
  },
  examples: ["verk licenses", "verk licenses --list", "verk licenses zod"],
  async run({ list, json }, name) {
    const all = await loadLicenses();
    const chosen = name === undefined ? all.components : named(name, all);
    if (json) printJson(chosen.map((each) => (list ? factsOf(each) : { ...factsOf(each), texts: textOf(each, all) })));
    else if (list) for (const line of columns(chosen.map(rowOf))) print(line);
    else print(name === undefined ? allTexts(all) : chosen.map((each) => textsOf(each, all)).join("\n\n"));
    return EXIT.ok;
  },
});

/** A name may stand for several versions, or for a library inside several components. */
function named(name: string, { components }: Licenses): Licensed[] {
  const matches = components.filter((each) => each.name === name);
  if (matches.length > 0) return matches;
  const close = nearest(
    name,
    components.map((each) => each.name),
  );
  const hint = close ? ` Did you mean ${close}?` : "";
  throw new UsageError(`licenses: nothing inside is called ${name}.${hint} \`verk licenses --list\` lists all names.`);
}

const factsOf = ({ name, version, license, inside, note }: Licensed) => ({ name, version, license, inside, note });
const textOf = ({ texts }: Licensed, all: Licenses) => texts.map((at) => all.texts[at] ?? "");
const rowOf = ({ name, version, license }: Licensed) => [name, version ?? "-", license];

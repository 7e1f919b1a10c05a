/** Finds the configurations and splits of a hub dataset. Pure: from the list of files and the README. */
import { z } from "zod";
import { kindByName } from "../../../lib/rows/file_kind.ts";
import { parseYaml } from "../../../lib/text/yaml.ts";
import { globMatcher } from "./glob.ts";

/** Split → files, in the order in which the dataset names its splits. */
export type Splits = Map<string, string[]>;
/** Configuration → a function that finds its splits. */
export type Layout = { configs: Map<string, () => Splits>; preferred: string | undefined };

const Paths = z.union([z.string(), z.array(z.string())]);
const FilePatterns = z.union([
  z.string(),
  z.array(z.union([z.string(), z.object({ split: z.coerce.string(), path: Paths })])),
  z.record(z.string(), Paths),
]);
const Config = z.object({
  config_name: z.coerce.string(),
  data_files: FilePatterns.optional(),
  data_dir: z.string().optional(),
  default: z.boolean().optional(),
});
const Front = z.object({ configs: z.array(Config).min(1) });
type Config = z.infer<typeof Config>;

export function layoutOf(files: readonly string[], readme: string): Layout {
  const declared = declaredIn(readme);
  if (declared) {
    const configs = new Map(declared.map((config) => [config.config_name, () => splitsOf(config, files)] as const));
    const [only] = declared;
    const preferred =
      declared.find((config) => config.default)?.config_name ??
      declared.find(({ config_name }) => config_name === "default")?.config_name ??
      (declared.length === 1 ? only?.config_name : undefined);
    return { configs, preferred };
  }
  return converted(files) ?? byFolders(files);
}

/** Reads `configs` from the YAML before the README's text, if it is valid. */
function declaredIn(readme: string): Config[] | undefined {
  const front = /^\ufeff?---\r?\n([\s\S]*?)\r?\n---\s*(?:\r?\n|$)/.exec(readme)?.[1];
  if (front === undefined) return undefined;
  try {
    return Front.safeParse(parseYaml(front)).data?.configs;
  } catch {
    return undefined; // the README is free text and often invalid YAML
  }
}

function splitsOf({ data_files, data_dir }: Config, files: readonly string[]): Splits {
  const folder = data_dir === undefined ? "" : `${data_dir.replace(/^\.?\/|\/$/g, "")}/`;
  if (data_files === undefined) return bySplitNames(files.filter((path) => path.startsWith(folder)));
  const splits: Splits = new Map();
  const add = (split: string, patterns: z.infer<typeof Paths>) => {
    const matchers = [patterns].flat().map((pattern) => globMatcher(folder + pattern.replace(/^\.?\//, "")));
    const paths = files.filter((path) => matchers.some((matches) => matches(path)));
    splits.set(split, [...(splits.get(split) ?? []), ...paths]);
  };
  if (typeof data_files === "string") add("train", data_files);
  else if (Array.isArray(data_files))
    for (const each of data_files) typeof each === "string" ? add("train", each) : add(each.split, each.path);
  else for (const [split, patterns] of Object.entries(data_files)) add(split, patterns);
  return splits;
}

/** The hub's own conversion to Parquet (refs/convert/parquet): configuration/split/0000.parquet. */
function converted(files: readonly string[]): Layout | undefined {
  const tables = files.filter((path) => kindByName(path) !== undefined);
  const parts = tables.map((path) => /^([^/]+)\/(?:partial-)?([^/]+)\/\d{4}\.parquet$/.exec(path));
  if (parts.length === 0 || parts.includes(null)) return undefined;
  const configs = new Map<string, () => Splits>();
  for (const config of new Set(parts.map((part) => part?.[1] ?? ""))) {
    const splits: Splits = new Map();
    for (const part of parts)
      if (part?.[1] === config) splits.set(part[2] ?? "", [...(splits.get(part[2] ?? "") ?? []), part[0]]);
    configs.set(config, () => splits);
  }
  const names = [...configs.keys()];
  return {
    configs,
    preferred: names.find((name) => name === "default") ?? (names.length === 1 ? names[0] : undefined),
  };
}

/** Without declarations all files are one configuration, and every folder may be requested as one. */
function byFolders(files: readonly string[]): Layout {
  const configs = new Map([["default", () => bySplitNames(files)]]);
  for (const folder of new Set(files.filter((path) => path.includes("/")).map((path) => path.split("/")[0] ?? "")))
    if (!configs.has(folder))
      configs.set(folder, () => bySplitNames(files.filter((path) => path.startsWith(`${folder}/`))));
  return { configs, preferred: "default" };
}

const WORDS: readonly (readonly [split: string, words: string])[] = [
  ["train", "train|training"],
  ["validation", "validation|valid|val|dev"],
  ["test", "test|testing|eval|evaluation"],
];
const SHARDED = /(?:^|\/)data\/([A-Za-z_]\w*(?:[.-]\w+)*)-\d{5}-of-\d{5}[^/]*$/;

/** Finds splits by the names of files and folders, the nearest first. Without such names everything is `train`. */
function bySplitNames(files: readonly string[]): Splits {
  const tables = files.filter((path) => kindByName(path) !== undefined);
  const splits: Splits = new Map();
  for (const path of tables) {
    const split = SHARDED.exec(path)?.[1] ?? wordIn(path);
    if (split !== undefined) splits.set(split, [...(splits.get(split) ?? []), path]);
  }
  return splits.size > 0 ? splits : new Map([["train", tables]]);
}

function wordIn(path: string): string | undefined {
  for (const part of path.split("/").reverse())
    for (const [split, words] of WORDS)
      if (new RegExp(`(?:^|[ ._0-9-])(?:${words})(?:[ ._0-9-]|$)`, "i").test(part)) return split;
  return undefined;
}

const KINDS = ["parquet", "jsonl", "csv", "tsv"] as const;

/** Returns the files of the most frequent format: many datasets keep copies in other formats. */
export function ofOneFormat(files: readonly string[]): string[] {
  const kinds = KINDS.map((kind) => files.filter((path) => kindByName(path) === kind));
  return kinds.reduce((best, each) => (each.length > best.length ? each : best), []);
}

/** The lists of training sources: one JSON object a line, sorted by `source`. They name data; they hold none. */
import { readFileSync } from "node:fs";

export const LABELS = ["real", "generated"] as const;
export const CONTENTS = ["photo", "face", "art", "anime", "graphic", "speech"] as const;
export const FAMILIES = [
  "real",
  "sd1.5",
  "sdxl",
  "sd3.5",
  "flux",
  "midjourney",
  "dalle/gpt-image",
  "gemini/imagen",
  "firefly",
  "ideogram",
  "qwen-image",
  "seedream",
  "token-based",
  "gan",
  "tts",
  "voice-conversion",
  "other",
  "mixed",
] as const;

export type Source = {
  source: string;
  repo: string; // owner/name
  commit: string;
  licence: string; // an SPDX name, or "none stated"
  paths: string[]; // glob patterns inside the repository; one that begins with "!" takes away
  label: (typeof LABELS)[number];
  family: (typeof FAMILIES)[number];
  content: (typeof CONTENTS)[number];
  files: number; // files that match and whose bytes were there when the line was written
  size: string; // typical: WIDTHxHEIGHT, or the middle length of a clip in kB
  note?: string;
};

const ID = /^[a-z\d][a-z\d-]*$/;
const REPO = /^[\w.-]+\/[\w.-]+$/;

function oneOf<T extends string>(known: readonly T[], value: unknown, field: string): T {
  const found = known.find((name) => name === value);
  if (found === undefined) throw new Error(`${field} is ${JSON.stringify(value)}: use one of ${known.join(", ")}`);
  return found;
}

function text(row: Record<string, unknown>, field: string, form: RegExp): string {
  const value = row[field];
  if (typeof value !== "string" || !form.test(value))
    throw new Error(`${field} is ${JSON.stringify(value)}: use ${form}`);
  return value;
}

export function readSource(line: string): Source {
  const row = JSON.parse(line) as Record<string, unknown>;
  const paths = row["paths"];
  if (!Array.isArray(paths) || paths.length === 0 || paths.some((path) => typeof path !== "string"))
    throw new Error("paths must be a list of patterns");
  const files = row["files"];
  if (typeof files !== "number" || !Number.isInteger(files) || files < 1)
    throw new Error("files must be a count above 0");
  const label = oneOf(LABELS, row["label"], "label");
  const family = oneOf(FAMILIES, row["family"], "family");
  if ((family === "real") !== (label === "real")) throw new Error(`family ${family} does not fit label ${label}`);
  return {
    source: text(row, "source", ID),
    repo: text(row, "repo", REPO),
    commit: text(row, "commit", /^[\da-f]{40}$/),
    licence: text(row, "licence", /./),
    paths: paths as string[],
    label,
    family,
    content: oneOf(CONTENTS, row["content"], "content"),
    files,
    size: text(row, "size", /./),
    ...(typeof row["note"] === "string" ? { note: row["note"] } : {}),
  };
}

export function readManifest(file: string): Source[] {
  const seen = new Set<string>();
  const lines = readFileSync(file, "utf8").split("\n");
  return lines.flatMap((line, i) => {
    if (line === "") return [];
    try {
      const source = readSource(line);
      if (seen.has(source.source)) throw new Error(`source ${source.source} is there twice`);
      seen.add(source.source);
      return [source];
    } catch (error) {
      throw new Error(`${file}:${i + 1}: ${(error as Error).message}`);
    }
  });
}

/** Hashes of repositories that are kept for an independent test: the first 24 hex digits of sha256 of `owner/name`. */
export function readExcluded(file: string): Set<string> {
  return new Set(
    readFileSync(file, "utf8")
      .split("\n")
      .map((line) => line.trim())
      .filter((line) => /^[\da-f]{24}$/.test(line)),
  );
}

export function isExcluded(repo: string, excluded: ReadonlySet<string>): boolean {
  return excluded.has(new Bun.CryptoHasher("sha256").update(repo.toLowerCase()).digest("hex").slice(0, 24));
}

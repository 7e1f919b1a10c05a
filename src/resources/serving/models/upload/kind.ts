/** Decides whether announced files are a model: one GGUF file, all parts of a split one, or a Hugging Face folder. Pure. */
import { AppError } from "../../../../lib/errors.ts";
import { isSafetensors } from "../../../../lib/gguf/other_formats.ts";
import { partNames, splitOf } from "../../../../lib/gguf/parts.ts";
import { isPart } from "../files/checkpoint.ts";

const isGguf = (path: string) => /\.gguf$/i.test(path);
const refusal = (i: number, why: string) =>
  new AppError("schema", `files.${i}.path: ${why}`, { param: `/files/${i}/path` });

export function requireModel(paths: readonly string[]) {
  const twice = paths.findIndex((path, i) => paths.indexOf(path) !== i);
  if (twice >= 0) throw refusal(twice, `${paths[twice]} is listed twice`);
  if (paths.some(isSafetensors) || paths.includes("config.json")) return requireFolder(paths);
  if (paths.some((path) => splitOf(path))) return requireParts(paths);
  for (const [i, path] of paths.entries()) {
    if (!isGguf(path))
      throw refusal(i, `${path} is not a GGUF file: upload one, or a folder of config.json, safetensors and tokenizer`);
    if (i > 0) throw refusal(i, "a model has one file, or all parts of it: create another model for this one");
  }
}

function requireParts(paths: readonly string[]) {
  const first = paths.findIndex((path) => splitOf(path));
  const split = splitOf(paths[first] ?? "");
  if (!split) return;
  const names = partNames(split);
  const other = paths.findIndex((path) => !names.includes(path));
  if (other >= 0) throw refusal(other, `${paths[other]} is not a part of ${split.stem}: create another model for it`);
  const missing = names.find((name) => !paths.includes(name));
  if (missing !== undefined)
    throw refusal(first, `${split.stem} has ${split.count} parts: list ${missing} too, and all others`);
}

function requireFolder(paths: readonly string[]) {
  const other = paths.findIndex((path) => !isPart(path));
  if (other >= 0)
    throw refusal(
      other,
      `${paths[other]} is not needed: upload config.json, the safetensors files with their index, and the tokenizer files`,
    );
  const needed: [boolean, string][] = [
    [paths.includes("config.json"), "config.json"],
    [paths.some(isSafetensors), "a safetensors file"],
    [paths.includes("tokenizer.json") || paths.includes("tokenizer.model"), "tokenizer.json or tokenizer.model"],
  ];
  const missing = needed.find(([isThere]) => !isThere);
  if (missing) throw new AppError("schema", `files: a Hugging Face folder needs ${missing[1]}`, { param: "/files" });
}

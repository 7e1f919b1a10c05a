/** Names of models on a hub: `owner/repo`, `owner/repo:QUANT` or `owner/repo:file.gguf`. */
export type HubName = {
  repo: string;
  /** A quantization or a file name; undefined: the best fit. */
  file: string | undefined;
};

const PART = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}";
const NAME = new RegExp(`^(${PART}/${PART})(?::([A-Za-z0-9][A-Za-z0-9._/-]{0,199}))?$`);

export function parseHubName(name: string): HubName | undefined {
  const match = NAME.exec(name);
  if (!match?.[1] || name.includes("..")) return undefined;
  return { repo: match[1], file: match[2] };
}

/** True if the name means this file. A quantization may have any case and any position in the file name. */
export function fileMatches(path: string, choice: string | undefined): boolean {
  if (choice === undefined || path === choice) return true;
  if (choice.endsWith(".gguf")) return false;
  const stem = path.replace(/\.gguf$/i, "").toLowerCase();
  return new RegExp(`(^|[-._/])${RegExp.escape(choice.toLowerCase())}($|[-._/])`).test(stem);
}

/** Names of models on a hub: `owner/repo`, `owner/repo:QUANT` or `owner/repo:file.gguf`. */
export type HubName = {
  repo: string;
  /** A quantization or a file name; undefined = the best fit. */
  file: string | undefined;
};

const PART = "[A-Za-z0-9][A-Za-z0-9._-]{0,95}";
const NAME = new RegExp(`^(${PART}/${PART})(?::([A-Za-z0-9][A-Za-z0-9._/-]{0,199}))?$`);

export function parseHubName(name: string): HubName | undefined {
  const match = NAME.exec(name);
  if (!match?.[1] || name.includes("..")) return undefined;
  return { repo: match[1], file: match[2] };
}

/** Whether a file of the repository is what was asked for. Quantizations are written in any case and place. */
export function fileMatches(path: string, wanted: string | undefined): boolean {
  if (wanted === undefined || path === wanted) return true;
  if (wanted.endsWith(".gguf")) return false;
  const stem = path.replace(/\.gguf$/i, "").toLowerCase();
  return new RegExp(`(^|[-._/])${RegExp.escape(wanted.toLowerCase())}($|[-._/])`).test(stem);
}

import type { Language } from "./contract.ts";

const EXTENSIONS: Record<string, Language> = {
  py: "python",
  ts: "typescript",
  mts: "typescript",
  js: "javascript",
  mjs: "javascript",
};

export const extensionOf = (language: Language) => ({ python: "py", typescript: "ts", javascript: "js" })[language];

/** Detects the language by the file extension; undefined if it is unknown. */
export const languageOfFile = (name: string): Language | undefined =>
  EXTENSIONS[/\.([a-z]+)$/i.exec(name)?.[1]?.toLowerCase() ?? ""];

const PYTHON =
  /^[ \t]*(?:(?:async[ \t]+)?def[ \t]+\w|class[ \t]+\w[^{\n]*:|from[ \t]+[\w.]+[ \t]+import\b|\w+[ \t]*=[ \t]*lambda\b)/m;
const SCRIPT = /^[ \t]*(?:export\b|(?:async[ \t]+)?function\b|(?:const|let|var)[ \t]+\w|import[ \t]*["'{*])/m;

/**
 * Detects the language by the first line that only one of them has; undefined if none has. JavaScript is TypeScript
 * without types, so code that is not Python counts as TypeScript.
 */
export function detectLanguage(source: string): Language | undefined {
  const python = PYTHON.exec(source)?.index ?? Number.POSITIVE_INFINITY;
  const script = SCRIPT.exec(source)?.index ?? Number.POSITIVE_INFINITY;
  if (python === script) return undefined;
  return python < script ? "python" : "typescript";
}

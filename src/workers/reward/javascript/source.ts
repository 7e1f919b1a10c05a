/**
 * Prepares the user's text for QuickJS. JavaScript stays unchanged; TypeScript loses its types. Trap: Bun's transpiler
 * runs the macros that a text imports, in this process and outside the interpreter (`import { writeFileSync } from
 * "node:fs" with { type: "macro" }`). Code with an import statement is therefore never transpiled; `scanImports` parses
 * and runs nothing. No module could be loaded inside anyway.
 */
import type { Rejection } from "../../../lib/rewards/contract.ts";
import type { Location } from "./positions.ts";
import { alignment } from "./positions.ts";

export type Prepared = { ok: true; code: string; locationOf: LocationOf } | { ok: false; error: Rejection };
export type LocationOf = (place: Location) => Location | null;
type JavaScriptLanguage = "typescript" | "javascript";

export type Preparer = (source: string, language: JavaScriptLanguage | undefined) => Prepared;

/** Called before the process is locked: everything that the transpiler loads lazily is loaded here. */
export function openPreparer(): Preparer {
  const transpilers = {
    typescript: new Bun.Transpiler({ loader: "ts" }),
    javascript: new Bun.Transpiler({ loader: "js" }),
  };
  transpilers.typescript.scanImports("export const a: number = 1;");
  transpilers.javascript.scanImports("export const a = 1;");
  transpilers.typescript.transformSync("export const a: number = 1;");

  return (source, language) => {
    const chosen = language ?? (reads(transpilers.javascript, source) ? "javascript" : "typescript");
    const refused = refusal(transpilers[chosen], source);
    if (refused !== null) return { ok: false, error: refused };
    if (chosen === "javascript") return { ok: true, code: source, locationOf: (place) => place };
    const code = transpilers.typescript.transformSync(source);
    return { ok: true, code, locationOf: alignment(code, source) };
  };
}

function reads(transpiler: Bun.Transpiler, source: string): boolean {
  try {
    transpiler.scanImports(source);
    return true;
  } catch {
    return false;
  }
}

function refusal(transpiler: Bun.Transpiler, source: string): Rejection | null {
  let imports: { kind: string; path: string }[];
  try {
    imports = transpiler.scanImports(source);
  } catch (error) {
    return syntax(error);
  }
  const statement = imports.find((i) => i.kind === "import-statement");
  if (statement === undefined) return null;
  const before = source.slice(0, Math.max(0, source.search(/^[ \t]*(import|export)\b[^;(]*?["']/m)));
  return {
    kind: "exception",
    message: `"${statement.path.slice(0, 200)}" cannot be imported: there are no modules in the sandbox, only the language itself`,
    line: before.split("\n").length,
    column: 1,
  };
}

/** The transpiler throws one message, or several in an AggregateError. The first causes the others. */
function syntax(error: unknown): Rejection {
  const first = error instanceof AggregateError ? error.errors[0] : error;
  const place = (first as { position?: { line?: number; column?: number } | null } | null)?.position;
  return {
    kind: "syntax",
    message: first instanceof Error || hasMessage(first) ? first.message.slice(0, 2000) : "the code cannot be parsed",
    line: place?.line ?? null,
    column: place?.column ?? null,
  };
}

const hasMessage = (value: unknown): value is { message: string } =>
  typeof value === "object" && value !== null && "message" in value && typeof value.message === "string";

/** The graph of imports in src: of values, and of values and types together. */
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";

export const ROOT = resolve(import.meta.dir, "../..");

/** Product files: no tests, no declarations. Sorted, relative to the repository. */
export const sources: readonly string[] = [...new Bun.Glob("src/**/*.{ts,tsx}").scanSync(ROOT)]
  .filter((file) => !file.endsWith(".test.ts") && !file.endsWith(".d.ts"))
  .sort();

export const read = (file: string) => readFileSync(join(ROOT, file), "utf8");

const transpilers = { ts: new Bun.Transpiler({ loader: "ts" }), tsx: new Bun.Transpiler({ loader: "tsx" }) };

/** Relative specifiers as they stand in the file, dynamic imports included. */
export const importsOf = (file: string) =>
  transpilers[file.endsWith(".tsx") ? "tsx" : "ts"].scanImports(read(file)).filter(({ path }) => path.startsWith("."));

/** File → files that it imports, types included: what a reader and the compiler take as one. */
export function allImports(files: readonly string[] = sources): Map<string, string[]> {
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const paths = [...read(file).matchAll(/(?:from|import)\s*\(?\s*"(\.[^"]+)"/g)].map(([, path = ""]) => path);
      return [file, paths.map((path) => resolve("/", file, "..", path).slice(1)).filter((path) => known.has(path))];
    }),
  );
}

/** File → files that it needs to be evaluated first. Type-only imports vanish when the code is compiled. */
export function valueImports(files: readonly string[] = sources): Map<string, string[]> {
  const known = new Set(files);
  return new Map(
    files.map((file) => {
      const needed = importsOf(file).filter(({ kind }) => kind === "import-statement");
      const paths = needed.map(({ path }) => resolve("/", file, "..", path).slice(1));
      return [file, paths.filter((path) => known.has(path))];
    }),
  );
}

/** Groups of files that import each other in a circle (Tarjan's strongly connected components of more than one file). */
export function cycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const index = new Map<string, number>();
  const low = new Map<string, number>();
  const stack: string[] = [];
  const found: string[][] = [];
  const visit = (file: string) => {
    index.set(file, index.size);
    low.set(file, index.get(file) as number);
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) low.set(file, Math.min(low.get(file) as number, low.get(next) as number));
    }
    if (low.get(file) !== index.get(file)) return;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1 || graph.get(file)?.includes(file)) found.push(group.sort());
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return found;
}

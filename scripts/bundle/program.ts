/** The program as the bundler sees it: what it starts from, and every file that ends up in the executable. */
import { join, resolve } from "node:path";
import type { BuildConfig } from "bun";
import { dashboardSources } from "./dashboard.ts";
import type { nativeGroups } from "./natives.ts";
import { nativePlugin } from "./rewrites.ts";
import type { Target } from "./target.ts";

export type Program = {
  root: string;
  /** The main file. */
  entry: string;
  target: Pick<Target, "platform">;
  natives: ReturnType<typeof nativeGroups>;
};

export const MAIN = "src/main.ts";

/** Settings of every pass of the bundler. Threads start from their own files. */
export const programConfig = (root: string, entry: string) =>
  ({
    entrypoints: [
      entry,
      join(root, "src/outside_thread.ts"),
      ...["serving/engine/thread/thread.ts", "serving/vision/thread.ts", "detector/lane.ts"].map((file) =>
        join(root, "src/workers", file),
      ),
    ],
    root: join(root, "src"),
    format: "esm",
    splitting: true,
    metafile: true,
    throw: false,
  }) satisfies Partial<BuildConfig>;

/** In production some packages load other files than in development. */
export const PRODUCTION = { "process.env.NODE_ENV": '"production"' };

/** Modules that a build generates. They are empty here: what they embed is in `natives` and in the dashboard's sources. */
const EMPTY = {
  embedded: "export const compiled = true; export const groups = {};",
  dashboard: "export const loadBundle = async () => undefined;",
  licenses: "export const loadLicenses = async () => undefined;",
};

/**
 * Every file of the executable: sources, packages and native files. The licenses that a build embeds depend on this list,
 * so it is made by a pass of its own, without output.
 */
export async function bundledFiles({ root, entry, target, natives }: Program): Promise<string[]> {
  const groups = Object.keys(natives);
  const result = await Bun.build({
    ...programConfig(root, entry),
    target: "bun",
    define: PRODUCTION,
    plugins: [nativePlugin({ root, target: target.platform, groups, ...EMPTY, seen: () => {} })],
  });
  if (!result.success) throw new AggregateError(result.logs, "the program cannot be bundled");
  return [
    ...Object.keys(result.metafile?.inputs ?? {}),
    ...(await dashboardSources(root)),
    ...Object.values(natives).flatMap((group) => group.map(({ path }) => path)),
  ].map((file) => resolve(file));
}

import { z } from "zod";
import { UsageError } from "../../lib/errors.ts";

/** A path inside the bundle, short enough for the header of a tar archive. */
const Path = z
  .string()
  .regex(/^[\w.+@-]+(\/[\w.+@-]+)*$/)
  .max(100)
  .refine((path) => path.split("/").every((part) => part !== "." && part !== ".."));

const BundleFile = z.strictObject({
  path: Path,
  kind: z.enum(["executable", "model", "document", "sbom"]),
  /** The platform of an executable, as the build names it. */
  target: z.string().nullable(),
  bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});
export type BundleFile = z.infer<typeof BundleFile>;

const Manifest = z
  .strictObject({
    format: z.literal(1),
    product: z.literal("verk"),
    version: z.string().regex(/^\d+\.\d+\.\d+(-[\w.-]+)?$/),
    /** The schema of the database that this version writes. */
    database_version: z.int().min(1),
    commit: z.string(),
    built_at: z.iso.datetime(),
    files: z.array(BundleFile).min(1).max(10_000),
  })
  .refine(({ files }) => new Set(files.map(({ path }) => path)).size === files.length, "a path is there twice");
export type BundleManifest = z.infer<typeof Manifest>;

export const manifestText = (manifest: BundleManifest) => `${JSON.stringify(manifest, null, 1)}\n`;

/** Reads a manifest whose signature is verified: a fault here is one of the program that made the bundle. */
export function readManifest(bytes: Uint8Array): BundleManifest {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
  } catch (cause) {
    throw new UsageError("The manifest of the bundle is not JSON", 5, { cause });
  }
  if ((value as { format?: unknown } | null)?.format !== 1)
    throw new UsageError(
      "The bundle has a newer format than this version reads. Upgrade to a version between them first.",
      5,
    );
  const parsed = Manifest.safeParse(value);
  if (parsed.success) return parsed.data;
  const [first] = parsed.error.issues;
  throw new UsageError(`The manifest of the bundle is wrong at ${first?.path.join(".")}: ${first?.message}`, 5);
}

/** Negative if `a` is older than `b`, by the rules of semantic versioning. */
export function compareVersions(a: string, b: string): number {
  const [left, right] = [split(a), split(b)];
  for (let i = 0; i < 3; i++) {
    const difference = (left.numbers[i] ?? 0) - (right.numbers[i] ?? 0);
    if (difference !== 0) return difference;
  }
  if (left.pre.length === 0 || right.pre.length === 0) return right.pre.length - left.pre.length; // 1.0.0-rc < 1.0.0
  for (let i = 0; i < Math.max(left.pre.length, right.pre.length); i++) {
    const [x, y] = [left.pre[i], right.pre[i]];
    if (x === undefined || y === undefined) return x === y ? 0 : x === undefined ? -1 : 1;
    const difference = comparePart(x, y);
    if (difference !== 0) return difference;
  }
  return 0;
}

function comparePart(a: string, b: string): number {
  const [isA, isB] = [/^\d+$/.test(a), /^\d+$/.test(b)];
  if (isA && isB) return Number(a) - Number(b);
  if (isA !== isB) return isA ? -1 : 1;
  return a < b ? -1 : a > b ? 1 : 0;
}

function split(version: string) {
  const [core = "", ...rest] = version.split("-");
  const pre = rest.join("-");
  return { numbers: core.split(".").map(Number), pre: pre === "" ? [] : pre.split(".") };
}

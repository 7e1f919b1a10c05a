import { z } from "zod";
import { UsageError } from "../../lib/errors.ts";
import { OutsideError, outside, readOutside } from "../../lib/json/outside.ts";
import { MIB } from "../../lib/units.ts";

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
  target: z.string().max(100).nullable(),
  bytes: z.int().min(0),
  sha256: z.string().regex(/^[0-9a-f]{64}$/),
});
export type BundleFile = z.infer<typeof BundleFile>;

const Manifest = z
  .strictObject({
    format: z.literal(1),
    product: z.literal("verk"),
    version: z
      .string()
      .regex(/^\d+\.\d+\.\d+(-[\w.-]+)?$/)
      .max(100),
    /** The schema of the database that this version writes. */
    database_version: z.int().min(1),
    commit: z.string().max(100),
    built_at: z.iso.datetime().max(40),
    files: z.array(BundleFile).min(1).max(10_000),
  })
  .refine(({ files }) => new Set(files.map(({ path }) => path)).size === files.length, "a path is there twice");
export type BundleManifest = z.infer<typeof Manifest>;

export const manifestText = (manifest: BundleManifest) => `${JSON.stringify(manifest, null, 1)}\n`;

export const MAX_MANIFEST = 8 * MIB;
const Format = z.object({ format: z.int() });
const FORMAT = outside("the manifest of the bundle", Format, { mostBytes: MAX_MANIFEST, parsing: "command" });
const MANIFEST = outside("the manifest of the bundle", Manifest, { mostBytes: MAX_MANIFEST, parsing: "command" });

/** Reads a manifest whose signature is verified: a fault here is one of the program that made the bundle. */
export function readManifest(bytes: Uint8Array): BundleManifest {
  try {
    if (readOutside(FORMAT, bytes).format === 1) return readOutside(MANIFEST, bytes);
  } catch (cause) {
    if (!(cause instanceof OutsideError)) throw cause;
    throw new UsageError(`The bundle is wrong: ${cause.message}`, 5, { cause });
  }
  throw new UsageError(
    "The bundle has a newer format than this version reads. Upgrade to a version between them first.",
    5,
  );
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

/** Files in the executable that are only read. They are never written to the disk. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { compiled, groups } from "./embedded.ts";
import { createInflate, slicesOf } from "./parts.ts";

const STAGED = join(import.meta.dir, "../../../.stage"); // scripts/build puts the files here for an uncompiled run.

export function readAsset(group: string, name: string): Uint8Array<ArrayBuffer> {
  if (!compiled) return readFileSync(join(STAGED, group, name));
  const file = groups[group]?.files.find(({ rel }) => rel === name);
  if (!file) throw new UsageError(`This build of verk does not include ${group}/${name}; install a build that does.`);
  const slices = [...slicesOf(file, createInflate())];
  return (slices.length === 1 ? slices[0] : Buffer.concat(slices)) as Uint8Array<ArrayBuffer>;
}

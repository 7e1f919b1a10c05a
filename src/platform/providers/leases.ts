/**
 * Lease files, `machines/<name>.json` in the data directory. A lease is on the disk before `up` is called, so a machine
 * exists only if a lease says so, wherever the server was killed. It is removed when `down` has succeeded. `verk doctor`
 * reads them without the database.
 */
import { randomBytes } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { later } from "../../lib/schema.ts";
import { syncDirSync, writeFileAtomicSync } from "../files.ts";

export const Lease = later(() =>
  z.object({
    name: z.string().max(100),
    cloud: z.string().max(20),
    workspace_id: z.string().max(80),
    region_id: z.string().max(80),
    created_at: z.string().max(40),
    /** Why the machine has not ended yet, once `down` has failed. */
    trouble: z.string().max(1_000).nullable(),
  }),
);
export type Lease = z.infer<typeof Lease>;

const SUFFIX = ".json";

export const leasesDir = (dataDir: string) => join(dataDir, "machines");
const pathOf = (dataDir: string, name: string) => join(leasesDir(dataDir), `${name}${SUFFIX}`);

export function writeLease(dataDir: string, lease: Lease) {
  writeFileAtomicSync(pathOf(dataDir, lease.name), JSON.stringify(lease));
}

export function removeLease(dataDir: string, name: string) {
  rmSync(pathOf(dataDir, name), { force: true });
  syncDirSync(leasesDir(dataDir));
}

/** A file that cannot be read is a lease too: its machine may exist. */
export function readLeases(dataDir: string): Lease[] {
  return fileNames(leasesDir(dataDir)).flatMap((file) => {
    if (!file.endsWith(SUFFIX) || file.startsWith(".")) return [];
    const name = file.slice(0, -SUFFIX.length);
    try {
      return [Lease.parse(JSON.parse(readFileSync(pathOf(dataDir, name), "utf8")))];
    } catch {
      const cloud = /^verk-[a-z0-9]+-(.+)-[a-z0-9]+$/.exec(name)?.[1] ?? "";
      const trouble = "the lease file is damaged";
      return [{ name, cloud, workspace_id: "", region_id: "", created_at: "", trouble }];
    }
  });
}

function fileNames(dir: string): string[] {
  try {
    return readdirSync(dir);
  } catch {
    return []; // this server never had a cloud
  }
}

const ID = /^[0-9a-z]{10}$/;

/** The id of this server in the names of its machines. Made once, and kept with the leases. */
export function serverId(dataDir: string): string {
  const dir = leasesDir(dataDir);
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, "server");
  const stored = readQuietly(path);
  if (stored !== undefined && ID.test(stored)) return stored;
  const id = randomBytes(5).toString("hex");
  writeFileAtomicSync(path, id);
  return id;
}

function readQuietly(path: string): string | undefined {
  try {
    return readFileSync(path, "utf8").trim();
  } catch {
    return undefined;
  }
}

import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { manyTrainings } from "../../../../../test/fake_trainers.ts";
import { jobPaths } from "../../../../../test/foreign_paths.ts";
import { write } from "../../../../platform/db/db.ts";
import { sha256Bytes } from "../../../../platform/files.ts";
import { volumeFiles } from "../../../data/volumes/table.ts";
import { buildJobDir } from "./files.ts";
import { FaultLines, outputOf, removedFrom, writeBack } from "./results.ts";

setDefaultTimeout(120_000);
const { app, closeAll } = manyTrainings();
afterEach(closeAll);

const FILE = { sizeBytes: 0, contentType: "text/plain", createdAt: 0, updatedAt: 0 };

/** Counts every look at it. */
class Counted extends Map<string, unknown> {
  looks = 0;
  override has(path: string) {
    this.looks++;
    return super.has(path);
  }
  override *keys() {
    for (const key of super.keys()) {
      this.looks++;
      yield key;
    }
    return undefined;
  }
}

test("M7: finding removed files takes one look-up for each file, not one for each pair", () => {
  const many = 5_000;
  const paths = Array.from({ length: many }, (_, i) => `dir/${i}`);
  const files = new Counted(paths.slice(1).map((path) => [path, 0]));
  files.looks = 0;
  const copied = new Map(paths.map((path) => [path, "sha"]));
  expect([...removedFrom(copied, { files, skipped: new Map() })]).toEqual(["dir/0"]);
  expect(files.looks).toBeLessThanOrEqual(many);
});

test("M7: the server stays responsive while hundreds of files are deleted from a volume", async () => {
  const on = await app({ loop: false });
  const { id: volumeId } = (await on.call("POST", "/v1/volumes", { name: "keep" })).body;
  const volumes = [{ name: "keep", mount_path: "/workspace/keep" }];
  const job = on.row(on.add({ method: "custom", baseModel: null, lora: null, command: "true", volumes }));
  const { work } = await buildJobDir(on.ctx, job);
  const hashes = new Map(Array.from({ length: 1_000 }, (_, i) => [`old/${i}`, sha256Bytes(`${i}`)]));
  write(on.ctx.db, (tx) => {
    for (const [path, sha256] of hashes)
      tx.insert(volumeFiles)
        .values({ ...FILE, volumeId, path, sha256, storageKey: path })
        .run();
  });
  let turns = 0;
  const watch = setInterval(() => turns++, 0);
  const copy = { volume: volumes[0] as (typeof volumes)[number], below: "keep", hashes };
  expect(await writeBack(on.ctx, job, { work, copy })).toEqual([]);
  clearInterval(watch);
  expect(turns).toBeGreaterThan(2);
  expect((await on.call("GET", "/v1/volumes/keep/files?limit=10")).body.data).toEqual([]);
});

test("a removed output is empty, and an output with files returns them by path", async () => {
  const on = await app({ loop: false });
  const job = on.row(on.add({ method: "custom", baseModel: null, lora: null, command: "true" }));
  const { work } = await buildJobDir(on.ctx, job);
  const { workspace } = jobPaths(on.ctx, job.id);
  writeFileSync(join(workspace, "output/a"), "A");
  const output = await outputOf(work);
  expect(output.entries.map(({ name, size }) => [name, size])).toEqual([["a", 1]]);
  output.close();
  Bun.spawnSync(["rm", "-r", join(workspace, "output")]);
  expect((await outputOf(work)).entries).toEqual([]);
});

test("M7: the faults of 200,000 links are counted, not listed", () => {
  const faults = new FaultLines();
  const skipped = new Map(Array.from({ length: 200_000 }, (_, i) => [`link${i}`, "it is not a regular file"]));
  faults.addSkipped("output", { files: new Map(), skipped, hidden: true });
  expect(faults.lines()).toHaveLength(21);
  expect(faults.lines()[0]).toStartWith("output: some directories cannot be read");
  expect(faults.lines()[1]).toBe("output/link0 was not kept: it is not a regular file");
  expect(faults.lines()[20]).toBe("and 199981 more like these");
});

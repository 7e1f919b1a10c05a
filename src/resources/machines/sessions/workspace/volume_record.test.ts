import { expect, test } from "bun:test";
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tempDir } from "../../../../../test/harness.ts";
import { sessionsDir } from "../../../../sandbox/files/foreign_dir.ts";
import { makeSandboxDir } from "../../../../sandbox/files/sandbox_dir.ts";
import { readVolumeRecord, writeVolumeRecord } from "./write_back.ts";

async function session() {
  const data = tempDir();
  const dir = sessionsDir(data).below("ses_1");
  await makeSandboxDir(dir, undefined);
  const note = join(data, "sessions/ses_1/volumes/0.json");
  return { dir, note, remove: () => rmSync(data, { recursive: true, force: true }) };
}

test("the record of 50,000 files, with line feeds in their names, is read as it was written", async () => {
  const { dir, remove } = await session();
  const record = new Map(Array.from({ length: 50_000 }, (_, i) => [`dir/é\n${i}`, { stamp: `${i}`, sha256: "0" }]));
  await writeVolumeRecord(dir, 0, record);
  expect(await readVolumeRecord(dir, 0)).toEqual(record);
  remove();
}, 60_000);

test("nothing, an empty volume and the form of earlier versions are read", async () => {
  const { dir, note, remove } = await session();
  expect(await readVolumeRecord(dir, 0)).toEqual(new Map());
  await writeVolumeRecord(dir, 0, new Map());
  expect(await readVolumeRecord(dir, 0)).toEqual(new Map());
  writeFileSync(note, "[]");
  expect(await readVolumeRecord(dir, 0)).toEqual(new Map());
  writeFileSync(note, '[["a","1","x"],["b","2","y"]]');
  expect([...(await readVolumeRecord(dir, 0)).keys()]).toEqual(["a", "b"]);
  writeFileSync(note, '["a","1"]');
  await expect(readVolumeRecord(dir, 0)).rejects.toThrow("is damaged");
  remove();
});

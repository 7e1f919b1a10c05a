import { expect, test } from "bun:test";
import { aside } from "../../../../test/aside/aside.ts";
import type { FolderMemory, FolderTask } from "../../../../test/aside/converted_folder.ts";
import { IS_FULL } from "../../../../test/sweep.ts";
import { GIB, MIB } from "../../../lib/units.ts";

const converted = (task: FolderTask) => aside<FolderMemory>("converted_folder", JSON.stringify(task));

test("memory does not follow the number of shards or the size", async () => {
  const { bytes, peakBytes } = await converted({ layers: 60, hidden: 256, quantize: null });
  expect(bytes).toBeGreaterThan(90 * MIB);
  expect(peakBytes).toBeLessThan(300 * MIB);
}, 60_000);

test("a mixed quantization needs little more", async () => {
  const { bytes, peakBytes } = await converted({ layers: 24, hidden: 256, quantize: "Q4_K_M" });
  expect(bytes).toBeLessThan(20 * MIB);
  expect(peakBytes).toBeLessThan(300 * MIB);
}, 60_000);

test.if(IS_FULL)(
  "15 GB in 60 shards",
  async () => {
    const { bytes, peakBytes } = await converted({ layers: 60, hidden: 2816, quantize: null });
    expect(bytes).toBeGreaterThan(14 * GIB);
    expect(peakBytes).toBeLessThan(500 * MIB);
  },
  1_800_000,
);

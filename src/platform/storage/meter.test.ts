import { expect, test } from "bun:test";
import { AppError } from "../../lib/errors.ts";
import { MIB } from "../../lib/units.ts";
import { DiskSpace } from "../machine/disk.ts";
import { Meters, type Quota } from "./meter.ts";

const GIB = 2 ** 30;

/** A disk of which the test says how much is free. */
function diskOf(free: { bytes: number }, least = GIB) {
  const storage = { min_free_bytes: least } as never;
  return new DiskSpace({ config: { data_dir: "/none", storage } }, () => free.bytes);
}

const quotaOf = (most: number, rows: { bytes: number }): Quota => ({
  key: "ws files",
  most,
  used: () => rows.bytes,
  refusal: (bytes, others) => new AppError("quota_exceeded", `${bytes} and ${others}`),
  mustFit(bytes) {
    if (rows.bytes + bytes > most) throw new AppError("quota_exceeded", "no room");
  },
});

const codeOf = (work: () => unknown): string | undefined => {
  try {
    work();
    return undefined;
  } catch (error) {
    return (error as AppError).code;
  }
};

test("many writers together do not pass the free space, also between two readings of the disk", () => {
  const free = { bytes: GIB + 10 * MIB };
  const meters = new Meters(diskOf(free));
  const open = Array.from({ length: 20 }, () => meters.open());
  const codes = open.map((meter) => codeOf(() => meter.take(MIB)));
  expect(codes.filter((code) => code === undefined)).toHaveLength(10);
  expect(codes.filter((code) => code === "storage_unavailable")).toHaveLength(10);
  for (const meter of open) meter[Symbol.dispose](); // nothing was written
  expect(codeOf(() => meters.open().take(10 * MIB))).toBeUndefined();
});

test("written bytes are counted once: by the disk at its next reading", () => {
  const free = { bytes: GIB + 3 * MIB };
  const meter = new Meters(diskOf(free)).open();
  for (let i = 0; i < 3; i++) {
    meter.take(MIB);
    free.bytes -= MIB;
  }
  expect(codeOf(() => meter.take(1))).toBe("storage_unavailable");
  free.bytes += 2 * MIB; // another program deleted something
  expect(codeOf(() => meter.take(MIB))).toBeUndefined();
});

test("an announced size must fit on the disk too, and takes nothing", () => {
  const meter = new Meters(diskOf({ bytes: GIB + 3 * MIB })).open();
  expect([codeOf(() => meter.expect(3 * MIB)), codeOf(() => meter.expect(3 * MIB))]).toEqual([undefined, undefined]);
  expect(codeOf(() => meter.expect(3 * MIB + 1))).toBe("storage_unavailable");
  expect(codeOf(() => meter.take(3 * MIB))).toBeUndefined();
  expect(codeOf(() => meter.expect(1))).toBe("storage_unavailable");
});

test("without a least free space the disk is never asked", () => {
  const config = { data_dir: "/none", storage: { min_free_bytes: 0 } as never };
  const space = new DiskSpace({ config }, () => {
    throw new Error("asked");
  });
  new Meters(space).open().take(GIB);
});

test("many writers together do not pass the quota, and what is given back can be taken again", () => {
  const rows = { bytes: 40 };
  const meters = new Meters(diskOf({ bytes: 2 * GIB }));
  const quota = quotaOf(100, rows);
  const [first, second] = [meters.open(quota), meters.open(quota)];
  first.take(30);
  second.take(30);
  expect(codeOf(() => second.take(1))).toBe("quota_exceeded");
  expect(codeOf(() => first.expect(1))).toBe("quota_exceeded");
  first[Symbol.dispose]();
  second.take(30);
  second.keep(60);
  rows.bytes += 60; // the rows of the same commit
  expect(codeOf(() => meters.open(quota).take(1))).toBe("quota_exceeded");
  rows.bytes -= 60; // deleted
  expect(codeOf(() => meters.open(quota).take(60))).toBeUndefined();
});

test("kept bytes of one writer count for another one that is in the middle of its content", () => {
  const rows = { bytes: 0 };
  const meters = new Meters(diskOf({ bytes: 2 * GIB }));
  const quota = quotaOf(100, rows);
  const [long, short] = [meters.open(quota), meters.open(quota)];
  long.take(10);
  short.take(80);
  short.keep(80);
  rows.bytes = 80;
  expect(codeOf(() => long.take(20))).toBe("quota_exceeded");
  expect(codeOf(() => long.take(10))).toBeUndefined();
});

import { describe, expect, test } from "bun:test";
import { asBf16, openMemory } from "./decode_kit.ts";
import { canEmulate, openEmulation } from "./emulation/device.ts";
import { openTwin } from "./emulation/twin.ts";

describe.skipIf(!canEmulate)("two devices side by side", () => {
  const table = asBf16(Float32Array.from({ length: 32 }, (_, i) => i));

  function embed(spoil: boolean) {
    const broken = openEmulation();
    const first = {
      ...broken,
      launch(...args: Parameters<typeof broken.launch>) {
        broken.launch(...args);
        if (spoil) broken.put(args[2][3]! + 5 * 4, Float32Array.of(99));
      },
    };
    const twin = openTwin(first, openEmulation());
    const memory = openMemory(twin);
    const x = memory.room(2 * 16 * 4);
    twin.launch("embed_rows", { grid: [2, 1, 1], threads: 32 }, [
      ...[memory.put(table), 0, memory.put(Int32Array.of(1, 0)), x, 16, 1],
    ]);
    const got = memory.floats(x, 32);
    memory.close();
    return got;
  }

  test("equal devices agree", () => {
    expect([...embed(false)]).toEqual([...Array.from({ length: 16 }, (_, i) => 16 + i), ...Array(16).keys()]);
  });

  test("a difference names the kernel, the argument and the place", () => {
    expect(() => embed(true)).toThrow(/^embed_rows, argument 3 .*: 1 of 32 numbers are wrong: \[5\] 99 instead of 21$/);
  });
});

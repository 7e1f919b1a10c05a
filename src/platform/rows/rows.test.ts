import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sha256Bytes } from "../files.ts";
import { type Change, openRows, type RowsFile } from "./file.ts";
import { createHashing } from "./hash.ts";
import { liveBytes, liveRows, logEntries } from "./live.ts";

const dirs: string[] = [];
const scratch = () => {
  dirs.push(mkdtempSync(join(tmpdir(), "verk-rows-")));
  return join(dirs.at(-1) as string, "rows.db");
};
afterEach(() => {
  for (const dir of dirs.splice(0)) rmSync(dir, { recursive: true, force: true });
});

const bytes = (text: string) => new TextEncoder().encode(text);
const textOf = (pieces: Iterable<{ bytes: Uint8Array }>) =>
  [...pieces].map((piece) => new TextDecoder().decode(piece.bytes)).join("");

/** A small repeatable source of chance. */
function chance(seed: number) {
  let state = seed;
  return (below: number) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}

/** The expected log, kept in plain arrays. */
type Model = { id: number; target: number | null; text: string | null }[];
function liveOf(log: Model, head: number) {
  const newest = new Map<number, { id: number; text: string | null }>();
  for (const { id, target, text } of log.slice(0, head)) newest.set(target ?? id, { id, text });
  return [...newest].sort(([a], [b]) => a - b).flatMap(([, row]) => (row.text === null ? [] : [row]));
}

function grow(file: RowsFile, log: Model, pick: (below: number) => number) {
  const first = log.length + 1;
  const alive = liveRoots(log);
  const changes: Change[] = [];
  let body = "";
  for (let i = 0, count = 1 + pick(40); i < count; i++) {
    const id = first + i;
    const kind = alive.length > 0 ? pick(10) : 9;
    const target = kind < 3 ? (alive[pick(alive.length)] as number) : null;
    const text = kind === 0 ? null : `{"prompt":"${id} ${"y".repeat(pick(3000))}"}`;
    if (target !== null) changes.push({ rowId: id, target, op: text === null ? "tombstone" : "supersede" });
    if (kind === 0) alive.splice(alive.indexOf(target as number), 1);
    log.push({ id, target, text });
    body += `${text ?? ""}\n`;
  }
  file.transact(() => file.append(first, [bytes(body)], changes, 1));
  return changes;
}
function liveRoots(log: Model): number[] {
  const removed = new Set(log.filter(({ text }) => text === null).map(({ target }) => target));
  return log.filter(({ id, target }) => target === null && !removed.has(id)).map(({ id }) => id);
}

describe("a file of rows", () => {
  test.each([1, 2, 3, 4, 5, 6])("equals the replay of its log at every head (seed %i)", async (seed) => {
    const pick = chance(seed);
    const path = scratch();
    let file = openRows(path, "append");
    let hashing = createHashing(file);
    const log: Model = [];
    const heads: number[] = [];
    for (let round = 0; round < 30; round++) {
      for (const { target } of grow(file, log, pick)) hashing.touch(target);
      heads.push(log.length);
      if (pick(3) === 0) {
        const head = heads[pick(heads.length)] as number; // sometimes an old one
        const want = liveOf(log, head)
          .map(({ text }) => `${text}\n`)
          .join("");
        expect((await hashing.digest(head)).sha256).toBe(sha256Bytes(want));
      }
      if (pick(8) > 0) continue;
      file.close();
      file = openRows(path, "append");
      hashing = createHashing(file);
    }
    for (const head of heads) {
      const want = liveOf(log, head);
      expect(textOf(liveBytes(file, head)) === want.map(({ text }) => `${text}\n`).join("")).toBe(true);
      const limit = 1 + pick(20);
      const seen: number[] = [];
      for (let after = 0; ; after = seen.at(-1) as number) {
        const { entries, hasMore } = await liveRows(file, after, limit, head);
        seen.push(...entries.map(({ rowId }) => rowId));
        expect(hasMore).toBe(seen.length < want.length);
        if (!hasMore) break;
      }
      expect(seen).toEqual(want.map(({ id }) => id));
      const from = pick(head + 1);
      const { entries, hasMore } = logEntries(file, from, 10, head);
      expect(hasMore).toBe(from + 10 < head);
      expect(entries.map(({ rowId, target, text }) => ({ id: rowId, target, text }))).toEqual(
        log.slice(from, Math.min(from + 10, head)),
      );
    }
    expect(file.lastRow()).toBe(log.length);
    file.close();
  });

  test("drops rows and changes beyond a head", () => {
    const file = openRows(scratch(), "append");
    file.transact(() => file.append(1, [bytes('{"a":1}\n{"a":2}\n')], [], 1));
    file.transact(() => file.append(3, [bytes('{"a":3}\n\n')], [{ rowId: 4, target: 1, op: "tombstone" }], 1));
    file.cutBeyond(2);
    expect(textOf(liveBytes(file, 10))).toBe('{"a":1}\n{"a":2}\n');
    file.transact(() => file.append(3, [bytes('{"b":3}\n')], [], 1));
    expect(textOf(liveBytes(file, 3))).toBe('{"a":1}\n{"a":2}\n{"b":3}\n');
    file.close();
  });

  test("lets other work run while it skips deleted rows", async () => {
    const file = openRows(scratch(), "append");
    const many = 100_000;
    const removed = Array.from({ length: many }, (_, i) => ({
      rowId: many + i + 1,
      target: i + 1,
      op: "tombstone" as const,
    }));
    file.transact(() => file.append(1, [bytes('{"prompt":"some text"}\n'.repeat(many))], [], 1));
    file.transact(() => file.append(many + 1, [bytes("\n".repeat(many))], removed, 1));
    const head = 2 * many;
    for (const work of [() => liveRows(file, 0, 10, head), () => createHashing(file).digest(head)]) {
      let turns = 0;
      let over = false;
      const others = () => {
        turns++;
        if (!over) setImmediate(others);
      };
      setImmediate(others);
      await work().finally(() => {
        over = true;
      });
      expect(turns).toBeGreaterThan(1);
    }
    file.close();
  });

  test("shows fewer large rows on a page than requested, and says that there are more", async () => {
    const file = openRows(scratch(), "append");
    const large = bytes(`{"a":"${"x".repeat(10 << 20)}"}\n`);
    file.transact(() => file.append(1, [large, large, large], [], 1));
    for (const page of [logEntries(file, 0, 10, 3), await liveRows(file, 0, 10, 3)]) {
      expect(page.entries.map(({ rowId }) => rowId)).toEqual([1, 2]);
      expect(page.hasMore).toBe(true);
    }
    expect(await liveRows(file, 2, 10, 3)).toMatchObject({ entries: [{ rowId: 3 }], hasMore: false });
    file.close();
  });

  test("a transaction that throws leaves nothing", () => {
    const file = openRows(scratch(), "append");
    expect(() =>
      file.transact(() => {
        file.append(1, [bytes('{"a":1}\n')], [], 1);
        throw new Error("no");
      }),
    ).toThrow("no");
    expect(file.lastRow()).toBe(0);
    file.close();
  });

  test("a file built without a journal is one file, and can be appended to afterwards", async () => {
    const path = scratch();
    const built = openRows(path, "build");
    built.transact(() => built.append(1, [bytes(`{"a":"${"x".repeat(700_000)}"}\n{"a":2}\n`)], [], 1));
    await built.flush();
    built.close();
    expect([`${path}-wal`, `${path}-journal`].filter(existsSync)).toEqual([]);
    const file = openRows(path, "append");
    file.transact(() => file.append(3, [bytes('{"a":3}\n')], [], 2));
    await file.flush();
    const reader = openRows(path, "read");
    expect(logEntries(reader, 1, 10, 3).entries.map(({ text, createdAt }) => [text, createdAt])).toEqual([
      ['{"a":2}', 1],
      ['{"a":3}', 2],
    ]);
    reader.close();
    file.close();
  });
});

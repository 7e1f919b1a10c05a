import { describe, expect, test } from "bun:test";
import { read, sources } from "./imports.ts";
import { declarations, machines } from "./machines.ts";

describe("state machines", async () => {
  const all = await machines();

  test("each one is exported, so the tests find it", () => {
    expect(all.length).toBe(declarations());
    expect(all.length).toBeGreaterThan(10);
  });

  test.each(all)("%s: every state is reachable and the terminal ones have no way out", (_name, machine) => {
    const steps = Object.values(machine.steps);
    const statuses = machine.table.status.enumValues as string[];
    const reached = new Set<string>([machine.initial]);
    for (let before = -1; before < reached.size; ) {
      before = reached.size;
      for (const [from, to] of steps) if (from.some((state) => reached.has(state))) reached.add(to);
    }
    expect([...reached].sort()).toEqual([...statuses].sort());
    const closed = statuses.filter((state) => !steps.some(([from]) => from.includes(state)));
    expect(closed.sort()).toEqual([...machine.terminal].sort());
  });
});

const OPENS = "([{";
const CLOSES = ")]}";

/** The text between the bracket at `from` and the one that closes it. */
function bracketed(code: string, from: number): string {
  let depth = 0;
  for (let i = from; i < code.length; i++) {
    if (OPENS.includes(code[i] as string)) depth++;
    if (CLOSES.includes(code[i] as string) && --depth === 0) return code.slice(from + 1, i);
  }
  return "";
}

const hasStatus = (object: string) => /(?<![.\w])status\s*(?=[:,}]|$)/.test(object);

/** Objects that `code` declares under this name. */
const objectsNamed = (code: string, name: string) =>
  [...code.matchAll(new RegExp(`\\b(?:const|let) ${name}\\b[^=;]*= \\(?\\{`, "g"))].map((found) =>
    bracketed(code, found.index + found[0].length - 1),
  );

/** Updates that set the column `status`: in place, by a variable, on conflict, or in plain SQL. */
function statusUpdates(code: string): string[] {
  const bad: string[] = [];
  for (const call of code.matchAll(/\.(?:set|onConflictDoUpdate)(?=\()/g)) {
    const argument = bracketed(code, call.index + call[0].length);
    const names = [...argument.matchAll(/(?:^\s*|\.\.\.\s*)(\w+)\s*(?=[,}]|$)/g)].map(([, name]) => name as string);
    const objects = call[0] === ".set" && !argument.includes("{") && names.length === 0 ? [] : [argument];
    for (const name of names) objects.push(...objectsNamed(code, name));
    if (objects.some(hasStatus)) bad.push(argument);
  }
  for (const [update, columns = ""] of code.matchAll(/UPDATE \w+ SET(.*?)(?:WHERE|[`"])/gs))
    if (/\bstatus\s*=/.test(columns)) bad.push(update);
  return bad;
}

test("a status changes only through its machine", () => {
  const bad = sources
    .filter((file) => file !== "src/events/lifecycle.ts")
    .flatMap((file) => statusUpdates(read(file)).map((update) => `${file}: ${update}`));
  expect(bad).toEqual([]);
});

test("the rule sees every way to set a status", () => {
  const ways = [
    "tx.update(jobs).set({ name, status: 'failed' })",
    "tx.update(jobs).set({ status })",
    "const patch = { name, status: next };\ntx.update(jobs).set(patch)",
    "const patch = { status: next };\ntx.update(jobs).set({ ...patch, updatedAt: now })",
    "tx.insert(jobs).values(row).onConflictDoUpdate({ target: jobs.id, set: { status: 'new' } })",
    "db.prepare(`UPDATE jobs SET name = ?, status = ? WHERE id = ?`)",
  ];
  expect(ways.filter((code) => statusUpdates(code).length === 0)).toEqual([]);
  expect(statusUpdates("known.set(row.status, row); tx.update(jobs).set({ name: other.status })")).toEqual([]);
});

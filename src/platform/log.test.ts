import { expect, test } from "bun:test";
import { createLog, type Level } from "./log.ts";

const capture = (options: Parameters<typeof createLog>[0] = {}) => {
  const lines: string[] = [];
  return { lines, log: createLog({ now: () => 0, write: (line) => lines.push(line), ...options }) };
};

test("a line is one JSON object with time, level, message and fields, the child's too", () => {
  const { lines, log } = capture();
  log
    .child({ request_id: "req_1" })
    .child({ job_id: "job_1" })
    .info("hello\nworld", { n: 1, msg: "mine", job_id: "job_2" });
  expect(lines).toHaveLength(1);
  expect(lines[0]).toEndWith("}\n");
  expect(JSON.parse(lines[0]!)).toEqual({
    time: "1970-01-01T00:00:00.000Z",
    level: "info",
    msg: "hello\nworld",
    request_id: "req_1",
    job_id: "job_2",
    n: 1,
    _msg: "mine",
  });
});

test.each([
  ["debug", 4],
  ["info", 3],
  ["warn", 2],
  ["error", 1],
] as [Level, number][])("level %s lets %d of the four through", (level, count) => {
  const { lines, log } = capture({ level });
  for (const each of ["debug", "info", "warn", "error"] as const) log[each](each);
  expect(lines).toHaveLength(count);
});

test("text for a terminal is one line, with the stack below, and carries no control character", () => {
  const { lines, log } = capture({ format: "text" });
  log.warn("odd \x1b[31m thing", { path: "/a/b", why: "two words", bad: "\x07" });
  expect(lines[0]).toBe('00:00:00.000 WARN  odd \\x1b[31m thing path=/a/b why="two words" bad="\\u0007"\n');
  log.error("broke", { error: new Error("no luck") });
  expect(lines[1]).toMatch(/error="no luck"\n {4}Error: no luck\n.*log\.test\.ts/s);
});

test("a log call never throws", () => {
  const { log } = capture({
    write: () => {
      throw new Error("pipe closed");
    },
  });
  expect(() => log.info("x")).not.toThrow();
  const hostile = new Proxy({}, { ownKeys: () => JSON.parse("{"), get: () => JSON.parse("{") });
  expect(() => capture().log.child(hostile).info("x", hostile)).not.toThrow();
  expect(() => capture().log.info(Symbol("x") as never, { a: { toJSON: () => JSON.parse("{") } })).not.toThrow();
});

/** Mulberry32: the same thousand lines on every run. */
function random(seed: number) {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

test("wherever a secret is planted, no line shows it", () => {
  const next = random(7);
  const pick = <T>(list: readonly T[]): T => list[Math.floor(next() * list.length)]!;
  const canary = () => `CANARY${Array.from({ length: 37 }, () => pick([..."abcXYZ0189"])).join("")}`;
  const shaped = [
    () => `vk_${canary()}`,
    () => `whsec_${canary()}`,
    () => `Bearer ${canary()}`,
    () => `-----BEGIN EC PRIVATE KEY-----\n${canary()}\n-----END EC PRIVATE KEY-----`,
    () => `https://user:${canary()}@host:1/x`,
    () => `https://host/x?expires=1&X-Amz-Signature=${canary()}`,
    () => `{"api_key":"${canary()}"}`,
  ];
  const names = ["authorization", "X-API-Key", "cookie", "token", "client_secret", "privateKey", "password", "key"];
  const plain = (): string =>
    pick(["", "ok ", "日本 ", "a=b&c=d ", "\n", "x: y ", '{"a": "b"} ']) + pick(shaped)() + pick(["", " tail", "\n"]);

  const grow = (depth: number): unknown => {
    const wrap = pick([0, 1, 2, 3, 4, 5, 6, 7]);
    if (depth === 0 || wrap === 0) return plain();
    if (wrap === 1)
      return { [pick(names)]: pick<unknown>([canary(), [canary()], { a: canary() }]), other: grow(depth - 1) };
    if (wrap === 2) return [grow(depth - 1), 1, null, grow(depth - 1)];
    if (wrap === 3) return new Error(plain(), { cause: grow(depth - 1) });
    if (wrap === 4)
      return new Map<unknown, unknown>([
        [pick(names), canary()],
        [plain(), grow(depth - 1)],
      ]);
    if (wrap === 5) return Object.assign(new TypeError("x"), { detail: grow(depth - 1), [pick(names)]: canary() });
    if (wrap === 6) return new Headers({ [pick(["authorization", "cookie", "x-api-key"])]: canary(), accept: "a" });
    return { name: pick(names), value: canary(), next: new Set([grow(depth - 1)]) };
  };

  for (const format of ["json", "text"] as const) {
    const { lines, log } = capture({ format });
    for (let i = 0; i < 1000; i++)
      log.child({ bound: grow(2) }).error(plain(), { [pick(names)]: canary(), field: grow(5) });
    expect(lines).toHaveLength(1000);
    expect(lines.filter((line) => line.includes("CANARY")).slice(0, 3)).toEqual([]);
  }
});

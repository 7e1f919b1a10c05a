// tier: all (trains models)
import { afterEach, expect, setDefaultTimeout, test } from "bun:test";
import { appendFileSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { manyTrainings, type TrainingApp } from "../../../../../test/fake_trainers.ts";
import { jobPaths } from "../../../../../test/foreign_paths.ts";
import { until } from "../../../../../test/harness.ts";
import { DiskSpace } from "../../../../platform/machine/disk.ts";
import { Meters } from "../../../../platform/storage/meter.ts";
import * as jobs from "../service.ts";
import { LINE_BYTES, openLog } from "./file.ts";
import { storeLog } from "./reading.ts";

setDefaultTimeout(120_000);
const { app, closeAll } = manyTrainings();
afterEach(closeAll);

type Message = { id?: string; event?: string; data?: { seq: number; line: string; status: string } };

const parse = (text: string): Message[] =>
  text
    .split("\n\n")
    .filter((block) => block.includes("data: "))
    .map((block) =>
      Object.fromEntries(
        block.split("\n").map((line) => {
          const [, name = "", value = ""] = /^(\w+): (.*)$/.exec(line) ?? [];
          return [name, name === "data" ? JSON.parse(value) : value];
        }),
      ),
    );

const stream = (on: TrainingApp, id: string, query = "", headers: Record<string, string> = {}, key = on.keyA) =>
  on.handle(
    new Request(`http://localhost/v1/training_jobs/${id}/logs${query}`, {
      headers: { authorization: `Bearer ${key}`, ...headers },
    }),
  );
const seqs = (messages: Message[]) => messages.filter(({ event }) => event === "log").map(({ data }) => data?.seq);
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i);

test("S6: lines for which the disk has no space are dropped, and the log says so", async () => {
  const on = await app({ loop: false, flags: { "storage.min_free_bytes": 1 } });
  const fakeDisk = { free: 2 ** 30 };
  Object.assign(on.ctx.state.storageUsage, { meters: new Meters(new DiskSpace(on.ctx, () => fakeDisk.free)) });
  const id = on.add({});
  const log = openLog(on.ctx, id);
  const large = "x".repeat(LINE_BYTES);
  log.add("stdout", "one");
  fakeDisk.free = 0;
  let added = 0;
  for (const before = log.bytes(); added === 0 || log.bytes() > before + added * LINE_BYTES - 1; added++)
    log.add("stdout", large); // until the disk is asked again
  fakeDisk.free = 2 ** 30;
  log.add("stdout", "two");
  log.close();
  const lines = readFileSync(`${jobPaths(on.ctx, id).dir}/log.ndjson`, "utf8")
    .trim()
    .split("\n");
  const said = lines.map((line) => JSON.parse(line) as { seq: number; line: string });
  expect(said.map(({ seq }) => seq)).toEqual(numbers(1, said.length));
  expect(said.slice(-2).map(({ line }) => line)).toEqual([expect.stringContaining("lines are missing here"), "two"]);
});

test("a follower gets existing lines, new lines, each status, and the end", async () => {
  const on = await app({ lives: [{ stepMs: 5 }] });
  const id = on.add({ totalSteps: 40 });
  await until("a line", () => on.row(id).step > 1);
  const text = await (await stream(on, id, "?tail=all")).text();
  expect(text.startsWith("retry: 3000\n\n")).toBe(true);
  const messages = parse(text);
  expect(seqs(messages)).toEqual(numbers(1, 40));
  expect(messages.find(({ event }) => event === "log")).toMatchObject({ id: "1", data: { stream: "stdout" } as never });
  const states = messages.filter(({ event }) => event === "status").map(({ data }) => data?.status);
  expect(states).toEqual(["running", "completed"]);
  expect(messages.at(-1)).toMatchObject({ event: "end", data: { status: "completed" } as never });
});

test("P10 logs: they begin at the tail of stdout; a reconnecting client misses no line and gets none twice", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  const log = openLog(on.ctx, id);
  for (const n of numbers(1, 5000)) log.add(n % 2 ? "stdout" : "stderr", `line ${n} ${"x".repeat(n % 97)}`);
  log.close();
  jobs.cancel(on.ctx, on.workspaceA, id);
  const after = async (query: string, seen?: string) =>
    seqs(parse(await (await stream(on, id, query, seen === undefined ? {} : { "last-event-id": seen })).text()));
  for (const seen of [0, 1, 2, 1234, 2500, 4998, 4999, 5000, 9000])
    expect(await after("?stream=all", String(seen))).toEqual(numbers(seen + 1, 5000));
  const odd = (from: number) => numbers(from, 5000).filter((n) => n % 2 === 1); // the lines of stdout
  expect(await after("")).toEqual(odd(4801)); // the last 100
  expect(await after("?tail=all")).toEqual(odd(1));
  expect(await after("?tail=2")).toEqual([4997, 4999]);
  expect(await after("?tail=2&stream=stderr")).toEqual([4998, 5000]);
  expect(await after("?tail=99999&stream=stderr")).toEqual(numbers(1, 5000).filter((n) => n % 2 === 0));
  expect(await after("", "4990")).toEqual(odd(4991));
  expect(await after("?tail=3&stream=all")).toEqual([4998, 4999, 5000]);
  expect(await after("?tail=0&stream=all")).toEqual([]);
  expect(await after("?tail=0")).toEqual([]);
  expect(await after("?tail=4321&stream=all")).toEqual(numbers(680, 5000));
  expect(await after("?tail=99999&stream=all")).toEqual(numbers(1, 5000));
  expect(await after("?tail=3&stream=all", "4990")).toEqual(numbers(4991, 5000)); // Last-Event-ID wins
  expect(await after("?tail=all&stream=all", "not one of ours")).toEqual(numbers(1, 5000));
  const wrong = await on.call("GET", `/v1/training_jobs/${id}/logs?tail=many`);
  expect([wrong.status, wrong.body.error.param]).toEqual([422, "tail"]);
  const unknown = await on.call("GET", `/v1/training_jobs/${id}/logs?stream=stdin`);
  expect([unknown.status, unknown.body.error.param]).toEqual([422, "stream"]);
});

test("a torn last line is cut off before the next, and numbers continue", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  const first = openLog(on.ctx, id);
  first.add("stdout", "one\ntwo");
  first.close();
  const { log: path } = jobPaths(on.ctx, id);
  appendFileSync(path, '{"seq":3,"time":"2026');
  const second = openLog(on.ctx, id);
  second.add("stderr", "three");
  second.close();
  const lines = readFileSync(path, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  expect(lines.map(({ seq, line }) => [seq, line])).toEqual([
    [1, "one"],
    [2, "two"],
    [3, "three"],
  ]);
  writeFileSync(path, "torn from the start");
  openLog(on.ctx, id).close();
  expect(statSync(path).size).toBe(0);
});

test("a long line takes several entries, cut between characters, and a full log ends with a notice", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  const log = openLog(on.ctx, id, 200_000);
  log.add("stdout", "é".repeat(LINE_BYTES));
  for (let i = 0; i < 100; i++) log.add("stdout", "y".repeat(5_000));
  log.close();
  const again = openLog(on.ctx, id, 200_000);
  again.add("stdout", "after a restart");
  again.close();
  const entries = readFileSync(jobPaths(on.ctx, id).log, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as { line: string; continues?: true });
  const half = "é".repeat(LINE_BYTES / 2);
  expect(entries.slice(0, 2)).toMatchObject([{ line: half, continues: true }, { line: half }]);
  expect(entries[1]?.continues).toBeUndefined();
  const lines = entries.map(({ line }) => line);
  expect(lines.at(-1)).toStartWith("The log is full");
  expect(lines.filter((line) => line.startsWith("The log is full"))).toHaveLength(1);
});

test("conformance 6: logs/full has whole lines, however long they are", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  const log = openLog(on.ctx, id);
  const long = "é".repeat(40_000);
  log.add("stdout", `before\n${long}`);
  log.add("stderr", "beside");
  log.add("stdout", "x".repeat(20_000), { isOpen: true });
  log.add("stderr", "y".repeat(20_000));
  log.add("stdout", "z");
  log.close();
  jobs.cancel(on.ctx, on.workspaceA, id);
  await storeLog(on.ctx, on.row(id));
  const full = (which: string) => on.call("GET", `/v1/training_jobs/${id}/logs/full?stream=${which}`);
  const stdout = `before\n${long}\n${"x".repeat(20_000)}z\n`;
  expect((await full("stdout")).body).toBe(stdout);
  expect((await full("all")).body).toBe(`${stdout}beside\n${"y".repeat(20_000)}\n`);
  const parts = parse(await (await stream(on, id, "?tail=all")).text()).filter(({ event }) => event === "log");
  const shown = parts.map(({ data }) => data as unknown as { line: string; continues?: true });
  expect(shown.map(({ line, continues }) => (continues ? line : `${line}\n`)).join("")).toBe(stdout);
});

test("conformance note: a follower gets no status twice", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  jobs.cancel(on.ctx, on.workspaceA, id);
  const following = await stream(on, id, "?tail=all");
  const states = parse(await following.text()).filter(({ event }) => event === "status");
  expect(states.map(({ data }) => data?.status)).toEqual(["cancelled"]);
});

test("the whole log is text with ranges once the job has ended, and 400 before", async () => {
  const on = await app({ lives: [{ wait: { step: 2, gate: "/nowhere" } }, {}] });
  const id = on.add({ totalSteps: 3 });
  await until("a step", () => on.row(id).step === 1);
  const early = await on.call("GET", `/v1/training_jobs/${id}/logs/full`);
  expect([early.status, early.body.error.code]).toEqual([400, "unsupported_state"]);
  on.killLast();
  await on.reaches(id, "completed");
  const full = await on.call("GET", `/v1/training_jobs/${id}/logs/full`);
  expect(full.status).toBe(200);
  expect(full.headers.get("content-type")).toStartWith("text/plain");
  expect(full.body).toBe("step 1/3\nstep 1/3\nstep 2/3\nstep 3/3\n");
  const part = await on.call("GET", `/v1/training_jobs/${id}/logs/full`, undefined, { headers: { range: "bytes=-9" } });
  expect([part.status, part.body]).toEqual([206, "step 3/3\n"]);
});

test("P10 logs/full: stdout alone by default, each stream with ranges; D15 an empty log takes no file", async () => {
  const on = await app({ loop: false });
  const [id, silent] = [on.add(), on.add()];
  const log = openLog(on.ctx, id);
  for (const n of numbers(1, 4)) log.add(n % 2 ? "stdout" : "stderr", `line ${n}`);
  log.close();
  for (const each of [id, silent]) {
    jobs.cancel(on.ctx, on.workspaceA, each);
    await storeLog(on.ctx, on.row(each));
  }
  const full = async (job: string, query = "", headers = {}) =>
    (await on.call("GET", `/v1/training_jobs/${job}/logs/full${query}`, undefined, { headers })).body;
  expect(await full(id)).toBe("line 1\nline 3\n");
  expect(await full(id, "?stream=stderr")).toBe("line 2\nline 4\n");
  expect(await full(id, "?stream=all")).toBe("line 1\nline 3\nline 2\nline 4\n");
  expect(await full(id, "", { range: "bytes=-7" })).toBe("line 3\n");
  expect(await full(id, "?stream=stderr", { range: "bytes=0-6" })).toBe("line 2\n");
  expect(await full(silent)).toBe("");
  expect(on.row(silent)).toMatchObject({ logKey: null, logBytes: 0 });
  expect((await on.ctx.storage.list("logs/")).items).toHaveLength(1);
});

test("another workspace sees no log", async () => {
  const on = await app({ loop: false });
  const id = on.add();
  expect((await stream(on, id, "", {}, on.keyB)).status).toBe(404);
  expect((await on.call("GET", `/v1/training_jobs/${id}/logs/full`, undefined, { key: on.keyB })).status).toBe(404);
});

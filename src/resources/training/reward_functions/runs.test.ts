import { afterEach, describe, expect, test } from "bun:test";
import { fakeRewards } from "../../../../test/fake_rewards.ts";
import { fakeClock, manyApps, type Options, type TestApp, until } from "../../../../test/harness.ts";

const { open, closeAll } = manyApps();
afterEach(closeAll);

const PATH = "/v1/reward_functions";
const GOOD = "def reward(completions, **kwargs): ...";
const ROWS = [{ prompt: "p", completion: "four" }, { completion: [{ role: "assistant", content: "x" }] }];
const faked = (options: Options = {}) => {
  const app = open(options);
  return { app, pool: fakeRewards(app) };
};
const add = async (app: TestApp, name: string, source = GOOD) =>
  (await app.call("POST", PATH, { name, source })).body.id as string;

test("a function is run by id, by name and by version, and its process is closed afterwards", async () => {
  const { app, pool } = faked();
  const id = await add(app, "length");
  for (const ref of [id, "length", "length@1"]) {
    const answer = await app.call("POST", `${PATH}/${ref}/run`, { rows: ROWS.slice(0, 1) });
    expect(answer).toMatchObject({
      status: 200,
      body: {
        object: "reward_run",
        results: [{ index: 0, reward: 4, sub_rewards: { length: 4 }, error: null }],
        summary: { count: 1, scored: 1, mean: 4 },
        stdout: "",
      },
    });
  }
  expect([pool.taken, pool.open]).toEqual([4, 0]);
});

test("several functions are run with weights, each in its own process, together with inline code", async () => {
  const { app, pool } = faked();
  const reward_functions = [
    { id: await add(app, "one"), weight: 0.5 },
    { id: "one@1", weight: 2, params: { a: 1 } },
  ];
  const before = pool.taken;
  const { status, body } = await app.call("POST", `${PATH}/run`, {
    source: GOOD,
    reward_functions,
    rows: ROWS,
    seed: 7,
  });
  expect(status).toBe(200);
  expect(body.results[0]).toMatchObject({ reward: 4 + 2 + 8, sub_rewards: { reward: 4 } });
  expect(Object.keys(body.results[0].sub_rewards)).toHaveLength(3);
  expect([pool.taken - before, pool.open]).toEqual([3, 0]);
  expect((await app.call("GET", PATH)).body.data).toHaveLength(1);
});

describe("refused with the location of the error", () => {
  const completion = "x";
  test.each<[string, object, number, string, string]>([
    [
      "a row without completion",
      { source: GOOD, rows: [{ completion }, { prompt: "p" }] },
      422,
      "/rows/1/completion",
      "is missing",
    ],
    [
      "a completion that is a number",
      { source: GOOD, rows: [{ completion: 3 }] },
      422,
      "/rows/0/completion",
      "a string or a list",
    ],
    ["no rows", { source: GOOD, rows: [] }, 422, "/rows", ""],
    ["too many rows", { source: GOOD, rows: Array(10_001).fill({ completion }) }, 422, "/rows", "10000"],
    ["no code", { rows: [{ completion }] }, 422, "/source", "send source, or reward_functions"],
    [
      "an unknown function",
      { reward_functions: [{ id: "known" }, { id: "no" }], rows: [{ completion }] },
      404,
      "/reward_functions/1/id",
      "No reward function no",
    ],
    [
      "an invalid function",
      { reward_functions: [{ id: "bad" }], rows: [{ completion }] },
      422,
      "/reward_functions/0/id",
      "line 3, column 7: it is broken",
    ],
    [
      "code that does not load",
      { source: "def reward(): broken", rows: [{ completion }] },
      422,
      "/source",
      "line 3, column 7: it is broken",
    ],
    [
      "code of no language",
      { source: "??", rows: [{ completion }] },
      422,
      "/language",
      "set it to python, typescript or javascript",
    ],
    [
      "a param that a built-in reward has not",
      { reward_functions: [{ id: "exact_match", params: { colum: "a" } }], rows: [{ completion }] },
      422,
      "/reward_functions/0/params",
      "colum",
    ],
    [
      "a param of the wrong kind",
      { reward_functions: [{ id: "exact_match", params: { column: 7 } }], rows: [{ completion }] },
      422,
      "/reward_functions/0/params/column",
      "params.column",
    ],
    ["no time", { source: GOOD, timeout_seconds: 0, rows: [{ completion }] }, 422, "/timeout_seconds", ""],
  ])("%s", async (_name, body, status, param, words) => {
    const { app, pool } = faked();
    await add(app, "known");
    await add(app, "bad", "def reward(): broken");
    const answer = await app.call("POST", `${PATH}/run`, body);
    expect(answer).toMatchObject({ status, body: { error: { param } } });
    expect(answer.body.error.message).toContain(words);
    expect(pool.open).toBe(0);
  });

  test("more functions than there are processes", async () => {
    const { app } = faked({ flags: { "sandbox.processes": 2 } });
    await add(app, "f");
    const reward_functions = Array(3).fill({ id: "f" });
    expect(await app.call("POST", `${PATH}/run`, { reward_functions, rows: ROWS })).toMatchObject({
      status: 422,
      body: { error: { param: "/reward_functions" } },
    });
  });
});

test("a run waits for its turn, a minute at most", async () => {
  const clock = fakeClock();
  const { app, pool } = faked({ clock, flags: { "sandbox.processes": 1 } });
  const run = (source: string) => app.call("POST", `${PATH}/run`, { source, rows: ROWS });
  const slow = run(`${GOOD} # waits`);
  await until("it to begin", () => pool.open === 1);
  const busy = [run(GOOD), run(GOOD)];
  let over = 0;
  for (const each of busy) void each.then(() => over++);
  await until("both to give up", () => {
    clock.advance(30_000);
    return over === 2;
  });
  for (const answer of await Promise.all(busy)) {
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "no_capacity" } } });
    expect(answer.headers.get("retry-after")).toBe("5");
  }
  expect(pool.taken).toBe(1);
  const fourth = run(GOOD);
  let ended = false;
  void fourth.then(() => {
    ended = true;
  });
  await until("both to end", () => {
    pool.letGo(); // once for its loading, once for its call
    return ended;
  });
  expect([(await slow).status, (await fourth).status, pool.open]).toEqual([200, 200, 0]);
});

test("M5: a run with endless code leaves a process to other workspaces", async () => {
  const { app, pool } = faked({ flags: { "sandbox.processes": 3 } });
  const slow = () => app.call("POST", `${PATH}/run`, { source: `${GOOD} # waits`, rows: ROWS });
  const runs = [slow(), slow(), slow()];
  await until("two to begin", () => pool.open === 2);
  const other = await app.call("POST", `${PATH}/run`, { source: GOOD, rows: ROWS }, { key: app.keyB });
  expect([other.status, pool.open]).toEqual([200, 2]);
  let ended = 0;
  for (const each of runs) void each.then(() => ended++);
  await until("all to end", () => {
    pool.letGo();
    return ended === 3;
  });
});

test("a client that disconnects ends its processes, and the next caller gets the permit", async () => {
  const { app, pool } = faked({ flags: { "sandbox.processes": 1 } });
  const client = new AbortController();
  const aborted = app.handle(
    new Request(`http://localhost${PATH}/run`, {
      method: "POST",
      headers: { authorization: `Bearer ${app.keyA}`, "content-type": "application/json" },
      body: JSON.stringify({ source: `${GOOD} # waits`, rows: ROWS }),
      signal: client.signal,
    }),
  );
  await until("it to begin", () => pool.open === 1);
  const next = app.call("POST", `${PATH}/run`, { source: GOOD, rows: ROWS });
  client.abort();
  await aborted;
  expect([(await next).status, pool.open]).toEqual([200, 0]);
});

test("a server that stops ends running and waiting runs", async () => {
  const { app, pool } = faked({ flags: { "sandbox.processes": 1 } });
  const run = () => app.call("POST", `${PATH}/run`, { source: `${GOOD} # waits`, rows: ROWS });
  const first = run();
  await until("it to begin", () => pool.open === 1);
  const second = run();
  await app.close();
  for (const answer of [await first, await second])
    expect(answer).toMatchObject({ status: 503, body: { error: { code: "shutting_down" } } });
  expect(pool.open).toBe(0);
});

test("the built-in rewards are listed, shown and fetched by name, in every workspace", async () => {
  const { app } = faked();
  const { data } = (await app.call("GET", `${PATH}/library`)).body;
  expect(data.map(({ name }: { name: string }) => name)).toContain("exact_match");
  for (const each of data) {
    expect(each).toMatchObject({ builtin: true, status: "ready", id: each.name, params: { type: "object" } });
    expect(each.entrypoints).toMatchObject([
      { name: "reward", signature: expect.stringMatching(/^reward\(completions/) },
    ]);
    expect((await app.call("GET", `${PATH}/${each.name}`, undefined, { key: app.keyB })).body).toEqual(each);
    const source = await app.call("GET", `${PATH}/${each.name}/source`);
    expect(new Bun.CryptoHasher("sha256").update(source.body).digest("hex")).toBe(each.sha256);
  }
  expect((await app.call("DELETE", `${PATH}/exact_match`)).status).toBe(400);
});

/**
 * The dashboard of the executable in a real Chromium: changes of the page, curves of a long run, scrolling of long lists, a
 * search in many traces, and bytes. Times are on the clock; the browser, the server and other programs share the cores.
 * `VERK_BENCH_ROWS` sets the rows of the dataset, `VERK_BENCH_TRACES` the traces.
 */
import { readFileSync, statSync } from "node:fs";
import { loadavg } from "node:os";
import { PAGES } from "../src/dashboard/pages/pages.ts";
import { loadBundle } from "../src/resources/server/dashboard/bundle.ts";
import { type Dashboard, SIZES, startDashboard } from "../test/browser/kit.ts";
import { plantRuns } from "../test/browser/planted_runs.ts";
import { median, type Row } from "./tools.ts";

const STEPS = 100_000;
const RUNS = 10_000;
const TALL = { width: 1440, height: 4_000 };
const MIB = 1024 * 1024;
const BATCH = 50_000;
const SIZE = {
  full: { rows: 5_000_000, traces: 1_000_000, opens: 9, frames: 400 },
  quick: { rows: 100_000, traces: 20_000, opens: 3, frames: 60 },
};

type Started = Awaited<ReturnType<typeof startDashboard>>;

export async function run({ quick = false } = {}): Promise<Row[]> {
  const size = SIZE[quick ? "quick" : "full"];
  const rows = Number(process.env["VERK_BENCH_ROWS"] ?? size.rows);
  const traces = Number(process.env["VERK_BENCH_TRACES"] ?? size.traces);
  const started = await startDashboard({ env: { VERK_HTTP__RATE_LIMIT_PER_SECOND: "0", VERK_LOG__LEVEL: "warn" } });
  try {
    return [
      ...(await bytesOf(started)),
      await changing(started, size.opens),
      ...(await drawing(started, size.opens)),
      ...(await scrollingRuns(started, size.frames)),
      await searching(started, traces, size.opens),
      ...(await scrolling(started, rows, size.frames)),
    ];
  } finally {
    await started.close();
  }
}

const row = (what: string, value: string, target = "", ok: boolean | null = null): Row => ({
  bench: "dashboard",
  what: `${what} (load ${loadavg()[0]?.toFixed(1)})`,
  value,
  target,
  ok,
});
const ms = (value: number) => `${value.toFixed(1)} ms`;
const quantile = (values: readonly number[], share: number) =>
  values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))] ?? 0;

/** `isThread`: time that the page's thread had a core, whatever else the machine does. */
async function busyMs(page: Dashboard, isThread: boolean): Promise<number> {
  await page.send("Performance.enable", { timeDomain: isThread ? "threadTicks" : "timeTicks" });
  const { metrics } = (await page.send("Performance.getMetrics")) as { metrics: { name: string; value: number }[] };
  return 1000 * (metrics.find(({ name }) => name === "TaskDuration")?.value ?? 0);
}

const DRAWN = "performance.getEntriesByName('runs.draw', 'measure').at(-1)?.duration ?? 0";
const CURVES = "document.querySelectorAll('.chart canvas').length";

async function drawing({ server, page }: Started, opens: number): Promise<Row[]> {
  const [id = ""] = await plantRuns(server, [{ name: "long", steps: STEPS, samplesEvery: 10 }]);
  const open = async () => {
    await page.at("/runs");
    await page.waitForText("long");
    const before = await busyMs(page, true);
    await page.run(`history.pushState(null, "", "/runs/${id}"), dispatchEvent(new PopStateEvent("popstate"))`);
    await page.waitFor("the curves", () => page.run<boolean>(`(${DRAWN}) > 0 && ${CURVES} > 0`));
    return { draw: await page.run<number>(DRAWN), thread: (await busyMs(page, true)) - before };
  };
  await open(); // the code of the page is compiled
  const first: Awaited<ReturnType<typeof open>>[] = [];
  for (let i = 0; i < opens; i++) first.push(await open());
  await page.resize(TALL);
  await open();
  await page.waitFor("all curves", async () => (await page.run<number>(CURVES)) >= 12);
  const all = await page.run<number>(CURVES);
  await page.resize(SIZES.desktop);
  const times = first.map(({ draw }) => draw);
  const [typical, worst] = [median(times), Math.max(...times)];
  const what = `a run of ${STEPS} steps: metrics to painted curves, worst of ${opens} ${ms(worst)}`;
  const thread = median(first.map((each) => each.thread));
  return [
    row(what, ms(typical), "≤ 100 ms", typical <= 100),
    row(
      `the same: processor time of the page from click to curves, requests included; ${all} curves below`,
      ms(thread),
    ),
  ];
}

/** From the click on a line of the navigation to the page with its data, in milliseconds. */
const CHANGE = (to: string) => `new Promise((resolve) => {
  const begun = performance.now();
  document.querySelector('nav a[href="${to}"]').click();
  const check = () => {
    const isThere = location.pathname === "${to}" && document.querySelector("h1") && !document.querySelector("[aria-busy=true]");
    if (isThere) resolve(performance.now() - begun);
    else requestAnimationFrame(check);
  };
  requestAnimationFrame(check);
})`;

/** All pages of the navigation in turn. The first round loads their code. */
async function changing({ page }: Started, rounds: number): Promise<Row> {
  const paths = PAGES.filter(({ nav, path, area }) => nav && path !== "/" && area !== "admin").map(({ path }) => path);
  await page.at("/");
  const times = new Map<string, number[]>(paths.map((path) => [path, []]));
  for (let round = 0; round <= rounds; round++)
    for (const path of paths) {
      const time = await page.run<number>(CHANGE(path));
      if (round > 0) times.get(path)?.push(time);
    }
  const typical = [...times].map(([path, each]) => ({ path, ms: median(each) })).sort((a, b) => b.ms - a.ms);
  const [slowest] = typical;
  const all = median(typical.map((each) => each.ms));
  const what = `a change among ${paths.length} pages, ${rounds} times: the slowest is ${slowest?.path}; median of all ${ms(all)}`;
  return row(what, ms(slowest?.ms ?? 0), "≤ 100 ms", (slowest?.ms ?? 0) <= 100);
}

const SPANS = 1_000; // in one request
const FRAME_MS = 1_000 / 60;

/** About 600 characters. `rare` is in one of 1,000. */
const wordsOf = (i: number) =>
  `${"the quick brown fox jumps over a lazy dog while wizards read old maps ".repeat(8)}number${i % 5_000}${i % 1_000 === 0 ? " rare" : ""}`;

function spanOf(i: number, at: number) {
  const text = (key: string, value: string) => ({ key, value: { stringValue: value } });
  const message = (role: string, content: string) => JSON.stringify([{ role, content }]);
  return {
    traceId: i.toString(16).padStart(32, "0"),
    spanId: (i + 1).toString(16).padStart(16, "0"),
    name: "chat",
    startTimeUnixNano: `${at - 1_000}000000`,
    endTimeUnixNano: `${at}000000`,
    attributes: [
      text("gen_ai.operation.name", "chat"),
      text("gen_ai.request.model", `model-${i % 8}`),
      text("gen_ai.input.messages", message("user", wordsOf(i))),
      text("gen_ai.output.messages", message("assistant", `answer ${i}`)),
    ],
  };
}

/** The same search by the page and by the API alone, in turn. */
async function searching({ server, page }: Started, traces: number, rounds: number): Promise<Row> {
  const headers = { authorization: `Bearer ${await server.apiKey()}`, "content-type": "application/json" };
  const now = Date.now();
  for (let at = 0; at < traces; at += SPANS) {
    const spans = Array.from({ length: Math.min(SPANS, traces - at) }, (_, i) => spanOf(at + i, now));
    const body = JSON.stringify({ resourceSpans: [{ scopeSpans: [{ spans }] }] });
    const sent = await fetch(`${server.url}/v1/traces`, { method: "POST", headers, body });
    if (!sent.ok) throw new Error(await sent.text());
  }
  await page.at("/traces");
  await page.waitFor("the traces", () => page.run<boolean>("!!document.querySelector('.rowlink')"), 60_000);
  const shown: number[] = [];
  const alone: number[] = [];
  for (let i = 0; i <= rounds; i++) {
    const [whole, request] = await page.run<[number, number]>(SEARCH(`number${(i * 37) % 5_000}`));
    if (i === 0) continue;
    shown.push(whole);
    alone.push(request);
  }
  const [typical, api] = [median(shown), median(alone)];
  const what = `a search in ${traces} traces, from the change to the rows; the API alone ${ms(api)}`;
  return row(what, ms(typical), "≤ API + 3 frames", typical <= api + 3 * FRAME_MS);
}

/** The page's time until rows with the word are drawn, and that of the same request alone. */
const SEARCH = (word: string) => `(async () => {
  performance.clearResourceTimings();
  const begun = performance.now();
  history.pushState(null, "", "/traces?q=${word}");
  dispatchEvent(new PopStateEvent("popstate"));
  const isThere = () => {
    const rows = [...document.querySelectorAll(".rowlink")];
    return rows.length > 0 && rows.every((at) => at.innerText.includes("the quick")) &&
      performance.getEntriesByType("resource").some(({ name, responseEnd }) => name.includes("/v1/traces?") && name.includes("q=${word}") && responseEnd > 0);
  };
  while (!isThere()) await new Promise(requestAnimationFrame);
  const whole = performance.now() - begun;
  const { name } = performance.getEntriesByType("resource").find(({ name }) => name.includes("/v1/traces?") && name.includes("q=${word}"));
  const again = performance.now();
  await (await fetch(name)).json();
  return [whole, performance.now() - again];
})()`;

/** The list of runs, scrolled as a whole page. */
async function scrollingRuns({ server, page }: Started, frames: number): Promise<Row[]> {
  await plantRuns(
    server,
    Array.from({ length: RUNS }, (_, i) => ({ name: `run-${i}`, steps: 1 })),
  );
  await page.at("/runs");
  await page.waitForText(`${(RUNS + 1).toLocaleString("en-US")} runs`, 60_000);
  const times = await page.run<number[]>(FRAMES(frames, 120, "document.documentElement"));
  const [p50, p95] = [quantile(times, 0.5), quantile(times, 0.95)];
  const what = `${RUNS} runs, scrolled by 120 px a frame: p95 ${ms(p95)}, p99 ${ms(quantile(times, 0.99))}`;
  return [row(what, ms(p50), "≤ 16.8 ms", p50 <= 16.8 && p95 <= 16.8)];
}

const FRAMES = (frames: number, by: number, list: string) => `new Promise((resolve) => {
  const list = ${list};
  const times = [];
  let last = 0;
  const step = (now) => {
    if (last > 0) times.push(now - last);
    last = now;
    list.scrollTop += ${by};
    if (times.length < ${frames}) requestAnimationFrame(step);
    else resolve(times);
  };
  requestAnimationFrame(step);
})`;

async function scrolling({ server, page }: Started, rows: number, frames: number): Promise<Row[]> {
  const { body } = await server.call("POST", "/v1/datasets", { name: "large", format: "prompt" });
  const headers = { authorization: `Bearer ${await server.apiKey()}`, "content-type": "application/x-ndjson" };
  for (let at = 0; at < rows; at += BATCH) {
    const lines = Array.from({ length: Math.min(BATCH, rows - at) }, (_, i) => `{"prompt":"What is ${at + i} + 1?"}\n`);
    const sent = await fetch(`${server.url}/v1/datasets/${body.id}/rows`, {
      method: "POST",
      headers,
      body: lines.join(""),
    });
    if (!sent.ok) throw new Error(await sent.text());
  }
  await page.at(`/datasets/${body.id}`);
  await page.waitForText("What is 1 + 1?");
  const times = await page.run<number[]>(FRAMES(frames, 120, "document.querySelector('.datasets-list')"));
  const [p50, p95] = [quantile(times, 0.5), quantile(times, 0.95)];
  const what = `${rows} rows, scrolled by 120 px a frame: p95 ${ms(p95)}, p99 ${ms(quantile(times, 0.99))}`;
  return [row(what, ms(p50), "≤ 16.8 ms", p50 <= 16.8 && p95 <= 16.8)];
}

async function bytesOf({ server }: Started): Promise<Row[]> {
  const { index, assets } = await loadBundle();
  const bytes = (names: readonly string[], form: "gzip" | "brotli") =>
    names.reduce((sum, name) => sum + statSync(assets[name]?.[form] ?? "").size, 0);
  const all = Object.keys(assets);
  const first = [...new Set([...index.matchAll(/\/assets\/([\w.-]+)/g)].map(([, name = ""]) => name))];
  const load = index.length + bytes(first, "gzip");
  const embedded = index.length + bytes(all, "gzip") + bytes(all, "brotli");
  const binary = statSync(`/proc/${server.pid}/exe`).size;
  const names = readFileSync(`/proc/${server.pid}/cmdline`, "utf8").split("\0")[0];
  return [
    row("first load, gzip", `${(load / 1024).toFixed(1)} KiB`, "≤ 60 KiB", load <= 60 * 1024),
    row(
      `bytes of the dashboard in ${names?.split("/").at(-1)} of ${(binary / 1e6).toFixed(1)} MB`,
      ...([`${(embedded / MIB).toFixed(2)} MiB`, "≤ 1 MiB", embedded <= MIB] as const),
    ),
  ];
}

import { afterEach, beforeEach, expect, test } from "bun:test";
import { h, render } from "preact";
import { useEffect } from "preact/hooks";
import { until } from "../../../../../test/harness.ts";
import { ApiError } from "../../../data/api.ts";
import { forgetAll, type Loaded } from "../../../data/resource.ts";
import type { JobMetrics, TrainingJob } from "../types.ts";
import { CURVES, comparisonOf, useRuns } from "./runs.ts";

const jobOf = (id: string, status: string) => ({ id, status, output_name: id }) as TrainingJob;
const METRICS = { data: [{ step: 1 }] } as unknown as JobMetrics;

/** Statuses of runs, as the server answers them. A run without one has no answer. */
const statuses = new Map<string, string>();
let loads: string[] = [];

async function answer(path: string): Promise<Response> {
  loads.push(path);
  const [, id = "", isMetrics] = /^\/v1\/training_jobs\/(\w+)(\/metrics)?/.exec(path) ?? [];
  const status = statuses.get(id);
  if (status === undefined) throw new TypeError("connection refused");
  if (status === "missing") return Response.json({ error: { message: `no ${id}` } }, { status: 404 });
  return Response.json(isMetrics ? METRICS : jobOf(id, status));
}

/** The hook in a component that draws nothing: it needs no document beyond this. */
type Comparison = ReturnType<typeof useRuns>;
let shown: Comparison | undefined;
const parent = { nodeType: 1, childNodes: [], firstChild: null } as unknown as Element;
let isMounted = false;
const Probe = ({ ids }: { ids: readonly string[] }) => {
  shown = useRuns(ids, CURVES, 1);
  useEffect(() => {
    isMounted = true;
    return () => {
      isMounted = false;
    };
  }, []);
  return null;
};
const show = (ids: readonly string[]) => render(h(Probe, { ids }), parent);
const jobLoads = () => loads.filter((path) => !path.includes("/metrics")).length;

const before = { fetch: globalThis.fetch, document: Reflect.get(globalThis, "document") };

beforeEach(() => {
  Object.assign(globalThis, { fetch: answer, document: { hidden: false, cookie: "" } });
  statuses.clear();
  loads = [];
  shown = undefined;
});

afterEach(async () => {
  render(null, parent);
  await until("the end of its timers", () => !isMounted); // after the next frame
  forgetAll();
  Object.assign(globalThis, { fetch: before.fetch });
  if (before.document === undefined) Reflect.deleteProperty(globalThis, "document");
  else Object.assign(globalThis, { document: before.document });
});

test("a comparison is loaded again and again while one of its runs goes on, and no longer when all are over", async () => {
  statuses.set("a", "completed").set("b", "running");
  show(["a", "b"]);
  await until("both runs", () => shown?.runs?.length === 2);
  const first = loads.length;
  await until("five more rounds", () => loads.length > first + 20);
  statuses.set("b", "completed");
  await until("the end", () => shown?.runs?.[1]?.job.status === "completed");
  let [quietTurns, last] = [0, loads.length];
  await until("many pauses without a load", () => {
    quietTurns = loads.length === last ? quietTurns + 1 : 0;
    last = loads.length;
    return quietTurns > 10;
  });
  expect(shown?.runs?.map(({ job, token }) => [job.id, token])).toEqual([
    ["a", "--c1"],
    ["b", "--c2"],
  ]);
});

test("runs stay when the connection is lost, and are loaded until it is back", async () => {
  statuses.set("a", "running");
  show(["a"]);
  await until("the run", () => shown?.runs?.length === 1);
  statuses.delete("a");
  const lost = jobLoads();
  await until("three loads without an answer", () => jobLoads() > lost + 3);
  expect(shown?.runs).toHaveLength(1);
  expect(shown?.error).toBeUndefined();
  statuses.set("a", "completed");
  await until("the new status", () => shown?.runs?.[0]?.job.status === "completed");
});

test("a first load without a connection shows the error and tries again", async () => {
  show(["a"]);
  await until("the error", () => shown?.error?.status === 0);
  expect(shown?.runs).toEqual([]);
  statuses.set("a", "completed");
  await until("the run", () => shown?.runs?.length === 1 && shown.error === undefined);
});

test("a run that is gone leaves the comparison, with its error", async () => {
  statuses.set("a", "running").set("b", "missing");
  show(["a", "b"]);
  await until("the run that is there", () => shown?.runs?.length === 1);
  expect(shown?.error?.message).toBe("no b");
  await until("loads that go on", () => jobLoads() > 8);
});

test("nothing is shown before every run was read or refused", () => {
  const loaded = <T>(data: T | undefined, error?: ApiError): Loaded<T> => ({ data, error, loading: false });
  const [a, b] = [loaded(jobOf("a", "running")), loaded<TrainingJob>(undefined)];
  const metrics = loaded<JobMetrics>(METRICS);
  expect(comparisonOf([a, b], [metrics, metrics])).toEqual({ runs: undefined, error: undefined });
  const refused = loaded<TrainingJob>(undefined, new ApiError(403, null, "not yours"));
  const { runs, error } = comparisonOf([a, refused], [metrics, metrics]);
  expect(runs?.map(({ job }) => job.id)).toEqual(["a"]);
  expect(error?.message).toBe("not yours");
});

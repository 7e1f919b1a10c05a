/**
 * A fake of MLflow's tracking server and of W&B's API: the shapes of their answers, their limits, and what is hard about
 * them. Metrics are appended, never merged, so that a point told twice is seen twice. It keeps every request.
 */
type Json = Record<string, unknown>;
export type FakeRun = {
  id: string;
  experiment: string;
  name: string;
  status: string;
  endTime: number | null;
  tags: Json;
  params: Record<string, string>;
  metrics: { key: string; value: number; timestamp: number; step: number }[];
};
export type FakeBucket = { name: string; config: Json; lines: string[]; summary: string; exit: number | null };
export type TrackerRequest = { method: string; path: string; body: Json; authorization: string | null };

/** `before`: answers instead of doing the work. `after`: replaces the answer once the work is done. */
type Trouble = { before?: (seen: TrackerRequest) => Response | Promise<Response | undefined> | undefined };
type Refused = { refused?: (authorization: string | null) => Response };
type After = { after?: (seen: TrackerRequest) => Response | Promise<Response | undefined> | undefined };

const refusal = (status: number, error_code: string, message: string) =>
  Response.json({ error_code, message }, { status });

export function startFakeTracker(options: { key?: string; port?: number } = {}) {
  const experiments = new Map<string, string>(); // name → id
  const runs = new Map<string, FakeRun>();
  const buckets = new Map<string, FakeBucket>();
  const requests: TrackerRequest[] = [];
  const trouble: Trouble & After & Refused = {};
  const wanted = options.key;

  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: options.port ?? 0,
    idleTimeout: 255,
    async fetch(request) {
      const { pathname, search, searchParams } = new URL(request.url);
      const text = await request.text();
      const body = (text === "" ? {} : JSON.parse(text)) as Json;
      const seen = {
        method: request.method,
        path: pathname + search,
        body,
        authorization: request.headers.get("authorization"),
      };
      requests.push(seen);
      if (wanted !== undefined && seen.authorization !== wanted)
        return (
          trouble.refused?.(seen.authorization) ?? new Response(`Unauthorized: ${seen.authorization}`, { status: 401 })
        );
      const instead = await trouble.before?.(seen);
      if (instead) return instead;
      const answer = pathname.startsWith("/api/2.0/mlflow/")
        ? mlflow(pathname.slice("/api/2.0/mlflow/".length), searchParams, body)
        : wandb(pathname, body);
      return (await trouble.after?.(seen)) ?? answer;
    },
  });

  function mlflow(route: string, query: URLSearchParams, body: Json): Response {
    if (route === "experiments/get-by-name") {
      const id = experiments.get(query.get("experiment_name") ?? "");
      if (id === undefined) return refusal(404, "RESOURCE_DOES_NOT_EXIST", "No such experiment");
      return Response.json({ experiment: { experiment_id: id, lifecycle_stage: "active" } });
    }
    if (route === "experiments/create") {
      const name = String(body["name"]);
      if (experiments.has(name)) return refusal(400, "RESOURCE_ALREADY_EXISTS", "It exists");
      experiments.set(name, String(experiments.size + 1));
      return Response.json({ experiment_id: experiments.get(name) });
    }
    if (route === "runs/search") {
      const job = /^tags\."verk\.job_id" = '(\w+)'$/.exec(String(body["filter"]))?.[1];
      if (job === undefined) return refusal(400, "INVALID_PARAMETER_VALUE", "Invalid filter");
      const found = [...runs.values()].filter((run) => run.tags["verk.job_id"] === job);
      return Response.json(found.length === 0 ? {} : { runs: found.map(shown) });
    }
    if (route === "runs/create") {
      const tags = Object.fromEntries((body["tags"] as { key: string; value: string }[]).map((t) => [t.key, t.value]));
      const id = crypto.randomUUID().replaceAll("-", "");
      const made = { id, experiment: String(body["experiment_id"]), name: String(body["run_name"]), tags };
      runs.set(id, { ...made, status: "RUNNING", endTime: null, params: {}, metrics: [] });
      return Response.json({ run: shown(runs.get(id) as FakeRun) });
    }
    const run = runs.get(String(body["run_id"] ?? query.get("run_id")));
    if (!run) return refusal(404, "RESOURCE_DOES_NOT_EXIST", "No such run");
    if (route === "runs/get") return Response.json({ run: shown(run) });
    if (route === "runs/log-batch") return logBatch(run, body);
    if (route === "runs/update") {
      run.status = String(body["status"]);
      run.endTime = (body["end_time"] as number | undefined) ?? null;
      return Response.json({ run_info: { run_id: run.id, status: run.status } });
    }
    return refusal(404, "ENDPOINT_NOT_FOUND", `No ${route}`);
  }

  function wandb(path: string, body: Json): Response {
    const variables = (body["variables"] ?? {}) as Record<string, string | null>;
    if (path === "/graphql" && String(body["query"]).includes("viewer"))
      return Response.json({ data: { viewer: { id: "u1", entity: "team" } } });
    if (path === "/graphql") {
      const name = variables["name"] as string;
      const bucket = buckets.get(name) ?? { name, config: {}, lines: [], summary: "", exit: null };
      if (variables["config"]) bucket.config = JSON.parse(variables["config"]) as Json;
      buckets.set(name, bucket);
      const project = { name: variables["project"], entity: { name: variables["entity"] ?? "team" } };
      return Response.json({ data: { upsertBucket: { bucket: { name, project } } } });
    }
    const bucket = buckets.get(/^\/files\/[^/]+\/[^/]+\/(\w+)\/file_stream$/.exec(path)?.[1] ?? "");
    if (!bucket) return new Response("no such run", { status: 404 });
    const files = (body["files"] ?? {}) as Record<string, { offset: number; content: string[] }>;
    const history = files["wandb-history.jsonl"];
    if (history) bucket.lines.splice(history.offset, history.content.length, ...history.content);
    bucket.summary = files["wandb-summary.json"]?.content[0] ?? bucket.summary;
    if (body["complete"]) bucket.exit = body["exitcode"] as number;
    return Response.json({});
  }

  return {
    url: server.url.origin,
    port: server.port as number,
    experiments,
    runs,
    buckets,
    requests,
    trouble,
    stop: () => server.stop(true),
    /** `step key=value`, in the order in which they came. */
    told: () =>
      [...runs.values()].flatMap((run) => run.metrics.map(({ step, key, value }) => `${step} ${key}=${value}`)),
  };
}
export type FakeTracker = ReturnType<typeof startFakeTracker>;

const shown = (run: FakeRun) => {
  const newest = new Map<string, FakeRun["metrics"][number]>();
  for (const metric of run.metrics)
    if (metric.step >= (newest.get(metric.key)?.step ?? -1)) newest.set(metric.key, metric);
  return {
    info: { run_id: run.id, run_name: run.name, experiment_id: run.experiment, status: run.status },
    data: { metrics: [...newest.values()], tags: Object.entries(run.tags).map(([key, value]) => ({ key, value })) },
  };
};

function logBatch(run: FakeRun, body: Json): Response {
  const metrics = (body["metrics"] ?? []) as FakeRun["metrics"];
  const params = (body["params"] ?? []) as { key: string; value: string }[];
  const invalid = (message: string) => refusal(400, "INVALID_PARAMETER_VALUE", message);
  if (metrics.length > 1000 || params.length > 100) return invalid("Too many items in one request");
  if ([...metrics, ...params].some(({ key }) => !/^[\w\-. /]{1,250}$/.test(key))) return invalid("Invalid name");
  if (metrics.some(({ value, step, timestamp }) => ![value, step, timestamp].every(Number.isFinite)))
    return invalid("Not a number");
  if (params.some(({ key, value }) => (run.params[key] ?? value) !== value)) return invalid("A parameter was changed");
  for (const { key, value } of params) run.params[key] = value;
  run.metrics.push(...metrics);
  return Response.json({});
}

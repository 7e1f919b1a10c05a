export type Json = Record<string, unknown>;

const record = (more: Json = {}): Json => ({
  id: "job_1",
  object: "training_job",
  status: "running",
  method: "grpo",
  base_model: "verk-tiny",
  output_name: "sums",
  progress: { step: 0, total_steps: 4, percent: 0, eta_seconds: null },
  latest_metrics: {},
  error: null,
  queue_position: null,
  queue_reason: null,
  created_at: "2026-01-01T00:00:00.000Z",
  started_at: "2026-01-01T00:00:00.000Z",
  completed_at: null,
  gpu: null,
  dataset: null,
  eval_dataset: null,
  hyperparameters: { beta: 0 },
  lora: null,
  reward_language: null,
  reward_functions: [],
  seed: 7,
  resume_from: null,
  best_checkpoint_id: null,
  pause_reason: null,
  cost_usd: 0,
  energy_wh: null,
  region: null,
  placement: null,
  tags: [],
  group: null,
  notes: "",
  ...more,
});
/** A view of the job at a step. */
export const at = (step: number, more: Json = {}) => ({
  progress: { step, total_steps: 4, percent: 25 * step, eta_seconds: 9 },
  ...more,
});
export const OVER = { status: "completed", completed_at: "2026-01-01T00:00:30.000Z" };

/** Calls of the command line so far, and the answers that the tests choose. */
export const state = {
  sent: [] as { path: string; body: unknown }[],
  looks: [] as Json[],
  others: [] as Json[],
  file: "weights",
  talks: false,
};
const events = (...all: [string, Json][]) =>
  all.map(([event, data]) => `event: ${event}\ndata: ${JSON.stringify(data)}\n\n`).join("");
const line = (seq: number, text: string, time = "t") =>
  ["log", { seq, time, stream: "stdout", line: text }] as [string, Json];
/**
 * The log of a job that writes all the time: what it wrote so far, then lines of tomorrow, as fast as they are read.
 */
async function* talk() {
  yield events(["status", {}], line(1, "one"), line(2, "two", new Date(0).toISOString()));
  for (let seq = 3; ; seq++) yield events(line(seq, "more", new Date(Date.now() + 86_400_000).toISOString()));
}

/** A fake server with the routes that `verk jobs` uses. */
export const fake = Bun.serve({
  port: 0,
  async fetch(request) {
    const { pathname, searchParams, origin } = new URL(request.url);
    const path = `${request.method} ${pathname}`;
    if (path === "GET /file") return new Response(state.file);
    const text = await request.text();
    const body: unknown = text.startsWith("{") ? JSON.parse(text) : text;
    if (request.method !== "GET") state.sent.push({ path, body });
    switch (path) {
      case "POST /v1/datasets":
        return Response.json({
          id: "ds_1",
          object: "dataset",
          name: "sums",
          num_rows: 2,
          format: "prompt",
          size_bytes: 9,
        });
      case "POST /v1/reward_functions": {
        const { name } = body as { name: string };
        const made = { id: `rf_${name}`, object: "reward_function", name, version: 1, error: null, entrypoints: [] };
        return Response.json(made, { status: 201 });
      }
      case "POST /v1/training_jobs":
        return Response.json(record({ status: "queued" }), { status: 201 });
      case "POST /v1/training_jobs/validate": {
        const errors =
          (body as Json)["method"] === "grpo" ? [] : [{ code: "x", message: "no such method", param: "/method" }];
        const estimate = { vram_bytes_peak: 2 ** 20, duration_seconds: 60, cost_usd: null };
        const reward_preview = { mean: 0.5, std: 0.5, frac_zero_std: 0.25, latency_ms_p50: 1, samples: [] };
        const object = "training_job.validation";
        return Response.json({ object, valid: errors.length === 0, errors, warnings: [], estimate, reward_preview });
      }
      case "GET /v1/training_jobs":
        return Response.json({
          object: "list",
          data: [record({ latest_metrics: { reward: 0.5 } }), ...state.others.map(record)],
          has_more: false,
        });
      case "GET /v1/training_jobs/job_1":
        return Response.json(record(state.looks.length > 1 ? state.looks.shift() : state.looks[0]));
      case "GET /v1/training_jobs/job_1/metrics": {
        const all = [1, 2, 3, 4].map((step) => ({ step, values: { reward: step / 4, loss: 0.1 } }));
        const [from, to] = ["from_step", "to_step"].map((name) => Number(searchParams.get(name)));
        const data = all.filter(({ step }) => step >= (from ?? 0) && step <= (to ?? 0));
        return Response.json({ object: "training_job.metrics", data });
      }
      case "GET /v1/training_jobs/job_1/events": {
        const data = [
          { created_at: "t2", level: "warn", message: "two" },
          { created_at: "t1", level: "info", message: "one" },
        ];
        return Response.json({ object: "list", data, has_more: false });
      }
      case "GET /v1/training_jobs/job_1/logs":
        if (state.talks) return new Response(talk as unknown as ReadableStream);
        return new Response(events(["status", {}], line(1, "one"), line(2, "two"), ["end", {}]));
      case "GET /v1/training_jobs/job_1/model": {
        const sha256 = new Bun.CryptoHasher("sha256").update("weights").digest("hex");
        return Response.json({
          object: "model_download",
          status: "ready",
          step: 4,
          url: `${origin}/file`,
          size_bytes: 7,
          sha256,
        });
      }
      case "PATCH /v1/training_jobs/job_1":
        return Response.json(record(body as Json));
      case "DELETE /v1/training_jobs/job_1":
        return Response.json({ id: "job_1", object: "training_job", deleted: true });
    }
    const [, action] = /^POST \/v1\/training_jobs\/job_1\/(\w+)$/.exec(path) ?? [];
    if (action) return Response.json(record({ status: `${action}ed` }));
    return Response.json(
      { error: { type: "x", code: "resource_not_found", message: `No ${path}`, param: null } },
      { status: 404 },
    );
  },
});

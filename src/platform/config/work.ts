/** Settings of what users have run here, and of what it costs. */
import { z } from "zod";
import { milliseconds, section } from "./section.ts";

export const sandbox = section("The sandbox of reward code and workers.", {
  require: z
    .enum(["language", "process", "full"])
    .default("process")
    .describe(
      "Refuse to run below this: language (the interpreter's walls), process (and seccomp), full (and landlock, namespaces). It holds for reward code and for workers, which parse images, models, archives and rows: one that lacks a layer does not start.",
    ),
  memory_mib: z
    .int()
    .min(64)
    .max(4096)
    .default(512)
    .describe("Memory that one reward process may add to its own size."),
  processes: z.int().min(1).max(1024).default(8).describe("Reward processes at the same time; others wait."),
  spare_seconds: z
    .int()
    .min(0)
    .max(86_400)
    .default(120)
    .describe("After use, one process of the language stays ready for this long; 0 = none."),
  sample_timeout_ms: milliseconds
    .default(5_000)
    .describe("Longest time of one sample, unless the reward function sets it."),
  batch_timeout_ms: milliseconds.default(120_000).describe("Longest time of one batch of any size."),
});

export const sessions = section("Session sandboxes.", {
  enabled: z.boolean().default(true).describe("false: every session operation answers sessions_disabled."),
  max_per_workspace: z.int().min(1).default(16).describe("Sessions of one workspace that have not ended."),
  idle_seconds: z.int().min(10).default(1800).describe("A session that is not used for this long expires."),
  lifetime_seconds: z.int().min(10).default(86_400).describe("Longest life of a session, and the default."),
  exec_timeout_seconds: z.int().min(1).default(3600).describe("Longest time of one command; the default is 300."),
  execs: z.int().min(1).max(256).default(8).describe("Commands at the same time in all sessions; others wait."),
  memory_mib: z.int().min(16).default(2048).describe("Memory of all processes of one command."),
  processes: z.int().min(4).max(4096).default(128).describe("Processes and threads of one command."),
  disk_mib: z.int().min(1).default(4096).describe("Most content of one /workspace."),
  disk_entries: z.int().min(10).default(200_000).describe("Files and directories in one /workspace."),
  output_bytes: z
    .int()
    .min(1024)
    .max(67_108_864)
    .default(1_048_576)
    .describe("Bytes kept of each output stream of a command; the rest is dropped."),
  retention_days: z.int().min(1).max(36_500).default(30).describe("Sessions that ended longer ago are removed."),
  allow_network: z
    .boolean()
    .default(false)
    .describe("Let a session request the network of this machine, loopback and private addresses included."),
});

export const training = section("Training jobs.", {
  parallel: z.int().min(1).max(64).default(1).describe("Jobs that run at the same time; others wait in the queue."),
  max_waiting_jobs: z
    .int()
    .min(1)
    .max(100_000)
    .default(1_000)
    .describe("Jobs of one workspace that are queued or paused; a job beyond that is rejected with 429."),
  threads: z.int().min(0).max(1024).default(0).describe("Threads of one job on the CPU; 0 = all cores but one."),
  crash_limit: z
    .int()
    .min(1)
    .max(1000)
    .default(5)
    .describe("A job whose worker dies this often without progress in between has failed."),
  save_seconds: z
    .int()
    .min(0)
    .default(600)
    .describe("A checkpoint is written at the latest after this long, whatever save_steps says; 0 = never sooner."),
  max_runtime_minutes: z.int().min(1).default(10_080).describe("Longest run of one job, and the default."),
  slurm_work_dir: z
    .string()
    .default("")
    .describe(
      "Absolute path on the shared file system of a cluster whose login node this machine is: then a region of kind slurm needs no address, and its jobs run as the server's user. Empty = none.",
    ),
  detail_retention_days: z
    .int()
    .min(0)
    .max(36_500)
    .default(365)
    .describe(
      "Jobs that ended longer ago lose their samples, events and log, and keep a thinned series of metrics; 0 = never.",
    ),
});

const waiting = (most: number, what: string) =>
  z.int().min(1).max(100_000).default(most).describe(`${what}; one beyond that is rejected with 429.`);

export const queues = section("Work of one workspace that has not ended. Workspaces take turns.", {
  experiments: waiting(100, "Experiments, evals included"),
  batches: waiting(100, "Batches in the format of OpenAI"),
  responses: waiting(1_000, "Background responses"),
  detection_batches: waiting(1_000, "Batches of detection"),
  downloads: waiting(100, "Models that are downloaded from the hub"),
  exports: waiting(100, "Files that are made of checkpoints"),
});

export const volumes = section("Files that users keep.", {
  max_file_bytes: z.int().min(1).default(1_099_511_627_776).describe("Largest file."),
  quota_bytes: z.int().min(0).default(0).describe("All volumes of one workspace together; 0 = no limit."),
  url_seconds: z
    .int()
    .min(1)
    .max(604_800)
    .default(3600)
    .describe("Lifetime of a signed address, unless the request sets it."),
});

export const webhooks = section("Webhooks.", {
  max_per_workspace: z.int().min(1).max(10_000).default(100).describe("Endpoints of one workspace."),
  retention_days: z
    .int()
    .min(4)
    .max(36_500)
    .default(30)
    .describe("Deliveries made longer ago than this are removed once they have settled."),
});

export const monitors = section("Monitors.", {
  interval_seconds: z.int().min(2).max(86_400).default(30).describe("Time between two evaluations of a monitor."),
  max_per_workspace: z.int().min(1).max(10_000).default(100).describe("Monitors of one workspace."),
  history_days: z.int().min(1).max(36_500).default(90).describe("Changes of severity older than this are removed."),
});

const isPlanOf = (text: string) => /^[^=]+=(free|pro|enterprise)$/.test(text);

export const detect = section("Detection of generated images and speech.", {
  port: z
    .int()
    .min(-1)
    .max(65_535)
    .default(-1)
    .describe("A second port of the same host, for detection alone; -1 = none, 0 picks a free one."),
  default_plan: z
    .enum(["free", "pro", "enterprise"])
    .default("enterprise")
    .describe("free (10 a second, 1,000 a month), pro (100 a second, 50,000 a month) or enterprise."),
  plans: z
    .array(z.string().refine(isPlanOf, 'expected a workspace and its plan, such as "lab=pro"'))
    .default([])
    .describe("Workspaces with another plan than that, by name or id."),
  enterprise_per_second: z.int().min(0).max(100_000).default(0).describe("Requests a second of enterprise; 0 = any."),
  enterprise_per_month: z.int().min(0).default(0).describe("Requests a month of enterprise; 0 = any."),
  initial_credits: z
    .int()
    .min(0)
    .max(1e15)
    .default(1_000_000_000)
    .describe("Credits of a workspace; raise it to grant more. One detection takes one, one from the cache none."),
  max_image_bytes: z.int().min(1024).max(10_485_760).default(10_485_760).describe("Largest image or clip."),
  max_pixels: z.int().min(65_536).default(100_000_000).describe("Largest image, in pixels."),
  max_batch_bytes: z
    .int()
    .min(1024)
    .max(1_073_741_824)
    .default(134_217_728)
    .describe("Largest body of one batch; send addresses or several batches for more."),
  models_dir: z
    .string()
    .default("")
    .describe("Folder with detector_*.onnx and their .json that replace the built-in ones; empty = built-in."),
  trust_list: z
    .string()
    .default("")
    .describe("File of certificates (PEM) whose signatures under content credentials are trusted; empty = none."),
  threads: z.int().min(0).max(1024).default(0).describe("CPU threads of the detector; 0 = all this server may use."),
  parallel: z.int().min(1).max(256).default(16).describe("Images in the detector at the same time; others wait."),
  wait_ms: milliseconds.default(10_000).describe("Longest wait of a request for its turn; then it is rejected."),
  timeout_ms: milliseconds.default(60_000).describe("A detector that has not answered by then is ended."),
  idle_seconds: z.int().min(1).default(600).describe("A detector that is not used for this long is ended."),
  retention_days: z.int().min(1).max(36_500).default(30).describe("Results older than this are removed."),
});

export const billing = section("Prices and credit.", {
  initial_credit_usd: z.number().min(0).max(1e9).default(100).describe("Credit of a new workspace, in dollars."),
  local_rate_usd_per_hour: z
    .number()
    .min(-1)
    .max(1e6)
    .default(0)
    .describe("Price of an hour of one device of this machine, in dollars; 0 = free, -1 = by the price list."),
  pricing_file: z
    .string()
    .default("")
    .describe("File with your own prices, instead of the built-in list (`verk config pricing`); empty = built-in."),
  merge_after_days: z
    .int()
    .min(0)
    .max(36_500)
    .default(35)
    .describe("Charges of a deployment, one a minute, are merged into one entry a day after this long; 0 = never."),
});

export const workspaces = section("Workspaces.", {
  retention_days: z
    .int()
    .min(1)
    .max(36_500)
    .default(400)
    .describe("Workspaces that were deleted longer ago are removed with their keys; the ledger keeps their entries."),
});

export const apiKeys = section("API keys.", {
  life_days: z
    .int()
    .min(0)
    .max(36_500)
    .default(365)
    .describe("Days until a new key expires if its maker names no end (expires_at, --expires); 0 = never."),
  revoked_retention_days: z
    .int()
    .min(1)
    .max(36_500)
    .default(400)
    .describe("Keys that were revoked longer ago are removed: they then answer invalid_api_key, not revoked_api_key."),
});

export const audit = section("The audit log.", {
  retention_days: z.int().min(1).max(36_500).default(365).describe("Entries older than this are removed."),
});

export const publicRuns = section("Runs that are public.", {
  enabled: z.boolean().default(true).describe("false: the public list is empty, whatever is published."),
  rate_limit_per_second: z.number().min(0).default(20).describe("Steady requests per second of one address; 0 = off."),
  rate_limit_burst: z.int().min(1).default(100).describe("Requests that one address may send at once."),
});

export const connectors = section("Sources of connected datasets.", {
  connect_timeout_ms: milliseconds.default(15_000).describe("Longest time until a source begins to answer."),
  statement_timeout_ms: milliseconds.default(3_600_000).describe("Longest time of one statement of a database."),
  validate_timeout_ms: milliseconds
    .default(60_000)
    .describe("Longest time in which a validation counts rows; beyond it, num_rows has the rows counted so far."),
  min_bytes_per_second: z
    .int()
    .min(0)
    .default(100)
    .describe("A source that sends less, on average over min_rate_seconds, is given up; 0 = any rate."),
  min_rate_seconds: z.int().min(1).max(3600).default(60).describe("Time over which that rate is measured."),
});

export const datasets = section("Datasets.", {
  max_row_bytes: z
    .int()
    .min(1024)
    .max(268_435_456)
    .default(16_777_216)
    .describe("The longest row; a longer one is rejected with its line number."),
  max_append_bytes: z
    .int()
    .min(1024)
    .max(1_073_741_824)
    .default(67_108_864)
    .describe("Largest body of one append, which is accepted whole or not at all."),
  max_upload_bytes: z
    .int()
    .min(1024)
    .default(1_099_511_627_776)
    .describe("Largest file of one upload; it goes to the disk as it arrives."),
});

export const traces = section("Traces of requests.", {
  retention_days: z
    .int()
    .min(1)
    .max(36_500)
    .default(30)
    .describe("Rollouts and traces from outside are removed after this time. Each deployment has its own."),
});

export const responses = section("Responses in the format of OpenAI.", {
  retention_days: z.int().min(1).max(36_500).default(30).describe("Stored responses are removed after this time."),
});

export const batches = section("Batches in the format of OpenAI.", {
  retention_days: z.int().min(1).max(36_500).default(30).describe("Ended batches and their files stay for this time."),
});

export const events = section("The event log.", {
  retention_days: z.int().min(1).max(36_500).default(90).describe("Events older than this are removed."),
});

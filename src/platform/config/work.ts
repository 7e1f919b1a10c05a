/** Settings of what users have run here, and of what it costs. */
import { z } from "zod";
import { live, milliseconds, section, setting } from "./section.ts";

export const sandbox = section("The sandbox of reward code and workers.", {
  require: setting(
    "process",
    "Refuse to run below this: language (the interpreter's walls), process (and seccomp), full (and landlock, namespaces). It holds for reward code and for workers, which parse images, models, archives and rows: one that lacks a layer does not start.",
    () => z.enum(["language", "process", "full"]),
  ),
  memory_mib: setting(512, "Memory that one reward process may add to its own size.", () => z.int().min(64).max(4096)),
  processes: setting(8, "Reward processes at the same time; others wait.", () => z.int().min(1).max(1024)),
  spare_seconds: setting(120, "After use, one process of the language stays ready for this long; 0 = none.", () =>
    z.int().min(0).max(86_400),
  ),
  sample_timeout_ms: setting(5_000, "Longest time of one sample, unless the reward function sets it.", milliseconds),
  batch_timeout_ms: setting(120_000, "Longest time of one batch of any size.", milliseconds),
});

export const sessions = section("Session sandboxes.", {
  enabled: setting(true, "false: every session operation answers sessions_disabled.", () => z.boolean()),
  max_per_workspace: live(setting(16, "Sessions of one workspace that have not ended.", () => z.int().min(1))),
  idle_seconds: live(setting(1800, "A session that is not used for this long expires.", () => z.int().min(10))),
  lifetime_seconds: live(setting(86_400, "Longest life of a session, and the default.", () => z.int().min(10))),
  exec_timeout_seconds: setting(3600, "Longest time of one command; the default is 300.", () => z.int().min(1)),
  execs: setting(8, "Commands at the same time in all sessions; others wait.", () => z.int().min(1).max(256)),
  memory_mib: setting(2048, "Memory of all processes of one command.", () => z.int().min(16)),
  processes: setting(128, "Processes and threads of one command.", () => z.int().min(4).max(4096)),
  disk_mib: setting(4096, "Most content of one /workspace.", () => z.int().min(1)),
  disk_entries: setting(200_000, "Files and directories in one /workspace.", () => z.int().min(10)),
  output_bytes: setting(1_048_576, "Bytes kept of each output stream of a command; the rest is dropped.", () =>
    z.int().min(1024).max(67_108_864),
  ),
  retention_days: live(setting(30, "Sessions that ended longer ago are removed.", () => z.int().min(1).max(36_500))),
  allow_network: setting(
    false,
    "Let a session request the network of this machine, loopback and private addresses included.",
    () => z.boolean(),
  ),
});

export const training = section("Training jobs.", {
  parallel: setting(1, "Jobs that run at the same time; others wait in the queue.", () => z.int().min(1).max(64)),
  max_waiting_jobs: live(
    setting(1_000, "Jobs of one workspace that are queued or paused; a job beyond that is rejected with 429.", () =>
      z.int().min(1).max(100_000),
    ),
  ),
  threads: setting(0, "Threads of one job on the CPU; 0 = all cores but one.", () => z.int().min(0).max(1024)),
  crash_limit: live(
    setting(5, "A job whose worker dies this often without progress in between has failed.", () =>
      z.int().min(1).max(1000),
    ),
  ),
  save_seconds: live(
    setting(
      600,
      "A checkpoint is written at the latest after this long, whatever save_steps says; 0 = never sooner.",
      () => z.int().min(0),
    ),
  ),
  max_runtime_minutes: live(setting(10_080, "Longest run of one job, and the default.", () => z.int().min(1))),
  slurm_work_dir: setting(
    "",
    "Absolute path on the shared file system of a cluster whose login node this machine is: then a region of kind slurm needs no address, and its jobs run as the server's user. Empty = none.",
    () => z.string(),
  ),
  detail_retention_days: live(
    setting(
      365,
      "Jobs that ended longer ago lose their samples, events and log, and keep a thinned series of metrics; 0 = never.",
      () => z.int().min(0).max(36_500),
    ),
  ),
});

export const customJobs = section("What one custom job may request.", {
  memory_mib: setting(0, "Most memory of all processes of one job; 0 = what the machine can lease to it.", () =>
    z.int().min(0),
  ),
  cpus: setting(0, "Most processors of one job; 0 = all.", () => z.int().min(0).max(1024)),
  disk_mib: setting(102_400, "Most content of the /workspace of one job.", () => z.int().min(1)),
  processes: setting(1_024, "Processes and threads of one job.", () => z.int().min(4).max(32_768)),
  network: setting(
    "none",
    "none, or guarded: a job may request connections that pass the same checks as webhooks.",
    () => z.enum(["none", "guarded"]),
  ),
  network_mib: setting(102_400, "Most traffic of one run of a job in both directions.", () => z.int().min(1)),
});

const waiting = (most: number, what: string) =>
  live(setting(most, `${what}; one beyond that is rejected with 429.`, () => z.int().min(1).max(100_000)));

export const queues = section("Work of one workspace that has not ended. Workspaces take turns.", {
  experiments: waiting(100, "Experiments, evals included"),
  batches: waiting(100, "Batches in the format of OpenAI"),
  responses: waiting(1_000, "Background responses"),
  detection_batches: waiting(1_000, "Batches of detection"),
  downloads: waiting(100, "Models that are downloaded from the hub"),
  exports: waiting(100, "Files that are made of checkpoints"),
  pushes: waiting(100, "Models that are pushed to the hub"),
});

export const volumes = section("Files that users keep.", {
  max_file_bytes: live(setting(1_099_511_627_776, "Largest file.", () => z.int().min(1))),
  quota_bytes: live(setting(0, "All volumes of one workspace together; 0 = no limit.", () => z.int().min(0))),
  url_seconds: live(
    setting(3600, "Lifetime of a signed address, unless the request sets it.", () => z.int().min(1).max(604_800)),
  ),
});

export const webhooks = section("Webhooks.", {
  max_per_workspace: live(setting(100, "Endpoints of one workspace.", () => z.int().min(1).max(10_000))),
  retention_days: live(
    setting(30, "Deliveries made longer ago than this are removed once they have settled.", () =>
      z.int().min(4).max(36_500),
    ),
  ),
});

export const monitors = section("Monitors.", {
  interval_seconds: live(setting(30, "Time between two evaluations of a monitor.", () => z.int().min(2).max(86_400))),
  max_per_workspace: live(setting(100, "Monitors of one workspace.", () => z.int().min(1).max(10_000))),
  history_days: live(setting(90, "Changes of severity older than this are removed.", () => z.int().min(1).max(36_500))),
});

const isPlanOf = (text: string) => /^[^=]+=(free|pro|enterprise)$/.test(text);

export const detect = section("Detection of generated images and speech.", {
  port: setting(-1, "A second port of the same host, for detection alone; -1 = none, 0 picks a free one.", () =>
    z.int().min(-1).max(65_535),
  ),
  default_plan: setting(
    "enterprise",
    "free (10 a second, 1,000 a month), pro (100 a second, 50,000 a month) or enterprise.",
    () => z.enum(["free", "pro", "enterprise"]),
  ),
  plans: setting([], "Workspaces with another plan than that, by name or id.", () =>
    z.array(z.string().refine(isPlanOf, 'expected a workspace and its plan, such as "lab=pro"')),
  ),
  enterprise_per_second: setting(0, "Requests a second of enterprise; 0 = any.", () => z.int().min(0).max(100_000)),
  enterprise_per_month: setting(0, "Requests a month of enterprise; 0 = any.", () => z.int().min(0)),
  initial_credits: setting(
    1_000_000_000,
    "Credits of a workspace; raise it to grant more. One detection takes one, one from the cache none.",
    () => z.int().min(0).max(1e15),
  ),
  max_image_bytes: setting(10_485_760, "Largest image or clip.", () => z.int().min(1024).max(10_485_760)),
  max_pixels: setting(100_000_000, "Largest image, in pixels.", () => z.int().min(65_536)),
  max_batch_bytes: setting(134_217_728, "Largest body of one batch; send addresses or several batches for more.", () =>
    z.int().min(1024).max(1_073_741_824),
  ),
  models_dir: setting(
    "",
    "Folder with detector_*.onnx and their .json that replace the built-in ones; empty = built-in.",
    () => z.string(),
  ),
  trust_list: setting(
    "",
    "File of certificates (PEM) whose signatures under content credentials are trusted; empty = none.",
    () => z.string(),
  ),
  threads: setting(0, "CPU threads of the detector; 0 = all this server may use.", () => z.int().min(0).max(1024)),
  parallel: setting(16, "Images in the detector at the same time; others wait.", () => z.int().min(1).max(256)),
  wait_ms: setting(10_000, "Longest wait of a request for its turn; then it is rejected.", milliseconds),
  timeout_ms: setting(60_000, "A detector that has not answered by then is ended.", milliseconds),
  idle_seconds: setting(600, "A detector that is not used for this long is ended.", () => z.int().min(1)),
  retention_days: live(setting(30, "Results older than this are removed.", () => z.int().min(1).max(36_500))),
});

export const billing = section("Prices and credit.", {
  initial_credit_usd: setting(100, "Credit of a new workspace, in dollars.", () => z.number().min(0).max(1e9)),
  local_rate_usd_per_hour: setting(
    0,
    "Price of an hour of one device of this machine, in dollars; 0 = free, -1 = by the price list.",
    () => z.number().min(-1).max(1e6),
  ),
  pricing_file: setting(
    "",
    "File with your own prices, instead of the built-in list (`verk config pricing`); empty = built-in.",
    () => z.string(),
  ),
  merge_after_days: setting(
    35,
    "Charges of a deployment, one a minute, are merged into one entry a day after this long; 0 = never.",
    () => z.int().min(0).max(36_500),
  ),
});

export const workspaces = section("Workspaces.", {
  retention_days: setting(
    400,
    "Workspaces that were deleted longer ago are removed with their keys; the ledger keeps their entries.",
    () => z.int().min(1).max(36_500),
  ),
});

export const apiKeys = section("API keys.", {
  life_days: live(
    setting(365, "Days until a new key expires if its maker names no end (expires_at, --expires); 0 = never.", () =>
      z.int().min(0).max(36_500),
    ),
  ),
  revoked_retention_days: setting(
    400,
    "Keys that were revoked longer ago are removed: they then answer invalid_api_key, not revoked_api_key.",
    () => z.int().min(1).max(36_500),
  ),
});

export const audit = section("The audit log.", {
  retention_days: setting(365, "Entries older than this are removed.", () => z.int().min(1).max(36_500)),
});

export const publicRuns = section("Runs that are public.", {
  enabled: setting(true, "false: the public list is empty, whatever is published.", () => z.boolean()),
  rate_limit_per_second: setting(20, "Steady requests per second of one address; 0 = off.", () => z.number().min(0)),
  rate_limit_burst: setting(100, "Requests that one address may send at once.", () => z.int().min(1)),
});

export const connectors = section("Sources of connected datasets.", {
  connect_timeout_ms: setting(15_000, "Longest time until a source begins to answer.", milliseconds),
  statement_timeout_ms: setting(3_600_000, "Longest time of one statement of a database.", milliseconds),
  validate_timeout_ms: setting(
    60_000,
    "Longest time in which a validation counts rows; beyond it, num_rows has the rows counted so far.",
    milliseconds,
  ),
  min_bytes_per_second: setting(
    100,
    "A source that sends less, on average over min_rate_seconds, is given up; 0 = any rate.",
    () => z.int().min(0),
  ),
  min_rate_seconds: setting(60, "Time over which that rate is measured.", () => z.int().min(1).max(3600)),
});

export const datasets = section("Datasets.", {
  max_row_bytes: live(
    setting(16_777_216, "The longest row; a longer one is rejected with its line number.", () =>
      z.int().min(1024).max(268_435_456),
    ),
  ),
  max_append_bytes: live(
    setting(67_108_864, "Largest body of one append, which is accepted whole or not at all.", () =>
      z.int().min(1024).max(1_073_741_824),
    ),
  ),
  max_upload_bytes: live(
    setting(1_099_511_627_776, "Largest file of one upload; it goes to the disk as it arrives.", () =>
      z.int().min(1024),
    ),
  ),
});

export const traces = section("Traces of requests.", {
  retention_days: live(
    setting(30, "Rollouts and traces from outside are removed after this time. Each deployment has its own.", () =>
      z.int().min(1).max(36_500),
    ),
  ),
});

export const responses = section("Responses in the format of OpenAI.", {
  retention_days: live(
    setting(30, "Stored responses and chat completions are removed after this time.", () => z.int().min(1).max(36_500)),
  ),
});

export const conversations = section("Conversations in the format of OpenAI.", {
  retention_days: live(
    setting(
      0,
      "Conversations that have not changed for this time are removed; 0 = they stay until they are deleted.",
      () => z.int().min(0).max(36_500),
    ),
  ),
});

export const batches = section("Batches in the format of OpenAI.", {
  retention_days: live(
    setting(30, "Ended batches and their files stay for this time.", () => z.int().min(1).max(36_500)),
  ),
});

export const events = section("The event log.", {
  retention_days: live(setting(90, "Events older than this are removed.", () => z.int().min(1).max(36_500))),
});

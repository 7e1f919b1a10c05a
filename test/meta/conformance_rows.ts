/**
 * For each sentence of the two specifications that a review found not to hold: the tests that hold it now, or why it stays
 * as it is. `scripts/conformance.ts FILE` walks the table of such a review and lists these answers.
 */
export type ConformanceRow = {
  /** The section of the specification, as the review names it: P0 to P17, D1 to D3. */
  section: string;
  /** Words of the sentence, as the review quotes it. */
  sentence: string;
  /** Beginnings of test titles. */
  tests?: readonly string[];
  /** It stays so: decided, or another piece of work. */
  reason?: string;
};

const PROVIDERS = "Providers other than this machine are planned as a piece of work of their own.";
const UPLOADS = "An upload is one GGUF file; folders are planned as a piece of work of their own.";
const DECIDED = "The decisions about the specification say so.";

export const CONFORMANCE_ROWS: readonly ConformanceRow[] = [
  { section: "P0", sentence: "Evaluators", tests: ["answers that come while an evaluator works"] },
  { section: "P0", sentence: "Experiments", tests: ["an experiment is found by its dataset"] },
  { section: "P0", sentence: "Annotation queues", tests: ["a queue wants a dataset of its format"] },
  { section: "P0", sentence: "Monitors", tests: ["slow answers trigger a monitor"] },
  { section: "P0", sentence: "Observability", tests: ["without capture a trace has times"] },
  {
    section: "P0",
    sentence: "deploy a training-job checkpoint or a hub model",
    tests: ["P0 checkpoint"],
  },
  { section: "P0", sentence: "Compute comes from providers", reason: PROVIDERS },
  { section: "P0", sentence: "VM-based providers use SSH keys", reason: PROVIDERS },
  { section: "P1", sentence: "Every response object has a string field", tests: ["P1 object"] },
  { section: "P2", sentence: "latest_snapshot_id", tests: ["P2 snapshot fields"] },
  { section: "P3", sentence: "base_model", tests: ["P3 base_model"] },
  { section: "P4", sentence: "error", tests: ["P4 error"] },
  {
    section: "P5",
    sentence: "last_used_at",
    tests: ["P5 last_used_at"],
    reason: "A key that was never used has no such date, so the field is null until then.",
  },
  { section: "P5", sentence: "scope_host", tests: ["P5 scope_host"] },
  { section: "P5", sentence: "description", tests: ["P5 description"] },
  {
    section: "P6",
    sentence: "hub_repo_url",
    tests: ["P6 public run", "P6 hub_repo_url"],
  },
  {
    section: "P6",
    sentence: "agents and conversations",
    tests: ["an agent answers as model", "conversations: ordered traces"],
  },
  { section: "P7", sentence: "capacity exhaustion", tests: ["P7 P16 capacity", "P7 capacity"] },
  {
    section: "P7",
    sentence: "50 consecutive failed deliveries",
    tests: ["P7 P17 fifty failed deliveries", "P7 a delivery counts once"],
  },
  { section: "P8", sentence: "All routes need the Bearer credential", tests: ["P8 an unknown path"], reason: DECIDED },
  { section: "P9", sentence: "content hash matches", tests: ["P9 content hash"] },
  { section: "P9", sentence: "num_rows: integer", tests: ["P9 validate"] },
  { section: "P9", sentence: "resolved at job start", tests: ["P9 connected dataset"] },
  { section: "P10", sentence: "stream stdout tail", tests: ["P10 logs: they begin at the tail"] },
  { section: "P10", sentence: "full stdout from object storage", tests: ["P10 logs/full"] },
  { section: "P10", sentence: "job lifecycle events", tests: ["P10 one event id"] },
  { section: "P10", sentence: "base_model", tests: ["a model of the hub: the job waits"] },
  {
    section: "P10",
    sentence: "gpu_requested",
    reason: "Training on several GPUs is planned as a piece of work of its own.",
  },
  { section: "P11", sentence: "default `training_job`", tests: ["P11 source"] },
  { section: "P11", sentence: "auto-selected when omitted", reason: PROVIDERS },
  { section: "P11", sentence: "gpu_type, gpu_count", reason: PROVIDERS },
  {
    section: "P11",
    sentence: "display name",
    tests: ["P11 name"],
    reason: "`name_taken` is among the decided error codes.",
  },
  { section: "P11", sentence: "{role: string, content: string}", tests: ["P11 role"] },
  { section: "P12", sentence: "presigned-upload", tests: ["a model is made, its file is sent"], reason: UPLOADS },
  { section: "P13", sentence: "check_balance", tests: ["P13 check_balance"] },
  { section: "P13", sentence: "elapsed_seconds", tests: ["P13 burn_rate"] },
  { section: "P13", sentence: "/v1/cost/summary", tests: ["P13 cost history"] },
  { section: "P14", sentence: "list active keys", tests: ["P14 list active keys"] },
  {
    section: "P15",
    sentence: "the id of the last item of the previous page",
    tests: ["P15 cursor of a deleted item", "P15 cursor of an item that left"],
  },
  { section: "P15", sentence: "pass the `id` of the last item", tests: ["P15 volume files"] },
  {
    section: "P15",
    sentence: "created from a dashboard",
    reason: "The dashboard is planned as a piece of work of its own.",
  },
  { section: "P16", sentence: "capacity exhaustion", tests: ["P7 P16 capacity"] },
  { section: "P16", sentence: "Any 2xx response acknowledges", tests: ["P16 a 2xx whose body never ends"] },
  { section: "P16", sentence: "A non-2xx response", tests: ["P16 410"], reason: DECIDED },
  { section: "P16", sentence: "Retry schedule", tests: ["P7 P16 P17 72 hours"], reason: DECIDED },
  { section: "P16", sentence: "publicly routable", tests: ["P16 address"], reason: DECIDED },
  {
    section: "P17",
    sentence: "request body failed schema validation",
    tests: ["P15 malformed cursor"],
    reason: DECIDED,
  },
  { section: "P17", sentence: "consecutive failures before disabling", tests: ["P7 P17 fifty failed deliveries"] },
  { section: "D1", sentence: "ensemble_score", tests: ["DET1"], reason: DECIDED },
  { section: "D2", sentence: "defaultThreshold", tests: ["DET2"], reason: DECIDED },
  { section: "D3", sentence: "A model that fails inside a detection", tests: ["DET3 a model that fails"] },
  { section: "D3", sentence: "10 requests per second", tests: ["DET3 rate", "DET3 month"] },
  { section: "D3", sentence: "verify with the webhook secret", tests: ["DET3 secret"] },
];

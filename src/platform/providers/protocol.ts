/**
 * The files that a node keeps for a run, and the JSON of `verk node`. All paths are relative to the work directory:
 *
 * bin/<sha256>/verk                 the executable
 * models/<sha256>.gguf              models, shared by jobs
 * data/                             native libraries
 * jobs/<job>/lock                   held by the supervisor of the job
 * jobs/<job>/inputs/                rows of the job
 * jobs/<job>/checkpoints/step-000012/
 * jobs/<job>/<attempt>/plan.json    with the secrets of a command; empty after the end. started, heartbeat, records.ndjson, ended; save and stop are requests to the supervisor;
 *                                   submitted has the id of a scheduler. ranks.json and rank-<n>.json are of
 *                                   runs on several nodes
 */
import { z } from "zod";
import { outside, table } from "../../lib/json/outside.ts";
import { later } from "../../lib/schema.ts";
import { MIB } from "../../lib/units.ts";

const JOB = /^job_[0-9a-hjkmnp-tv-z]{26}$/;
export const CHECKPOINT = /^step-\d{1,12}$/;
export const SHA256 = /^[0-9a-f]{64}$/;

/** Devices that a node can show. A cluster shows those that one of its nodes has, of all types together. */
export const MOST_GPUS = 64;
/** Runs that one call asks for. */
export const MOST_HANDLES = 200;
const MOST_CHECKPOINTS = 10_000;
const MOST_FILES = 1_000;
const MOST_MESSAGE = 1_000;
const MOST_TAIL = 200_000;
const Name = z.string().max(100);
const FilePath = z.string().max(300);

export const Handle = later(() =>
  z.strictObject({ job: z.string().regex(JOB), attempt: z.int().positive().max(1_000_000) }),
);
export type Handle = z.infer<typeof Handle>;

/** `ready`: not started. `lost`: started, and its supervisor is gone without an end. `missing`: no files. */
const RUN_STATES = ["ready", "running", "ended", "lost", "missing"] as const;
/**
 * `bytes`: of the records. `heartbeat_at`: epoch milliseconds by the clock of the node. `lost`: the end as a scheduler
 * tells it, in the kinds of `NodeExit`. Null if nothing more is known.
 */
export const Observation = later(() =>
  z.strictObject({
    state: z.enum(RUN_STATES),
    lost: z.strictObject({ kind: z.string().max(40), message: z.string().max(MOST_MESSAGE) }).nullable(),
    bytes: z.int().min(0),
    heartbeat_at: z.int().min(0).nullable(),
  }),
);
export type Observation = z.infer<typeof Observation>;

export const RemoteFile = later(() =>
  z.strictObject({ path: FilePath, sha256: z.string().regex(SHA256), bytes: z.int().min(0) }),
);
export type RemoteFile = z.infer<typeof RemoteFile>;

/** Settings of the server that also hold on the node, by their names in the configuration. */
const settings = later(() => z.record(z.string(), z.union([z.string(), z.number(), z.boolean()])));

export const NodePlan = later(() =>
  z.strictObject({
    handle: Handle,
    /** A task of the trainer. Its paths are relative to the work directory. */
    task: z.record(z.string(), z.unknown()),
    /** Instead of the task, which is empty then. */
    custom: CustomPlan.optional(),
    /** Takes the GPUs that the node shows. On several nodes, each gives an equal part. */
    gpus: z.int().min(0),
    /** Known only to the ranks of the run. They prove it to each other when they run on several nodes. */
    secret: z.string().min(32).optional(),
    /** For a scheduler, which chooses the node. */
    gpu_type: z.string(),
    /** The longest that the run may take, for a scheduler. Missing: as the region says. */
    minutes: z.int().positive().optional(),
    /** Parts of the reward. Null for a method without rewards. */
    rewards: z.array(z.unknown()).nullable(),
    limits: z.strictObject({ sampleMs: z.number().positive(), batchMs: z.number().positive() }),
    settings,
  }),
);
export type NodePlan = z.infer<typeof NodePlan>;

const Variables = later(() => z.record(z.string(), z.string()));

/** A command of a user, which runs in a jail of the node. Its files are `code`, `dataset.jsonl` and `volume-<n>.tar` in `inputs`. */
export const CustomPlan = later(() =>
  z.strictObject({
    command: z.string(),
    seed: z.int(),
    resources: z.strictObject({ memory_mib: z.int(), cpus: z.int().nullable(), disk_mib: z.int() }),
    limits: z.strictObject({ processes: z.int(), entries: z.int(), wallMs: z.number() }),
    env: Variables,
    secrets: Variables,
    /** Null: no network. */
    network: z
      .strictObject({
        allow_private: z.boolean(),
        allow: z.array(z.string()),
        max_bytes: z.number(),
        connect_ms: z.int(),
      })
      .nullable(),
    code: z.enum(["tar.gz", "zip"]).nullable(),
    hasRows: z.boolean(),
    volumes: z.array(z.strictObject({ path: z.string(), read_only: z.boolean() })),
  }),
);
export type CustomPlan = z.infer<typeof CustomPlan>;

/** The folder of the files that a command has left, among those of checkpoints: pulled like one. */
export const RESULTS = "step-1";
export const RESULTS_ARCHIVE = "workspace.tar";
export const RESULTS_LIST = "results.json";

/** `removed`: by volume, paths that existed before the command, with their hash. `faults`: lines for the log. */
export const CUSTOM_RESULTS = outside(
  "the node's list of changes in volumes",
  later(() =>
    z.strictObject({
      removed: z.array(z.array(z.tuple([z.string().max(4_096), z.string().regex(SHA256)])).max(200_000)).max(16),
      faults: z.array(z.string().max(10_000)).max(1_000),
    }),
  ),
  { mostBytes: 64 * MIB, parsing: "thread" },
);

/** Ends of a command. The job is not retried. */
export const CUSTOM_ENDS = {
  custom_failed: "command_failed",
  custom_crashed: "worker_crashed",
  custom_memory: "out_of_memory",
  custom_timeout: "timeout",
  custom_setup: "provisioning_failed",
} as const;

/** The kind of an end by the time limit of a scheduler. */
export const TIME_LIMIT = "time_limit";

/** The end of the trainer as the supervisor on the node saw it. */
export const NodeExit = later(() =>
  z.strictObject({
    kind: z.string().max(40),
    message: z.string().max(MOST_TAIL),
    tail: z.string().max(MOST_TAIL),
    /** A SIGKILL from outside. */
    killed: z.boolean(),
  }),
);
export type NodeExit = z.infer<typeof NodeExit>;

/** Bytes of one line of records.ndjson, and of the lines that a server takes at once. */
export const RECORD_BYTES = 8 * MIB;
export const BATCH_BYTES = 16 * MIB;

export const NodeInfo = later(() =>
  z.strictObject({
    version: Name,
    architecture: Name,
    cpus: z.int().min(0),
    memory_bytes: z.int().min(0),
    free_bytes: z.int().min(0),
    gpus: z
      .array(
        z.strictObject({
          type: Name,
          memory_bytes: z.int().min(0),
          used_bytes: z.int().min(0).optional(),
          utilization_percent: z.number().min(0).max(100).optional(),
        }),
      )
      .max(MOST_GPUS),
    /** Processes that wanted a processor, mean of a minute. Missing for a cluster. */
    load: z.number().min(0).optional(),
    /** By type of device: the most that a job of several nodes can use. Missing if there is one node. */
    most: table(z.int().positive().max(1_000_000), { most: MOST_GPUS }).optional(),
  }),
);
export type NodeInfo = z.infer<typeof NodeInfo>;

/** The answers of `verk node`, by the owner of the node. */
export const INFO = outside("the answer of the node about its hardware", NodeInfo);
export const OBSERVATIONS = outside(
  "the answer of the node about its runs",
  later(() => z.array(Observation).max(MOST_HANDLES)),
);
export const CHECKPOINTS = outside("the node's list of checkpoints", z.array(Name).max(MOST_CHECKPOINTS));
export const FILES = outside(
  "the node's list of files",
  later(() => z.array(RemoteFile).max(MOST_FILES)),
);
export const LACKING = outside("the node's list of missing files", z.array(FilePath).max(MOST_FILES));
/** A verb that answers nothing that the server needs. */
export const DONE = outside(
  "the answer of the node",
  later(() => z.union([z.null(), Observation])),
);

export const jobDir = (job: string) => `jobs/${job}`;
export const attemptDir = ({ job, attempt }: Handle) => `jobs/${job}/${attempt}`;
export const checkpointsDir = (job: string) => `jobs/${job}/checkpoints`;

/**
 * Server ⇄ worker, over the IPC channel of a child process of this same program. Every kind of worker uses the common
 * messages and adds its own. Messages are hints; files are the truth. A worker writes a file (temporary name, fsync,
 * rename) before it sends the message that points at it. A lost message then costs a delay, not work.
 */
import { z } from "zod";
import { KV_TYPES } from "../lib/gguf/memory.ts";
import { table } from "../lib/json/outside.ts";
import { later } from "../lib/schema.ts";
import { Credentials, Source } from "../lib/source.ts";
import { MIB } from "../lib/units.ts";

export const PROTOCOL = 1;

type Failure = { retry: boolean; blame: "user" | "machine" | "us" };

/** Kinds of failed runs. Retry is a property of the cause and is decided only here. */
export const FAILURES = {
  config: { retry: false, blame: "user" },
  data: { retry: false, blame: "user" },
  reward: { retry: false, blame: "user" }, //    reward code trapped or ran out of fuel
  memory: { retry: true, blame: "machine" }, //  retried once with less
  crashed: { retry: true, blame: "us" }, // a signal, an uncaught error, or an exit without a message
  silent: { retry: true, blame: "us" }, //       not ready in time, or no message for `workers.silence_ms`
  lied: { retry: false, blame: "us" }, //        a message outside the protocol, or another protocol
  orphaned: { retry: true, blame: "machine" }, // the server restarted while it ran
} as const satisfies Record<string, Failure>;

export type FailureKind = keyof typeof FAILURES;

/** Kinds that a worker may report about itself. The server observes the others. */
const REPORTED = ["config", "data", "reward", "memory", "crashed"] as const satisfies readonly FailureKind[];
export type ReportedFailure = (typeof REPORTED)[number];

/** Thrown by worker code that knows the cause. Any other escaped error is `crashed`. */
export class WorkerError extends Error {
  constructor(
    readonly kind: ReportedFailure,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "WorkerError";
  }
}

/** A worker, or the node where it runs, fills no memory with one message: its bytes have a limit, and so has each part. */
export const Text = z.string().max(16 * MIB);
export const List = <S extends z.ZodType>(item: S) => z.array(item).max(100_000);
export const Values = later(() => table(z.number(), { most: 5_000, key: 200 }));

const Ready = later(() => z.strictObject({ type: z.literal("ready"), protocol: z.literal(PROTOCOL) }));
/** `quiet_ms`: a native call begins that may block the worker's messages for this long. */
const Heartbeat = later(() =>
  z.strictObject({
    type: z.literal("heartbeat"),
    quiet_ms: z.int().min(0).max(86_400_000).optional(),
  }),
);
export const Failed = later(() =>
  z.strictObject({
    type: z.literal("failed"),
    kind: z.enum(REPORTED),
    message: Text,
  }),
);
/** The last message. `result` is the path of the file that holds the outcome, if there is one. */
export const Done = later(() => z.strictObject({ type: z.literal("done"), result: Text.optional() }));

/** The messages from one kind of worker: the common ones and its own. */
export const fromWorker = <const Own extends readonly z.core.$ZodTypeDiscriminable[]>(own: Own) =>
  z.discriminatedUnion("type", [Ready, Heartbeat, Failed, Done, ...own]);

/** Server → worker: the first message, sent once. */
export const Start = later(() =>
  z.strictObject({
    type: z.literal("start"),
    id: z.string(),
    parent_pid: z.int(),
    socket_path: z.string(), // a worker that streams serves HTTP here
    beat_ms: z.int().positive(),
    /** Only `stop` ends it: a scheduler sends SIGTERM to all processes of a job. */
    ignores_term: z.boolean().default(false),
  }),
);
export type Start = z.infer<typeof Start>;
/** Server → worker: finish what must be finished and exit. SIGTERM means the same. */
export const Stop = later(() => z.strictObject({ type: z.literal("stop"), reason: z.string() }));

/** Loading stages of a replica, as users see them. */
export const STAGES = ["queued", "downloading", "starting", "loading", "warming", "ready"] as const;

export const DECODERS = ["auto", "library", "own"] as const;
export const REPACKING = ["auto", "off"] as const;
export const INVARIANCE = ["auto", "on", "off"] as const;

export const ToServing = later(() =>
  z.discriminatedUnion("type", [
    /** Do ahead what `load` will need. `model_path`: the model that follows, if it is known. `card`: hold the GPU's context. */
    z.strictObject({
      type: z.literal("prepare"),
      data_dir: z.string(),
      cuda: z.boolean(),
      model_path: z.string().nullable(),
      card: z.boolean(),
    }),
    z.strictObject({
      type: z.literal("load"),
      data_dir: z.string(),
      model_path: z.string(),
      /** The projector for images that belongs to the model. */
      projector_path: z.string().optional(),
      /** Answers name it in `system_fingerprint`. */
      model_id: z.string().optional(),
      context_length: z.int().positive(),
      parallel: z.int().positive(),
      threads: z.int().positive(),
      gpus: z.array(z.int().min(0)),
      /** A request waits for this model: prefer a short load over fast decoding. */
      hurry: z.boolean(),
      /** The setting serving.decoder. */
      decoder: z.enum(DECODERS).optional(),
      /** The setting serving.batch_invariant. */
      batch_invariant: z.enum(INVARIANCE).optional(),
      /** The setting serving.repack. */
      repack: z.enum(REPACKING).optional(),
      /** Numbers of keys and values. */
      kv_type: z.enum(KV_TYPES).optional(),
      /** The setting serving.guesses. */
      guesses: z.boolean().optional(),
      /** The folder and the key of the workspace for blocks of prompts. `identity`: of the model file. */
      prefixes: z.strictObject({ dir: z.string(), key: z.string(), identity: z.string() }).optional(),
    }),
    /** Answers `prefix_room`: blocks of so many bytes may be written. 0: none for now. */
    z.strictObject({ type: z.literal("prefix_room"), bytes: z.int().min(0) }),
    /** Sent after `loaded`: add an adapter. Requests name it in the header x-verk-adapter. */
    z.strictObject({
      type: z.literal("attach"),
      name: z.string(),
      path: z.string(),
      model_id: z.string().optional(),
      /** Names the weights of the file in the same way in every process. */
      identity: z.string().optional(),
    }),
    /** Sent after all parts are attached: requests can name them together, each with its scale. */
    z.strictObject({
      type: z.literal("combine"),
      name: z.string(),
      parts: z.array(z.strictObject({ name: z.string(), scale: z.number() })),
      model_id: z.string().optional(),
    }),
    /** The deployment that used this adapter is gone: abort its requests. `null` means the base model. */
    z.strictObject({ type: z.literal("detach"), name: z.string().nullable() }),
  ]),
);
export type ToServing = z.infer<typeof ToServing>;

const PrefixCounts = later(() =>
  z.strictObject({
    stored_blocks: z.int().min(0),
    stored_bytes: z.int().min(0),
    read_blocks: z.int().min(0),
    read_bytes: z.int().min(0),
    read_tokens: z.int().min(0),
    read_ms: z.number().min(0),
    saved_ms: z.number().min(0),
    bad_blocks: z.int().min(0),
  }),
);
export type PrefixCounts = z.infer<typeof PrefixCounts>;

/** Numbers are base64 of their bytes: 32 bits each, little-endian. */
const Numbers = z.string().max(64 * MIB);
/** The tokens that a model read and drew, for the rollout that records them. Numbers of the prompt below 0 stand for an image. */
export const DrawnTokens = later(() =>
  z.strictObject({
    prompt: Numbers,
    tokens: Numbers,
    /** Log-probabilities of `tokens` by the model as it is: before temperature, grammars and other settings. */
    logprobs: Numbers,
    /** The last token is the end token. */
    has_end: z.boolean(),
    /** The stop string that ended the answer. */
    stop: z.string().max(10_000).nullable(),
    /** Names the weights, as `system_fingerprint` of an answer. */
    weights: Text.nullable(),
  }),
);
export type DrawnTokens = z.infer<typeof DrawnTokens>;

export const FromServing = later(() =>
  fromWorker([
    z.strictObject({ type: z.literal("loading"), stage: z.enum(STAGES), progress: z.number().min(0).max(1) }),
    /** HTTP is open on the socket and a token has been decoded. */
    z.strictObject({
      type: z.literal("loaded"),
      context_length: z.int(),
      parallel: z.int(),
      memory_bytes: z.int(),
      load_ms: z.number(),
      device: Text,
      /** One sentence: what decodes, and why it is not our own kernels. */
      decoder: Text.optional(),
      /** The model reads images. */
      vision: z.boolean().optional(),
    }),
    /** Blocks of prompts need room on the disk. */
    z.strictObject({ type: z.literal("prefix_room"), bytes: z.int().positive() }),
    /** Counts of blocks that were read and written since the last message. `problem`: why the disk takes or gives none. */
    z.strictObject({ type: z.literal("prefixes"), counts: PrefixCounts, problem: Text.nullable() }),
    z.strictObject({ type: z.literal("attached"), name: Text }),
    /** The file is no adapter of this model. Everything else keeps running. */
    z.strictObject({
      type: z.literal("unattached"),
      name: Text,
      error: Text,
    }),
    /** One request is over, even if its client left. `request` is the value of the header x-verk-request. */
    z.strictObject({
      type: z.literal("served"),
      request: Text,
      status: z.int(),
      prompt_tokens: z.int(),
      cached_tokens: z.int(),
      completion_tokens: z.int(),
      error: Text.nullable(),
      /** How long each stage took, one after the other. */
      timings: z.strictObject({ template_ms: z.number(), prompt_ms: z.number(), decode_ms: z.number() }).optional(),
      /** If the request has the header x-verk-tokens. */
      drawn: DrawnTokens.unwrap().optional(),
    }),
  ]),
);
export type FromServing = z.infer<typeof FromServing>;

/** Answer of a serving worker to GET /health?wait_ms=N. */
export const ServingHealth = later(() =>
  z.object({
    /** A decode call has succeeded since the request came. */
    decoded: z.boolean(),
    /** Time of the probe, if one was needed and has ended. */
    decode_ms: z.number().nullable(),
    /** The native call under way: its age, and the time that it should take at the measured speed. */
    running: z.object({ age_ms: z.number(), expected_ms: z.number() }).nullable(),
  }),
);
export type ServingHealth = z.infer<typeof ServingHealth>;

/** The facts that a deployment needs to reserve memory for a model. All come from the file's header. */
export const ModelShape = later(() =>
  z.strictObject({
    architecture: z.string(),
    parameters: z.int().min(0),
    context_length: z.int().positive(),
    quantization: z.string(),
    layers: z.int().positive(),
    embedding_length: z.int().positive(),
    heads: z.int().positive(),
    kv_heads: z.int().positive(),
    key_length: z.int().positive(),
    value_length: z.int().positive(),
    vocab_size: z.int().positive(),
    /** Bytes of tensor data. */
    weight_bytes: z.int().min(0),
    name: z.string().nullable(),
    has_chat_template: z.boolean(),
    /** "model" or, for a LoRA file, "adapter". */
    type: z.enum(["model", "adapter"]),
    encoder: z.literal(true).optional(),
    experts: z.strictObject({ count: z.int().positive(), used: z.int().positive() }).optional(),
    lora: z.strictObject({ r: z.int().positive(), alpha: z.number(), target_modules: z.array(z.string()) }).optional(),
  }),
);
export type ModelShape = z.infer<typeof ModelShape>;

/** The connector reads outside sources of rows. It does one task and ends; credentials live only in its memory. */
const task = () => ({
  source: Source,
  credentials: Credentials,
  network: z.strictObject({ allow_private: z.boolean(), allow: z.array(z.string()), ca_file: z.string() }),
  hub_endpoint: z.string(),
  connect_ms: z.int().positive(),
  statement_ms: z.int().positive(),
  row_bytes: z.int().positive(),
});
export const ToConnector = later(() =>
  z.discriminatedUnion("type", [
    z.strictObject({ type: z.literal("validate"), ...task(), count_ms: z.int().positive() }),
    /** Tests the connection without reading rows. */
    z.strictObject({ type: z.literal("test"), ...task() }),
    /** Reads into a file of rows. An existing file is continued after its last row. */
    z.strictObject({
      type: z.literal("read"),
      ...task(),
      path: z.string(),
      /** A slower source is given up, by the average over `seconds`. 0: any rate. */
      min_rate: z.strictObject({ bytes_per_second: z.int().min(0), seconds: z.int().positive() }),
    }),
  ]),
);
export type ToConnector = z.infer<typeof ToConnector>;

export const FromConnector = later(() =>
  fromWorker([
    z.strictObject({ type: z.literal("tested") }),
    z.strictObject({
      type: z.literal("validated"),
      num_rows: z.int(),
      num_rows_exact: z.boolean(),
      columns: z.array(z.string()),
      /** Why the first rows are no rows of a dataset. */
      error: z.string().nullable(),
    }),
    z.strictObject({ type: z.literal("reading"), rows: z.int(), bytes: z.int(), total_rows: z.int().nullable() }),
    z.strictObject({
      type: z.literal("read"),
      rows: z.int(),
      bytes: z.int(),
      sha256: z.string(),
      format: z.string(),
    }),
    /** The source or its description is at fault. The message is shown to the caller. */
    z.strictObject({
      type: z.literal("refused"),
      code: z.string(),
      message: z.string(),
      param: z.string().nullable(),
      /** Only for the server's log: the rejected host name and the address behind it. */
      refused: z.strictObject({ host: z.string().max(300), detail: z.string().max(300) }).optional(),
    }),
  ]),
);
export type FromConnector = z.infer<typeof FromConnector>;

/**
 * Server ⇄ trainer. One process does one task: a training, a preview, an export of a checkpoint, or texts in the
 * chat template. The worker never sees the database. It gets the path of the rows, asks the server to score, and reports progress.
 */
import { z } from "zod";
import { ChatMessage, Tool } from "../lib/chat/messages.ts";
import { opaque, table } from "../lib/json/outside.ts";
import { Environment } from "../lib/rewards/contract.ts";
import { later } from "../lib/schema.ts";
import { METHODS } from "../lib/training/fields.ts";
import { LoraSettings } from "../lib/training/lora.ts";
import { fromWorker, List, Text, Values } from "./protocol.ts";

const rows = later(() =>
  z.strictObject({
    /** A file of rows (platform/rows). Rows after `head_row` do not count. */
    path: z.string(),
    head_row: z.int().min(0),
    format: z.enum(["prompt", "completion", "chat", "preference"]),
  }),
);

const device = {
  data_dir: z.string(),
  threads: z.int().positive(),
  gpus: z.array(z.int().min(0)),
};

const plan = later(() =>
  z.strictObject({
    model_path: z.string(),
    method: z.enum(METHODS),
    /** All hyperparameters are resolved (lib/training/resolve.ts). */
    hyperparameters: z.record(z.string(), z.unknown()),
    lora: LoraSettings.nullable(),
    /** An adapter file (GGUF) with this rank and these targets. Training starts from it, and it is the reference. */
    start_adapter: z.string().optional(),
    /** The model that scores what a student writes, with the same vocabulary. Only for the method distill. */
    teacher_path: z.string().optional(),
    /** Rollouts take several turns in one of these. Absent: a completion is one answer. */
    environments: z.array(Environment).min(1).optional(),
    /** True if no reward is asked for: the teacher alone says what is good. */
    unrewarded: z.boolean().optional(),
    seed: z.int(),
    rows,
    eval_rows: rows.nullable(),
    /** The number known before the rows are read; `begun` carries the final one. */
    total_steps: z.int().positive(),
    /** Micro-batches are this many times smaller than planned. It is above 1 after memory ran out. */
    micro_divisor: z.int().positive(),
  }),
);
export type TrainPlan = z.infer<typeof plan>;

export const VARIANTS = ["adapter", "merged", "gguf", "peft", "huggingface"] as const;

export const ToTrainer = later(() =>
  z.discriminatedUnion("type", [
    z.strictObject({
      type: z.literal("train"),
      ...device,
      plan,
      /**
       * The directory of checkpoints: step-000012 and so on. Each checkpoint is a directory that is renamed into place
       * when complete.
       */
      checkpoint_dir: z.string(),
      save_steps: z.int().min(0), // 0: only at the end
      save_seconds: z.int().min(0), // 0: only `save_steps` counts
      /** Directory of the checkpoint to resume from. Null: start from the beginning. */
      resume: z.string().nullable(),
      /** Only the weights are taken from this checkpoint of another job. Steps count from 0. */
      warm_start: z.string().nullable(),
      /** This many scored completions are reported for each step. */
      samples_per_step: z.int().min(0),
      /**
       * Number of processes that train together, each on one of `gpus`, or on the CPU with `threads` threads. The
       * server starts rank 0, which starts the others.
       */
      ranks: z.int().min(1).max(64),
      rank: z.int().min(0),
      /** The ranks run on several nodes. Their supervisors start them, and join the sockets of the workers. */
      streams: z.boolean().optional(),
    }),
    /** Loads the model, samples a few prompts and has them scored; trains nothing. */
    z.strictObject({ type: z.literal("preview"), ...device, plan, prompts: z.int().min(0) }),
    /** Makes a file from one checkpoint. */
    z.strictObject({
      type: z.literal("export"),
      ...device,
      model_path: z.string(),
      /** PEFT's name of the base model. Null if it is unknown. */
      base_model: z.string().nullable(),
      lora: LoraSettings.nullable(),
      checkpoint: z.string(),
      variant: z.enum(VARIANTS),
      quantization: z.string(), // F32, F16, BF16, Q8_0, Q4_K_M …; '' for adapter and peft
      /** The file to make; for peft and huggingface an archive (.tar) of the folder's files. */
      out: z.string(),
    }),
    /** Writes a whole model as a Hugging Face folder. */
    z.strictObject({
      type: z.literal("export_folder"),
      ...device,
      model_path: z.string(),
      weights: z.enum(["BF16", "F16", "F32"]),
      /** An empty folder. */
      out: z.string(),
    }),
    /** Renders conversations with the model's chat template. Loads no weights. */
    z.strictObject({
      type: z.literal("template"),
      data_dir: z.string(),
      model_path: z.string(),
      /** `open`: the text ends where the answer begins. */
      conversations: z.array(
        z.strictObject({ messages: z.array(ChatMessage), tools: z.array(Tool), open: z.boolean() }),
      ),
    }),
    /** Shows the first rows as the model reads them, and measures all. Loads no weights. */
    z.strictObject({
      type: z.literal("inspect_rows"),
      data_dir: z.string(),
      model_path: z.string(),
      rows,
      method: z.enum(["grpo", "sft", "dpo"]),
      assistant_only: z.boolean(),
      /** Variables of the chat template. */
      variables: z.record(z.string(), z.unknown()).optional(),
      limit: z.int().min(0),
      max_length: z.int().positive(),
      /** Most rows whose tokens are counted. */
      sample: z.int().positive(),
    }),
    /** The answer to `score`. `stdout` is the text that the reward code printed. */
    z.strictObject({
      type: z.literal("scored"),
      id: z.int(),
      results: z.array(
        z.strictObject({
          reward: z.number().nullable(),
          sub_rewards: z.record(z.string(), z.number().nullable()),
          weights: z.record(z.string(), z.number()).optional(),
          error: z.string().nullable(),
        }),
      ),
      latencies_ms: z.array(z.number()),
      stdout: z.string(),
    }),
    /** The answer to `act`, in order. `error`: the rollout is lost. */
    z.strictObject({
      type: z.literal("acted"),
      id: z.int(),
      results: z.array(
        z.strictObject({ text: z.string().nullable(), failed: z.boolean(), error: z.string().nullable() }),
      ),
    }),
    /** The reward code cannot be run at all. */
    z.strictObject({ type: z.literal("unscored"), id: z.int(), message: z.string() }),
    /** Write a checkpoint after this step and end: the job is paused, or the server stops. */
    z.strictObject({ type: z.literal("save_and_end") }),
  ]),
);
/** The message of a rank whose stream to another rank ended: the cause is in the other one. */
export const RANK_GONE = (rank: string) => `Rank ${rank} is gone: its stream ended`;
export const isRankGone = (message: string) => /\bRank \S+ is gone: its stream ended/.test(message);

/** The first frame of a stream to a rank (ranks/peers.ts): kind 0, a length of 4, and the rank of the other side. */
export function helloFrame(rank: number): Uint8Array {
  const frame = new DataView(new ArrayBuffer(9));
  frame.setUint32(1, 4);
  frame.setUint32(5, rank);
  return new Uint8Array(frame.buffer);
}

export type ToTrainer = z.infer<typeof ToTrainer>;
export type TrainTask = Extract<ToTrainer, { type: "train" }>;
export type PreviewTask = Extract<ToTrainer, { type: "preview" }>;
export type InspectTask = Extract<ToTrainer, { type: "inspect_rows" }>;
export type TemplateTask = Extract<ToTrainer, { type: "template" }>;
export type ExportTask = Extract<ToTrainer, { type: "export" }>;
export type ExportFolderTask = Extract<ToTrainer, { type: "export_folder" }>;

const sample = later(() =>
  z.strictObject({
    prompt: opaque("shown as it came"), // a string or messages, as in the row
    completion: Text,
    reward: z.number().nullable(),
    sub_rewards: table(z.number().nullable(), { most: 5_000 }),
    advantage: z.number().nullable(),
    tokens: z.int(),
    truncated: z.boolean(),
    error: Text.nullable(),
  }),
);
export type TrainSample = z.infer<typeof sample>;

const alarms = later(() => List(z.strictObject({ type: Text, message: Text })));

/** One step of those that a checkpoint carries in its file steps.ndjson. `time`: in epoch milliseconds. */
export const StepRecord = later(() =>
  z.strictObject({
    time: z.int().min(0),
    step: z.int().min(1),
    epoch: z.number(),
    values: Values,
    samples: List(sample),
    alarms,
  }),
);
export type StepRecord = z.infer<typeof StepRecord>;

/** Kinds of failures that only a training has. They add detail to the kinds of protocol.ts. */
export const TROUBLES = ["no_effect", "lacking_memory", "bad_rows", "bad_reward"] as const;

export const FromTrainer = later(() =>
  fromWorker([
    z.strictObject({ type: z.literal("loading"), stage: Text, progress: z.number().min(0).max(1) }),
    /** The first step begins. `step` counts the completed steps. */
    z.strictObject({
      type: z.literal("begun"),
      step: z.int(),
      total_steps: z.int(),
      device: Text,
      memory_bytes: z.int(),
    }),
    /** The answer to `template`, in order. `error`: the template rejects this conversation. */
    z.strictObject({
      type: z.literal("rendered"),
      results: List(
        z.strictObject({
          text: Text.nullable(),
          tokens: z.int().min(0).nullable(),
          error: Text.nullable(),
        }),
      ),
    }),
    /** The answer to `inspect_rows`. */
    z.strictObject({
      type: z.literal("inspected"),
      rows: List(
        z.strictObject({
          row: z.int(),
          sequences: List(
            z.strictObject({
              name: z.enum(["text", "prompt", "chosen", "rejected"]),
              tokens: z.int(),
              parts: List(z.strictObject({ text: Text, tokens: z.int(), trained: z.boolean() })),
            }),
          ),
          error: Text.nullable(),
        }),
      ),
      statistics: z.strictObject({
        rows: z.int(),
        measured_rows: z.int(),
        unreadable_rows: z.int(),
        tokens: z.strictObject({ p50: z.int(), p95: z.int(), max: z.int(), total: z.int() }),
        over_max_length: z.int(),
        /** Measured rows without a token to learn within max_length. A training leaves them out. */
        unlearned_rows: z.int(),
        duplicates: z.strictObject({ exact: z.int(), prompt: z.int() }),
      }),
    }),
    z.strictObject({
      type: z.literal("score"),
      id: z.int(),
      step: z.int(),
      /** `row` is the JSON text of the row as stored. */
      samples: List(
        z.strictObject({
          prompt: opaque("the reward code"),
          completion: opaque("the reward code"), // a text, or the messages of a rollout
          row: Text,
          rollout: z.int().min(0).optional(),
        }),
      ),
    }),
    /** Things that happen in rollouts. `row` and `arguments` are JSON texts of objects. */
    z.strictObject({
      type: z.literal("act"),
      id: z.int(),
      acts: List(
        z.strictObject({
          rollout: z.int().min(0),
          seed: z.int(),
          act: z.enum(["reset", "call", "end"]),
          row: Text.optional(),
          name: Text.optional(),
          arguments: Text.optional(),
        }),
      ),
    }),
    /** One optimizer step is done. All numbers are finite. */
    z.strictObject({
      type: z.literal("step"),
      step: z.int(),
      epoch: z.number(),
      values: Values,
      eta_ms: z.number().nullable(),
      samples: List(sample),
      /** Warnings for the user: a kind and a sentence. */
      alarms,
    }),
    z.strictObject({ type: z.literal("log"), stream: z.enum(["stdout", "stderr"]), line: Text }),
    /** The checkpoint is complete on disk. `metrics` are those of its step. */
    z.strictObject({
      type: z.literal("checkpoint"),
      step: z.int(),
      path: Text,
      size_bytes: z.int(),
      metrics: Values,
    }),
    /** Sent before the failure that it explains. `sample` is an example of the problem. */
    z.strictObject({
      type: z.literal("trouble"),
      kind: z.enum(TROUBLES),
      message: Text,
      param: Text.nullable(),
      sample: sample.nullable(),
    }),
    z.strictObject({
      type: z.literal("previewed"),
      /** Measured sum of model, graph and cache. */
      memory_bytes: z.int(),
      /** Milliseconds of one step, extrapolated from the preview. Null if nothing was computed. */
      step_ms: z.number().nullable(),
      samples: List(sample),
      latencies_ms: List(z.number()),
    }),
    z.strictObject({ type: z.literal("exported"), path: Text, size_bytes: z.int(), sha256: Text }),
    /** The trainer obeyed `save_and_end`. */
    z.strictObject({ type: z.literal("saved") }),
    /** No step follows, and the last checkpoint has been reported. `stopped_early`: why not all steps were done. */
    z.strictObject({ type: z.literal("trained"), stopped_early: Text.nullable() }),
  ]),
);
export type FromTrainer = z.infer<typeof FromTrainer>;

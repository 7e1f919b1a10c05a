/**
 * The contract of rewards on both sides of the sandbox: the code, the samples, their outcomes, and the frames between
 * the process that runs the code and its caller. The caller trusts only what is checked here.
 */

import { z } from "zod";
import { later } from "../schema.ts";
import { MIB } from "../units.ts";

export const LANGUAGES = ["python", "typescript", "javascript"] as const;
export type Language = (typeof LANGUAGES)[number];

export type RewardCode = {
  language: Language;
  source: string;
  /** Passed to every call as keyword arguments, beside the columns. A column of the same name wins. */
  params: Record<string, unknown>;
  /** Seed of `random` (Python) and `Math.random` (JavaScript). */
  seed: number;
  /** Python only: a fresh interpreter for every sample (0.1 s each), so that no sample can affect the next. */
  isolate?: boolean;
  /** Score of a sample that hangs, crashes or takes too much memory. Undefined: that is a fault. */
  failedScore?: number;
  /** Code that maps the rows of a dataset instead of scoring: it has one function, `resolve`. */
  kind?: "resolver";
};

/** The function of a resolver. */
export const RESOLVE = "resolve";
/** Rows that a resolver may make of one row. */
export const MOST_RESOLVED = 10_000;
/** Rows that the interpreter maps before it answers. It answers earlier after MAP_MS, or with a quarter of a frame. */
export const MAP_ROWS = 64;
export const MAP_MS = 50;

export type Sample = {
  /** A text or a list of chat messages, as in the dataset. */
  prompt: unknown;
  completion: unknown;
  /** Every column of the sample's row. */
  row: Record<string, unknown>;
  /** The rollout of an environment that the completion comes from. */
  rollout?: number;
};

/** A method of an environment, as a tool of chat requests. */
export const EnvironmentTool = later(() =>
  z.object({
    name: z.string().regex(/^[A-Za-z_]\w{0,63}$/),
    description: z.string().max(4000),
    parameters: z.record(z.string(), z.unknown()),
  }),
);
export type EnvironmentTool = z.infer<typeof EnvironmentTool>;

/** A class that a rollout gets an instance of. A row names it in its column `environment`; without that it is the first one. */
export const Environment = later(() =>
  z.object({ name: z.string().min(1).max(200), tools: z.array(EnvironmentTool).max(64) }),
);
export type Environment = z.infer<typeof Environment>;

/**
 * One thing that happens in a rollout. `seed`: of `random`, so that a rollout can be repeated in another process. `call`:
 * `arguments` is what the model wrote.
 */
export type Act = { rollout: number; seed: number } & (
  | { act: "reset"; row: Record<string, unknown> }
  | { act: "call"; name: string; arguments: Record<string, unknown> }
  | { act: "end" }
);

export const MOST_OBSERVED = 60_000; // characters of a text that an environment returns; the rest is cut off

/** `text`: what the model reads; null: nothing. `failed`: the method raised, and the text says so. */
export const Acted = later(() =>
  z.union([
    z.object({ text: z.string().max(MOST_OBSERVED).nullable(), failed: z.boolean(), fault: z.null() }),
    z.object({ text: z.null(), failed: z.literal(true), fault: Fault }),
  ]),
);
export type Acted = z.infer<typeof Acted>;

/** `batch`: called once with lists; `sample`: called for each sample. */
export const Entrypoint = later(() =>
  z.object({
    name: z.string().min(1).max(200),
    signature: z.string().max(1000),
    form: z.enum(["batch", "sample"]),
    is_async: z.boolean(),
    line: z.int().min(0),
  }),
);
export type Entrypoint = z.infer<typeof Entrypoint>;

/** Reasons why a sample has no reward. `none` is the code's own answer; the others count as errors. */
const FAULTS = [
  "none", // the code returned None, null or undefined
  "not_finite", // NaN or infinite
  "not_a_number",
  "wrong_length", // a batch function returned too few or too many values
  "exception",
  "timeout",
  "memory",
  "crashed", // the process died, or tried something that the sandbox forbids
] as const;
export const Fault = later(() =>
  z.object({
    kind: z.enum(FAULTS),
    message: z.string().max(2000),
    line: z.int().nullable(),
  }),
);
export type Fault = z.infer<typeof Fault>;

/** The result of one function for one sample: a finite value or a fault. */
export const Outcome = later(() =>
  z.union([
    z.object({ value: z.number(), fault: z.null(), ms: z.number().min(0) }),
    z.object({ value: z.null(), fault: Fault, ms: z.number().min(0) }),
  ]),
);
export type Outcome = z.infer<typeof Outcome>;

/** The rows that a resolver made of one row, or its fault. */
export const Mapped = later(() =>
  z.union([
    z.object({ rows: z.array(z.record(z.string(), z.unknown())).max(MOST_RESOLVED), fault: z.null() }),
    z.object({ rows: z.null(), fault: Fault }),
  ]),
);
export type Mapped = z.infer<typeof Mapped>;

/** Reasons why code cannot be used at all. Line and column count from 1. */
export const Rejection = later(() =>
  z.object({
    kind: z.enum(["syntax", "signature", "exception", "memory", "timeout", "crashed"]),
    message: z.string().max(4000),
    line: z.int().nullable(),
    column: z.int().nullable(),
  }),
);
export type Rejection = z.infer<typeof Rejection>;

export const STDOUT_BYTES = 65_536;
export const MAX_FRAME_BYTES = MIB; // limit of an answer; a longer one is a violation
export const MAX_SOURCE_BYTES = MIB;
export const LOAD_MS = 10_000; // limit for the code's own top level

/** Layers of the sandbox that can be active around a process. */
export const LAYERS = ["language", "rlimits", "no_new_privs", "seccomp", "landlock", "namespaces"] as const;
export const Layer = z.enum(LAYERS);
export type Layer = z.infer<typeof Layer>;

/** Messages to the process. The code inside never sees the nonce. */
export type ToReward =
  | ({ op: "load"; nonce: string } & RewardCode)
  | {
      op: "call";
      nonce: string;
      entry: string;
      samples: readonly Sample[];
      /** For a batch function: first all samples in one call, then one by one only if that raises. */
      whole: boolean;
    }
  /** `each`: rows in one exchange with the interpreter. */
  | { op: "map"; nonce: string; rows: readonly Record<string, unknown>[]; each: number }
  /** For code with environments. */
  | { op: "act"; nonce: string; acts: readonly Act[] };

const nonce = z.string().length(32);
const printed = () => ({ stdout: z.string().max(STDOUT_BYTES), stdout_bytes: z.int().min(0) });

/**
 * Messages from the process. A call gets `outcomes` once or more, in order, without a gap; then `done`. A map gets
 * `mapped`, and acts get `acted`, in the same way.
 */
export const FromReward = later(() =>
  z.discriminatedUnion("op", [
    z.strictObject({ op: z.literal("ready"), layers: z.array(Layer), start_ms: z.number() }),
    z.strictObject({
      op: z.literal("loaded"),
      nonce,
      entrypoints: z.array(Entrypoint).min(1).max(64),
      environments: z.array(Environment).max(16),
      ...printed(),
    }),
    z.strictObject({ op: z.literal("rejected"), nonce, error: Rejection, ...printed() }),
    z.strictObject({ op: z.literal("alone"), nonce }), // the batch raised: from here on each sample is called separately
    z.strictObject({ op: z.literal("outcomes"), nonce, from: z.int().min(0), outcomes: z.array(Outcome).min(1) }),
    z.strictObject({ op: z.literal("mapped"), nonce, from: z.int().min(0), results: z.array(Mapped).min(1) }),
    z.strictObject({ op: z.literal("acted"), nonce, from: z.int().min(0), results: z.array(Acted).min(1) }),
    z.strictObject({ op: z.literal("done"), nonce, ...printed() }),
    z.strictObject({ op: z.literal("violated"), message: z.string().max(2000) }), // the process ends now
  ]),
);
export type FromReward = z.infer<typeof FromReward>;

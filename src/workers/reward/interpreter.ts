/**
 * A language inside the reward process. All untrusted work happens behind `exchange`: JSON in, JSON out, made by a
 * harness that runs beside the user's code and is equally untrusted.
 *
 * The harness answers:
 *   load   {op:"load", source, params, seed}            → {ok:true, entrypoints, environments} | {ok:false, error: Rejection}
 *   begin  {op:"begin", entry, prompts, completions, rows, rollouts?} → {ok:true} stores the batch for later requests
 *   batch  {op:"batch"}          → {ok:true, values: Value[]} | {ok:false, error: Fault}    one call with lists
 *   one    {op:"one", index}     → {ok:true, value: Value} | {ok:false, error: Fault}       one sample; a batch function
 *                                                                                           gets lists of length one
 *   map    {op:"map", from, count} → {ok:true, results: Mapped[]} | {ok:false, error: Fault} at most `count` rows of a
 *                                                                                           resolver, and at least one
 *   act    {op:"act", …Act}       → {ok:true, acted: Acted} | {ok:false, error: Fault}      one thing in one rollout
 * A Value is {value: number} or {fault: Fault}. Coroutines and promises are awaited inside.
 */
import type { Act, Entrypoint, Fault, Language, Rejection } from "../../lib/rewards/contract.ts";

export type HarnessRequest =
  | {
      op: "load";
      source: string;
      params: Record<string, unknown>;
      seed: number;
      language?: Language;
      kind?: "resolver" | undefined;
    }
  | {
      op: "begin";
      entry: string;
      prompts: unknown[];
      completions: unknown[];
      rows: Record<string, unknown>[];
      /** Absent: the completions come from no environment. */
      rollouts?: number[];
    }
  | { op: "batch" }
  | { op: "one"; index: number }
  | { op: "map"; from: number; count: number }
  | ({ op: "act" } & Act);

export type HarnessValue = { value: number } | { fault: Fault };
export type HarnessReply =
  | {
      ok: true;
      entrypoints?: Entrypoint[];
      environments?: unknown;
      values?: HarnessValue[];
      value?: HarnessValue;
      results?: unknown;
      acted?: unknown;
    }
  | { ok: false; error: Rejection | Fault };

export type Interpreter = {
  /** One exchange with the harness. Throws `Violation` if the code tried something that the sandbox forbids. */
  exchange: (request: HarnessRequest) => unknown;
  /** Returns the output since the last call: at most STDOUT_BYTES of text, and the total number of bytes. */
  printed: () => { stdout: string; stdout_bytes: number };
  /** Returns a fresh interpreter in this same process: nothing that ran before affects it. */
  renewed?: () => Promise<Interpreter>;
};

/** The process is no longer usable. */
export class Violation extends Error {}

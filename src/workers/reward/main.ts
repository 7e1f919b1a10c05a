/**
 * `verk worker reward <language> <memory MiB>`: runs one piece of reward code for one owner. It loads the language,
 * locks itself in, reports the active layers, and answers frames until its input ends. There is no heartbeat: the
 * parent has a deadline for every answer.
 */
import { getPriority, setPriority } from "node:os";
import { ZodError } from "zod";
import type { Layer, Outcome, RewardCode, Sample, ToReward } from "../../lib/rewards/contract.ts";
import {
  Acted,
  Entrypoint,
  Environment,
  Fault,
  type FromReward,
  type Mapped,
  MOST_RESOLVED,
  RESOLVE,
  Rejection,
} from "../../lib/rewards/contract.ts";
import { readAsset } from "../../native/bundle/assets.ts";
import { dieWithParent } from "../../native/parent_death.ts";
import { type HarnessReply, type Interpreter, Violation } from "./interpreter.ts";
import { lockDown } from "./lockdown.ts";
import { receive, send } from "./pipes.ts";
import { readOutcome } from "./reward_value.ts";

const NICE = 10; // a chat comes first

type Language = "python" | "javascript";
const say = (message: FromReward) => send(message);

export async function runReward(language: string, memoryMib: string): Promise<never> {
  const startedAt = performance.now();
  dieWithParent();
  const memoryBytes = (Number(memoryMib) || 512) * 2 ** 20;
  const interpreter = await open(language === "python" ? "python" : "javascript", memoryBytes);
  if (getPriority() < NICE) setPriority(NICE); // a user may not go back from a lower priority
  const layers: Layer[] = ["language", ...lockDown(memoryBytes)];
  say({ op: "ready", layers, start_ms: performance.now() - startedAt });
  try {
    let code: RewardCode | undefined;
    const next = () => receive<ToReward>("samples");
    for (let request = next(); request; request = next()) {
      if (request.op === "load") {
        code = request;
        load(interpreter, request);
      } else if (request.op === "map") {
        mapRows(interpreter, request);
        say({ op: "done", nonce: request.nonce, ...interpreter.printed() });
      } else if (request.op === "act") {
        for (const [from, act] of request.acts.entries())
          say({
            op: "acted",
            nonce: request.nonce,
            from,
            results: [actedOf(interpreter.exchange({ op: "act", ...act }))],
          });
        say({ op: "done", nonce: request.nonce, ...interpreter.printed() });
      } else {
        if (code?.isolate && interpreter.renewed) await callIsolated(interpreter.renewed, code, request);
        else call(interpreter, request);
        say({ op: "done", nonce: request.nonce, ...interpreter.printed() });
      }
    }
  } catch (error) {
    say({ op: "violated", message: words(error) });
  }
  process.exit(0);
}

/** A harness that was changed by the code may answer in any shape. */
const words = (error: unknown) =>
  error instanceof ZodError
    ? "its answer has the wrong shape"
    : String((error as Error)?.message ?? error).slice(0, 2000);

/** The interpreter's heap gets half of the process's memory; files, texts and the runtime use the rest. */
async function open(language: Language, memoryBytes: number): Promise<Interpreter> {
  if (language === "python") {
    const { openPython } = await import("./python/open.ts");
    const compiling = WebAssembly.compile(readAsset("python", "python.wasm")); // runs on other threads meanwhile
    const [stdlib, image] = [readAsset("python", "stdlib.zip"), readAsset("python", "image.bin")];
    const module = await compiling;
    return openPython({ module, stdlib, image }, Math.max(128 << 20, memoryBytes / 2));
  }
  const { openJavaScript } = await import("./javascript/open.ts");
  return openJavaScript({ memoryBytes: memoryBytes / 2 });
}

function load(interpreter: Interpreter, { nonce, ...code }: Extract<ToReward, { op: "load" }>) {
  const { language, source, params, seed, kind } = code;
  const reply = interpreter.exchange({ op: "load", language, source, params, seed, kind }) as HarnessReply;
  if (!reply.ok) return say({ op: "rejected", nonce, error: Rejection.parse(reply.error), ...interpreter.printed() });
  const entrypoints = Entrypoint.array().min(1).parse(reply.entrypoints);
  const environments = Environment.array().parse(reply.environments ?? []);
  if (environments.length === 0 || !code.isolate)
    return say({ op: "loaded", nonce, entrypoints, environments, ...interpreter.printed() });
  const message = "isolate is not for code with an environment: a rollout needs the same interpreter for all its turns";
  say({
    op: "rejected",
    nonce,
    error: { kind: "signature", message, line: null, column: null },
    ...interpreter.printed(),
  });
}

function actedOf(answer: unknown): Acted {
  const reply = answer as HarnessReply;
  return reply.ok ? Acted.parse(reply.acted) : { text: null, failed: true, fault: Fault.parse(reply.error) };
}

function call(interpreter: Interpreter, { nonce, entry, samples, whole }: Call) {
  const begun = interpreter.exchange({
    op: "begin",
    entry,
    prompts: samples.map(({ prompt }) => prompt),
    completions: samples.map(({ completion }) => completion),
    rows: samples.map(({ row }) => row),
    ...(samples.some(({ rollout }) => rollout !== undefined)
      ? { rollouts: samples.map(({ rollout }) => rollout ?? NO_ROLLOUT) }
      : {}),
  }) as HarnessReply;
  if (!begun.ok) {
    // The batch may not fit into memory. The interpreter still holds the previous batch, which must not be called.
    const message = begun.error.message.slice(0, FAULT_EACH);
    const failed = readOutcome({ fault: { ...begun.error, message } }, 0);
    return sayAll(nonce, new Array<Outcome>(samples.length).fill(failed));
  }
  if (whole) {
    const outcomes = callWhole(interpreter, samples.length);
    if (outcomes) return sayAll(nonce, outcomes);
    say({ op: "alone", nonce }); // it raised: find the samples that cause it
  }
  for (let index = 0; index < samples.length; index++) {
    const startedAt = performance.now();
    const reply = interpreter.exchange({ op: "one", index }) as HarnessReply;
    const ms = performance.now() - startedAt;
    say({
      op: "outcomes",
      nonce,
      from: index,
      outcomes: [readOutcome(reply.ok ? reply.value : { fault: reply.error }, ms)],
    });
  }
}

const NO_ROLLOUT = -1;

function mapRows(interpreter: Interpreter, { nonce, rows, each }: Extract<ToReward, { op: "map" }>) {
  const all = { op: "begin" as const, entry: RESOLVE, prompts: [], completions: [], rows: [...rows] };
  const begun = interpreter.exchange(all) as HarnessReply;
  for (let from = 0; from < rows.length; ) {
    const count = Math.min(each, rows.length - from);
    const reply = (begun.ok ? interpreter.exchange({ op: "map", from, count }) : begun) as HarnessReply;
    const results = resultsOf(reply, count);
    say({ op: "mapped", nonce, from, results });
    from += results.length;
  }
}

/** The harness is as untrusted as the code beside it. The parent checks each result again. */
function resultsOf(reply: HarnessReply, most: number): Mapped[] {
  if (!reply.ok) return [{ rows: null, fault: Fault.parse(reply.error) }];
  const { results } = reply;
  if (!Array.isArray(results) || results.length === 0 || results.length > most)
    throw new Violation("The answer has the wrong length");
  return results.map((result: Mapped) => {
    if (!(Array.isArray(result?.rows) && result.rows.length > MOST_RESOLVED)) return result;
    const message = `the function returned ${result.rows.length} rows for one row; at most ${MOST_RESOLVED} are allowed`;
    return { rows: null, fault: { kind: "wrong_length", message, line: null } };
  });
}

const FAULT_EACH = 300; // characters of a message that is repeated for every sample
const PIECE = 500; // outcomes per frame: even with long faults they are far below MAX_FRAME_BYTES

function sayAll(nonce: string, outcomes: readonly Outcome[]) {
  for (let from = 0; from < outcomes.length; from += PIECE) {
    say({ op: "outcomes", nonce, from, outcomes: outcomes.slice(from, from + PIECE) });
  }
}

type Call = Extract<ToReward, { op: "call" }>;

/** Loads the code again for every sample. A sample that breaks its interpreter affects no other. */
async function callIsolated(renew: () => Promise<Interpreter>, code: RewardCode, { nonce, entry, samples }: Call) {
  for (const [index, sample] of samples.entries()) {
    const startedAt = performance.now();
    const interpreter = await renew();
    const outcome = scoreAlone(interpreter, code, entry, sample);
    say({ op: "outcomes", nonce, from: index, outcomes: [readOutcome(outcome, performance.now() - startedAt)] });
    Bun.gc(true); // each one held about 40 MB
  }
}

function scoreAlone(interpreter: Interpreter, code: RewardCode, entry: string, { prompt, completion, row }: Sample) {
  const { language, source, params, seed } = code;
  try {
    interpreter.exchange({ op: "load", language, source, params, seed });
    interpreter.exchange({ op: "begin", entry, prompts: [prompt], completions: [completion], rows: [row] });
    const reply = interpreter.exchange({ op: "one", index: 0 }) as HarnessReply;
    return reply.ok ? reply.value : { fault: reply.error };
  } catch (error) {
    if (!(error instanceof Violation)) throw error;
    return { fault: { kind: "crashed", message: error.message.slice(0, FAULT_EACH), line: null } };
  }
}

/** Returns undefined if the function raised and there is more than one sample to try. */
function callWhole(interpreter: Interpreter, count: number): Outcome[] | undefined {
  const startedAt = performance.now();
  const reply = interpreter.exchange({ op: "batch" }) as HarnessReply;
  const ms = (performance.now() - startedAt) / count;
  if (!reply.ok) {
    const fault = Fault.parse(reply.error);
    if (fault.kind === "exception" && count > 1) return undefined;
    return Array.from({ length: count }, () => ({ value: null, fault, ms }));
  }
  if (!Array.isArray(reply.values) || reply.values.length !== count)
    throw new Violation("The answer has the wrong length");
  return reply.values.map((value) => readOutcome(value, ms));
}

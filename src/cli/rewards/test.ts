import { accessSync, constants, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { summarize } from "../../lib/rewards/combine.ts";
import { LAYERS, type Layer, STDOUT_BYTES } from "../../lib/rewards/contract.ts";
import { LIBRARY, type LibraryReward } from "../../lib/rewards/library.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { becomeOwnerOf } from "../../platform/workers/owner.ts";
import { createRewardPool } from "../../sandbox/reward/pool.ts";
import { openScorer } from "../../sandbox/reward/scorer.ts";
import { type RewardPart, RewardRejected, type Scored, type ScoredBatch } from "../../sandbox/reward/scorer_types.ts";
import type { RewardPool } from "../../sandbox/reward/types.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG, wholeOf } from "../args.ts";
import { INTERRUPTED, interruptible } from "../interrupt.ts";
import { note, printJson } from "../output.ts";
import { createProgress } from "../progress.ts";
import { settingsOf } from "../settings.ts";
import { isFile, paramsOf, type Rows, readCode, readRows } from "./input.ts";
import { printReport, rejectionText } from "./report.ts";

const BATCH = 64;

export const test = command({
  summary: "Score rows with a reward function in the sandbox, without a server",
  takes: ["file"],
  flags: {
    rows: {
      type: "string",
      value: "FILE",
      doc: "JSON Lines file; each row needs the field completion; - is standard input",
    },
    language: { type: "string", value: "NAME", doc: "python, typescript or javascript (default: by the file's name)" },
    param: {
      type: "string",
      value: "KEY=VALUE",
      multiple: true,
      doc: "Parameter of the function, passed as a keyword argument; repeatable",
    },
    limit: { type: "string", value: "N", doc: "Only the first N rows" },
    timeout: { type: "string", value: "SECONDS", doc: "Timeout per sample (default: sandbox.sample_timeout_ms)" },
    seed: { type: "string", value: "N", doc: "Seed of random and Math.random (default 0)" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
    json: JSON_FLAG,
  },
  examples: [
    "verk rewards test reward.py --rows rows.jsonl",
    "verk rewards test exact_match --rows rows.jsonl --param column=answer",
  ],
  exits: {
    0: "at least one row was scored, or the function returned no reward for any row",
    1: "the code was rejected (the message says where and why), or every row failed",
    [INTERRUPTED]: "interrupted",
  },
  async run({ rows: path, language, param, limit, timeout, seed, json, ...where }, file = "") {
    if (path === undefined) throw new UsageError("rewards test: --rows FILE is missing");
    const code = await codeOf(file, language, paramsOf(param));
    const rows = await readRows(path, positive("limit", wholeOf("limit", limit)));
    const { sandbox, data_dir } = settingsOf(where);
    becomeOwnerOf(data_dir);
    const part: RewardPart = {
      name: code.name,
      code: { ...code, seed: wholeOf("seed", seed) ?? 0 },
      weight: 1,
      timeoutMs: secondsOf(timeout) ?? sandbox.sample_timeout_ms,
    };
    const folder = unpackFolder(data_dir);
    const pool = createRewardPool({ settings: sandbox, dataDir: folder.dir });
    try {
      const limits = { sampleMs: sandbox.sample_timeout_ms, batchMs: sandbox.batch_timeout_ms };
      return await interruptible((signal) => tested({ pool, part, limits, signal }, rows, json));
    } catch (error) {
      if (!(error instanceof RewardRejected)) throw error;
      if (json) printJson({ object: "reward_rejection", ...error.rejection });
      else note(rejectionText(file, code.source, error.rejection, code.language));
      return EXIT.failed;
    } finally {
      await pool.close();
      folder.remove();
    }
  },
});

async function codeOf(file: string, language: string | undefined, params: Record<string, unknown>) {
  if (isFile(file)) return { ...(await readCode(file, language)), params };
  const builtIn = Object.hasOwn(LIBRARY, file) ? LIBRARY[file] : undefined;
  if (builtIn) {
    const { language, source, running } = builtIn;
    return { name: file, language, source, ...running, params: checked(builtIn, params) };
  }
  const close = nearest(file, Object.keys(LIBRARY));
  throw new UsageError(
    `There is no file and no built-in reward function ${JSON.stringify(file)}.${close ? ` Did you mean ${close}?` : " `verk rewards library` lists the built-in ones."}`,
  );
}

function checked({ params: schema }: LibraryReward, params: Record<string, unknown>): Record<string, unknown> {
  const result = schema.safeParse(params);
  if (result.success) return result.data;
  const [issue] = result.error.issues;
  const names = Object.keys(schema.unwrap().shape).join(", ");
  const at = ["--param", issue?.path.join(".")].filter(Boolean).join(" ");
  throw new UsageError(`${at}: ${issue?.message}. Parameters: ${names}`);
}

type Test = {
  pool: RewardPool;
  part: RewardPart;
  limits: { sampleMs: number; batchMs: number };
  signal: AbortSignal;
};

async function tested({ pool, part, limits, signal }: Test, { samples, lines }: Rows, json: boolean): Promise<number> {
  const progress = createProgress();
  const layers = new Set<Layer>();
  const watched: RewardPool = {
    ...pool,
    async take(language, signal) {
      const process = await pool.take(language, signal);
      for (const layer of process.layers) layers.add(layer);
      return process;
    },
  };
  const scorer = await openScorer(watched, { parts: [part], limits, signal });
  const batches: ScoredBatch[] = [];
  try {
    for (let from = 0; from < samples.length; from += BATCH) {
      batches.push(await scorer.score(samples.slice(from, from + BATCH), signal));
      signal.throwIfAborted();
      if (samples.length > BATCH) progress.show("scoring", Math.min(1, (from + BATCH) / samples.length));
    }
  } finally {
    progress.end();
    await scorer.close();
  }
  const results = batches.flatMap((batch, n) =>
    batch.results.map((each) => ({ ...each, index: each.index + n * BATCH })),
  );
  const run = { results, summary: summarize(results), stdout: printedBy(batches) };
  const [active, missing] = [LAYERS.filter((each) => layers.has(each)), LAYERS.filter((each) => !layers.has(each))];
  if (json) printJson({ object: "reward_run", ...run, layers: active });
  else printReport({ ...run, lines, layers: active, missing });
  return results.every(({ error }: Scored) => error !== null) ? EXIT.failed : EXIT.ok;
}

const printedBy = (batches: readonly ScoredBatch[]) =>
  batches
    .map(({ stdout }) => stdout)
    .join("")
    .slice(0, STDOUT_BYTES);

/**
 * The folder into which the sandbox helper is unpacked: the data directory if it is writable, or a temporary folder.
 */
function unpackFolder(dataDir: string): { dir: string; remove: () => void } {
  try {
    accessSync(dataDir, constants.W_OK | constants.X_OK);
    return { dir: dataDir, remove: () => {} };
  } catch {
    const dir = mkdtempSync(join(tmpdir(), "verk-rewards-"));
    return { dir, remove: () => rmSync(dir, { recursive: true, force: true }) };
  }
}

function positive(flag: string, value: number | undefined) {
  if (value === 0) throw new UsageError(`--${flag}: expected at least 1`);
  return value;
}

function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const seconds = Number(text);
  if (Number.isFinite(seconds) && seconds > 0) return Math.ceil(seconds * 1000);
  throw new UsageError(`--timeout: expected a number of seconds such as 2 or 0.5, not ${JSON.stringify(text)}`);
}

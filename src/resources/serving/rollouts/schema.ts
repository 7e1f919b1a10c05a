import { z } from "zod";
import { ChatCompletion } from "../../../lib/chat/chat_completion.ts";
import { usdOf } from "../../../lib/money.ts";
import { DateTime, isoOrNull, Label, later, Metadata, Notice } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { BRANCHES, LIMITS, type RolloutRow, STATUSES, TURN_STATUSES } from "./table.ts";

const MAX_TURNS = 10_000;
const DEFAULT_TURNS = 100;
const MAX_SECONDS = 7 * 24 * 3600;
const DEFAULT_SECONDS = 3600;
const MAX_METRICS = 100;

/** They replace those of every request. */
export const RolloutSampling = later(() =>
  z
    .object({
      temperature: z.number().min(0).max(2),
      top_p: z.number().min(0).max(1),
      top_k: z.int().min(-1).max(1_000_000),
      min_p: z.number().min(0).max(1),
      seed: z.int().min(0).describe("Turn N draws with seed + N"),
      max_completion_tokens: z.int().min(1).describe("The most tokens of one turn"),
    })
    .partial()
    .meta({ id: "RolloutSampling" }),
);
export type RolloutSampling = z.infer<typeof RolloutSampling>;

const Metrics = z.record(z.string().min(1).max(100), z.number());

export const CreateRollout = later(() =>
  z
    .object({
      model: z
        .string()
        .min(1)
        .max(200)
        .optional()
        .describe("The deployment or agent that answers, whatever the requests name. Default: the only one that runs"),
      sampling: RolloutSampling.optional().describe(
        "Replaces the sampling of every request. Default: temperature 1 and nothing cut off",
      ),
      max_turns: z.int().min(1).max(MAX_TURNS).default(DEFAULT_TURNS),
      max_tokens: z.int().min(1).nullish().describe("Tokens that the model writes in all turns"),
      max_seconds: z.int().min(1).max(MAX_SECONDS).default(DEFAULT_SECONDS),
      max_cost_usd: z.number().positive().nullish().describe("The share of its turns in the price of the deployment"),
      replay_of: z
        .string()
        .max(100)
        .optional()
        .describe("A rollout whose turns answer the same requests again, without a model"),
      metadata: Metadata.optional(),
    })
    .meta({ id: "CreateRollout" }),
);
export type CreateRollout = z.infer<typeof CreateRollout>;

const rolloutFields = () => ({
  object: z.literal("rollout"),
  id: z.string(),
  status: z.enum(STATUSES).describe("open: it takes calls. ended: a limit ended it. finished: it has its reward"),
  ended_by: z.enum(LIMITS).nullable(),
  base_url: z.string().describe("The base URL for clients of OpenAI, Anthropic and Ollama"),
  model: z.string(),
  replay_of: z.string().nullable(),
  sampling: z.record(z.string(), z.unknown()),
  max_turns: z.int(),
  max_tokens: z.int().nullable(),
  max_cost_usd: z.number().nullable(),
  turns: z.int(),
  branches: z.int().describe("Turns, after the first, that go on from no earlier turn"),
  prompt_tokens: z.int(),
  completion_tokens: z.int(),
  cost_usd: z.number(),
  reward: z.number().nullable(),
  metrics: Metrics,
  metadata: z.record(z.string(), z.string()),
  created_at: DateTime,
  expires_at: DateTime,
  finished_at: DateTime.nullable(),
});
export const Rollout = later(() => z.object(rolloutFields()).meta({ id: "Rollout" }));
export type Rollout = z.infer<typeof Rollout>;

export const CreatedRollout = later(() =>
  z
    .object({ ...rolloutFields(), api_key: z.string().optional().describe("Shown once"), notice: Notice })
    .meta({ id: "CreatedRollout" }),
);

export const FinishRollout = later(() =>
  z
    .object({ reward: z.number(), metrics: Metrics.optional() })
    .refine(
      ({ metrics = {} }) => Object.keys(metrics).length <= MAX_METRICS,
      `metrics: must have at most ${MAX_METRICS}`,
    )
    .meta({ id: "FinishRollout" }),
);
export type FinishRollout = z.infer<typeof FinishRollout>;

export const RolloutTurn = later(() =>
  z
    .object({
      object: z.literal("rollout.turn"),
      number: z.int(),
      parent: z.int().nullable().describe("The turn whose tokens begin the prompt of this one"),
      branch: z.enum(BRANCHES).nullable().describe("The reason why the turn goes on from no earlier one"),
      status: z.enum(TURN_STATUSES).describe("cancelled: the client left before the end of the answer"),
      kept_messages: z.int().describe("Messages that the prompt shares with the parent, with its answer"),
      messages: z.array(z.record(z.string(), z.unknown())).describe("The messages after those"),
      tools: z.array(z.record(z.string(), z.unknown())),
      settings: z.record(z.string(), z.unknown()),
      completion: ChatCompletion.nullable(),
      kept_tokens: z.int().describe("Tokens that the prompt shares with the parent, with its answer"),
      prompt_token_ids: z.array(z.int()).describe("The tokens of the prompt after those"),
      token_ids: z.array(z.int()),
      logprobs: z.array(z.number()).describe("Of token_ids, by the model as it is"),
      has_end: z.boolean().describe("The last token is the end token"),
      stop: z.string().nullable(),
      weights: z.string().nullable().describe("The weights that drew the tokens, as system_fingerprint of an answer"),
      trace_id: z.string(),
      latency_ms: z.number(),
      first_token_ms: z.number().nullable(),
      cost_usd: z.number(),
      created_at: DateTime,
    })
    .meta({ id: "RolloutTurn" }),
);
export type RolloutTurn = z.infer<typeof RolloutTurn>;

export const CreateRolloutDataset = later(() =>
  z
    .object({
      name: Label(200),
      rollouts: z.array(z.string().max(100)).min(1).max(1_000).describe("Ids of rollouts"),
    })
    .meta({ id: "CreateRolloutDataset" }),
);
export type CreateRolloutDataset = z.infer<typeof CreateRolloutDataset>;

export const RolloutDataset = later(() =>
  z.object({ object: z.literal("rollout.dataset"), id: z.string(), rows: z.int() }).meta({ id: "RolloutDataset" }),
);

/** `root`: the address of this server. */
export const present = (row: RolloutRow, root: string): Rollout => ({
  object: "rollout",
  id: row.id,
  status: row.status,
  ended_by: row.endedBy,
  base_url: `${root}/rollouts/${row.id}/v1`,
  model: row.model,
  replay_of: row.replayOf,
  sampling: row.sampling,
  max_turns: row.maxTurns,
  max_tokens: row.maxTokens,
  max_cost_usd: row.maxCostMicros === null ? null : usdOf(row.maxCostMicros),
  turns: row.turnCount,
  branches: row.branchCount,
  prompt_tokens: row.promptTokens,
  completion_tokens: row.completionTokens,
  cost_usd: usdOf(row.costMicros),
  reward: row.reward,
  metrics: row.metrics ?? {},
  metadata: row.metadata,
  created_at: isoTime(row.createdAt),
  expires_at: isoTime(row.expiresAt),
  finished_at: isoOrNull(row.finishedAt),
});

/** The data of events. */
export const report = ({ id, status, endedBy, turnCount, reward }: RolloutRow) => ({
  object: "rollout" as const,
  id,
  status,
  ended_by: endedBy,
  turns: turnCount,
  reward,
});

import { blob, integer, primaryKey, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Metadata } from "../../../lib/schema.ts";
import { workspaces } from "../../access/workspaces/table.ts";
import type { RolloutSampling } from "./schema.ts";

export const STATUSES = ["open", "ended", "finished"] as const;
export const LIMITS = ["turns", "tokens", "seconds", "cost"] as const;
export type Limit = (typeof LIMITS)[number];
/** A turn of which the client left has no whole answer. */
export const TURN_STATUSES = ["done", "cancelled"] as const;
/** The reason why a turn goes on from no earlier one: its messages, the chat template, or an image in them. */
export const BRANCHES = ["history", "template", "image"] as const;
export type Branch = (typeof BRANCHES)[number];

export const rollouts = sqliteTable("rollouts", {
  id: text("id").primaryKey(),
  workspaceId: text("workspace_id")
    .notNull()
    .references(() => workspaces.id),
  /** The key that opened it. It pays, and its end is the end of the rollout's own key. */
  keyId: text("key_id").notNull(),
  keyHash: text("key_hash").notNull(),
  status: text("status", { enum: STATUSES }).notNull(),
  /** The limit that ended it. */
  endedBy: text("ended_by", { enum: LIMITS }),
  /** The `model` of its requests, whatever they name. */
  model: text("model").notNull(),
  /** The rollout whose turns answer. */
  replayOf: text("replay_of"),
  sampling: text("sampling", { mode: "json" }).$type<RolloutSampling>().notNull(),
  maxTurns: integer("max_turns").notNull(),
  maxTokens: integer("max_tokens"),
  maxCostMicros: real("max_cost_micros"),
  turnCount: integer("turn_count").notNull(),
  /** Turns, after the first, that go on from no earlier one. */
  branchCount: integer("branch_count").notNull(),
  promptTokens: integer("prompt_tokens").notNull(),
  completionTokens: integer("completion_tokens").notNull(),
  costMicros: real("cost_micros").notNull(),
  reward: real("reward"),
  metrics: text("metrics", { mode: "json" }).$type<Record<string, number>>(),
  metadata: text("metadata", { mode: "json" }).$type<Metadata>().notNull(),
  expiresAt: integer("expires_at").notNull(),
  finishedAt: integer("finished_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});
export type RolloutRow = typeof rollouts.$inferSelect;

/** Turns form a tree: a turn begins with all tokens of its parent, and has only what follows them. */
export const rolloutTurns = sqliteTable(
  "rollout_turns",
  {
    rolloutId: text("rollout_id")
      .notNull()
      .references(() => rollouts.id),
    workspaceId: text("workspace_id")
      .notNull()
      .references(() => workspaces.id),
    /** The first turn is 1. */
    number: integer("number").notNull(),
    parent: integer("parent"),
    /** Messages and tokens of the parent, with its answer: the prompt begins with them. */
    keptMessages: integer("kept_messages").notNull(),
    keptTokens: integer("kept_tokens").notNull(),
    branch: text("branch", { enum: BRANCHES }),
    status: text("status", { enum: TURN_STATUSES }).notNull(),
    requestHash: text("request_hash").notNull(),
    /** A request whose beginning has this hash goes on from this turn. */
    stateHash: text("state_hash").notNull(),
    hasEnd: integer("has_end", { mode: "boolean" }).notNull(),
    stop: text("stop"),
    weights: text("weights"),
    traceId: text("trace_id").notNull(),
    latencyMs: real("latency_ms").notNull(),
    firstTokenMs: real("first_token_ms"),
    costMicros: real("cost_micros").notNull(),
    createdAt: integer("created_at").notNull(),
    /** JSON texts. */
    settings: text("settings").notNull(),
    messages: text("messages").notNull(),
    tools: text("tools").notNull(),
    completion: text("completion").notNull(),
    promptIds: blob("prompt_ids", { mode: "buffer" }).notNull(),
    tokenIds: blob("token_ids", { mode: "buffer" }).notNull(),
    logprobs: blob("logprobs", { mode: "buffer" }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.rolloutId, table.number] })],
);
export type TurnRow = typeof rolloutTurns.$inferSelect;

/** Settings of a deployment: each is declared here, and nowhere else. Its column is in the table. */
import { z } from "zod";
import { settings } from "../../../http/settings.ts";
import { KV_TYPES } from "../../../lib/gguf/memory.ts";
import { isId } from "../../../lib/ids.ts";
import { Label, Metadata } from "../../../lib/schema.ts";
import { RedactPatterns } from "../../watching/traces/schema.ts";
import { CAPTURES } from "../../watching/traces/table.ts";
import { deployments } from "./table.ts";

const MAX_PARALLEL = 256; // the limit of llama.cpp
const IN_REQUESTS = "The value of `model` in requests to this deployment";
const name = () => Label(100).refine((name) => !isId(name, "dep"), "must not look like a deployment id");

export const SETTINGS = settings(deployments, {
  name: {
    input: () => name().describe(`${IN_REQUESTS}. Unique among active deployments`),
    update: name,
    answer: () => z.string().describe(IN_REQUESTS),
  },
  min_replicas: {
    input: () => z.int().min(0).max(64).default(1),
    answer: () => z.int().describe("With 0, an idle deployment is parked, and the next request wakes it"),
  },
  max_replicas: {
    input: () => z.int().min(1).max(64).optional().describe("Default: 1, or min_replicas if that is more"),
    answer: () => z.int(),
  },
  idle_timeout_seconds: { input: () => z.int().min(1).max(31_536_000).default(300), answer: () => z.int() },
  context_length: {
    input: () => z.int().min(64).max(16_777_216).nullable().default(null),
    answer: () => z.int().nullable().describe("Tokens of each sequence; null for the default"),
  },
  parallel: {
    input: () => z.int().min(1).max(MAX_PARALLEL).nullable().default(null),
    answer: () => z.int().nullable().describe("Sequences that a replica decodes at once; null for the default"),
  },
  kv_type: {
    input: () =>
      z
        .enum(KV_TYPES)
        .nullable()
        .describe("q8_0 takes half of the memory of keys and values, and changes log-probabilities a little")
        .default(null),
    answer: () => z.enum(KV_TYPES).nullable().describe("Numbers of keys and values; null for the default"),
  },
  wake_timeout_seconds: { input: () => z.int().min(1).max(86_400).default(300), answer: () => z.int() },
  max_held_requests: { input: () => z.int().min(0).max(100_000).default(256), answer: () => z.int() },
  queue_timeout_seconds: {
    input: () =>
      z
        .int()
        .min(0)
        .max(31_536_000)
        .describe("What does not fit now waits queued this long, then it is failed with no_capacity; 0: no limit")
        .default(900),
    answer: () => z.int().describe("The longest wait for memory while queued; 0: no limit"),
  },
  pinned: { input: () => z.boolean().default(false), answer: () => z.boolean().describe("Never parked to make room") },
  capture: {
    input: () =>
      z
        .enum(CAPTURES)
        .describe(
          "none: times, tokens and status. metadata: also parameters and metadata of the request. full: also content",
        )
        .default("none"),
    answer: () => z.enum(CAPTURES).describe("How much of each request its trace keeps"),
  },
  capture_retention_days: {
    input: () =>
      z.int().min(1).max(3_650).describe("Traces of this deployment are removed after this time").default(30),
    answer: () => z.int(),
  },
  capture_redact: {
    input: () =>
      RedactPatterns.unwrap()
        .describe("Regular expressions. Text that one of them matches is replaced before a trace is stored")
        .default([]),
    answer: () => z.array(z.string()),
  },
  metadata: { input: () => Metadata.default({}), answer: () => z.record(z.string(), z.string()) },
});

/** Answers of replicas that this server reads itself. A replica may run on a node of a tenant. */
import { z } from "zod";
import { FINISH_REASONS } from "../../../../lib/chat/chat_completion.ts";
import { outside } from "../../../../lib/json/outside.ts";
import { later } from "../../../../lib/schema.ts";
import { MIB } from "../../../../lib/units.ts";

const Name = z.string().max(10_000);
const Text = z.string().max(16 * MIB);
const Call = later(() => z.object({ name: Name, arguments: Text }));

/** Log-probabilities and others are dropped. */
export const CHAT_ANSWER = outside(
  "the answer of the deployment",
  later(() =>
    z.object({
      choices: z
        .array(
          z.object({
            message: z.object({
              role: z.literal("assistant").default("assistant"),
              content: Text.nullable().default(null),
              refusal: z.null().default(null),
              reasoning_content: Text.optional(),
              tool_calls: z
                .array(
                  z.union([
                    z.object({ id: Name, type: z.literal("function"), function: Call }),
                    z.object({ id: Name, type: z.literal("custom"), custom: z.object({ name: Name, input: Text }) }),
                  ]),
                )
                .max(1_000)
                .optional(),
              function_call: Call.optional(),
            }),
            finish_reason: z.enum(FINISH_REASONS),
          }),
        )
        .max(128),
      usage: z.object({ prompt_tokens: z.int().min(0), completion_tokens: z.int().min(0) }),
    }),
  ),
  { mostBytes: 64 * MIB, parsing: "thread" },
);

export const VECTORS = outside(
  "the vectors of the deployment",
  later(() => z.object({ data: z.array(z.object({ embedding: z.array(z.number()).max(100_000) })).max(10_000) })),
  { mostBytes: 64 * MIB, parsing: "thread" },
);

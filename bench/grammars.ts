/**
 * Structured output against free text on a CPU: `bun bench/grammars.ts [STREAMS]`. Twenty schemas as programs send them; the
 * model is random, so it wants other tokens than the grammar nearly always, which is the worst case. The first round of a
 * schema asks the library for masks, later rounds have them.
 */
import { openEngine } from "../src/workers/serving/engine/engine.ts";
import type { Engine } from "../src/workers/serving/engine/types.ts";
import { schemaGrammar } from "../src/workers/serving/grammar/schema.ts";
import { makeModel } from "../test/models.ts";
import { SAMPLING } from "./peers/plain_decode.ts";
import { remove, tempDir } from "./tools.ts";

const STREAMS = Number(process.argv[2] ?? 32);
const TOKENS = 48;
const ROUNDS = 4;
const SHAPE = { layers: 6, width: 384, heads: 6, kvHeads: 6, ff: 1024, vocabSize: 32_000, context: 256 } as const;

const text = { type: "string" } as const;
const number = { type: "number" } as const;
const whole = { type: "integer" } as const;
const flag = { type: "boolean" } as const;
const list = (items: object) => ({ type: "array", items });
const object = (properties: Record<string, object>) => ({
  type: "object",
  properties,
  required: Object.keys(properties),
});
const choice = (...names: string[]) => ({ enum: names });
const person = object({ name: text, email: { type: "string", format: "email" }, age: whole });
const address = object({
  street: text,
  city: text,
  zip: { type: "string", pattern: "^[0-9]{5}$" },
  country: choice("DE", "FR", "US"),
});
const SCHEMAS: readonly object[] = [
  person,
  address,
  object({ person, address }),
  object({ sentiment: choice("positive", "neutral", "negative"), score: { type: "number", minimum: 0, maximum: 1 } }),
  object({ title: text, tags: list(text), published: flag }),
  object({
    invoice: text,
    date: { type: "string", format: "date" },
    lines: list(object({ item: text, count: whole, price: number })),
    total: number,
  }),
  object({ entities: list(object({ text, kind: choice("person", "place", "company", "date") })) }),
  object({ answer: text, sources: list({ type: "string", format: "uri" }) }),
  object({ steps: list(object({ explanation: text, output: text })), final: text }),
  object({ name: choice("search", "open", "close"), arguments: object({ query: text, limit: whole }) }),
  object({ latitude: number, longitude: number, name: text }),
  object({ ticket: whole, priority: choice("low", "normal", "high"), assignee: { anyOf: [text, { type: "null" }] } }),
  object({
    question: text,
    options: { type: "array", items: text, minItems: 4, maxItems: 4 },
    right: { type: "integer", minimum: 0, maximum: 3 },
  }),
  object({ recipe: text, minutes: whole, ingredients: list(object({ name: text, grams: number })) }),
  object({ diagnosis: list(text), urgent: flag, notes: { type: "string", maxLength: 60 } }),
  object({ from: text, to: text, subject: text, body: text, reply: flag }),
  object({
    id: { type: "string", format: "uuid" },
    at: { type: "string", format: "date-time" },
    level: choice("info", "warn", "error"),
    message: text,
  }),
  object({ file: text, line: whole, severity: choice("error", "warning"), fix: { anyOf: [text, { type: "null" }] } }),
  object({ matrix: list(list(number)) }),
  object({ yes: flag, reason: text }),
];

async function rate(engine: Engine, round: number, grammars: readonly string[] | null): Promise<number> {
  const begun = performance.now();
  let tokens = 0;
  await Promise.all(
    Array.from({ length: STREAMS }, async (_, stream) => {
      const prompt = Int32Array.from(
        { length: 16 },
        (__, i) => 300 + ((round * 7919 + stream * 613 + i * 31) % 30_000),
      );
      const sampling = {
        ...SAMPLING,
        minP: 0,
        frequencyPenalty: 0,
        presencePenalty: 0,
        logitBias: [],
        seed: stream + 1,
      };
      const request = { prompt, maxTokens: TOKENS, sampling, samples: 1, stop: [], ignoreEos: grammars === null };
      const grammar = grammars ? { grammar: grammars[stream % grammars.length]! } : {};
      for await (const deltas of engine.generate({ ...request, ...grammar }))
        for (const delta of deltas) tokens += delta.completionTokens ?? 0;
    }),
  );
  return (1000 * tokens) / (performance.now() - begun);
}

const dataDir = tempDir();
const modelPath = makeModel(dataDir, { arch: "llama", type: "F16", ...SHAPE });
const grammars = SCHEMAS.map((schema) => schemaGrammar(schema, ""));
const engine = await openEngine({
  dataDir,
  modelPath,
  contextLength: 256,
  parallel: STREAMS,
  threads: 1,
  gpus: [],
  guesses: false,
});
const free: number[] = [];
const bound: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  free.push(await rate(engine, round, null));
  bound.push(await rate(engine, round, grammars));
}
const show = (rates: readonly number[]) => rates.map((each) => Math.round(each)).join(" / ");
const share = Math.max(...bound.slice(1)) / Math.max(...free);
console.log(
  `${STREAMS} streams, tokens/s by rounds: free ${show(free)}, by a schema ${show(bound)}; best of later rounds ${share.toFixed(2)}`,
);
await engine.close();
remove(dataDir);

/**
 * The engine alone, without HTTP: for every line on standard input the time to the first token of a prompt that it has
 * not seen. argv: JSON of Job. Prints JSON of First.
 */
import { openEngine } from "../../src/workers/serving/engine/engine.ts";

export type Job = { dataDir: string; model: string; threads: number; contextLength: number; parallel: number };
export type First = { firstMs: number };

const { model: modelPath, ...rest } = JSON.parse(process.argv[2] as string) as Job;
const engine = await openEngine({ ...rest, modelPath, gpus: [] });
const rule = {
  temperature: 0.8,
  topP: 0.95,
  topK: 40,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: [],
};
const salt = () => crypto.getRandomValues(new Uint32Array(1))[0]!.toString(36).padStart(7, "q").slice(0, 7);

async function first(): Promise<First> {
  const began = performance.now();
  const prompt = engine.tokenize(salt() + salt() + salt(), { addBos: engine.facts.addsBos, special: true });
  let firstMs = 0;
  for await (const deltas of engine.generate({ prompt, maxTokens: 2, sampling: rule, samples: 1, stop: [] }))
    if (deltas.length > 0 && firstMs === 0) firstMs = performance.now() - began;
  return { firstMs };
}

for (let i = 0; i < 3; i++) await first(); // warm
for await (const line of console) if (line) console.log(JSON.stringify(await first()));
process.exit(0);

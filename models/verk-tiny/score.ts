/**
 * The share of exact answers by task, greedy and at temperature 1, of the file that is shipped.
 *
 *   python3 evaluate.py > questions.json && bun score.ts ../../models/verk-tiny.gguf questions.json
 */
import { openEngine } from "../../src/workers/serving/engine/engine.ts";
import type { Sampling } from "../../src/workers/serving/engine/types.ts";

type Question = { prompt: number[]; answer: string };
const PARALLEL = 32;
const GREEDY: Sampling = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  frequencyPenalty: 0,
  presencePenalty: 0,
  logitBias: [],
};

const [modelPath = "", questionsPath = ""] = Bun.argv.slice(2);
const tasks: Record<string, Question[]> = await Bun.file(questionsPath).json();
const sizes = { contextLength: 1024, parallel: PARALLEL, threads: 1 };
const engine = await openEngine({ dataDir: "", modelPath, gpus: [], ...sizes });

async function isRight({ prompt, answer }: Question, sampling: Sampling): Promise<boolean> {
  const maxTokens = engine.tokenize(answer, { addBos: false, special: true }).length + 8;
  let said = "";
  const run = engine.generate({ prompt: Int32Array.from(prompt), maxTokens, samples: 1, stop: [], sampling });
  for await (const deltas of run) for (const delta of deltas) said += delta.text;
  return said.trim() === answer;
}

async function share(questions: Question[], temperature: number): Promise<string> {
  const answers = questions.map((question, seed) => isRight(question, { ...GREEDY, temperature, seed }));
  const right = (await Promise.all(answers)).filter(Boolean).length;
  return ((100 * right) / questions.length).toFixed(1);
}

for (const [task, questions] of Object.entries(tasks))
  console.log(`| ${task} | ${await share(questions, 0)} | ${await share(questions, 1)} | ${questions.length} |`);
await engine.close();

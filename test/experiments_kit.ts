/** Experiments without models: answers and scores come from functions of the test. */
import { AppError } from "../src/lib/errors.ts";
import type { EvaluationItem, EvaluationResult } from "../src/resources/quality/evaluators/item.ts";
import { runExperiments } from "../src/resources/quality/experiments/running/runner.ts";
import type { Generation } from "../src/resources/serving/deployments/chat/generate.ts";
import type { TestApp } from "./harness.ts";

type Fakes = {
  /** The answer of a deployment, by its id and the last message. */
  answer?: (deploymentId: string, prompt: string) => string | Promise<string>;
  /** The score of an answer. Default: 1 if it is the reference. */
  score?: (item: EvaluationItem, evaluator: string) => number | null;
};

export type Calls = { generated: [deploymentId: string, prompt: string][]; evaluated: string[] };

/** Replaces the calls that leave the resource. Every name is an evaluator; a name with `pairwise` compares two answers. */
export function fakePorts(app: TestApp, { answer = (_id, prompt) => prompt, score = equals }: Fakes = {}): Calls {
  const calls: Calls = { generated: [], evaluated: [] };
  app.ctx.state.experiments.ports = {
    async generate(_ctx, { deploymentId, messages, background }) {
      if (!background) throw new Error("an item does not let live requests go first");
      const prompt = String(messages.at(-1)?.content);
      calls.generated.push([deploymentId, prompt]);
      const text = await answer(deploymentId, prompt);
      const message = { role: "assistant", content: text, refusal: null } as const;
      const spent = { promptTokens: 3, completionTokens: 2, latencyMs: 10 };
      return {
        requestId: "req_x",
        traceId: "trc_x",
        text,
        message,
        finishReason: "stop",
        ...spent,
      } satisfies Generation;
    },
    resolve(_ctx, _workspaceId, ref) {
      if (ref === "missing") throw new AppError("resource_not_found", "No evaluator missing", { param: "id" });
      return { id: `evl_${ref}`, label: ref, version: 1, pairwise: ref.includes("pairwise") };
    },
    async evaluate(_ctx, _workspaceId, { label }, items) {
      return items.map((item): EvaluationResult => {
        calls.evaluated.push(`${label} ${item.output}`);
        const value = score(item, label);
        const error = value === null ? "no verdict" : null;
        return {
          score: value,
          label: null,
          passed: value === null ? null : value >= 0.5,
          reason: null,
          error,
          latencyMs: 1,
        };
      });
    },
  };
  return calls;
}

const equals = ({ output, reference }: EvaluationItem) => Number(output === reference);

const never = new AbortController().signal;
/** Works until no experiment is left. */
export const runAll = (app: TestApp, signal = never) => runExperiments(app.ctx, signal);

export async function newDataset(app: TestApp, rows: object[], format = "completion"): Promise<string> {
  const { body } = await app.call("POST", "/v1/datasets", { name: "held", format });
  const { status } = await app.call("POST", `/v1/datasets/${body.id}/rows`, { rows });
  if (status >= 300) throw new Error(`rows: ${status}`);
  return body.id as string;
}

export const sums = (count: number) =>
  Array.from({ length: count }, (_, i) => ({ prompt: `${i} + 1`, completion: String(i + 1) }));

export const newDeployment = async (app: TestApp, name: string): Promise<string> =>
  (await app.call("POST", "/v1/deployments", { model: "kit/served", name })).body.id as string;

/** The right answer to a row of `sums`. */
export const solve = (prompt: string) => String(Number.parseInt(prompt, 10) + 1);

/** A deployment of this server judges outputs by a rubric. An answer that is no verdict gives no score. */
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { Semaphore } from "../../../../platform/semaphore.ts";
import { generate } from "../../../serving/deployments/chat/generate.ts";
import { mustFind } from "../../../serving/deployments/served.ts";
import type { JudgeConfig } from "../config.ts";
import { type EvaluationItem, failed, scored, type Verdict } from "../item.ts";
import type { Evaluation } from "../run.ts";
import { type JudgeVerdict, questionFor, readVerdict } from "./judge_prompt.ts";

const MAX_AT_ONCE = 16; // of one evaluation; the deployment decides how many of them run

export async function judge(ctx: Ctx, config: JudgeConfig, evaluation: Evaluation): Promise<Verdict[]> {
  const { workspaceId, items, signal } = evaluation;
  const { id: deploymentId } = mustFind(ctx, workspaceId, config.deployment);
  const ask = async (item: EvaluationItem, answers: readonly string[]) => {
    const { messages, params } = questionFor(config, item, answers);
    const generation = await generate(ctx, { workspaceId, deploymentId, messages, params, signal, background: true });
    return readVerdict(config, generation.text);
  };
  const turns = Semaphore.unshared("the items of one evaluation", { permits: MAX_AT_ONCE });
  const verdicts = items.map(async (item) => {
    const release = await turns.acquire({ workspaceId, signal });
    const startedAt = performance.now();
    const ms = () => performance.now() - startedAt;
    try {
      const verdict = await (config.mode === "pairwise" ? comparePair(config, item, ask) : ask(item, [item.output]));
      return typeof verdict === "string" ? failed(verdict, ms()) : scored(verdict.score, ms(), verdict);
    } catch (error) {
      if (signal.aborted || !(error instanceof AppError)) throw error;
      return failed(error.message, ms());
    } finally {
      release?.();
    }
  });
  await Promise.allSettled(verdicts); // after a throw, no request of this evaluation runs on
  return Promise.all(verdicts);
}

type Judge = (item: EvaluationItem, answers: readonly string[]) => Promise<JudgeVerdict | string>;

/** Score 1: the output wins. 0: the other answer wins. Judges prefer a position, so both orders are asked. */
async function comparePair({ swap }: JudgeConfig, item: EvaluationItem, ask: Judge): Promise<JudgeVerdict | string> {
  const other = item.other ?? item.reference ?? null;
  if (other === null) return "The row has no second answer: a pairwise judge needs other, or a reference";
  const first = await ask(item, [item.output, other]);
  if (typeof first === "string" || !swap) return labelled(first);
  const second = await ask(item, [other, item.output]);
  if (typeof second === "string") return second;
  const back = 1 - second.score;
  if (back === first.score) return labelled(first);
  const reason = `The verdict depends on the order of the answers. First: ${first.reason ?? first.score}. Exchanged: ${second.reason ?? back}`;
  return labelled({ score: 0.5, label: null, reason });
}

const labelled = (verdict: JudgeVerdict | string): JudgeVerdict | string =>
  typeof verdict === "string"
    ? verdict
    : { ...verdict, label: verdict.score === 0.5 ? "tie" : verdict.score === 1 ? "output" : "other" };

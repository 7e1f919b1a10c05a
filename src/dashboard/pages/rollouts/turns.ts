/** The turns of a rollout as a reader needs them: conversations, messages, times. Pure. */
import type { Rollout, Turn } from "./types.ts";

/** From its first turn to an answer that no other turn goes on from. */
export type Conversation = readonly Turn[];

/** A turn that the client left ends a conversation too: its reader wants to see it. */
export function conversationsOf(turns: readonly Turn[]): Conversation[] {
  const byNumber = new Map(turns.map((turn) => [turn.number, turn]));
  const parents = new Set(turns.map(({ parent }) => parent));
  return turns
    .filter(({ number }) => !parents.has(number))
    .map((last) => {
      const path: Turn[] = [];
      for (let at: Turn | undefined = last; at; at = at.parent === null ? undefined : byNumber.get(at.parent))
        path.unshift(at);
      return path;
    });
}

export const answerOf = (turn: Turn): unknown[] => turn.completion?.choices.map(({ message }) => message) ?? [];

/** The messages of the request of the last turn, as the agent sent them. */
export const requestOf = (path: Conversation): unknown[] =>
  path.flatMap((turn, i) => [...turn.messages, ...(i < path.length - 1 ? answerOf(turn) : [])]);

const REASONS: Readonly<Record<string, string>> = {
  history: "Begins anew: its messages are not those of an earlier turn and its answer",
  template: "Begins anew: the chat template does not write the new messages behind the answer before",
  image: "Begins anew: its messages have an image",
};
export const branchText = ({ branch }: Turn): string | undefined => (branch === null ? undefined : REASONS[branch]);

/** Both begin with the same messages. */
export const isSameTask = (a: readonly Turn[], b: readonly Turn[]): boolean =>
  a[0] !== undefined && b[0] !== undefined && JSON.stringify(a[0].messages) === JSON.stringify(b[0].messages);

/** A turn that was computed in this time, in milliseconds from the first request on. */
export type Span = { number: number; startMs: number; ms: number };

/** A turn is stored when its answer ends. */
export function spansOf(turns: readonly Turn[]): { spans: Span[]; wholeMs: number; modelMs: number } {
  const starts = turns.map(({ created_at: at, latency_ms: ms }) => Date.parse(at) - ms);
  const first = Math.min(...starts);
  const spans = turns.map(({ number, latency_ms: ms }, i) => ({ number, startMs: (starts[i] ?? 0) - first, ms }));
  const wholeMs = Math.max(0, ...spans.map(({ startMs, ms }) => startMs + ms));
  return { spans, wholeMs, modelMs: spans.reduce((sum, { ms }) => sum + ms, 0) };
}

/** The advantage that a trainer noted among the metrics, else the reward: the worth of the tokens of the model. */
export function worthOf({ reward, metrics }: Pick<Rollout, "reward" | "metrics">) {
  const { advantage } = metrics;
  if (advantage !== undefined) return { name: "Advantage", value: advantage };
  return reward === null ? undefined : { name: "Reward", value: reward };
}

const ENDS: Readonly<Record<string, string>> = {
  turns: "All its turns were used",
  tokens: "All its tokens were used",
  seconds: "Its time was over",
  cost: "Its money was spent",
};

/** How the reward came, or why there is none. */
export function rewardText({ status, ended_by: by, finished_at: at, replay_of: replayed }: Rollout): string {
  const end = by === null ? "" : `${ENDS[by] ?? by}. `;
  const replay = replayed === null ? "" : " Its turns are those of another rollout, without a model.";
  if (at !== null) return `${end}The program that opened it sent the reward when it finished the rollout.${replay}`;
  if (status === "open") return `It still runs: the program that opened it sends the reward at the end.${replay}`;
  return `${end}No reward has come. The program that opened it can still send one.${replay}`;
}

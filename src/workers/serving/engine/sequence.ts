import { Guesser } from "../../decoder/guessing/guesses.ts";
import type { Adapter } from "./adapters.ts";
import type { Drawer } from "./sampling/sampler.ts";
import type { SubmitMessage } from "./thread/messages.ts";

/** One sample of a request, on the decoding thread. */
export type Sequence = {
  id: number;
  submit: SubmitMessage;
  /** The sample whose slot the prompt is copied from. This one begins when the leader has read the prompt. */
  leader: Sequence | null;
  adapter: Adapter;
  sampler: Drawer | null;
  slot: number; // -1 = waiting
  /** The sampled token that is not yet in the cache; -1 while the prompt is being read. */
  next: number;
  left: number;
  row: number; // row of the current batch whose logits it draws from; -1 = none
  guesser: Guesser;
  guesses: number; // rows of the current batch that follow `row` and hold guessed tokens
  before: number; // tokens in its slot before the current batch
  over: boolean;
  /** It gave its place to another one. Its prompt has the tokens that it has drawn, and its sampler goes on. */
  resumed: boolean;
};

/** All samples of a request; the first one leads. `use` counts one use of the adapter for each. */
export function newSequences(submit: SubmitMessage, use: () => Adapter): Sequence[] {
  const sequences: Sequence[] = [];
  for (let i = 0; i < submit.seeds.length; i++) {
    sequences.push({
      id: submit.sequence + i,
      submit,
      leader: sequences[0] ?? null,
      adapter: use(),
      sampler: null,
      slot: -1,
      next: -1,
      left: submit.maxTokens,
      row: -1,
      guesser: new Guesser(),
      guesses: 0,
      before: 0,
      over: false,
      resumed: false,
    });
  }
  return sequences;
}

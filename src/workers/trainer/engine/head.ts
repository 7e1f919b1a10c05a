/**
 * Log-probabilities of given tokens, and the gradient of Σ w · -log p with one weight per token, which every method
 * reduces to. Tokens are processed in chunks, so that the table of all probabilities never exists at once. With several
 * chunks the backward pass computes the probabilities again.
 */

import type { Divergence } from "../../../lib/training/loss/divergence.ts";
import { must } from "../../../native/ffi.ts";
import { shapeOf, stridesOf } from "../../../native/ggml/symbols.ts";
import { compare } from "./divergence.ts";
import { scale, softCap } from "./ops.ts";
import { Tape, type Tensor } from "./tape.ts";

export type Targets = {
  /** Tokens of a chunk; the last chunk may be shorter. */
  readonly chunk: number;
  /** For each chunk [tokens]: index of the target in the chunk's table, token · vocabulary + target. */
  readonly indexes: readonly Tensor[];
  /** For each chunk [1, tokens]. */
  readonly weights: readonly Tensor[];
  /** The tokens with targets, and for every token its row among those, or one past the last. Null: all have targets. */
  readonly chosen: { readonly indexes: Tensor; readonly back: Tensor } | null;
  /** For each chunk: inputs of the teacher's output layer [its width, tokens], and weights of the divergence [1, tokens]. */
  readonly taught: { readonly states: readonly Tensor[]; readonly weights: readonly Tensor[] } | null;
};

const SMALLEST = 1e-37;

type Project = (tape: Tape, x: Tensor) => Tensor;
type Output = {
  project: Project;
  /** Limit of the logits before the temperature; 0: none. */
  cap: number;
};
export type Head = Output & {
  temperature: number;
  entropies: boolean;
  /** Learning from a teacher's vocabulary. Null: none. */
  teacher: (Output & { divergence: Divergence }) | null;
};

/** One [1, tokens] for each chunk. `states`: the inputs of the output layer, [width, tokens with targets]. */
export type TokenScores = { logps: Tensor[]; entropies: Tensor[]; divergences: Tensor[]; states: Tensor };

/** x [width, tokens]. The backward pass begins here. */
export function tokenScores(tape: Tape, x: Tensor, targets: Targets, head: Head): TokenScores {
  const states = targets.chosen ? gather(tape, x, targets.chosen) : x;
  const { temperature, cap } = head;
  // x is narrower than the logits
  const scaled = temperature === 1 || cap !== 0 ? states : scale(tape, states, 1 / temperature);
  const scores: TokenScores = { logps: [], entropies: [], divergences: [], states };
  const into = { head: { ...head, project: capped(head, temperature) }, scores };
  if (targets.indexes.length === 1) wholeTable(tape, scaled, targets, into);
  else inChunks(tape, scaled, targets, into);
  return scores;
}

/** An output layer without a limit takes inputs that are divided by the temperature already. */
const capped = ({ project, cap }: Output, temperature: number): Project =>
  cap === 0 ? project : (on, from) => softCap(on, project(on, from), { cap, out: cap / temperature });

type Into = { head: Head; scores: TokenScores };

function wholeTable(tape: Tape, x: Tensor, targets: Targets, { head, scores }: Into) {
  const [indexes, weights] = [targets.indexes[0] as Tensor, targets.weights[0] as Tensor];
  const logits = head.project(tape, x);
  const parts = scored(tape, logits, indexes, { head, scores });
  const taught = taughtOf(tape, targets, 0, head);
  const compared = taught?.compare(logits);
  if (compared) scores.divergences.push(tape.emit(compared.value));
  tape.startFrom(() => {
    const gradient = logitsGradient(tape, { ...parts, indexes, weights });
    tape.give(logits, compared && taught ? plus(tape, gradient, compared.slope(), taught.weights) : gradient);
  });
}

/** The teacher's view of a chunk. Null: no teacher. */
function taughtOf(tape: Tape, { taught }: Targets, chunk: number, { teacher, temperature }: Head) {
  if (!taught || !teacher) return null;
  const [states, weights] = [taught.states[chunk] as Tensor, taught.weights[chunk] as Tensor];
  const frozen = new Tape(tape.plan, false);
  return {
    weights,
    compare(student: Tensor) {
      const scaled = temperature === 1 || teacher.cap !== 0 ? states : scale(frozen, states, 1 / temperature);
      const logits = capped(teacher, temperature)(frozen, scaled);
      return compare(tape, { student, teacher: logits }, teacher.divergence);
    },
  };
}

/** a + weights ⊙ b */
function plus({ ggml, context }: Tape, a: Tensor, b: Tensor, weights: Tensor): Tensor {
  return must(ggml.ggml_add(context, a, ggml.ggml_mul(context, b, weights)), "gradient of the logits");
}

function inChunks(tape: Tape, x: Tensor, targets: Targets, { head, scores }: Into) {
  const { ggml, context } = tape;
  const count = shapeOf(x)[1];
  // Create all of them before the first table. A small tensor in a table's memory would leave no room for the next
  // table.
  const chunks = targets.indexes.map((indexes, i) => {
    const some = part(tape, x, i * targets.chunk, Math.min(targets.chunk, count - i * targets.chunk));
    return { some, indexes, weights: targets.weights[i] as Tensor, taught: taughtOf(tape, targets, i, head) };
  });
  for (const { some, indexes, taught } of chunks) {
    const logits = head.project(new Tape(tape.plan, false), some);
    scored(tape, logits, indexes, { head, scores });
    if (taught) scores.divergences.push(tape.emit(taught.compare(logits).value));
  }
  tape.startFrom(() => {
    const gradients = chunks.map(({ some, indexes, weights, taught }) =>
      again(tape, some, head.project, (logits) => {
        const gradient = logitsGradient(tape, { ...probabilities(tape, logits, indexes), indexes, weights });
        return taught ? plus(tape, gradient, taught.compare(logits).slope(), taught.weights) : gradient;
      }),
    );
    const all = gradients.filter((each) => each !== undefined);
    if (all.length > 0)
      tape.give(
        x,
        all.reduce((a, b) => tape.emit(ggml.ggml_concat(context, a, b, 1))),
      );
  });
}

/** Selects rows of x. The backward pass returns each token's gradient, or the zero past the last. */
function gather(tape: Tape, x: Tensor, { indexes, back }: NonNullable<Targets["chosen"]>): Tensor {
  const { ggml, context } = tape;
  return tape.record(ggml.ggml_get_rows(context, x, indexes), [x], (gradient) => {
    const [width] = shapeOf(gradient);
    const row = must(ggml.ggml_view_4d(context, gradient, width, 1, 1, 1, width * 4, width * 4, width * 4, 0), "view");
    const none = ggml.ggml_scale(context, ggml.ggml_cont(context, row), 0);
    tape.give(x, ggml.ggml_get_rows(context, ggml.ggml_concat(context, gradient, none, 1), back));
  });
}

function part(tape: Tape, x: Tensor, from: number, count: number): Tensor {
  const { ggml, context } = tape;
  const [, n1, n2, n3] = stridesOf(x);
  const view = ggml.ggml_view_4d(context, x, shapeOf(x)[0], count, 1, 1, n1, n2, n3, from * n1);
  return tape.emit(ggml.ggml_cont(context, view));
}

/** Computes the chunk's logits again on their own tape, and continues from their gradient to `x` and the weights. */
function again(tape: Tape, x: Tensor, project: Project, gradientOf: (logits: Tensor) => Tensor) {
  const fresh = new Tape(tape.plan, true);
  return fresh.through(x, (alias) => {
    const logits = project(fresh, alias);
    return { out: logits, gradient: gradientOf(logits) };
  });
}

type Parts = { shares: Tensor; ofTarget: Tensor };

function scored(tape: Tape, logits: Tensor, indexes: Tensor, { head, scores }: Into): Parts {
  const parts = probabilities(tape, logits, indexes);
  const logp = tape.emit(logOf(tape, parts.ofTarget));
  scores.logps.push(logp);
  if (head.entropies) scores.entropies.push(entropy(tape, logits, { ...parts, indexes, logp }));
  return parts;
}

/** log p. ggml_clamp turns NaN into a limit, and a diverged model would seem certain; 0 · p keeps it NaN. */
function logOf({ ggml, context }: Tape, p: Tensor) {
  const log = ggml.ggml_log(context, ggml.ggml_clamp(context, p, SMALLEST, 1));
  return ggml.ggml_add(context, log, ggml.ggml_scale(context, p, 0));
}

/**
 * -Σ p·log p, computed as log Σ exp z - Σ p·z, where log Σ exp z = z - log p of the target. It avoids a logarithm of
 * the whole table. The result is wrong if the target's p underflows in F32.
 */
function entropy(tape: Tape, logits: Tensor, of: Parts & { indexes: Tensor; logp: Tensor }): Tensor {
  const { ggml, context } = tape;
  const [vocab, tokens] = shapeOf(logits);
  const column = ggml.ggml_reshape_4d(context, logits, 1, vocab * tokens, 1, 1);
  const total = ggml.ggml_sub(context, ggml.ggml_get_rows(context, column, of.indexes), of.logp);
  const mean = ggml.ggml_sum_rows(context, ggml.ggml_mul(context, of.shares, logits));
  return tape.emit(ggml.ggml_sub(context, total, mean));
}

function probabilities(tape: Tape, logits: Tensor, indexes: Tensor): Parts {
  const { ggml, context } = tape;
  const [vocab, tokens] = shapeOf(logits);
  const shares = must(ggml.ggml_soft_max(context, logits), "softmax");
  const column = ggml.ggml_reshape_4d(context, shares, 1, vocab * tokens, 1, 1);
  return { shares, ofTarget: must(ggml.ggml_get_rows(context, column, indexes), "rows") };
}

/** w · (p - 1 at the target, p elsewhere). */
function logitsGradient(tape: Tape, of: Parts & { indexes: Tensor; weights: Tensor }): Tensor {
  const { ggml, context } = tape;
  const [vocab, tokens] = shapeOf(of.shares);
  const everywhere = ggml.ggml_mul(context, of.shares, of.weights);
  const there = ggml.ggml_sub(context, ggml.ggml_mul(context, of.ofTarget, of.weights), of.weights);
  const column = ggml.ggml_reshape_4d(context, everywhere, 1, vocab * tokens, 1, 1);
  const written = ggml.ggml_set_rows(context, column, there, of.indexes);
  return tape.emit(ggml.ggml_reshape_4d(context, written, vocab, tokens, 1, 1));
}

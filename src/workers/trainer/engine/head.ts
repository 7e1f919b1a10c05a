/**
 * Log-probabilities of given tokens, and the way back from one weight for each token: the gradient of Σ w · -log p,
 * which every method reduces to. Tokens go in chunks, so that the table of all probabilities never exists at once; with
 * more than one chunk the probabilities are computed again on the way back.
 */

import { must } from "../../../native/ffi.ts";
import { shapeOf, stridesOf } from "../../../native/ggml/symbols.ts";
import { scale } from "./ops.ts";
import { Tape, type Tensor } from "./tape.ts";

export type Targets = {
  /** Tokens of a chunk; the last may be shorter. */
  readonly chunk: number;
  /** For each chunk [tokens]: place of the target in the chunk's table, token · vocabulary + target. */
  readonly places: readonly Tensor[];
  /** For each chunk [1, tokens]. */
  readonly weights: readonly Tensor[];
  /** Which tokens have targets, and for every token its row among those, or one behind the last. Null: all have. */
  readonly chosen: { readonly places: Tensor; readonly back: Tensor } | null;
};

const SMALLEST = 1e-37;

type Project = (tape: Tape, x: Tensor) => Tensor;
export type Head = { project: Project; temperature: number; entropies: boolean };

/** One [1, tokens] for each chunk. */
export type TokenScores = { logps: Tensor[]; entropies: Tensor[] };

/** x [width, tokens]. The gradient begins here. */
export function tokenScores(tape: Tape, x: Tensor, targets: Targets, head: Head): TokenScores {
  const seen = targets.chosen ? gather(tape, x, targets.chosen) : x;
  const scaled = head.temperature === 1 ? seen : scale(tape, seen, 1 / head.temperature); // narrower than the logits
  const scores: TokenScores = { logps: [], entropies: [] };
  if (targets.places.length === 1) wholeTable(tape, scaled, targets, { head, scores });
  else inChunks(tape, scaled, targets, { head, scores });
  return scores;
}

type Into = { head: Head; scores: TokenScores };

function wholeTable(tape: Tape, x: Tensor, targets: Targets, { head, scores }: Into) {
  const [places, weights] = [targets.places[0] as Tensor, targets.weights[0] as Tensor];
  const logits = head.project(tape, x);
  const parts = scored(tape, logits, places, { head, scores });
  tape.startFrom(() => tape.give(logits, logitsGradient(tape, { ...parts, places, weights })));
}

function inChunks(tape: Tape, x: Tensor, targets: Targets, { head, scores }: Into) {
  const { ggml, context } = tape;
  const count = shapeOf(x)[1];
  // All of them before the first table: a small tensor in a table's place, and the next table would not fit there.
  const chunks = targets.places.map((places, i) => {
    const some = part(tape, x, i * targets.chunk, Math.min(targets.chunk, count - i * targets.chunk));
    return { some, places, weights: targets.weights[i] as Tensor };
  });
  for (const { some, places } of chunks)
    scored(tape, head.project(new Tape(tape.plan, false), some), places, { head, scores });
  tape.startFrom(() => {
    const found = chunks.map(({ some, places, weights }) =>
      again(tape, some, head.project, (logits) =>
        logitsGradient(tape, { ...probabilities(tape, logits, places), places, weights }),
      ),
    );
    const all = found.filter((each) => each !== undefined);
    if (all.length > 0)
      tape.give(
        x,
        all.reduce((a, b) => tape.emit(ggml.ggml_concat(context, a, b, 1))),
      );
  });
}

/** Rows of x; the way back finds for every token its own gradient, or the zero behind the last. */
function gather(tape: Tape, x: Tensor, { places, back }: NonNullable<Targets["chosen"]>): Tensor {
  const { ggml, context } = tape;
  return tape.record(ggml.ggml_get_rows(context, x, places), [x], (gradient) => {
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

/** The chunk's logits once more, on a tape of their own, and from their gradient on to `x` and the weights. */
function again(tape: Tape, x: Tensor, project: Project, gradientOf: (logits: Tensor) => Tensor) {
  const fresh = new Tape(tape.plan, true);
  return fresh.through(x, (alias) => {
    const logits = project(fresh, alias);
    return { out: logits, gradient: gradientOf(logits) };
  });
}

type Parts = { shares: Tensor; ofTarget: Tensor };

function scored(tape: Tape, logits: Tensor, places: Tensor, { head, scores }: Into): Parts {
  const { ggml, context } = tape;
  const parts = probabilities(tape, logits, places);
  const logp = tape.emit(ggml.ggml_log(context, ggml.ggml_clamp(context, parts.ofTarget, SMALLEST, 1)));
  scores.logps.push(logp);
  if (head.entropies) scores.entropies.push(entropy(tape, logits, { ...parts, places, logp }));
  return parts;
}

/**
 * -Σ p·log p, as log Σ exp z - Σ p·z with log Σ exp z = z - log p of the target: no logarithm of the whole table.
 * Wrong where the target's p is none in F32.
 */
function entropy(tape: Tape, logits: Tensor, of: Parts & { places: Tensor; logp: Tensor }): Tensor {
  const { ggml, context } = tape;
  const [vocab, tokens] = shapeOf(logits);
  const column = ggml.ggml_reshape_4d(context, logits, 1, vocab * tokens, 1, 1);
  const total = ggml.ggml_sub(context, ggml.ggml_get_rows(context, column, of.places), of.logp);
  const mean = ggml.ggml_sum_rows(context, ggml.ggml_mul(context, of.shares, logits));
  return tape.emit(ggml.ggml_sub(context, total, mean));
}

function probabilities(tape: Tape, logits: Tensor, places: Tensor): Parts {
  const { ggml, context } = tape;
  const [vocab, tokens] = shapeOf(logits);
  const shares = must(ggml.ggml_soft_max(context, logits), "softmax");
  const column = ggml.ggml_reshape_4d(context, shares, 1, vocab * tokens, 1, 1);
  return { shares, ofTarget: must(ggml.ggml_get_rows(context, column, places), "rows") };
}

/** w · (p - 1 at the target, p elsewhere). */
function logitsGradient(tape: Tape, of: Parts & { places: Tensor; weights: Tensor }): Tensor {
  const { ggml, context } = tape;
  const [vocab, tokens] = shapeOf(of.shares);
  const everywhere = ggml.ggml_mul(context, of.shares, of.weights);
  const there = ggml.ggml_sub(context, ggml.ggml_mul(context, of.ofTarget, of.weights), of.weights);
  const column = ggml.ggml_reshape_4d(context, everywhere, 1, vocab * tokens, 1, 1);
  const written = ggml.ggml_set_rows(context, column, there, of.places);
  return tape.emit(ggml.ggml_reshape_4d(context, written, vocab, tokens, 1, 1));
}

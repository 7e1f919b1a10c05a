/**
 * Log-probabilities of given tokens, and the way back from one weight for each token: the gradient of Σ w · -log p,
 * which every method reduces to. Tokens go in chunks, so that the table of all probabilities never exists at once; with
 * more than one chunk the probabilities are computed again on the way back.
 */
import { shapeOf, stridesOf } from "../../../native/ggml_symbols.ts";
import { must } from "../../../native/llama_symbols.ts";
import { Tape, type Tensor } from "./tape.ts";

export type Targets = {
  /** Tokens of a chunk; the last may be shorter. */
  readonly chunk: number;
  /** For each chunk [tokens]: place of the target in the chunk's table, token · vocabulary + target. */
  readonly places: readonly Tensor[];
  /** For each chunk [1, tokens]. */
  readonly weights: readonly Tensor[];
};

const SMALLEST = 1e-37;

type Project = (tape: Tape, x: Tensor) => Tensor;

/** x [width, tokens] → one [1, tokens] for each chunk. The gradient begins here. */
export function tokenLogps(tape: Tape, x: Tensor, targets: Targets, project: Project): Tensor[] {
  const single = targets.places.length === 1;
  const scores: Tensor[] = [];
  targets.places.forEach((places, i) => {
    const weights = targets.weights[i] as Tensor;
    const from = i * targets.chunk;
    const some = slice(tape, x, from, Math.min(targets.chunk, shapeOf(x)[1] - from));
    const forward = single ? tape : new Tape(tape.plan, false);
    const logits = project(forward, some);
    const { shares, ofTarget } = probabilities(tape, logits, places);
    const { ggml, context } = tape;
    scores.push(tape.emit(ggml.ggml_log(context, ggml.ggml_clamp(context, ofTarget, SMALLEST, 1))));
    tape.startFrom(() => {
      if (single) return tape.give(logits, logitsGradient(tape, { shares, ofTarget, places, weights }));
      again(tape, some, project, (rebuilt) => {
        const parts = probabilities(tape, rebuilt, places);
        return logitsGradient(tape, { ...parts, places, weights });
      });
    });
  });
  return scores;
}

/** A part of the tokens; its gradient goes back into the place it came from. */
function slice(tape: Tape, x: Tensor, from: number, count: number): Tensor {
  const { ggml, context } = tape;
  const [width, tokens] = shapeOf(x);
  if (count === tokens) return x;
  const [, n1, n2, n3] = stridesOf(x);
  const view = ggml.ggml_view_4d(context, x, width, count, 1, 1, n1, n2, n3, from * n1);
  return tape.record(ggml.ggml_cont(context, view), [x], (gradient) => {
    const before = from === 0 ? [] : [zeros(tape, gradient, width, from)];
    const behind = tokens - from - count;
    const after = behind === 0 ? [] : [zeros(tape, gradient, width, behind)];
    const whole = [...before, gradient, ...after].reduce((a, b) => must(ggml.ggml_concat(context, a, b, 1), "concat"));
    tape.give(x, whole);
  });
}

const zeros = (tape: Tape, like: Tensor, width: number, count: number): Tensor => {
  const { ggml, context } = tape;
  const row = must(ggml.ggml_view_4d(context, like, width, 1, 1, 1, width * 4, width * 4, width * 4, 0), "view");
  const none = must(ggml.ggml_scale(context, ggml.ggml_cont(context, row), 0), "zero");
  return must(ggml.ggml_repeat_4d(context, none, width, count, 1, 1), "repeat");
};

/** The chunk's logits once more, on a tape of their own, and from their gradient on to `x` and the weights. */
function again(tape: Tape, x: Tensor, project: Project, gradientOf: (logits: Tensor) => Tensor) {
  const fresh = new Tape(tape.plan, true);
  const found = fresh.through(x, (alias) => {
    const logits = project(fresh, alias);
    return { out: logits, gradient: gradientOf(logits) };
  });
  if (found !== undefined) tape.give(x, found);
}

type Parts = { shares: Tensor; ofTarget: Tensor };

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

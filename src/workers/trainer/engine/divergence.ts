/**
 * The divergence of a student from its teacher over the vocabulary, for each scored token, and its slope by the student's
 * logits. With p of the student and q of the teacher:
 *
 * - reverse KL, Σ p·log(p/q): p ⊙ (d − Σ p·d), where d is the difference of the logits;
 * - forward KL, Σ q·log(q/p): p − q;
 * - Jensen-Shannon with m = mix·q + (1 − mix)·p, (1 − mix)·KL(p|m) + mix·KL(q|m): (1 − mix)·p ⊙ (g − Σ p·g), g = log(p/m).
 *
 * With `topK` both are distributions over the student's most likely tokens alone.
 */
import type { Divergence } from "../../../lib/training/loss/divergence.ts";
import { must } from "../../../native/ffi.ts";
import { shapeOf } from "../../../native/ggml/symbols.ts";
import type { Tape, Tensor } from "./tape.ts";

const SMALLEST = 1e-37;
/** Added to the logits of tokens that do not count: their probability becomes exactly 0. */
const NEVER = -1e9;

type Logits = { student: Tensor; teacher: Tensor };
type Compared = {
  /** [1, tokens] */
  value: Tensor;
  /** [vocabulary, tokens] */
  slope: () => Tensor;
};

/** `student` and `teacher`: logits [vocabulary, tokens]. No gradient flows into the teacher. */
export function compare(tape: Tape, logits: Logits, of: Divergence): Compared {
  const { ggml, context } = tape;
  const { student, teacher } = of.topK === null ? logits : limited(tape, logits, of.topK);
  const [p, q] = [student, teacher].map((each) => must(ggml.ggml_soft_max(context, each), "softmax")) as [
    Tensor,
    Tensor,
  ];
  const log = (x: Tensor) => must(ggml.ggml_log(context, ggml.ggml_clamp(context, x, SMALLEST, 1)), "log");
  const minus = (a: Tensor, b: Tensor) => must(ggml.ggml_sub(context, a, b), "difference");
  const times = (a: Tensor, b: Tensor) => must(ggml.ggml_mul(context, a, b), "product");
  const sum = (x: Tensor) => must(ggml.ggml_sum_rows(context, x), "sum");
  const scaled = (x: Tensor, by: number) => must(ggml.ggml_scale(context, x, by), "scale");
  const centred = (gap: Tensor) => times(p, minus(gap, sum(times(p, gap))));
  switch (of.loss) {
    case "reverse_kl":
      return { value: sum(times(p, minus(log(p), log(q)))), slope: () => centred(minus(student, teacher)) };
    case "forward_kl":
      return { value: sum(times(q, minus(log(q), log(p)))), slope: () => minus(p, q) };
    case "jsd": {
      const { mix } = of;
      const middle = log(must(ggml.ggml_add(context, scaled(q, mix), scaled(p, 1 - mix)), "mixture"));
      const gap = minus(log(p), middle);
      const ofStudent = scaled(sum(times(p, gap)), 1 - mix);
      const ofTeacher = scaled(sum(times(q, minus(log(q), middle))), mix);
      const value = must(ggml.ggml_add(context, ofStudent, ofTeacher), "sum");
      return { value, slope: () => scaled(centred(gap), 1 - mix) };
    }
  }
}

/** Lowers the logits of all tokens but the student's `topK` most likely ones. */
function limited({ ggml, context }: Tape, { student, teacher }: Logits, topK: number): Logits {
  const [vocab, tokens] = shapeOf(student);
  const count = Math.min(topK, vocab);
  const chosen = must(ggml.ggml_argsort_top_k(context, student, count), "most likely tokens"); // [count, tokens]
  const filled = (width: number, value: number) => {
    const some = ggml.ggml_view_2d(context, student, width, tokens, vocab * 4, 0);
    const flat = ggml.ggml_scale_bias(context, ggml.ggml_cont(context, some), 0, value);
    return must(ggml.ggml_reshape_4d(context, flat, 1, width, tokens, 1), "constant");
  };
  const marked = ggml.ggml_set_rows(context, filled(vocab, NEVER), filled(count, 0), chosen);
  const lowered = must(ggml.ggml_reshape_4d(context, marked, vocab, tokens, 1, 1), "mask");
  const under = (logits: Tensor) => must(ggml.ggml_add(context, logits, lowered), "limited logits");
  return { student: under(student), teacher: under(teacher) };
}

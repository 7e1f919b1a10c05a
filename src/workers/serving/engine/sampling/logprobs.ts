/** Log-probabilities of the model itself: they are computed from the logits before sampling changes them. Pure. */

/**
 * Returns [logprob of `token`, then `top` pairs of token and logprob, most likely first] of logits divided by
 * `temperature`.
 */
export function logprobs(raw: Float32Array, token: number, top: number, temperature = 1): Float64Array {
  const logits = temperature === 1 ? raw : raw.map((logit) => logit / temperature);
  const out = new Float64Array(1 + 2 * top);
  let peak = logits[0]!;
  for (let i = 1; i < logits.length; i++) if (logits[i]! > peak) peak = logits[i]!;
  let sum = 0;
  for (let i = 0; i < logits.length; i++) sum += Math.exp(logits[i]! - peak);
  const norm = peak + Math.log(sum);
  out[0] = logits[token]! - norm;
  if (top > 0) likeliest(logits, norm, out);
  return out;
}

/** Inserts into the few best found so far: the list is short and rarely changes. */
function likeliest(logits: Float32Array, norm: number, out: Float64Array) {
  const top = (out.length - 1) / 2;
  let count = 0;
  for (let i = 0; i < logits.length; i++) {
    const logprob = logits[i]! - norm;
    if (count === top && logprob <= out[2 * top]!) continue;
    let at = count < top ? count++ : top - 1;
    for (; at > 0 && out[2 * at]! < logprob; at--) {
      out[1 + 2 * at] = out[2 * at - 1]!;
      out[2 + 2 * at] = out[2 * at]!;
    }
    out[1 + 2 * at] = i;
    out[2 + 2 * at] = logprob;
  }
}

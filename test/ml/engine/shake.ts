import { getFloats, putBytes } from "../../../src/native/ggml/ggml.ts";
import { type Opened, random } from "./kit.ts";

/** B is zero at the start of a training. Then the gradient of A is zero too, and nothing would be tested. */
export function shake({ weights, backend }: Opened, seed: number) {
  const next = random(seed);
  for (const { tensor } of weights.trainable)
    putBytes(
      backend.ggml,
      tensor,
      getFloats(backend.ggml, tensor).map((value) => value + next() * 0.1),
    );
}

/** The tokens of one answer as they were drawn, for the rollout that records them. */
import type { DrawnTokens } from "../../protocol.ts";
import type { Delta } from "../engine/types.ts";

export class Drawn {
  prompt: Int32Array = new Int32Array();
  readonly #tokens: number[] = [];
  readonly #logprobs: number[] = [];
  #hasEnd = false;
  #stop: string | null = null;
  /** Names the weights, see `fingerprintOf`. */
  weights: string | null = null;

  /** Records a delta, and returns the part of it that the client asks for. */
  take(delta: Delta, wants: { logprobs: boolean; tokens: boolean }): Delta {
    const { tokens, logprobs, ...rest } = delta;
    this.#tokens.push(...(tokens ?? []));
    this.#logprobs.push(...(logprobs ?? []).map(({ logprob }) => logprob));
    let unseen = 0;
    if (delta.finish) {
      this.#stop = delta.stop ?? null;
      unseen = this.#tokens.length - (delta.completionTokens ?? this.#tokens.length); // 1: the end token
      this.#hasEnd = delta.finish === "stop" && unseen > 0;
    }
    const shown = wants.tokens || unseen <= 0 ? logprobs : logprobs?.slice(0, -unseen);
    return {
      ...rest,
      ...(wants.tokens && tokens ? { tokens } : {}),
      ...(wants.logprobs && shown?.length ? { logprobs: shown } : {}),
    };
  }

  report(): DrawnTokens {
    return {
      prompt: encode(this.prompt),
      tokens: encode(Int32Array.from(this.#tokens)),
      logprobs: encode(Float32Array.from(this.#logprobs)),
      has_end: this.#hasEnd,
      stop: this.#stop,
      weights: this.weights,
    };
  }
}

const encode = ({ buffer, byteOffset, byteLength }: Int32Array | Float32Array) =>
  Buffer.from(buffer, byteOffset, byteLength).toString("base64");

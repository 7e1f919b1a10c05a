/** Limits the calls of one key that may change something and are served at the same time. */
import { AppError } from "../../lib/errors.ts";
import { stateOf } from "../request_state.ts";

export type UnderWay = {
  /** Throws 429 when the key has as many under way as it may. */
  enter: (request: Request, keyId: string) => void;
  leave: (request: Request) => void;
};

/** `most` 0: no limit. */
export function createUnderWay(most: number): UnderWay {
  const byKey = new Map<string, number>();
  return {
    enter(request, keyId) {
      const now = byKey.get(keyId) ?? 0;
      if (most > 0 && now >= most)
        throw new AppError(
          "rate_limited",
          `This key has ${most} requests under way, the most at a time: wait for answers`,
          { retryAfterSeconds: 1 },
        );
      stateOf(request).keyUnderWay = keyId;
      byKey.set(keyId, now + 1);
    },
    leave(request) {
      const state = stateOf(request);
      const keyId = state.keyUnderWay;
      if (keyId === undefined) return;
      state.keyUnderWay = undefined;
      const left = (byKey.get(keyId) ?? 0) - 1;
      if (left > 0) byKey.set(keyId, left);
      else byKey.delete(keyId);
    },
  };
}

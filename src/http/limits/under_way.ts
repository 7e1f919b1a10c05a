/** Requests under way: how many calls of one key that may change something are served at a time. */
import type { Ctx } from "../../context.ts";
import { AppError } from "../../lib/errors.ts";
import { oncePer } from "../../lib/once_per.ts";

const KEY = Symbol("key under way");
type Entered = Request & { [KEY]?: string };

export type UnderWay = {
  /** Throws 429 when the key has as many under way as it may. */
  enter: (request: Request, keyId: string) => void;
  leave: (request: Request) => void;
};

/** `most` 0: no limit. */
export function createUnderWay(most: number): UnderWay {
  const byKey = new Map<string, number>();
  return {
    enter(request: Entered, keyId) {
      const now = byKey.get(keyId) ?? 0;
      if (most > 0 && now >= most)
        throw new AppError(
          "rate_limited",
          `This key has ${most} requests under way, the most at a time: wait for answers`,
          { retryAfterSeconds: 1 },
        );
      request[KEY] = keyId;
      byKey.set(keyId, now + 1);
    },
    leave(request: Entered) {
      const keyId = request[KEY];
      if (keyId === undefined) return;
      delete request[KEY];
      const left = (byKey.get(keyId) ?? 0) - 1;
      if (left > 0) byKey.set(keyId, left);
      else byKey.delete(keyId);
    },
  };
}

export const underWayOf = oncePer(({ config }: Pick<Ctx, "config">) =>
  createUnderWay(config.http.max_requests_per_key),
);

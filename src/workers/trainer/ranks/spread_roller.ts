import type { Roller, Rollout } from "../rollouts/types.ts";
import { decodeRollouts, encodeRollouts } from "./messages.ts";
import { partsOf } from "./shares.ts";
import type { Ranks } from "./types.ts";

/** A roller of which each rank draws a part of the groups, and all ranks get all of them. */
export function spreadRoller(roller: Roller, ranks: Ranks): Roller {
  const { isExact, tokenize, detokenize, sync, merge, reload, close } = roller;
  return {
    get facts() {
      return roller.facts;
    },
    isExact,
    tokenize,
    detokenize,
    sync,
    merge,
    reload,
    close,
    async roll(requests, sampling, signal, options) {
      const parts = partsOf(
        requests.map(({ samples }) => samples),
        ranks.parts,
      );
      const rollouts: Rollout[][] = [];
      for (let part = ranks.index; part < ranks.parts; part += ranks.count) {
        const mine = requests.filter((_, i) => parts[i] === part);
        if (mine.length > 0) rollouts.push(...(await roller.roll(mine, sampling, signal, options)));
      }
      const drawn = (await ranks.gather(encodeRollouts(rollouts))).map(decodeRollouts);
      const inOrder = Array.from({ length: ranks.parts }, (_, part) => {
        const size = parts.filter((each) => each === part).length;
        return drawn[part % ranks.count]!.splice(0, size);
      });
      return parts.map((part) => inOrder[part]!.shift()!);
    },
  };
}

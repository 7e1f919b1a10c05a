import type { Roller } from "../rollouts/types.ts";
import { decodeRollouts, encodeRollouts } from "./messages.ts";
import { ownersOf } from "./shares.ts";
import type { Ranks } from "./types.ts";

/** A roller of which each rank draws some groups, and all ranks get all of them. */
export function spreadRoller(roller: Roller, ranks: Ranks): Roller {
  const { tokenize, detokenize, sync, merge, reload, close } = roller;
  return {
    get facts() {
      return roller.facts;
    },
    ...{ tokenize, detokenize, sync, merge, reload, close },
    async roll(requests, sampling, signal) {
      const owners = ownersOf(
        requests.map(({ samples }) => samples),
        ranks.count,
      );
      const mine = requests.filter((_, i) => owners[i] === ranks.index);
      const own = mine.length === 0 ? [] : await roller.roll(mine, sampling, signal);
      const drawn = (await ranks.gather(encodeRollouts(own))).map(decodeRollouts);
      return owners.map((owner) => drawn[owner]!.shift()!);
    },
  };
}

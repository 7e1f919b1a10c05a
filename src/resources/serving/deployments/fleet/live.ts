import type { PrefixRoom } from "../prefixes/room.ts";
import type { Host, Live } from "./fleet.ts";
import type { Guest } from "./hosts.ts";
import type { Spare } from "./spare.ts";

declare module "../../../../context.ts" {
  interface State {
    readonly deployments: DeploymentsState;
  }
}

/** The state of deployments that lives in this process (`ctx.state.deployments`). */
export class DeploymentsState {
  readonly fleet = new Map<string, Live>();
  readonly hosts = new Set<Host>();
  /** Replicas whose host is about to load. */
  readonly coming = new Set<Guest>();
  spare: Spare | undefined;
  /** The next spare process starts no earlier than this, on the steady clock. */
  spareNotBefore = Number.NEGATIVE_INFINITY;
  /** No spare process takes memory of a card before this: the last one made room. */
  cardNotBefore = Number.NEGATIVE_INFINITY;
  /** Bytes of decoded images in requests that are on their way to a replica. */
  pixelBytes = 0;
  /** Processes that write beginnings of prompts to the disk. */
  readonly prefixRooms = new Set<PrefixRoom>();
  /** Blocks that were used later have the format of this server. In milliseconds, as of files. */
  readonly prefixesSince = Date.now();
  /** They get their room one after the other. */
  prefixTurn: Promise<void> = Promise.resolve();
}

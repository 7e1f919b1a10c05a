import type { Ctx } from "../../../context.ts";
import { Semaphore } from "../../../platform/semaphore.ts";
import { OidcState } from "./oidc/live.ts";
import { Attempts } from "./sign_in/attempts.ts";

declare module "../../../context.ts" {
  interface State {
    readonly people: PeopleState;
  }
}

/** Hashes of passwords at the same time: each takes 64 MiB and a core. */
const HASHES = 2;
const MOST_WAITING_EACH = 64; // above the attempts of one address, so that those answer, and not the queue
const MOST_WAITING = 256; // one person can have many addresses

export class PeopleState {
  readonly attempts: Attempts;
  readonly oidc = new OidcState();
  /** Fair by address: at a sign-in no workspace is known. One address computes one hash at a time. */
  readonly hashing = new Semaphore({
    name: "sign-ins from this address",
    permits: HASHES,
    mostWaitingEach: MOST_WAITING_EACH,
    mostWaiting: MOST_WAITING,
  });

  constructor({ clock }: Pick<Ctx, "clock">) {
    this.attempts = new Attempts(clock);
  }
}

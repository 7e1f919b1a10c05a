import type { Ctx } from "../../context.ts";
import { Semaphore } from "../../platform/semaphore.ts";
import { OidcState } from "./oidc/live.ts";
import { Attempts } from "./sign_in/attempts.ts";

/** Hashes of passwords at the same time: each takes 64 MiB and a core. */
const HASHES = 2;
const MOST_WAITING = 64;

export class PeopleState {
  readonly attempts: Attempts;
  readonly oidc = new OidcState();
  readonly hashing = new Semaphore({ permits: HASHES, maxWaiting: MOST_WAITING, keepsOne: true });

  constructor({ clock }: Pick<Ctx, "clock">) {
    this.attempts = new Attempts(clock);
  }
}

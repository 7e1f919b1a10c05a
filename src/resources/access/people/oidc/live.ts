import type { Provider } from "./provider.ts";
import { LONGEST_SIGN_IN_MS, type SignInUnderWay } from "./under_way.ts";

const PRUNE_ABOVE = 1_000;

/** The provider as it was last read, and the sign-ins that were used. In memory: a code of the provider works once anyway. */
export class OidcState {
  provider: { value: Promise<Provider>; readAt: number } | undefined;
  readonly #used = new Map<string, number>();

  /** False: the sign-in was used before. */
  use({ id, expiresAt }: SignInUnderWay, now: number): boolean {
    if (this.#used.has(id)) return false;
    if (this.#used.size >= PRUNE_ABOVE) for (const [old, end] of this.#used) if (end <= now) this.#used.delete(old);
    this.#used.set(id, Math.min(expiresAt, now + LONGEST_SIGN_IN_MS));
    return true;
  }
}

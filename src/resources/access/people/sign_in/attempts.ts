/**
 * Limits failed sign-ins, per account and per address. A browser that has signed in to the account before has a limit of
 * its own. So an attacker who uses up the attempts of an account, or of a shared address, does not lock its owner out.
 * In memory: a restart forgives one burst.
 */
import type { Ctx } from "../../../../context.ts";
import { gcra, type Rate } from "../../../../http/limits/gcra.ts";
import { AppError } from "../../../../lib/errors.ts";

const ACCOUNT: Rate = { perSecond: 1 / 30, burst: 10 };
const ADDRESS: Rate = { perSecond: 1 / 5, burst: 50 };
/** For a caller who has the password. Three codes of a million are right at a time, so a day of guesses finds 1 in 1,000. */
const CODE: Rate = { perSecond: 1 / 300, burst: 5 };
const FORGET_ABOVE = 10_000;

/** `device`: proven by the cookie of an earlier sign-in to this account. */
export type Attempt = { account: string; address: string | null; device: string | undefined };

export class Attempts {
  readonly #arrivals = new Map<string, number>();
  readonly #clock: Pick<Ctx["clock"], "steady">;

  constructor(clock: Pick<Ctx["clock"], "steady">) {
    this.#clock = clock;
  }

  /** Counts a one-time code before it is checked, as `begin` counts a password. */
  beginCode({ account, device }: Pick<Attempt, "account" | "device">): () => void {
    return this.#begin([[`code ${account} ${device ?? ""}`, CODE]]);
  }

  /** Counts a sign-in through a provider, whose account is not known yet. */
  beginAddress(address: string | null): () => void {
    return this.#begin([[`address ${address}`, ADDRESS]]);
  }

  /**
   * Counts an attempt before its password is checked, so that attempts at the same time count too. Throws 429 over the
   * limit. The returned function takes the attempt back: it succeeded.
   */
  begin({ account, address, device }: Attempt): () => void {
    const limits: [string, Rate][] =
      device === undefined
        ? [
            [`account ${account}`, ACCOUNT],
            [`address ${address}`, ADDRESS],
          ]
        : [[`device ${account} ${device}`, ACCOUNT]];
    return this.#begin(limits);
  }

  #begin(limits: readonly [string, Rate][]): () => void {
    const now = this.#clock.steady();
    const verdicts = limits.map(([key, rate]) => gcra(this.#arrivals.get(key), now, rate));
    const waitMs = Math.max(...verdicts.map((verdict) => ("waitMs" in verdict ? verdict.waitMs : 0)));
    if (waitMs > 0)
      throw new AppError("rate_limited", "Too many sign-ins have failed: wait before you try again", {
        retryAfterSeconds: waitMs / 1000,
      });
    for (const [i, verdict] of verdicts.entries())
      if ("next" in verdict) this.#arrivals.set((limits[i] as [string, Rate])[0], verdict.next);
    this.#forget(now);
    return () => {
      for (const [key, { perSecond }] of limits) {
        const arrival = this.#arrivals.get(key);
        if (arrival !== undefined) this.#arrivals.set(key, arrival - 1000 / perSecond);
      }
    };
  }

  #forget(now: number) {
    if (this.#arrivals.size <= FORGET_ABOVE) return;
    for (const [key, next] of this.#arrivals) if (next < now) this.#arrivals.delete(key);
  }
}

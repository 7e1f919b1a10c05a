import { DAY_MS } from "../../lib/units.ts";
import type { Clock } from "../clock.ts";
import type { Log } from "../log.ts";
import type { Storage } from "./storage.ts";

const NIGHTS = 32;

type Context = { storage: Storage; clock: Clock; log: Log };

/** Verifies one part of the stored contents each night, so that each is read once in `NIGHTS` nights. */
export async function verifyStorage({ storage, clock, log }: Context, signal: AbortSignal) {
  const night = Math.floor(clock.now() / DAY_MS) % NIGHTS;
  const verified = await storage.verify?.((firstByte) => firstByte % NIGHTS === night, signal);
  if (verified && verified.objects > 0) log.info("stored content was verified", verified);
}

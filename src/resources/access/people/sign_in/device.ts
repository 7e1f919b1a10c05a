/**
 * The cookie of a browser that has signed in before: random bits and their HMAC with the person's id. It opens nothing;
 * it only gives the browser a limit of attempts of its own.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { Ctx } from "../../../../context.ts";

const COOKIE = /(?:^|; *)verk_device=([\w-]{22})\.([\w-]{43})(?:;|$)/;
const YEAR_SECONDS = 31_536_000;

const proofOf = ({ secrets }: Pick<Ctx, "secrets">, personId: string, device: string) =>
  createHmac("sha256", secrets.derive("sign-in-devices")).update(`${personId} ${device}`).digest("base64url");

/** Undefined: this browser has not signed in as this person. */
export function deviceOf(ctx: Pick<Ctx, "secrets">, request: Request, personId: string): string | undefined {
  const [, device = "", proof = ""] = COOKIE.exec(request.headers.get("cookie") ?? "") ?? [];
  const wanted = Buffer.from(proofOf(ctx, personId, device));
  const received = Buffer.from(proof);
  return received.length === wanted.length && timingSafeEqual(received, wanted) ? device : undefined;
}

export function deviceCookie(ctx: Pick<Ctx, "secrets">, personId: string, attributes: string): string {
  const device = Buffer.from(crypto.getRandomValues(new Uint8Array(16))).toString("base64url");
  const value = `${device}.${proofOf(ctx, personId, device)}`;
  return `verk_device=${value}; Path=/v1/logins; Max-Age=${YEAR_SECONDS}; ${attributes}; HttpOnly`;
}

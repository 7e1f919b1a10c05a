/** Passwords are hashed with argon2id. Few hashes run at a time: each takes 64 MiB. */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";

const ARGON2ID = { algorithm: "argon2id", memoryCost: 65_536, timeCost: 2 } as const;

/** The same text typed on another keyboard has the same code points. */
const normal = (password: string) => password.normalize("NFKC");

export const hashPassword = (password: string): Promise<string> => Bun.password.hash(normal(password), ARGON2ID);

/** A password for the command line to print: 20 characters of 32, so 100 random bits. */
export function randomPassword(): string {
  const letters = "abcdefghjkmnpqrstuvwxyz23456789A"; // 32, without those that look alike
  const bytes = crypto.getRandomValues(new Uint8Array(20));
  return [...bytes]
    .map((byte) => letters[byte % 32])
    .join("")
    .replaceAll(/.{5}(?=.)/g, "$&-");
}

/** Makes an unknown account cost as much as a wrong password, so that the time does not tell which accounts exist. */
let standIn: Promise<string> | undefined;

type PasswordCheck = { password: string; hash: string | null | undefined; address: string | null };

/** False for a wrong password, and for an account without one. */
export async function isPassword(
  { state }: Pick<Ctx, "state">,
  { password, hash, address }: PasswordCheck,
): Promise<boolean> {
  const release = await state.people.hashing.acquire({ workspaceId: address ?? "" });
  if (!release)
    throw new AppError("rate_limited", "Too many sign-ins at the same time: try again", { retryAfterSeconds: 1 });
  try {
    standIn ??= hashPassword(crypto.randomUUID());
    const matches = await Bun.password.verify(normal(password), hash ?? (await standIn));
    return matches && typeof hash === "string";
  } finally {
    release();
  }
}

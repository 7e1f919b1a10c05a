/**
 * Passwords are hashed with argon2id. Few hashes run at a time: each takes 64 MiB. Persons with the same address share the
 * salt. So one hash tells which of them a password belongs to, and the time does not tell how many there are.
 */
import { argon2, timingSafeEqual } from "node:crypto";
import { promisify } from "node:util";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";

/** KiB of memory, passes, lanes. */
const COST = "m=65536,t=2,p=1";
const HASH = /^(\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([\w+/]+)\$)([\w+/]+)$/;

/** The same text typed on another keyboard has the same code points. */
const normal = (password: string) => password.normalize("NFKC");

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64").replace(/=+$/, "");
const newSalt = () => `$argon2id$v=19$${COST}$${base64(crypto.getRandomValues(new Uint8Array(32)))}$`;

/** A hash up to its last part: the algorithm, the cost and the salt. */
function saltOf(hash: string): string {
  const [, salt] = HASH.exec(hash) ?? [];
  if (salt === undefined) throw new Error("a stored password hash has an unknown form");
  return salt;
}

async function hashWith(password: string, salt: string): Promise<string> {
  const [, , memory, passes, lanes, nonce = ""] = HASH.exec(`${salt}A`) ?? [];
  const tag = await promisify(argon2)("argon2id", {
    message: normal(password),
    nonce: Buffer.from(nonce, "base64"),
    tagLength: 32,
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(lanes),
  });
  return salt + base64(tag);
}

/** `others`: the hashes of the persons with the same address. */
export const hashPassword = (password: string, others: readonly string[] = []): Promise<string> =>
  hashWith(password, others.map(saltOf).find((salt) => salt.includes(`$${COST}$`)) ?? newSalt());

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
const standIn = newSalt();

type PasswordCheck = { password: string; hashes: readonly string[]; address: string | null };

/** Resolves with the hashes that the password has. */
export async function matchingHashes(
  { state }: Pick<Ctx, "state">,
  { password, hashes, address }: PasswordCheck,
): Promise<ReadonlySet<string>> {
  const release = await state.people.hashing.acquire({ workspaceId: address ?? "" });
  if (!release)
    throw new AppError("rate_limited", "Too many sign-ins at the same time: try again", { retryAfterSeconds: 1 });
  try {
    const salts = new Set(hashes.map(saltOf));
    const candidates: string[] = [];
    for (const salt of salts.size === 0 ? [standIn] : salts) candidates.push(await hashWith(password, salt));
    return new Set(hashes.filter((hash) => candidates.some((each) => isEqual(each, hash))));
  } finally {
    release();
  }
}

const isEqual = (a: string, b: string) => a.length === b.length && timingSafeEqual(Buffer.from(a), Buffer.from(b));

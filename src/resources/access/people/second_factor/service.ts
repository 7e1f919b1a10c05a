/** The second factor of a person: begun, confirmed with a code, asked for at every sign-in with a password, removed. */
import { eq, sql } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { AppError } from "../../../../lib/errors.ts";
import { MINUTE_MS } from "../../../../lib/units.ts";
import { write } from "../../../../platform/db/db.ts";
import { preparedRow } from "../../../../platform/db/row.ts";
import * as sessions from "../../browser_sessions/service.ts";
import * as people from "../service.ts";
import { type PersonRow, type SecondFactorRow, secondFactors } from "../table.ts";
import { base32, newSecret, otpauthUri, stepOfCode } from "./totp.ts";

/** A factor that was begun must be confirmed within this time. */
const CONFIRM_WITHIN_MS = 10 * MINUTE_MS;

const ofPerson = preparedRow(secondFactors, eq(secondFactors.personId, sql.placeholder("personId")));
const aad = (personId: string) => `second-factor/${personId}`;

const secretOf = ({ secrets }: Pick<Ctx, "secrets">, { sealed, personId }: SecondFactorRow) =>
  Buffer.from(new TextDecoder().decode(secrets.open(sealed, aad(personId))), "base64");

/** The confirmed factor. Undefined: the password alone opens the account. */
export function find({ db }: Pick<Ctx, "db">, personId: string): SecondFactorRow | undefined {
  const row = ofPerson(db, { personId });
  return row && row.confirmedAt !== null ? row : undefined;
}

export type Begun = { secret: string; uri: string };

/** Replaces a factor that was begun and not confirmed. `issuer`: the name that the app shows. */
export function begin(ctx: Ctx, { id: personId, email }: PersonRow, issuer: string): Begun {
  const secret = newSecret();
  const sealed = ctx.secrets.seal(Buffer.from(secret).toString("base64"), aad(personId));
  const row = { personId, sealed, confirmedAt: null, lastStep: 0, recoveryHashes: [], createdAt: ctx.clock.now() };
  write(ctx.db, (tx) => {
    if (find({ db: tx }, personId))
      throw new AppError("unsupported_state", "This person has a second factor: remove it before you add another one");
    tx.delete(secondFactors).where(eq(secondFactors.personId, personId)).run();
    tx.insert(secondFactors).values(row).run();
  });
  return { secret: base32(secret), uri: otpauthUri(secret, { issuer, account: email }) };
}

/** Ends the person's other sessions: they began without the factor. The code is used up. */
export function confirm(ctx: Ctx, personId: string, { code, keep }: { code: string; keep: string }): string[] {
  const recoveryCodes = newRecoveryCodes();
  write(ctx.db, (tx) => {
    const row = ofPerson(tx, { personId });
    const now = ctx.clock.now();
    if (!row || row.confirmedAt !== null || now - row.createdAt > CONFIRM_WITHIN_MS)
      throw new AppError("unsupported_state", "No second factor waits for a code: begin again");
    const lastStep = stepOfCode({ secret: secretOf(ctx, row), code, nowMs: now, lastStep: row.lastStep });
    if (lastStep === undefined) throw wrongCode("Check the clock of the phone and use the newest code");
    const set = { confirmedAt: now, lastStep, recoveryHashes: recoveryCodes.map(hashOfCode) };
    tx.update(secondFactors).set(set).where(eq(secondFactors.personId, personId)).run();
    endSessions(ctx, personId, keep);
  });
  return recoveryCodes;
}

export const wrongCode = (fix: string) =>
  new AppError("invalid_request", `code: this is no valid code. ${fix}`, { param: "/code" });

/** True if the code is right; it is used up in the same commit, so of two requests with one code only one succeeds. */
export function use(ctx: Ctx, personId: string, code: string): boolean {
  return write(ctx.db, (tx) => {
    const row = find({ db: tx }, personId);
    if (!row) return false;
    const digits = code.replaceAll(/[\s-]/g, "");
    const { lastStep } = row;
    const step = stepOfCode({ secret: secretOf(ctx, row), code: digits, nowMs: ctx.clock.now(), lastStep });
    const hash = hashOfCode(code);
    if (step === undefined && !row.recoveryHashes.includes(hash)) return false;
    const left = row.recoveryHashes.filter((each) => each !== hash);
    const set = step === undefined ? { recoveryHashes: left } : { lastStep: step };
    tx.update(secondFactors).set(set).where(eq(secondFactors.personId, personId)).run();
    return true;
  });
}

/** Also removes a factor that was begun. False: there was none. */
export const remove = (ctx: Ctx, personId: string): boolean =>
  write(
    ctx.db,
    (tx) => tx.delete(secondFactors).where(eq(secondFactors.personId, personId)).returning().all().length > 0,
  );

function endSessions(ctx: Ctx, personId: string, keep: string) {
  for (const { id } of people.usersOf(ctx.db, personId)) sessions.removeOfUser(ctx, id, keep);
}

/** Codes for a person who has lost the phone. Each works once. */
const COUNT = 10;
const LETTERS = "abcdefghijkmnpqrstuvwxyz23456789"; // 32, without those that look alike

/** 16 letters of 32, so 80 random bits: a plain hash is enough to store the code. */
const newCode = () =>
  Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => LETTERS[byte % 32])
    .join("")
    .replaceAll(/.{4}(?=.)/g, "$&-");

const newRecoveryCodes = (): string[] => Array.from({ length: COUNT }, newCode);

/** People type the code with or without hyphens, in any case. */
const hashOfCode = (code: string): string => Bun.SHA256.hash(code.toLowerCase().replaceAll(/[^a-z0-9]/g, ""), "hex");

/** Sign-in with e-mail address, password and, where the person has one, the second factor. */
import { eq } from "drizzle-orm";
import type { Ctx } from "../../../../context.ts";
import { sessionCookies, sessionTokenOf } from "../../../../http/browser_session.ts";
import { addressOf } from "../../../../http/client.ts";
import { setCaller, setMade } from "../../../../http/request_state.ts";
import { AppError } from "../../../../lib/errors.ts";
import { write } from "../../../../platform/db/db.ts";
import * as keys from "../../api_keys/service.ts";
import type { BrowserSession } from "../../browser_sessions/schema.ts";
import * as sessions from "../../browser_sessions/service.ts";
import * as workspaces from "../../workspaces/service.ts";
import * as persons from "../persons.ts";
import * as secondFactor from "../second_factor/service.ts";
import * as service from "../service.ts";
import { type PersonRow, people, type UserRow } from "../table.ts";
import { deviceCookie, deviceOf } from "./device.ts";
import { matchingHashes } from "./password.ts";
import type { SignIn } from "./schema.ts";

const refused = () =>
  new AppError("invalid_credentials", "E-mail address or password is wrong, or this person has no workspace here");

export type SignedIn = { session: BrowserSession; cookies: string[] };

/** Resolves with a new session. Every reason to refuse an account looks the same from outside. */
export async function signIn(ctx: Ctx, request: Request, input: SignIn): Promise<SignedIn> {
  const { person, user } = await checkCredentials(ctx, request, input);
  return begin(ctx, request, { person, user, method: "password" });
}

/** A person with the address of the sign-in, and the user that it would enter as. */
type Account = { person: PersonRow; user: UserRow };

type Checked = SignIn & {
  /** Only a proven person counts. */
  isProven?: boolean;
};

/**
 * Throws unless password and second factor are right, and the person has an active workspace. Several persons may have the
 * address: the password says which one it is, and the proven one comes first.
 */
export async function checkCredentials(ctx: Ctx, request: Request, input: Checked): Promise<Account> {
  const { email, password, code } = input;
  const address = addressOf(ctx, request);
  const accounts = accountsOf(ctx, input);
  const deviceAccount = accounts.find(({ person }) => deviceOf(ctx, request, person.id) !== undefined);
  const device = deviceAccount && deviceOf(ctx, request, deviceAccount.person.id);
  const { attempts } = ctx.state.people;
  const takeBack = [attempts.begin({ account: email, address, device })];
  const hashes = persons.hashesOf(accounts.map(({ person }) => person));
  const matching = await matchingHashes(ctx, { password, hashes, address });
  // The password may have been changed while it was checked.
  const isRight = ({ person: { id, passwordHash } }: Account) =>
    passwordHash !== null && matching.has(passwordHash) && persons.find(ctx, id)?.passwordHash === passwordHash;
  // The browser of one person has no limit of its own for another person with the address.
  if (deviceAccount && !isRight(deviceAccount))
    takeBack.push(attempts.begin({ account: email, address, device: undefined }));
  const right = deviceAccount && isRight(deviceAccount) ? deviceAccount : accounts.find(isRight);
  const blamed = right ?? accounts.find(({ person }) => person.provenBy !== null || accounts.length === 1);
  if (blamed) {
    const { workspaceId, keyId, id: userId } = blamed.user;
    setCaller(request, { workspaceId, keyId, userId });
  }
  if (!right) throw refused();
  // An attempt as an unproven person counts against the others with the address: their passwords were tried too.
  const isOnly = right === deviceAccount || right.person.provenBy !== null || input.workspace !== undefined;
  if (isOnly) for (const each of takeBack) each();
  requireCode(ctx, { person: right.person, code, device: right === deviceAccount ? device : undefined });
  return right;
}

const accountsOf = (ctx: Ctx, { email, workspace, isProven = false }: Checked): Account[] =>
  persons
    .withEmail(ctx, email)
    .filter(({ provenBy }) => !isProven || provenBy !== null)
    .flatMap((person) => {
      const user = chooseUser(ctx, person, workspace);
      return user ? [{ person, user }] : [];
    });

type CodeCheck = { person: PersonRow; code: string | undefined; device: string | undefined };

/** Called with the right password only, so a stranger does not learn which accounts have a second factor. */
function requireCode(ctx: Ctx, { person, code, device }: CodeCheck) {
  if (!secondFactor.find(ctx, person.id)) return;
  if (code === undefined)
    throw new AppError("second_factor_required", "code: send the code of your authenticator app, or a recovery code", {
      param: "/code",
    });
  const takeBack = ctx.state.people.attempts.beginCode({ account: person.id, device });
  if (!secondFactor.use(ctx, person.id, code))
    throw new AppError("invalid_credentials", "code: this code is wrong, or was used before: wait for the next one", {
      param: "/code",
    });
  takeBack();
}

/** The user in the workspace of that name or id, else in the first that the person joined. */
function chooseUser(ctx: Ctx, { id }: PersonRow, workspace: string | undefined): UserRow | undefined {
  for (const user of service.usersOf(ctx.db, id)) {
    const { id: workspaceId, name, status } = workspaces.mustGet(ctx, user.workspaceId);
    if (status === "active" && (workspace === undefined || workspace === workspaceId || workspace === name))
      return user;
  }
  return undefined;
}

type Beginning = { person: PersonRow; user: UserRow; method: sessions.Origin["method"] };

/** A new token for every sign-in. The session that this browser had before ends. */
export function begin(ctx: Ctx, request: Request, { person, user, method }: Beginning): SignedIn {
  const { scopes } = keys.mustGet(ctx, user.workspaceId, user.keyId);
  const caller = { workspaceId: user.workspaceId, keyId: user.keyId, userId: user.id, scopes };
  const origin = { method, address: addressOf(ctx, request), agent: request.headers.get("user-agent") };
  const before = sessionTokenOf(request);
  const { token, session } = write(ctx.db, (tx) => {
    if (before !== undefined) sessions.removeByToken(ctx, before);
    tx.update(people).set({ lastSignInAt: ctx.clock.now() }).where(eq(people.id, person.id)).run();
    return sessions.create(ctx, caller, origin);
  });
  setCaller(request, caller);
  setMade(request, session);
  const cookies = sessionCookies(ctx, request, token, sessions.LONGEST_MS);
  const [, attributes = ""] = /Max-Age=\d+; (.*)$/.exec(cookies[1] ?? "") ?? [];
  return { session, cookies: [...cookies, deviceCookie(ctx, person.id, attributes)] };
}

/**
 * Accepts an invitation and signs in. The maker of an invitation may open the link, so the link proves no address. It makes an
 * account of its workspace alone, and the answer is the same whether or not the address has an account elsewhere. People
 * who have a proven account may join with it: they prove it with its password or with the session of the browser.
 */

import type { Ctx } from "../../../../context.ts";
import { requireOwnPage, sessionTokenOf } from "../../../../http/browser_session.ts";
import { AppError } from "../../../../lib/errors.ts";
import { issueText } from "../../../../lib/text/issue.ts";
import { write } from "../../../../platform/db/db.ts";
import * as workspaces from "../../workspaces/service.ts";
import * as persons from "../persons.ts";
import { NewPassword } from "../schema.ts";
import * as people from "../service.ts";
import { begin, checkCredentials, type SignedIn } from "../sign_in/service.ts";
import type { InvitationRow, PersonRow, UserRow } from "../table.ts";
import type { AcceptInvitation } from "./schema.ts";
import { mustFind, withdraw } from "./service.ts";

export async function accept(ctx: Ctx, request: Request, input: AcceptInvitation): Promise<SignedIn> {
  const invitation = mustFind(ctx, input.token);
  if (workspaces.mustGet(ctx, invitation.workspaceId).status !== "active")
    throw new AppError("unsupported_state", "The workspace of this invitation is not active");
  const enter = input.has_account
    ? await withAccount(ctx, request, input, invitation)
    : await withNewAccount(ctx, input, invitation);
  // One commit: of two requests with one token, one finds the invitation and the other does not.
  const { person, user } = write(ctx.db, () => {
    const { id, workspaceId, role } = mustFind(ctx, input.token);
    const entered = enter({ workspaceId, role });
    withdraw(ctx, workspaceId, id);
    return { person: people.personOf(ctx, entered), user: entered };
  });
  return begin(ctx, request, { person, user, method: person.passwordHash === null ? "oidc" : "password" });
}

type Enter = (to: Pick<InvitationRow, "workspaceId" | "role">) => UserRow;

async function withNewAccount(
  ctx: Ctx,
  { password, name }: AcceptInvitation,
  { email }: InvitationRow,
): Promise<Enter> {
  const { success, error, data } = NewPassword.safeParse(password);
  if (!success) throw new AppError("schema", `password: ${issueText(error.issues[0])}`, { param: "/password" });
  const passwordHash = await persons.newHash(ctx, email, data);
  return (to) => people.claim(ctx, { ...to, email, name: name ?? email.split("@")[0] ?? email, passwordHash });
}

async function withAccount(
  ctx: Ctx,
  request: Request,
  { password, code }: AcceptInvitation,
  { email }: InvitationRow,
): Promise<Enter> {
  const inSession = password === undefined ? personOfSession(ctx, request, email) : undefined;
  const { person } =
    inSession ?? (await checkCredentials(ctx, request, { email, password: password ?? "", code, isProven: true }));
  return (to) => people.join(ctx, person, to);
}

/** Undefined: this browser is not signed in as a person whose proven address was invited. */
function personOfSession(ctx: Ctx, request: Request, email: string): { person: PersonRow } | undefined {
  const token = sessionTokenOf(request);
  if (token === undefined) return undefined;
  const session = ctx.authenticateSession(token);
  requireOwnPage(request, session);
  const user = session.userId ? people.mustGet(ctx, session.workspaceId, session.userId) : undefined;
  const person = user && people.personOf(ctx, user);
  return person?.email === email && person.provenBy !== null ? { person } : undefined;
}

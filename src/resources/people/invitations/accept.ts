/**
 * Accepts an invitation and signs in. A person who has other workspaces here proves that with the password (and the
 * second factor) that is in use: otherwise the manager of one workspace could take over an account of another one.
 */
import type { Ctx } from "../../../context.ts";
import { AppError } from "../../../lib/errors.ts";
import { write } from "../../../platform/db/db.ts";
import * as workspaces from "../../workspaces/service.ts";
import { NewPassword } from "../schema.ts";
import * as secondFactor from "../second_factor/service.ts";
import * as people from "../service.ts";
import { hashPassword } from "../sign_in/password.ts";
import { begin, checkCredentials, type SignedIn } from "../sign_in/service.ts";
import type { PersonRow, UserRow } from "../table.ts";
import type { AcceptInvitation } from "./schema.ts";
import { mustFind, withdraw } from "./service.ts";

export async function accept(ctx: Ctx, request: Request, input: AcceptInvitation): Promise<SignedIn> {
  const { email, workspaceId } = mustFind(ctx, input.token);
  if (workspaces.mustGet(ctx, workspaceId).status !== "active")
    throw new AppError("unsupported_state", "The workspace of this invitation is not active");
  const known = people.findPerson(ctx, email);
  const isInUse = known !== undefined && people.usersOf(ctx.db, known.id).length > 0;
  const passwordHash = isInUse ? null : await newHash(input.password);
  if (isInUse) await checkCredentials(ctx, request, { email, password: input.password, code: input.code });
  const { person, user } = write(ctx.db, () => join(ctx, input, passwordHash));
  return begin(ctx, request, { person, user, method: "password" });
}

async function newHash(password: string): Promise<string> {
  const { success, error } = NewPassword.safeParse(password);
  if (!success) throw new AppError("schema", `password: ${error.issues[0]?.message}`, { param: "/password" });
  return await hashPassword(password);
}

/** One commit: of two requests with one token, one finds the invitation and the other does not. */
function join(ctx: Ctx, { token, name }: AcceptInvitation, passwordHash: string | null): Joined {
  const { id, workspaceId, email, role } = mustFind(ctx, token);
  const before = people.findPerson(ctx, email);
  const wasInUse = before !== undefined && people.usersOf(ctx.db, before.id).length > 0;
  if (wasInUse !== (passwordHash === null))
    throw new AppError("unsupported_state", "This person has changed meanwhile: open the link again");
  if (before && passwordHash !== null) {
    people.setPassword(ctx, before.id, passwordHash);
    secondFactor.remove(ctx, before.id); // the account had no workspace left
  }
  const user = people.add(ctx, {
    ...{ workspaceId, email, role, passwordHash },
    name: name ?? email.split("@")[0] ?? email,
  });
  withdraw(ctx, workspaceId, id);
  return { person: people.personOf(ctx, user), user };
}

type Joined = { person: PersonRow; user: UserRow };

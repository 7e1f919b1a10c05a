/** Changes that people make to their own account. Each change asks for the password: an unlocked browser is not enough. */
import type { Ctx, Principal } from "../../../../context.ts";
import { addressOf } from "../../../../http/client.ts";
import { stateOf } from "../../../../http/request_state.ts";
import { AppError } from "../../../../lib/errors.ts";
import * as keys from "../../api_keys/service.ts";
import * as workspaces from "../../workspaces/service.ts";
import * as persons from "../persons.ts";
import * as secondFactor from "../second_factor/service.ts";
import * as people from "../service.ts";
import { deviceOf } from "../sign_in/device.ts";
import { matchingHashes } from "../sign_in/password.ts";
import type { PersonRow } from "../table.ts";
import type { Me } from "./schema.ts";

export function show(ctx: Ctx, principal: Principal): Me {
  const workspace = workspaces.mustGet(ctx, principal.workspaceId);
  const key = keys.mustGet(ctx, principal.workspaceId, principal.keyId);
  const user = principal.userId ? people.mustGet(ctx, principal.workspaceId, principal.userId) : undefined;
  const person = user && people.personOf(ctx, user);
  const factor = person && secondFactor.find(ctx, person.id);
  return {
    object: "me",
    user: user ? people.show(ctx, user) : null,
    workspace: { id: workspace.id, name: workspace.name },
    key: { id: key.id, name: key.name, scopes: key.scopes },
    workspaces: person
      ? people.usersOf(ctx.db, person.id).map(({ workspaceId, role }) => placeOf(workspaceId, role))
      : [],
    has_password: typeof person?.passwordHash === "string",
    recovery_codes_left: factor ? factor.recoveryHashes.length : null,
  };

  function placeOf(id: string, role: Me["workspaces"][number]["role"]) {
    return { id, name: workspaces.mustGet(ctx, id).name, role };
  }
}

/** A browser session of a person. A key that was stolen must not change how its owner signs in. */
export type Self = { person: PersonRow; sessionId: string };

export function selfOf(ctx: Ctx, request: Request, { workspaceId, userId }: Principal): Self {
  const { session } = stateOf(request);
  if (!session || !userId)
    throw new AppError("unsupported_state", "Sign in to the dashboard as a user: this request has an API key");
  return { person: people.personOf(ctx, people.mustGet(ctx, workspaceId, userId)), sessionId: session.sessionId };
}

/** Throws unless this is the person's password. Wrong ones count as failed sign-ins. */
export async function requirePassword(ctx: Ctx, request: Request, { person }: Self, password: string) {
  const wrong = (message: string) => new AppError("invalid_request", `password: ${message}`, { param: "/password" });
  if (person.passwordHash === null) throw wrong("you sign in without a password, through your provider");
  const address = addressOf(ctx, request);
  const device = deviceOf(ctx, request, person.id);
  const takeBack = ctx.state.people.attempts.begin({ account: person.email, address, device });
  const { size } = await matchingHashes(ctx, { password, hashes: [person.passwordHash], address });
  if (size === 0) throw wrong("it is wrong");
  takeBack();
}

/** The name that authenticator apps show above the codes. */
export const issuerOf = ({ config }: Ctx): string =>
  config.http.public_url === "" ? "Verk" : `Verk ${new URL(config.http.public_url).hostname}`;

export function removeSecondFactor(ctx: Ctx, { person }: Self, code: string) {
  const takeBack = ctx.state.people.attempts.beginCode({ account: person.id, device: undefined });
  if (!secondFactor.use(ctx, person.id, code))
    throw secondFactor.wrongCode("Wait for the next one, or use a recovery code");
  takeBack();
  secondFactor.remove(ctx, person.id);
}

/** Ends the person's other sessions. */
export async function changePassword(ctx: Ctx, { person, sessionId }: Self, password: string) {
  const hash = await persons.newHash(ctx, person.email, password);
  people.setPassword(ctx, person.id, hash, { keep: sessionId });
}

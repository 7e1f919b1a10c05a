/** Arguments that name a person or a role. */
import { UsageError } from "../../lib/errors.ts";
import { nearest } from "../../lib/text/nearest.ts";

/** The roles of a workspace, for completion. */
export const ROLE_NAMES = ["owner", "admin", "member", "viewer", "annotator"] as const;

export async function emailOf(text: string): Promise<string> {
  const { Email } = await import("../offline.ts");
  const { success, data } = Email.safeParse(text);
  if (success) return data;
  throw new UsageError(`${JSON.stringify(text)} is not an e-mail address such as ada@example.com`);
}

export function roleOf<R extends string>(text: string, roles: readonly R[]): R {
  const role = roles.find((each) => each === text);
  if (role) return role;
  const close = nearest(text, roles);
  throw new UsageError(
    `There is no role ${JSON.stringify(text)}.${close ? ` Did you mean ${close}?` : ""} Roles: ${roles.join(", ")}.`,
  );
}

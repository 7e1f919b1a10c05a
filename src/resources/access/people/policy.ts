/** Roles: the scopes that each one has, and the users that each one manages. */
import type { Scope } from "../../../context.ts";

export const ROLES = ["owner", "admin", "member", "viewer", "annotator"] as const;
export type Role = (typeof ROLES)[number];

const SCOPES_OF: Readonly<Record<Role, readonly Scope[]>> = {
  owner: ["*"],
  admin: ["*"],
  member: ["read", "inference", "training", "detect", "annotate"],
  viewer: ["read"],
  annotator: ["annotate"],
};

/** An operator is an owner who also manages the installation. */
export const scopesOf = (role: Role, isOperator: boolean): readonly Scope[] =>
  role === "owner" && isOperator ? ["admin"] : SCOPES_OF[role];

/** The right to manage users. A key of a service with the scope `*` counts as an admin, one with `admin` as an owner. */
export const managerRole = (scopes: readonly Scope[], role: Role | undefined): Role | undefined => {
  if (scopes.includes("admin")) return "owner";
  return role ?? (scopes.includes("*") ? "admin" : undefined);
};

/** True if `manager` may give `to` to a user who has `from` now. Undefined: a new user, or a removal. */
export function mayManage(manager: Role | undefined, from: Role | undefined, to: Role | undefined): boolean {
  if (manager === "owner") return true;
  return manager === "admin" && from !== "owner" && to !== "owner";
}

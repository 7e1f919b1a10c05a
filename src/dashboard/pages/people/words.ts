/** Roles in words, and what each may do. Pure. */
import type { ListedSession } from "../../../resources/access/browser_sessions/schema.ts";
import type { Role } from "../../../resources/access/people/policy.ts";

/** From the most rights to the fewest. */
export const ROLES: Readonly<Record<Role, readonly [shown: string, does: string]>> = {
  owner: ["Owner", "does everything in the workspace and manages every person"],
  admin: ["Admin", "does everything in the workspace and manages everyone but owners"],
  member: ["Member", "trains, deploys, calls models, detects and annotates"],
  viewer: ["Viewer", "reads everything and changes nothing"],
  annotator: ["Annotator", "works on annotation queues and sees nothing else"],
};

export const ROLE_OPTIONS = Object.entries(ROLES).map(
  ([role, [shown, does]]) => [role as Role, `${shown}: ${does}`] as const,
);

/** Rights, with the roles that have them. A test compares it with the scopes of the server. */
export const RIGHTS: readonly (readonly [does: string, scope: string, roles: readonly Role[]])[] = [
  ["See runs, datasets, deployments, traces and bills", "read", ["owner", "admin", "member", "viewer"]],
  ["Annotate in queues", "annotate", ["owner", "admin", "member", "annotator"]],
  ["Call models and deploy them", "inference", ["owner", "admin", "member"]],
  ["Detect generated images and speech", "detect", ["owner", "admin", "member"]],
  ["Train, change datasets, rewards and monitors", "training", ["owner", "admin", "member"]],
  ["Manage keys, webhooks, secrets, regions and people", "*", ["owner", "admin"]],
];

export const METHODS: Readonly<Record<ListedSession["method"], string>> = {
  key: "API key",
  password: "Password",
  oidc: "Provider",
};

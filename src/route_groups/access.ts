import type { Routes } from "../http/route_groups.ts";
import { routes as account } from "../resources/access/account/routes.ts";
import { routes as apiKeys } from "../resources/access/api_keys/routes.ts";
import { routes as audit } from "../resources/access/audit/routes.ts";
import { routes as browserSessions } from "../resources/access/browser_sessions/routes.ts";
import { routes as invitations } from "../resources/access/people/invitations/routes.ts";
import { routes as me } from "../resources/access/people/me/routes.ts";
import { routes as oidc } from "../resources/access/people/oidc/routes.ts";
import { routes as users } from "../resources/access/people/routes.ts";
import { routes as signIn } from "../resources/access/people/sign_in/routes.ts";
import { routes as secrets } from "../resources/access/secrets/routes.ts";
import { routes as sshKeys } from "../resources/access/ssh_keys/routes.ts";
import { routes as workspaces } from "../resources/access/workspaces/routes.ts";

export const group: readonly Routes[] = [
  workspaces,
  account,
  audit,
  apiKeys,
  browserSessions,
  signIn,
  oidc,
  users,
  me,
  invitations,
  sshKeys,
  secrets,
];

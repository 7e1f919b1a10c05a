/** Why a sign-in through a provider failed. The server puts the name into the address of the sign-in page, which shows the text. */
export const OIDC_FAILURES = {
  provider:
    "The sign-in provider cannot be reached, or its answer is not valid. Ask the operator to read the server's log.",
  declined: "The provider has not signed you in. Try again.",
  expired: "This sign-in took too long, was used before, or began in another browser. Try again.",
  invalid_token: "The provider's answer could not be verified. Ask the operator to read the server's log.",
  no_email: "The provider sent no verified e-mail address for you. Ask its administrator.",
  no_role: "None of your groups has a role on this server. Ask the operator to add one to oidc.roles.",
  account_exists: "An account with your e-mail address exists already. Sign in with its password.",
  removed: "You were removed from this workspace. Ask an owner to add you again.",
  no_workspace:
    "The workspace of this sign-in does not exist or is not active. Ask the operator to check oidc.workspace.",
  too_many: "Too many sign-ins have failed. Wait a minute, then try again.",
} as const;

export type OidcFailure = keyof typeof OIDC_FAILURES;

export const OIDC_FAILURE_PREFIX = "#sign-in-failed=";

import type { OidcFailure } from "../../../../lib/net/oidc_failures.ts";

/** `message` is for the server's log. It never has a token, a code or a secret. */
export class OidcError extends Error {
  constructor(
    readonly failure: OidcFailure,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
    this.name = "OidcError";
  }
}

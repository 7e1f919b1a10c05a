import { Elysia } from "elysia";
import type { Ctx, SessionPrincipal } from "../../context.ts";
import { area } from "../../http/auth.ts";
import { clearedCookies, sessionCookies } from "../../http/browser/session.ts";
import { describe } from "../../http/openapi.ts";
import { setMade, stateOf } from "../../http/request_state.ts";
import { AppError } from "../../lib/errors.ts";
import { Deleted } from "../../lib/schema.ts";
import { BrowserSession } from "./schema.ts";
import * as sessions from "./service.ts";

/** Sign-in and sign-out of the dashboard. Every key may do both, whatever its scopes. */
export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "session");
  return new Elysia({ prefix: "/v1/browser_sessions", tags: ["Browser sessions"] })
    .use(authed)
    .post(
      "",
      ({ request, principal, set }) => {
        if (stateOf(request).session)
          throw new AppError("invalid_request", "Sign in with an API key: a session cannot make another session");
        const { token, session } = sessions.create(ctx, principal);
        setMade(request, session);
        set.status = 201;
        set.headers["set-cookie"] = sessionCookies(ctx, request, token, sessions.LONGEST_MS);
        return session;
      },
      {
        detail: describe(
          "Sign in: make a browser session from the API key of this request",
          { 201: BrowserSession },
          {
            description:
              "Sets the cookie verk_session (HttpOnly, SameSite=Strict). A request with the cookie acts for the key. A request that is not GET or HEAD must come from this origin and carry csrf_token in X-Verk-Csrf.",
          },
        ),
      },
    )
    .get("/current", ({ request }) => sessions.current(ctx, mustHave(request)), {
      detail: describe("Get the browser session of this request", { 200: BrowserSession }),
    })
    .delete(
      "/current",
      ({ request, set }) => {
        const { sessionId } = mustHave(request);
        sessions.remove(ctx, sessionId);
        set.headers["set-cookie"] = clearedCookies(ctx, request);
        return { id: sessionId, object: "browser_session", deleted: true };
      },
      { detail: describe("Sign out: end the browser session of this request", { 200: Deleted("browser_session") }) },
    );
};

function mustHave(request: Request): SessionPrincipal {
  const { session } = stateOf(request);
  if (!session)
    throw new AppError("resource_not_found", "This request has an API key, not the cookie of a browser session");
  return session;
}

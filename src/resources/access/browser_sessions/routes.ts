import { Elysia } from "elysia";
import type { Ctx, SessionPrincipal } from "../../../context.ts";
import { listOf, PageQuery } from "../../../http/answer/pagination.ts";
import { area } from "../../../http/auth.ts";
import { clearedCookies, sessionCookies } from "../../../http/browser_session.ts";
import { addressOf } from "../../../http/client.ts";
import { describe } from "../../../http/openapi.ts";
import { asks } from "../../../http/query.ts";
import { setMade, stateOf } from "../../../http/request_state.ts";
import { AppError } from "../../../lib/errors.ts";
import { Deleted } from "../../../lib/schema.ts";
import { BrowserSession, ListedSession } from "./schema.ts";
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
        const { token, session } = sessions.create(ctx, principal, originOf(ctx, request));
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
    .get(
      "",
      ({ request, principal, query }) => sessions.list(ctx, principal, query, stateOf(request).session?.sessionId),
      {
        ...asks(PageQuery),
        detail: describe("List the browser sessions of this user, or of this key", {
          200: listOf(ListedSession, "BrowserSessionList"),
        }),
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
    )
    .delete(
      "/:id",
      ({ principal, params }) => {
        sessions.end(ctx, principal, params.id);
        return { id: params.id, object: "browser_session", deleted: true };
      },
      {
        detail: describe(
          "End a browser session",
          { 200: Deleted("browser_session") },
          {
            description:
              "Users end their own sessions. Owners, admins and keys with the scope * end every session of the workspace.",
          },
        ),
      },
    );
};

const originOf = (ctx: Ctx, request: Request): sessions.Origin => ({
  method: "key",
  address: addressOf(ctx, request),
  agent: request.headers.get("user-agent"),
});

function mustHave(request: Request): SessionPrincipal {
  const { session } = stateOf(request);
  if (!session)
    throw new AppError("resource_not_found", "This request has an API key, not the cookie of a browser session");
  return session;
}

import { Elysia } from "elysia";
import type { Ctx } from "../../../../context.ts";
import { readJson } from "../../../../http/body/json.ts";
import { requireNoForeignPage } from "../../../../http/browser_session.ts";
import { describe } from "../../../../http/openapi.ts";
import { BrowserSession } from "../../browser_sessions/schema.ts";
import { accept } from "../invitations/accept.ts";
import { AcceptInvitation } from "../invitations/schema.ts";
import { hasPasswords } from "../service.ts";
import { SignIn, SignInOptions } from "./schema.ts";
import { signIn } from "./service.ts";

const optionsOf = (ctx: Ctx): SignInOptions => ({
  object: "sign_in_options",
  password: hasPasswords(ctx),
  oidc: ctx.config.oidc.issuer === "" ? null : { name: ctx.config.oidc.name },
});

/** Sign-in of users. These routes need no key. */
export const routes = (ctx: Ctx) =>
  new Elysia({ prefix: "/v1/logins", tags: ["Users"] })
    .onParse(({ request }) => readJson(ctx, request, { maxBytes: 4096, maxValues: 100 }))
    .get("/options", () => optionsOf(ctx), {
      detail: describe("Get the ways to sign in to this server", { 200: SignInOptions }, { public: true }),
    })
    .post(
      "",
      async ({ request, body, set }) => {
        requireNoForeignPage(request);
        const { session, cookies } = await signIn(ctx, request, body);
        set.status = 201;
        set.headers["set-cookie"] = cookies;
        return session;
      },
      {
        body: SignIn,
        detail: describe(
          "Sign in with e-mail address and password: make a browser session",
          { 201: BrowserSession },
          {
            public: true,
            description:
              "Sets the cookie verk_session, as the sign-in with a key does. A wrong password and an unknown address get the same answer. Failed attempts are limited per account and per address. With the right password, a person with a second factor gets second_factor_required until code is sent too; each code works once.",
          },
        ),
      },
    )
    .post(
      "/invitations",
      async ({ request, body, set }) => {
        requireNoForeignPage(request);
        const { session, cookies } = await accept(ctx, request, body);
        set.status = 201;
        set.headers["set-cookie"] = cookies;
        return session;
      },
      {
        body: AcceptInvitation,
        detail: describe(
          "Accept an invitation: become a user, set a password and sign in",
          { 201: BrowserSession },
          {
            public: true,
            description:
              "An invitation works once, until it expires. It makes an account of its workspace alone: no answer tells whether the address has another one. With has_account a person joins with the account that the operator or a provider has proven.",
          },
        ),
      },
    );

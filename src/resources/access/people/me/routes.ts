import { Elysia } from "elysia";
import type { Ctx } from "../../../../context.ts";
import { area } from "../../../../http/auth.ts";
import { describe } from "../../../../http/openapi.ts";
import * as secondFactor from "../second_factor/service.ts";
import * as schema from "./schema.ts";
import * as me from "./service.ts";

/** The caller. Every key may ask; only the browser session of a user may change something. */
export const routes = (ctx: Ctx) => {
  const { authed, takes } = area(ctx, "session");
  return new Elysia({ prefix: "/v1/me", tags: ["Users"] })
    .use(authed)
    .get("", ({ principal }) => me.show(ctx, principal), {
      detail: describe("Get the user, the workspace and the key of this request", { 200: schema.Me }),
    })
    .post(
      "/password",
      async ({ request, principal, body }) => {
        const self = me.selfOf(ctx, request, principal);
        await me.requirePassword(ctx, request, self, body.password);
        await me.changePassword(ctx, self, body.new_password);
        return me.show(ctx, principal);
      },
      {
        ...takes(schema.ChangePassword),
        detail: describe("Change your password; your other sessions end", { 200: schema.Me }),
      },
    )
    .post(
      "/second_factor",
      async ({ request, principal, body }) => {
        const self = me.selfOf(ctx, request, principal);
        await me.requirePassword(ctx, request, self, body.password);
        const { secret, uri } = secondFactor.begin(ctx, self.person, me.issuerOf(ctx));
        return { object: "second_factor_secret" as const, secret, otpauth_uri: uri };
      },
      {
        ...takes(schema.BeginSecondFactor),
        detail: describe(
          "Begin a second factor: get the secret for an authenticator app",
          { 200: schema.SecondFactorSecret },
          { description: "Nothing changes until a code confirms it, within ten minutes." },
        ),
      },
    )
    .post(
      "/second_factor/confirm",
      ({ request, principal, body }) => {
        const { person, sessionId } = me.selfOf(ctx, request, principal);
        const codes = secondFactor.confirm(ctx, person.id, { code: body.code, keep: sessionId });
        return { object: "recovery_codes" as const, recovery_codes: codes };
      },
      {
        ...takes(schema.ConfirmSecondFactor),
        detail: describe("Turn the second factor on with a first code; your other sessions end", {
          200: schema.RecoveryCodes,
        }),
      },
    )
    .post(
      "/second_factor/remove",
      async ({ request, principal, body }) => {
        const self = me.selfOf(ctx, request, principal);
        await me.requirePassword(ctx, request, self, body.password);
        me.removeSecondFactor(ctx, self, body.code);
        return me.show(ctx, principal);
      },
      {
        ...takes(schema.RemoveSecondFactor),
        detail: describe("Remove your second factor, with the password and a code", { 200: schema.Me }),
      },
    );
};

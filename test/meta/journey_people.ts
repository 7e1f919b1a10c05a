import type { TestApp } from "../harness.ts";
import { addUser, beginningFactor, PASSWORD, signedIn, tokenOf, withFactor } from "../people_kit.ts";
import type { Step } from "./journey.ts";

const user = async (app: TestApp) => ({ id: addUser(app).id });
const browserSession = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/browser_sessions", undefined, { key: app.keyA });
  return { id: body.id as string };
};

const signedInUser = (app: TestApp) => signedIn(app, addUser(app).email);
/** The browser of the step that is played now: the body of the step needs a code of the same app. */
let newest: Awaited<ReturnType<typeof beginningFactor>>;
const beginning = async (app: TestApp) => {
  newest = await beginningFactor(app);
  return { code: newest.code() };
};
const protectedUser = async (app: TestApp) => {
  newest = await withFactor(app);
  return { password: PASSWORD, code: newest.code(1) };
};

const INVITED = () => ({ email: `n${crypto.randomUUID()}@example.com` });
const invitation = async (app: TestApp) => ({
  id: (await app.call("POST", "/v1/invitations", INVITED())).body.id as string,
});

export const PEOPLE: Step[] = [
  { operation: "POST /v1/invitations", make: async () => INVITED() },
  { operation: "GET /v1/invitations" },
  { operation: "DELETE /v1/invitations/{id}", own: invitation },
  {
    operation: "POST /v1/logins/invitations",
    shared: true,
    make: async (app) => {
      const { body } = await app.call("POST", "/v1/invitations", INVITED());
      return { token: tokenOf(body.url), password: PASSWORD };
    },
  },
  { operation: "GET /v1/me" },
  {
    operation: "POST /v1/me/password",
    browser: signedInUser,
    json: { password: PASSWORD, new_password: "five rivers of glass" },
  },
  { operation: "POST /v1/me/second_factor", browser: signedInUser, json: { password: PASSWORD } },
  { operation: "POST /v1/me/second_factor/confirm", make: beginning, browser: async () => newest.browser },
  { operation: "POST /v1/me/second_factor/remove", make: protectedUser, browser: async () => newest.browser },
  { operation: "DELETE /v1/users/{id}/second_factor", own: user },
  { operation: "GET /v1/users/{id}/sessions", own: user },
  { operation: "DELETE /v1/users/{id}/sessions", own: user },
  { operation: "GET /v1/users" },
  { operation: "GET /v1/users/{id}", own: user },
  { operation: "PATCH /v1/users/{id}", own: user, json: { role: "viewer" } },
  { operation: "DELETE /v1/users/{id}", own: user },
  { operation: "GET /v1/browser_sessions" },
  { operation: "DELETE /v1/browser_sessions/{id}", own: browserSession },
  { operation: "GET /v1/logins/options", shared: true },
  {
    operation: "POST /v1/logins",
    shared: true,
    make: async (app) => ({ email: addUser(app).email, password: PASSWORD }),
  },
];

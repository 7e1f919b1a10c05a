import type { TestApp } from "../harness.ts";
import { addUser, PASSWORD } from "../people_kit.ts";
import type { Step } from "./journey.ts";

const user = async (app: TestApp) => ({ id: addUser(app).id });
const browserSession = async (app: TestApp) => {
  const { body } = await app.call("POST", "/v1/browser_sessions", undefined, { key: app.keyA });
  return { id: body.id as string };
};

export const PEOPLE: Step[] = [
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

import { expect, test } from "bun:test";
import { Elysia } from "elysia";
import { z } from "zod";
import type { Principal } from "../context.ts";
import type { AppError } from "../lib/errors.ts";
import { newId } from "../lib/ids.ts";
import { ROUTER } from "./elysia.ts";
import { asks, named } from "./query.ts";
import { stateOf } from "./request_state.ts";

const get = (path: string) => new Request(`http://localhost${path}`);

test("a query is read as it was written; a name given twice is a list, and unknown names are told", async () => {
  const Query = z.object({ a: z.unknown(), b: z.unknown().optional() });
  const app = new Elysia(ROUTER).get("/", ({ query }) => Response.json(query), asks(Query, /^meta\./));
  const request = get("/?a=1,2&b=x&b=&b=y&c=3&meta.d=4");
  expect(await (await app.fetch(request)).json()).toMatchObject({ a: "1,2", b: ["x", "", "y"] });
  expect(stateOf(request).warnings).toEqual(["unknown query parameter c"]);
  expect(await (await app.fetch(get("/?a="))).json()).toEqual({ a: "" });
});

const id = newId("ds");
const NAMES: Record<string, string[]> = { sums: [id], twice: ["ds_a", "ds_b"] };
const seen: string[] = [];
const app = new Elysia(ROUTER)
  .derive({ as: "scoped" }, ({ request }) => {
    if (!request.headers.has("x-stranger")) stateOf(request).principal = { workspaceId: "ws_1" } as Principal;
    return {};
  })
  .use(
    named("ds", "datasets", (workspaceId, name) => {
      seen.push(`${workspaceId} ${name}`);
      return (NAMES[name] ?? []).map((each) => ({ id: each }));
    }),
  )
  .onError(({ error }) => Response.json({ message: (error as AppError).message }, { status: 422 }))
  .get("/things/:id", ({ params }) => params.id)
  .get("/things", () => "all");
const answer = async (path: string, headers: Record<string, string> = {}) =>
  (await app.fetch(new Request(`http://localhost${path}`, { headers }))).text();

test("a name in the path stands for its id; an id and an unknown name stay as they are", async () => {
  expect(await answer("/things/sums")).toBe(id);
  expect(seen).toEqual(["ws_1 sums"]);
  expect(await answer(`/things/${id}`)).toBe(id);
  expect(seen).toHaveLength(1);
  expect(await answer("/things/none")).toBe("none");
  expect(await answer("/things")).toBe("all");
  expect(await answer("/things/sums", { "x-stranger": "1" })).toBe("sums");
});

test("a name of several is refused with their ids", async () => {
  expect(await answer("/things/twice")).toContain(
    'several datasets have the name \\"twice\\": give the id of one (ds_a, ds_b)',
  );
});

import { Elysia } from "elysia";
import { z } from "zod";
import type { Ctx } from "../../../context.ts";
import { readJson } from "../../../http/body/json.ts";
import { describe } from "../../../http/openapi.ts";
import { setCaller } from "../../../http/request_state.ts";
import { indexPage } from "../../server/dashboard/service.ts";
import { CreatedApiKey } from "../api_keys/schema.ts";
import * as keys from "../api_keys/service.ts";
import * as setup from "./service.ts";

const Redeem = z.object({ token: z.string().min(1).max(100) }).meta({ id: "RedeemSetupToken" });

export const routes = (ctx: Ctx) =>
  new Elysia({ tags: ["System"] })
    .onParse(({ request }) => readJson(ctx, request, { maxBytes: 4096, maxValues: 100 }))
    .get("/setup", () => indexPage(ctx))
    .post(
      "/setup",
      ({ request, body, set }) => {
        set.status = 201;
        const { row, key } = setup.redeem(ctx, body.token);
        setCaller(request, { workspaceId: row.workspaceId, keyId: row.id });
        return { ...keys.show(ctx, row), key };
      },
      {
        body: Redeem,
        detail: describe(
          "Exchange the setup token of the first start for an admin key",
          { 201: CreatedApiKey },
          { public: true },
        ),
      },
    );

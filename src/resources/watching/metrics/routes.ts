import { Elysia } from "elysia";
import type { Ctx } from "../../../context.ts";
import { area } from "../../../http/auth.ts";
import { describe } from "../../../http/openapi.ts";
import { CONTENT_TYPE } from "./prometheus.ts";
import { scrape } from "./service.ts";

export const routes = (ctx: Ctx) => {
  const { authed } = area(ctx, "metrics");
  return new Elysia({ prefix: "/v1/metrics", tags: ["Metrics"] })
    .use(authed)
    .get("", ({ principal }) => new Response(scrape(ctx, principal), { headers: { "content-type": CONTENT_TYPE } }), {
      detail: describe(
        "Get the metrics of this server for Prometheus",
        { 200: "text/plain" },
        {
          description:
            "The Prometheus text format 0.0.4. A key with the scope metrics, read or * sees its own workspace; one with the scope admin sees all of them and the server itself. Counters are at most a few seconds old. They continue after a restart and never fall, even after a kill. Only those of the process (process_…) start anew.",
        },
      ),
    });
};

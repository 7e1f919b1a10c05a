import { z } from "zod";
import { secret, section } from "./section.ts";

export const metrics = section("Metrics that the server sends (docs/metrics.md).", {
  otlp_endpoint: z
    .string()
    .refine((text) => text === "" || (/^https?:\/\//.test(text) && URL.canParse(text)), "expected an http(s) address")
    .default("")
    .describe("Collector that gets all metrics over OTLP/HTTP, such as http://collector.lab:4318; empty = none."),
  otlp_headers: secret(
    z
      .string()
      .refine((text) => text === "" || text.split(",").every((pair) => /^[\w-]+=[^\r\n]+$/.test(pair.trim())), {
        message: "expected NAME=VALUE pairs, separated by commas",
      })
      .default("")
      .describe("Headers for the collector: NAME=VALUE pairs, separated by commas."),
  ),
  otlp_seconds: z.int().min(10).max(3_600).default(60).describe("How often metrics are sent."),
});

import { z } from "zod";
import { secret, section, setting } from "./section.ts";

export const metrics = section("Metrics that the server sends (docs/metrics.md).", {
  otlp_endpoint: setting(
    "",
    "Collector that gets all metrics over OTLP/HTTP, such as http://collector.lab:4318; empty = none.",
    () =>
      z
        .string()
        .refine(
          (text) => text === "" || (/^https?:\/\//.test(text) && URL.canParse(text)),
          "expected an http(s) address",
        ),
  ),
  otlp_headers: secret(
    setting("", "Headers for the collector: NAME=VALUE pairs, separated by commas.", () =>
      z
        .string()
        .refine((text) => text === "" || text.split(",").every((pair) => /^[\w-]+=[^\r\n]+$/.test(pair.trim())), {
          message: "expected NAME=VALUE pairs, separated by commas",
        }),
    ),
  ),
  otlp_seconds: setting(60, "How often metrics are sent.", () => z.int().min(10).max(3_600)),
});

import { z } from "zod";
import { section } from "./section.ts";

export const acme = section("The authority that gives this server its certificate (docs/install.md#tls).", {
  directory: z
    .string()
    .refine((text) => text === "" || (text.startsWith("https://") && URL.canParse(text)), "expected an https address")
    .default("")
    .describe("Directory of an ACME authority. The server then renews tls/acme.crt when it is due; empty = none."),
  names: z
    .array(z.string().regex(/^[\w.:-]+$/, "expected a host name or an address"))
    .default([])
    .describe("Names and addresses of the certificate, as clients use them."),
  email: z.string().default("").describe("Address for messages of the authority; empty = none."),
});

import { z } from "zod";
import { section, setting } from "./section.ts";

export const acme = section("The authority that gives this server its certificate (docs/install.md#tls).", {
  directory: setting(
    "",
    "Directory of an ACME authority. The server then renews tls/acme.crt when it is due; empty = none.",
    () =>
      z
        .string()
        .refine(
          (text) => text === "" || (text.startsWith("https://") && URL.canParse(text)),
          "expected an https address",
        ),
  ),
  names: setting([], "Names and addresses of the certificate, as clients use them.", () =>
    z.array(z.string().regex(/^[\w.:-]+$/, "expected a host name or an address")),
  ),
  email: setting("", "Address for messages of the authority; empty = none.", () => z.string()),
});

import { z } from "zod";
import { readPublicKey } from "../updates/minisign/keys.ts";
import { section } from "./section.ts";

export const updates = section("Upgrades from signed bundles (docs/upgrade.md).", {
  trusted_keys: z
    .array(z.string().refine(isKey, "expected a public key of minisign: the line that begins with RW"))
    .default([])
    .describe("Public keys (minisign) whose bundles `verk upgrade` takes, beside the one inside the executable."),
});

function isKey(text: string): boolean {
  try {
    readPublicKey(text);
    return true;
  } catch {
    return false;
  }
}
